#pragma once
// Calls of the record's store on a thread of their own, as each may block for a second or two.

#include <functional>
#include <mutex>
#include <optional>
#include <thread>

#include "control/replication/record_calls.h"

namespace holdfast::replication {

/// One thread for each call. The methods belong to one thread.
class RecordThread final : public RecordCalls {
 public:
  /// `store` must outlive this; no other thread may use it meanwhile. `answered` is called on the
  /// other thread when an answer can be taken.
  RecordThread(RecordStore& store, std::function<void()> answered)
      : store_(store), answered_(std::move(answered)) {}
  ~RecordThread() override;
  RecordThread(const RecordThread&) = delete;
  RecordThread& operator=(const RecordThread&) = delete;

  void start(Call call) override;
  bool under_way() const override { return thread_.joinable(); }
  std::optional<RecordAnswer> take() override;

 private:
  RecordStore& store_;
  std::function<void()> answered_;
  std::thread thread_;
  std::mutex mutex_;
  std::optional<RecordAnswer> answer_;  // guarded by mutex_
};

}  // namespace holdfast::replication
