#pragma once
// The ingress helpers and what each has been given. A helper takes its jobs in turn and cannot be
// interrupted, so it is given little at a time, and one of two or more is free of large jobs: a
// small job never waits for a large text of another tenant.

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "control/core/fair_line.h"
#include "control/core/types.h"

namespace holdfast::core {

/// Gives the jobs of ingress to helpers, by tenant in turns, and takes back what a dead helper had.
/// Not thread-safe.
class HelperPool {
 public:
  using Id = FairLine::Id;
  /// Bytes at which a helper is given no more. A job of as many is a large one.
  static constexpr std::int64_t kBytesMax = 64 << 10;

  /// `jobs_max`: the most jobs that a helper has at a time, large or not.
  explicit HelperPool(std::size_t jobs_max) : jobs_max_(jobs_max) {}

  void add(PeerId helper) { helpers_[helper]; }
  /// Takes a helper out. Returns its jobs with their bytes; none if it is not in the pool.
  std::map<Id, std::int64_t> remove(PeerId helper);
  bool has(PeerId helper) const { return helpers_.count(helper) > 0; }
  bool empty() const { return helpers_.empty(); }
  std::size_t size() const { return helpers_.size(); }

  /// Takes the next job out of the line that a helper has room for, and gives it to that one.
  std::optional<std::pair<Id, PeerId>> assign(FairLine& line);
  /// Takes a job off its helper. Does nothing if it is not there.
  void leave(PeerId helper, Id job);

 private:
  struct Helper {
    std::map<Id, std::int64_t> jobs;
    std::int64_t bytes = 0;  // of all of them
  };
  std::optional<PeerId> available_helper(bool large) const;

  std::size_t jobs_max_;
  std::map<PeerId, Helper> helpers_;
};

}  // namespace holdfast::core
