#pragma once
// How much of everything there is right now: of all, of each tenant, model and worker. What bounds
// are compared with.

#include <cstdint>
#include <string>
#include <unordered_map>

#include "control/core/rows.h"

namespace holdfast::core {

struct Tally {
  std::int64_t requests = 0;  // that have not ended
  std::int64_t waiting = 0;   // of them: queued
  std::int64_t bytes = 0;     // of their prompts
  std::int64_t running = 0;   // choices on a worker, or waiting for theirs to come back
  std::int64_t pages = 0;     // KV pages that those may come to need
  bool operator==(const Tally&) const = default;
};

class Census {
 public:
  /// A request that has not ended comes (+1) or ends (-1).
  void count_request(const RequestRow& row, std::int64_t bytes, int sign);
  /// It begins to wait, or stops to.
  void count_waiting(const RequestRow& row, int sign);
  /// One of its choices begins to run, or stops to.
  void count_running(const RequestRow& row, const std::string& worker_key, std::int64_t pages,
                     int sign);

  const Tally& all() const { return all_; }
  const Tally& tenant(const std::string& name) const { return of(tenants_, name); }
  const Tally& model(const std::string& name) const { return of(models_, name); }
  const Tally& worker(const std::string& key) const { return of(workers_, key); }

 private:
  using Tallies = std::unordered_map<std::string, Tally>;
  static const Tally& of(const Tallies& tallies, const std::string& name);
  static void add(Tally& tally, const Tally& change, int sign);
  static void add(Tallies& tallies, const std::string& name, const Tally& change, int sign);
  Tally all_;
  Tallies tenants_, models_, workers_;
};

}  // namespace holdfast::core
