#pragma once
// The batches that are open, and which of them the next free thread works on: fair by tenant.

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace holdfast::gateway {

/// A batch that has not ended.
struct OpenBatch {
  std::string id;
  std::string owner;  // the tenant

  bool operator==(const OpenBatch&) const = default;
};

/// Decides by tenant: the one with the fewest threads at work comes next, of equal ones the one
/// served longest ago, and of its batches the oldest. Pure; the caller locks.
class OpenBatches {
 public:
  /// Replaces the list, oldest first. A batch that was tried is tried again after this.
  void look(std::vector<OpenBatch> open);

  /// Takes the next batch that no thread of this process works on and that was not tried since the
  /// last look. `now_ms` is any clock that does not go back.
  std::optional<OpenBatch> take(std::int64_t now_ms);

  /// Ends what take() began: the batch has ended, or another process has it, or it gave way.
  void leave(const OpenBatch& batch);

  /// True when a tenant without a thread waits while this one has two or more, or has had its one
  /// for `slice_ms`.
  bool gives_way(const OpenBatch& batch, std::int64_t now_ms, std::int64_t slice_ms) const;

 private:
  struct Tenant {
    int threads = 0;
    std::uint64_t served = 0;  // number of the take() that served it last
  };
  bool is_free(const OpenBatch& batch) const {
    return !taken_.contains(batch.id) && !tried_.contains(batch.id);
  }
  int threads_of(const std::string& owner) const;
  void update_waiting();

  std::vector<OpenBatch> open_;
  std::map<std::string, std::int64_t> taken_;  // id -> when
  std::set<std::string> tried_;                // since the last look
  std::map<std::string, Tenant> tenants_;      // those with open batches
  std::uint64_t takes_ = 0;
  bool tenant_waits_ = false;  // one without a thread has a free batch; gives_way() is asked often
};

}  // namespace holdfast::gateway
