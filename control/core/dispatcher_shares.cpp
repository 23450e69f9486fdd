// Shares of the slots. A tenant that has many choices running holds up the others for as long as
// they run, whatever the order of the queue: so while others wait, choices above its share give
// way. They are not lost: they go on later, first in their tenant's turn.
#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "control/core/blame.h"
#include "control/core/breakers.h"
#include "control/core/dispatcher.h"
#include "control/core/lifecycle.h"
#include "control/core/loads.h"

namespace holdfast::core {

/// Slots and pages of the loads that could run the model's work, within the bounds on what may run.
WorkQueue::Capacity Dispatcher::capacity_of(const std::string& model) {
  const auto [found, fresh] = capacities_.try_emplace(model);
  WorkQueue::Capacity& all = found->second;
  if (!fresh) return all;
  for (const Load* load : loads_.all().of_model(model)) {
    if (load->row.state != ModelState::kReady || load->worker == 0) continue;
    all.slots += load->row.slots;
    all.pages += load->row.pages;
  }
  const auto tighten = [](std::int64_t& value, std::int64_t bound) {
    if (bound > 0) value = std::min(value, bound);
  };
  const SubjectConfig model_limits = core_.config.model(model);
  tighten(all.slots, model_limits.max_running);
  tighten(all.pages, model_limits.max_pages);
  tighten(all.slots, core_.config.queue_max_running);
  tighten(all.pages, core_.config.queue_max_pages);
  return all;
}

/// Shares the slots of a model's loads between the tenants that wait for them.
void Dispatcher::share(const Line& line) {
  if (line.queue->size() == 0 || !line.queue->contended()) return;
  // Where nobody below its share waits for a class, no load of the class has to be looked at.
  std::set<std::pair<std::string, bool>> satisfied;
  for (Load* load : loads_.all().of_model(*line.model)) {
    if (!takes_work(*load)) continue;
    const std::pair<std::string, bool> its{load->row.numerics_class, !load->only_class.empty()};
    if (satisfied.count(its) > 0) continue;
    while (take_share(*load)) satisfied.clear();
    if (first_within_share(*load) == nullptr) satisfied.insert(its);
  }
}

/// Returns the next work for this load of a tenant below its share; nullptr if there is none.
const QueueItem* Dispatcher::first_within_share(const Load& load) {
  const auto queue = lifecycle_.queues().find(load.row.model);
  if (queue == lifecycle_.queues().end() || queue->second.size() == 0) return nullptr;
  const WorkQueue::Capacity capacity = capacity_of(load.row.model);
  const auto may = [&](const QueueItem& item) {
    return queue->second.within_share(item, capacity) && tenant_allows(item);
  };
  return queue->second.head(load.row.numerics_class, may, {}, !load.only_class.empty());
}

/// Puts one choice of a tenant below its share onto this load, in place of work of tenants above
/// theirs. False if nobody waits for that, or nobody has to give way. Repeated calls come to an
/// end: a tenant that takes is not above its share afterwards, and one that gives is not below.
bool Dispatcher::take_share(Load& load) {
  const auto found = lifecycle_.queues().find(load.row.model);
  if (found == lifecycle_.queues().end()) return false;
  WorkQueue& queue = found->second;
  if (queue.size() == 0 || !queue.contended() || load.running.empty() || load.alone) return false;
  const QueueItem* head = first_within_share(load);
  const QueueItem* next = head == nullptr ? nullptr : best_item(load);
  if (head == nullptr || next == nullptr || !breakers_.breakers_allow(load)) return false;
  if (next->priority < head->priority) return false;  // what is more important waits too
  const QueueItem item = *head;
  Request* request = lifecycle_.requests().by_seq(item.ref.seq);
  CHECK(request != nullptr);
  Choice& choice = request->choices[static_cast<std::size_t>(item.ref.choice)];
  if (suspicion(choice, core_.config) != Suspicion::kNone)
    return false;  // it needs an empty worker
  const std::vector<ChoiceRef> victims = who_gives_way(load, item);
  if (victims.empty()) return false;
  for (const ChoiceRef& ref : victims) {
    Request* other = lifecycle_.requests().by_seq(ref.seq);
    Choice& gives_way = other->choices[static_cast<std::size_t>(ref.choice)];
    if (gives_way.phase != ChoicePhase::kRunning) continue;  // quarantined with the one before
    core_.out->send(gives_way.worker, wire::CancelWork{other->row.id, ref.choice, gives_way.fence});
    lifecycle_.requeue(*other, gives_way, "gave way to another tenant");
    ++core_.counters.preempted;
  }
  queue.take(item.ref);
  start_choice(*request, choice, load);
  return true;
}

/// Choices of this load whose end would make room for `item`: of the least important class and the
/// tenant that has most for its weight, the youngest first. Empty if that would not do.
std::vector<ChoiceRef> Dispatcher::who_gives_way(const Load& load, const QueueItem& item) {
  struct Candidate {
    ChoiceRef ref;
    const Request* request = nullptr;
    const Choice* choice = nullptr;
  };
  std::vector<Candidate> left;
  for (const ChoiceRef& ref : load.running) {
    const Request& request = lifecycle_.requests().all().at(ref.seq);
    const Choice& choice = request.choices[static_cast<std::size_t>(ref.choice)];
    if (request.row.priority < item.priority || request.row.tenant == item.tenant) continue;
    if (choice.phase == ChoicePhase::kRunning) left.push_back({ref, &request, &choice});
  }
  const WorkQueue& queue = lifecycle_.queues().at(load.row.model);
  const WorkQueue::Capacity capacity = capacity_of(load.row.model);
  const Request& wanting = lifecycle_.requests().all().at(item.ref.seq);
  const std::int64_t tokens =
      tokens_of(wanting, wanting.choices[static_cast<std::size_t>(item.ref.choice)]);
  std::map<std::string, Freed> freed_of;
  Freed freed;
  std::vector<ChoiceRef> victims;
  while (!bounds_allow(load, item, freed) || !fits_now(load, tokens, freed.running, freed.pages)) {
    const auto rank = [&](const Candidate& one) -> std::optional<std::tuple<int, double, Fence>> {
      const std::string& tenant = one.request->row.tenant;
      const Freed& tenant_freed = freed_of[tenant];
      const auto above =
          queue.above_share(tenant, capacity, tenant_freed.running, tenant_freed.pages_at_most);
      if (!above) return std::nullopt;
      return std::tuple(static_cast<int>(one.request->row.priority), *above, one.choice->fence);
    };
    const auto next =
        std::max_element(left.begin(), left.end(), [&](const Candidate& a, const Candidate& b) {
          return rank(a) < rank(b);  // nullopt is the least
        });
    if (next == left.end() || !rank(*next)) return {};
    for (Freed* sum : {&freed, &freed_of[next->request->row.tenant]}) {
      ++sum->running;
      sum->pages += next->choice->pages;
      sum->pages_at_most += next->choice->pages_at_most;
    }
    victims.push_back(next->ref);
    left.erase(next);
  }
  return victims;
}

}  // namespace holdfast::core
