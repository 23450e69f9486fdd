#pragma once
// The planner: what it costs that a worker gets a model, by its machine's memory, its link, and
// what else fails with it. Placement tries workers in the order of this cost.

#include <cstdint>
#include <string>

namespace holdfast::core {

/// A node's machine and its link, as it measured them when it joined. 0: not measured.
struct NodeFacts {
  std::string domain;               // what fails together with it: a rack, a zone; empty: itself
  std::int64_t round_trip_us = 0;   // of a short message to the daemon and back
  std::int64_t link_bytes_s = 0;    // from the daemon
  std::int64_t memory_bytes_s = 0;  // read by all processors of its workers
  bool operator==(const NodeFacts&) const = default;
};

/// A worker that could have the model.
struct Candidate {
  NodeFacts facts;
  std::int64_t loads = 0;          // of models on this worker, which share its memory
  std::int64_t bytes_missing = 0;  // of the model's file
  std::int64_t replicas_near = 0;  // of this model in its failure domain
};

/// The cost of a candidate.
struct PlanCost {
  double ready_s = 0;    // until it serves: its file comes over the link
  double request_s = 0;  // of one request
  double total_s = 0;    // what candidates are compared by
};

/// The usual request, and how many of them a placement is for.
inline constexpr std::int64_t kPlanTokens = 128;
inline constexpr std::int64_t kPlanRequests = 32;
/// A replica in the same failure domain makes a worker so many times dearer: one elsewhere is
/// preferred if it is not much slower.
inline constexpr double kSameDomainFactor = 2;
/// Stands for memory that nobody measured.
inline constexpr std::int64_t kUsualMemoryBytesS = 20'000'000'000;

/// Returns the time until a model of `weights_bytes` serves on the candidate and has answered
/// kPlanRequests, one after the other; kSameDomainFactor times for each replica that fails with it.
/// A token reads all weights once, a request crosses the link once.
PlanCost plan_cost(const Candidate& candidate, std::int64_t weights_bytes);

/// Says what the cost is made of: "0.21 s a request, 12 s for its file".
std::string plan_text(const Candidate& candidate, const PlanCost& cost);

}  // namespace holdfast::core
