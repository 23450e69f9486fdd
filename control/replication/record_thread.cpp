#include "control/replication/record_thread.h"

#include <utility>

#include "shared/base/check.h"

namespace holdfast::replication {

RecordThread::~RecordThread() {
  if (thread_.joinable()) thread_.join();  // a call takes a second or two at most
}

void RecordThread::start(Call call) {
  CHECK(!thread_.joinable());
  thread_ = std::thread([this, call = std::move(call)] {
    RecordAnswer answer = call(store_);
    {
      const std::lock_guard lock(mutex_);
      answer_ = std::move(answer);
    }
    answered_();
  });
}

std::optional<RecordAnswer> RecordThread::take() {
  std::optional<RecordAnswer> answer;
  {
    const std::lock_guard lock(mutex_);
    answer = std::exchange(answer_, std::nullopt);
  }
  if (answer) thread_.join();
  return answer;
}

}  // namespace holdfast::replication
