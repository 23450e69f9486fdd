#pragma once
// A record of a pair in memory, for tests.

#include <atomic>
#include <utility>

#include "control/replication/record.h"

namespace holdfast::replication {

/// Does what a store with compare-and-swap does; unreachable while `away`.
class MemoryRecord final : public RecordStore {
 public:
  MemoryRecord() = default;
  explicit MemoryRecord(Record record) : now{std::move(record), 1} {}
  Result<Versioned> read() override {
    if (away) return Error{Errc::kUnreachable, "away"};
    return now;
  }
  Result<bool> write(const Record& record, std::int64_t version) override {
    if (away) return Error{Errc::kUnreachable, "away"};
    if (version != now.version) return false;
    now = {record, version + 1};
    return true;
  }
  Versioned now;
  std::atomic<bool> away{false};
};

}  // namespace holdfast::replication
