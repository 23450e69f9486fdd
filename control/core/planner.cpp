#include "control/core/planner.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace holdfast::core {
namespace {

/// A link that nobody measured: a file of any size takes long, but not for ever.
constexpr double kSlowLinkBytesS = 1e6;

std::string seconds_text(double seconds) {
  char text[32];
  std::snprintf(text, sizeof(text), seconds < 10 ? "%.2g s" : "%.0f s", seconds);
  return text;
}

}  // namespace

PlanCost plan_cost(const Candidate& candidate, std::int64_t weights_bytes) {
  const NodeFacts& facts = candidate.facts;
  const double memory =
      static_cast<double>(facts.memory_bytes_s > 0 ? facts.memory_bytes_s : kUsualMemoryBytesS);
  const double shared_by = static_cast<double>(candidate.loads + 1);
  const double token_s = static_cast<double>(weights_bytes) / memory * shared_by;
  const double link =
      facts.link_bytes_s > 0 ? static_cast<double>(facts.link_bytes_s) : kSlowLinkBytesS;
  PlanCost cost;
  cost.ready_s = static_cast<double>(candidate.bytes_missing) / link;
  cost.request_s =
      static_cast<double>(facts.round_trip_us) / 1e6 + static_cast<double>(kPlanTokens) * token_s;
  cost.total_s = (cost.ready_s + static_cast<double>(kPlanRequests) * cost.request_s) *
                 std::pow(kSameDomainFactor, static_cast<double>(candidate.replicas_near));
  return cost;
}

std::string plan_text(const Candidate& candidate, const PlanCost& cost) {
  std::string text = seconds_text(cost.request_s) + " a request";
  if (candidate.bytes_missing > 0) text += ", " + seconds_text(cost.ready_s) + " for its file";
  if (candidate.replicas_near > 0) {
    text += ", " + std::to_string(candidate.replicas_near) + " more in " +
            (candidate.facts.domain.empty() ? "its failure domain" : candidate.facts.domain);
  }
  return text;
}

}  // namespace holdfast::core
