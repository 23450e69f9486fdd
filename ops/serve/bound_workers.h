#pragma once
// Workers of other kernels: requests that have tokens go on with the same numerics alone, so after
// an upgrade a worker of the older kernels revision runs beside the new ones until they have ended.

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "ops/serve/supervisor.h"
#include "ops/serve/worker_programs.h"

namespace holdfast::cli {

/// A numerics class that requests are bound to.
struct BoundClass {
  std::string class_start;  // "cpu/avx512/r4"
  std::int64_t requests = 0;
  bool needed = false;  // no worker that takes all work has it
  std::string program;  // that has it; empty: none is installed. Only where it is needed
};

/// Reads the member `bound` of the document of `queue.stats`.
std::vector<BoundClass> read_bound(const std::string& document, WorkerPrograms& programs);

/// Starts and ends the workers. Main thread only.
class BoundWorkers {
 public:
  /// Makes the worker's child from its name, program and further flags.
  using MakeChild = std::function<ChildSpec(const std::string& name, const std::string& program,
                                            const std::vector<std::string>& flags)>;
  explicit BoundWorkers(MakeChild make_child) : make_child_(std::move(make_child)) {}

  /// Starts a worker for each class that is needed and has a program, ends those whose requests
  /// have ended, and says so on stderr.
  void follow(Supervisor& supervisor, const std::vector<BoundClass>& classes);

 private:
  void start(Supervisor& supervisor, const BoundClass& bound);

  MakeChild make_child_;
  std::map<std::string, std::string> running_;  // names of children, by class
  std::map<std::string, bool> said_;            // classes without a program that were reported
};

}  // namespace holdfast::cli
