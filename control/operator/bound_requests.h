#pragma once
// Requests that may go on in one numerics class alone, and who has that class.

#include <cstdint>
#include <string>
#include <vector>

#include "control/core/machine.h"

namespace holdfast::daemon {

/// Requests of one model that have tokens of one numerics class and have not ended.
struct BoundRequests {
  std::string model;
  std::string class_start;  // backend, family and kernels revision: "cpu/avx512/r4"
  std::int64_t requests = 0;
  bool served = false;  // a worker that takes all work has the model in this class
  bool loaded = false;  // such a worker has the model, in whatever class
  std::string worker;   // key of the worker that is there for this class alone; empty: none is
};

/// All of them, by model and class.
std::vector<BoundRequests> bound_requests(const core::Machine& machine);

}  // namespace holdfast::daemon
