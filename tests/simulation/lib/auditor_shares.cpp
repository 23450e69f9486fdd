// Fairness between tenants, in houses without accidents.
#include <algorithm>

#include "tests/simulation/lib/auditor.h"

namespace holdfast::simulation {
namespace {

// Times what a tenant takes with one choice that it may be ahead, beside one for each slot.
constexpr std::int64_t kAhead = 10;

std::int64_t cost_of(const Wish& wish) {
  return static_cast<std::int64_t>(wish.prompt.size()) + *wish.submit.max_tokens;
}

}  // namespace

/// Forgets what others got while its tenant has something running: nothing is said about that.
void Auditor::has_a_share(const Known& known) {
  if (!world_.swarm.crowd || known.wish < 0) return;
  const wire::Submit& mine = wishes_[static_cast<std::size_t>(known.wish)].submit;
  for (auto& [id, waits] : known_) {
    if (waits.dispatched || waits.wish < 0) continue;
    const wire::Submit& theirs = wishes_[static_cast<std::size_t>(waits.wish)].submit;
    if (theirs.tenant == mine.tenant && theirs.model == mine.model) waits.passed.clear();
  }
}

/// While a request waits whose tenant has nothing running, another tenant begins only so much of
/// the same class: a share of what there is, whatever it asks for.
void Auditor::check_shares(const std::string& id, Known& known, std::int32_t choice) {
  if (!world_.swarm.crowd || known.wish < 0) return;
  const Wish& wish = wishes_[static_cast<std::size_t>(known.wish)];
  const bool again = std::exchange(known.choices.at(static_cast<std::size_t>(choice)).begun, true);
  std::int64_t most = 0;
  for (const Wish& any : wishes_) {
    if (any.submit.tenant != kCrowd) most = std::max(most, cost_of(any));
  }
  if (!known.dispatched && !known.moved) {
    const std::int64_t slots = std::int64_t{world_.swarm.slots} * world_.swarm.workers;
    for (const auto& [tenant, tokens] : known.passed) {
      const std::int64_t each = tenant == kCrowd ? cost_of(wishes_[0]) : most;
      if (tokens <= (kAhead + 2 * slots) * each + most) continue;
      world_.fail("I14 " + id + " of tenant " + wish.submit.tenant + " waited while tenant " +
                  tenant + " began work of " + std::to_string(tokens) + " tokens");
    }
  }
  has_a_share(known);
  if (again) return;
  for (auto& [other, waits] : known_) {
    if (!waits.first_answer || waits.dispatched || waits.fin || waits.wish < 0) continue;
    const wire::Submit& theirs = wishes_[static_cast<std::size_t>(waits.wish)].submit;
    if (theirs.tenant != wish.submit.tenant && theirs.model == wish.submit.model &&
        theirs.priority == wish.submit.priority) {
      waits.passed[wish.submit.tenant] += cost_of(wish);
    }
  }
}

}  // namespace holdfast::simulation
