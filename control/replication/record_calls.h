#pragma once
// Calls of the record's store on a thread of their own: one at a time, its answer is fetched by the
// thread that asked for it.

#include <functional>
#include <mutex>
#include <optional>
#include <thread>

#include "control/replication/record.h"

namespace holdfast::replication {

/// One call at a time. start(), take() and the destructor belong to one thread.
class RecordCalls {
 public:
  using Call = std::function<RecordAnswer(RecordStore&)>;

  /// `store` must outlive this; no other thread may use it meanwhile. `answered` is called on the
  /// other thread when an answer can be taken.
  RecordCalls(RecordStore& store, std::function<void()> answered)
      : store_(store), answered_(std::move(answered)) {}
  ~RecordCalls();
  RecordCalls(const RecordCalls&) = delete;
  RecordCalls& operator=(const RecordCalls&) = delete;

  /// Starts a call (CHECKs that none is under way).
  void start(Call call);
  bool under_way() const { return thread_.joinable(); }
  /// Returns the answer of the call if there is one by now.
  std::optional<RecordAnswer> take();

 private:
  RecordStore& store_;
  std::function<void()> answered_;
  std::thread thread_;
  std::mutex mutex_;
  std::optional<RecordAnswer> answer_;  // guarded by mutex_
};

}  // namespace holdfast::replication
