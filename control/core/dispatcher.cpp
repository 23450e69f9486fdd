// Dispatch: which work goes to which worker.
#include "control/core/dispatcher.h"

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "control/core/blame.h"
#include "control/core/breakers.h"
#include "control/core/fleet.h"
#include "control/core/lifecycle.h"
#include "control/core/loads.h"
#include "control/core/registry.h"

namespace holdfast::core {
namespace {

constexpr std::int32_t kRanksOfClass = 4096;

/// Returns true if one more running choice is within the bounds. One that needs more pages than the
/// bound runs by itself: it was admitted under another bound.
bool within_bounds(const UsageCounters& used, std::int64_t max_running, std::int64_t max_pages,
                   std::int64_t pages) {
  if (max_running > 0 && used.running >= max_running) return false;
  return max_pages == 0 || used.running == 0 || used.pages + pages <= max_pages;
}

}  // namespace

/// Returns true if the bounds on all, the model and the worker allow this choice; else it waits,
/// and with it the work after it in the queue. `freed`: choices and pages of the load that are
/// about to give way.
bool Dispatcher::bounds_allow(const Load& load, const QueueItem& item, const Freed& freed) const {
  const UsageTracker& usage = lifecycle_.requests().usage();
  const SubjectConfig model = core_.config.model(load.row.model);
  const SubjectConfig worker = core_.config.worker(load.row.worker_key);
  const auto within = [&](UsageCounters used, std::int64_t max_running, std::int64_t max_pages) {
    used.running -= freed.running;
    used.pages -= freed.pages_at_most;
    return within_bounds(used, max_running, max_pages, item.pages);
  };
  return within(usage.all(), core_.config.queue_max_running, core_.config.queue_max_pages) &&
         within(usage.model(load.row.model), model.max_running, model.max_pages) &&
         within(usage.worker(load.row.worker_key), worker.max_running, worker.max_pages);
}

/// Returns true if its tenant's bounds allow this choice. A tenant at its own bound does not hold
/// up the others.
bool Dispatcher::tenant_allows(const QueueItem& item) const {
  const SubjectConfig tenant = core_.config.tenant(item.tenant);
  return within_bounds(lifecycle_.requests().usage().tenant(item.tenant), tenant.max_running,
                       tenant.max_pages, item.pages);
}

/// Returns true if a bound on what runs counts choices of several models: then the end of one of a
/// model may let one of another begin.
bool Dispatcher::has_bounds_of_several_models() const {
  const Config& config = core_.config;
  const auto bounds = [](const auto& subject) {
    return subject.second.max_running > 0 || subject.second.max_pages > 0;
  };
  return config.queue_max_running > 0 || config.queue_max_pages > 0 ||
         std::any_of(config.tenants.begin(), config.tenants.end(), bounds) ||
         std::any_of(config.workers.begin(), config.workers.end(), bounds);
}

/// Returns true if the bounds on all allow the first item of all queues. Nothing passes it: small
/// requests of one model would keep a large one of another waiting for ever. Virtual times are of
/// one model each, so of two models the tenant with less that runs goes first.
bool Dispatcher::first_may_run(const std::vector<Line>& lines) {
  const bool bounded = core_.config.queue_max_running > 0 || core_.config.queue_max_pages > 0;
  if (!bounded) return true;
  const auto rank = [this](const QueueItem& item) {
    const double running =
        static_cast<double>(lifecycle_.requests().usage().tenant(item.tenant).running);
    return std::make_tuple(item.priority, running / static_cast<double>(item.weight), item.ref);
  };
  const QueueItem* first = nullptr;
  for (Line line : lines) {
    do {
      const QueueItem* item = best_item(*line.load);
      if (item != nullptr && (first == nullptr || rank(*item) < rank(*first))) first = item;
    } while (go_on(line));
  }
  return first != nullptr &&
         within_bounds(lifecycle_.requests().usage().all(), core_.config.queue_max_running,
                       core_.config.queue_max_pages, first->pages);
}

/// Returns the next work for this load, bound to its class or not bound yet; nullptr if there is
/// none. Tenants below their share of the slots go before the others.
const QueueItem* Dispatcher::best_item(const Load& load) {
  const auto queue = lifecycle_.queues().find(load.row.model);
  if (queue == lifecycle_.queues().end() || queue->second.size() == 0) return nullptr;
  MayRun may;
  if (!core_.config.tenants.empty()) {
    may = [this](const QueueItem& item) { return tenant_allows(item); };
  }
  MayRun first;
  if (queue->second.contended()) {
    first = [&queue, capacity = capacity_of(load.row.model)](const QueueItem& item) {
      return queue->second.within_share(item, capacity);
    };
  }
  return queue->second.head(load.row.numerics_class, may, first, !load.only_class.empty());
}

bool Dispatcher::takes_work(const Load& load) const {
  if (load.row.state != ModelState::kReady || load.alone) return false;
  if (load.held_until_us > core_.now.mono_us) return false;
  const auto worker = fleet_.workers().find(load.worker);
  return worker != fleet_.workers().end() && worker->second.takes_work();
}

/// Goes on to the model's next load that takes work and has a free slot; false if there is none.
bool Dispatcher::go_on(Line& line) const {
  const LoadTable::Open& open = loads_.all().open_of(*line.model);
  auto next = line.load == nullptr ? open.begin() : open.upper_bound(line.turn);
  while (next != open.end() && !takes_work(*next->second)) ++next;
  if (next == open.end()) return false;
  line.turn = next->first;
  line.load = next->second;
  return true;
}

/// Takes the models that are to be looked at and have a queue.
std::vector<Dispatcher::Line> Dispatcher::take_lines() {
  const bool all = std::exchange(core_.want_dispatch, false) || has_bounds_of_several_models();
  const std::set<std::string> models = std::exchange(core_.dispatch_models, {});
  std::vector<Line> lines;
  const auto add = [&](const std::string& model, const WorkQueue& queue) {
    if (queue.size() > 0) lines.push_back({&model, &queue, {}, nullptr});
  };
  if (all) {
    for (const auto& [model, queue] : lifecycle_.queues()) add(model, queue);
    return lines;
  }
  for (const std::string& model : models) {
    const auto queue = lifecycle_.queues().find(model);
    if (queue != lifecycle_.queues().end()) add(queue->first, queue->second);
  }
  return lines;
}

void Dispatcher::dispatch() {
  const std::vector<Line> lines = take_lines();
  if (core_.paused || core_.draining || lines.empty()) return;
  capacities_.clear();
  fill(lines);
  if (core_.config.queue_preempt == 0) return;
  for (const Line& line : lines) share(line);
}

/// Gives work to free slots. Of all models the load with the most of them goes first.
void Dispatcher::fill(std::vector<Line> lines) {
  std::erase_if(lines, [this](Line& line) { return !go_on(line); });
  const auto later = [](const Line& a, const Line& b) { return b.turn < a.turn; };
  std::make_heap(lines.begin(), lines.end(), later);
  while (!lines.empty() && first_may_run(lines)) {
    std::pop_heap(lines.begin(), lines.end(), later);
    Line& line = lines.back();
    dispatch_to(*line.load);
    // A load that was given work has its next turn with a slot less, which comes later.
    if (line.queue->size() == 0 || !go_on(line)) {
      lines.pop_back();
    } else {
      std::push_heap(lines.begin(), lines.end(), later);
    }
  }
}

/// Dispatches one choice to this load, if there is one that it can take now.
void Dispatcher::dispatch_to(Load& load) {
  if (load.alone || !breakers_.breakers_allow(load)) return;
  const QueueItem* item = best_item(load);
  if (item == nullptr || !bounds_allow(load, *item, {})) return;
  const ChoiceRef ref = item->ref;
  Request* request = lifecycle_.requests().by_seq(ref.seq);
  CHECK(request != nullptr);
  Choice& choice = request->choices[static_cast<std::size_t>(ref.choice)];
  if (!fits_now(load, tokens_of(*request, choice))) return;
  const bool suspect = suspicion(choice, core_.config) != Suspicion::kNone;
  if (suspect && !load.running.empty()) return;  // it waits until one worker is empty
  lifecycle_.queues().at(request->row.model).take(ref);
  load.alone = suspect;
  start_choice(*request, choice, load);
}

/// Returns the class, and within it how many choices of its tenant run already: prompts are
/// computed in this order, so the first of one tenant does not wait for all of another's.
std::int32_t Dispatcher::rank_on_worker(const Request& request) const {
  const std::int64_t others =
      lifecycle_.queues().at(request.row.model).running(request.row.tenant) - 1;
  return static_cast<std::int32_t>(request.row.priority) * kRanksOfClass +
         static_cast<std::int32_t>(std::clamp<std::int64_t>(others, 0, kRanksOfClass - 1));
}

void Dispatcher::start_choice(Request& request, Choice& choice, Load& load) {
  CHECK_MSG(static_cast<std::int64_t>(choice.ids.size()) == choice.row.next_index,
            "a dispatch carries every committed token");
  const Worker& worker = fleet_.workers().at(load.worker);
  choice.phase = ChoicePhase::kRunning;
  choice.fence = core_.fences.next();
  choice.started_us = core_.now.mono_us;
  choice.worker = worker.peer;
  choice.worker_key = worker.hello.worker_key;
  choice.incarnation = worker.hello.incarnation;
  choice.load_id = load.row.load_id;
  choice.pages = pages_for(tokens_of(request, choice) + 1, load.row.page_tokens);
  load.pages_used += choice.pages;
  loads_.all().begin_run(load, {request.row.seq, choice.row.choice});
  lifecycle_.count_running(request, choice);
  ++core_.counters.dispatched;
  core_.counters.resumed += choice.resumed;
  core_.counters.replayed_tokens += choice.ids.size();
  request.class_deadline_us = 0;
  const bool first = request.row.started_ms == 0;
  if (first) {
    request.row.started_ms = core_.now.wall_ms;
    core_.stats.model(request.row.model).queue_wait.add(core_.now.mono_us - request.accepted_us);
  }
  const bool was_queued = request.row.state == RequestState::kQueued;
  lifecycle_.change(request, RequestChange::kDispatched);
  if (first || was_queued) lifecycle_.write_request(request, Durability::kNormal);
  core_.out->write(BeginAttempt{request.row.seq, choice.row.choice, choice.fence, choice.worker_key,
                                choice.incarnation, choice.load_id, choice.row.next_index, false,
                                core_.now.wall_ms},
                   Durability::kNormal);
  if (const auto model = registry_.models().find(request.row.model);
      model != registry_.models().end()) {
    model->second.row.last_used_ms = core_.now.wall_ms;
  }
  SendDispatch send;
  send.to = worker.peer;
  send.seq = request.row.seq;
  send.prompt = choice.row.prompt;
  // Pages are the same bits for one class and model alone; an adapter or origin would belong here.
  send.prefix_scope = load.row.numerics_class + "\n" + request.row.model_sha + "\n" +
                      core_.config.prefix_group(request.row.tenant);
  wire::Dispatch& d = send.dispatch;
  d.request_id = request.row.id;
  d.choice = choice.row.choice;
  d.fence = choice.fence;
  d.load_id = load.row.load_id;
  d.model_sha = request.row.model_sha;
  if (const auto* ids = prompt_in_group(*core_.out, send.seq, send.prompt)) d.prompt_ids = *ids;
  d.committed_ids = choice.ids;
  d.sampling = request.sampling;
  d.stops = request.stops;
  d.max_tokens = request.row.max_tokens;
  d.priority = rank_on_worker(request);
  if (request.total_deadline_us != 0) {
    d.time_left_ms =
        std::max<std::int64_t>((request.total_deadline_us - core_.now.mono_us) / 1000, 0);
  }
  core_.out->messages.emplace_back(std::move(send));
}

}  // namespace holdfast::core
