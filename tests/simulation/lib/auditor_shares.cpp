// Audits fairness between tenants, in seeds without accidents.
#include <algorithm>

#include "tests/simulation/lib/auditor.h"

namespace holdfast::simulation {
namespace {

// The lead that a tenant may have, in costs of one choice, in addition to one for each slot.
constexpr std::int64_t kAhead = 10;

std::int64_t cost_of(const SimRequest& request) {
  return static_cast<std::int64_t>(request.prompt.size()) + *request.submit.max_tokens;
}

}  // namespace

/// Forgets what others got while its tenant has something running: nothing is said about that.
void Auditor::has_a_share(const TrackedRequest& tracked) {
  if (!world_.swarm.crowd || tracked.request < 0) return;
  const wire::Submit& mine = requests_[static_cast<std::size_t>(tracked.request)].submit;
  for (auto& [id, waits] : tracked_) {
    if (waits.dispatched || waits.request < 0) continue;
    const wire::Submit& theirs = requests_[static_cast<std::size_t>(waits.request)].submit;
    if (theirs.tenant == mine.tenant && theirs.model == mine.model) waits.passed.clear();
  }
}

/// While a request waits whose tenant has nothing running, another tenant begins only so much of
/// the same class: a share of what there is, whatever it asks for.
void Auditor::check_shares(const std::string& id, TrackedRequest& tracked, std::int32_t choice) {
  if (!world_.swarm.crowd || tracked.request < 0) return;
  const SimRequest& request = requests_[static_cast<std::size_t>(tracked.request)];
  const bool again =
      std::exchange(tracked.choices.at(static_cast<std::size_t>(choice)).begun, true);
  std::int64_t most = 0;
  for (const SimRequest& any : requests_) {
    if (any.submit.tenant != kCrowd) most = std::max(most, cost_of(any));
  }
  if (!tracked.dispatched && !tracked.moved) {
    const std::int64_t slots = std::int64_t{world_.swarm.slots} * world_.swarm.workers;
    for (const auto& [tenant, tokens] : tracked.passed) {
      const std::int64_t each = tenant == kCrowd ? cost_of(requests_[0]) : most;
      if (tokens <= (kAhead + 2 * slots) * each + most) continue;
      world_.fail("I14 " + id + " of tenant " + request.submit.tenant + " waited while tenant " +
                  tenant + " began work of " + std::to_string(tokens) + " tokens");
    }
  }
  has_a_share(tracked);
  if (again) return;
  for (auto& [other, waits] : tracked_) {
    if (!waits.first_answer || waits.dispatched || waits.fin || waits.request < 0) continue;
    const wire::Submit& theirs = requests_[static_cast<std::size_t>(waits.request)].submit;
    if (theirs.tenant != request.submit.tenant && theirs.model == request.submit.model &&
        theirs.priority == request.submit.priority) {
      waits.passed[request.submit.tenant] += cost_of(request);
    }
  }
}

}  // namespace holdfast::simulation
