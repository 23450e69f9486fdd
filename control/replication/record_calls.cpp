#include "control/replication/record_calls.h"

#include <utility>

#include "shared/base/check.h"

namespace holdfast::replication {

RecordCalls::~RecordCalls() {
  if (thread_.joinable()) thread_.join();  // a call takes a second or two at most
}

void RecordCalls::start(Call call) {
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

std::optional<RecordAnswer> RecordCalls::take() {
  std::optional<RecordAnswer> answer;
  {
    const std::lock_guard lock(mutex_);
    answer = std::exchange(answer_, std::nullopt);
  }
  if (answer) thread_.join();
  return answer;
}

}  // namespace holdfast::replication
