#pragma once
// The end of a worker as its supervisor tells the daemon, for blame.

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "ops/serve/supervisor.h"

namespace holdfast::cli {

/// A worker's end and the step in which it died.
struct WorkerEnd {
  ChildExit exit;
  std::optional<std::vector<std::uint64_t>> step;  // marks of its choices; nullopt: unknown
};

/// Completes an end by the journal of the process's steps.
WorkerEnd worker_end_of(const ChildExit& exit, const std::string& journal_path);

/// Returns the arguments of supervisor.worker_exit and node.exit.
nlohmann::json worker_end_json(const WorkerEnd& end);

}  // namespace holdfast::cli
