#pragma once
// Calls of the record's store: one at a time, and its answer comes later. The daemon makes them on
// a thread of their own (record_thread.h).

#include <functional>
#include <optional>

#include "control/replication/record.h"

namespace holdfast::replication {

/// One call at a time. Not thread-safe.
class RecordCalls {
 public:
  using Call = std::function<RecordAnswer(RecordStore&)>;

  virtual ~RecordCalls() = default;
  /// Starts a call (CHECKs that none is under way).
  virtual void start(Call call) = 0;
  virtual bool under_way() const = 0;
  /// Returns the answer of the call if there is one by now.
  virtual std::optional<RecordAnswer> take() = 0;
};

}  // namespace holdfast::replication
