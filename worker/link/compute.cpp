#include "worker/link/compute.h"

#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "shared/base/clock.h"
#include "shared/base/crash_point.h"
#include "shared/base/log.h"
#include "shared/base/progress.h"
#include "shared/huggingface/stamp.h"
#include "worker/link/host.h"

namespace holdfast::worker {
namespace {

// The most events that wait for the I/O thread. The engines stop at this bound, so a ring can
// overshoot its limit by no more than this.
constexpr std::size_t kEventsMax = 64;
constexpr double kProgressStep = 0.05;

wire::LoadedModel model_state(const wire::Load& load, std::string state, std::string reason) {
  wire::LoadedModel model;
  model.load_id = load.load_id;
  model.model_sha = load.model_sha;
  model.state = std::move(state);
  model.reason = std::move(reason);
  return model;
}

/// Adds counts that only grow: they must go on growing when an engine is gone.
void add_counts(engine::Usage& sum, const engine::Usage& u) {
  sum.steps += u.steps;
  sum.tokens += u.tokens;
  sum.prefill_tokens += u.prefill_tokens;
  sum.preemptions += u.preemptions;
  sum.drafts += u.drafts;
  sum.drafts_accepted += u.drafts_accepted;
  sum.allocations = std::max(sum.allocations, u.allocations);  // counted per process
}

}  // namespace

Compute::Compute(EngineFactory factory, const wire::WakeUp& wake,
                 std::shared_ptr<StepJournal> journal)
    : factory_(std::move(factory)), wake_(wake), journal_(std::move(journal)) {
  compute_ = std::thread([this] { run_compute(); });
  loader_ = std::thread([this] { run_loader(); });
}

Compute::~Compute() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  compute_wakes_.notify_all();
  loader_wakes_.notify_all();
  events_not_full_.notify_all();
  compute_.join();
  loader_.join();
}

void Compute::post_compute(Task task) {
  {
    const std::lock_guard lock(mutex_);
    compute_tasks_.push_back(std::move(task));
  }
  compute_wakes_.notify_one();
}

void Compute::order(std::vector<Order> orders) {
  if (orders.empty()) return;
  post_compute([this, list = std::make_shared<std::vector<Order>>(std::move(orders))] {
    for (Order& order : *list) carry_out(order);
  });
}

void Compute::load(wire::Load load) {
  {
    const std::lock_guard lock(mutex_);
    loads_.push_back(std::move(load));
  }
  loader_wakes_.notify_one();
}

void Compute::unload(std::string load_id) {
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(loads_, [&](const wire::Load& load) { return load.load_id == load_id; });
    if (loading_ == load_id) {
      unloaded_while_loading_.push_back(load_id);
      return;
    }
  }
  post_compute([this, load_id] {
    if (const auto engine = engines_.find(load_id); engine != engines_.end()) {
      add_counts(ended_, engine->second->usage());
      engines_.erase(engine);
    }
    marks_.erase(load_id);
    wire::LoadedModel gone;
    gone.load_id = load_id;
    gone.state = "unloaded";
    emit(LoadChanged{std::move(gone)});
    publish_usage();
  });
}

std::vector<ComputeEvent> Compute::take_events() {
  std::vector<ComputeEvent> out;
  {
    const std::lock_guard lock(mutex_);
    out.swap(events_);
  }
  events_not_full_.notify_all();
  return out;
}

ComputeStatus Compute::status() const {
  const std::lock_guard lock(mutex_);
  ComputeStatus status = status_;
  status.step_since_us = step_since_us_.load(std::memory_order_relaxed);
  return status;
}

void Compute::emit(ComputeEvent event) {
  {
    std::unique_lock lock(mutex_);
    events_not_full_.wait(lock, [&] { return stopping_ || events_.size() < kEventsMax; });
    events_.push_back(std::move(event));
  }
  wake_.notify();
}

void Compute::carry_out(Order& order) {
  const auto it = engines_.find(order.load_id);
  engine::Engine* engine = it == engines_.end() ? nullptr : it->second.get();
  switch (order.kind) {
    case Order::Kind::kAdd: {
      const Result<void> added =
          engine != nullptr
              ? engine->add(std::move(order.spec))
              : Error{Errc::kNotFound, "load " + order.load_id + ": not on this worker any more"};
      if (!added.has_value()) {
        emit(AddFailed{order.key, added.error()});
      } else if (journal_ != nullptr) {
        marks_[order.load_id][order.key] = order.mark;
      }
      return;
    }
    case Order::Kind::kCancel:
      if (engine != nullptr) engine->cancel(order.key);
      marks_[order.load_id].erase(order.key);
      return;
    case Order::Kind::kPause:
    case Order::Kind::kResume:
      if (engine != nullptr) engine->pause(order.key, order.kind == Order::Kind::kPause);
      return;
  }
}

void Compute::run_compute() {
  for (;;) {
    std::deque<Task> tasks;
    {
      std::unique_lock lock(mutex_);
      const bool busy = std::any_of(engines_.begin(), engines_.end(),
                                    [](const auto& e) { return !e.second->idle(); });
      if (!busy) compute_wakes_.wait(lock, [&] { return stopping_ || !compute_tasks_.empty(); });
      if (stopping_) return;
      tasks.swap(compute_tasks_);
    }
    for (const Task& task : tasks) task();
    step_all();
    publish_usage();
  }
}

void Compute::step_all() {
  for (auto& [id, engine] : engines_) {
    if (!engine->idle()) step_one(id, *engine);
  }
}

void Compute::step_one(const std::string& load_id, engine::Engine& engine) {
  auto& members = marks_[load_id];
  if (journal_ != nullptr) {
    std::vector<std::uint64_t> marks;
    for (const auto& [key, mark] : members) marks.push_back(mark);
    journal_->begin(marks);
  }
  const std::int64_t begin = system_clock().monotonic_us();
  note_progress();
  step_since_us_.store(begin, std::memory_order_relaxed);
  crash_point(CrashPoint::kWorkerStepBefore);
  const std::vector<engine::Produced>& produced = engine.step();
  crash_point(CrashPoint::kWorkerStepAfter);
  step_since_us_.store(0, std::memory_order_relaxed);
  const double ms = static_cast<double>(system_clock().monotonic_us() - begin) / 1000.0;
  if (journal_ != nullptr) journal_->end();
  end_with_device(load_id, produced);
  for (const engine::Produced& p : produced) {
    if (p.finish != wire::FinishReason::kNone) members.erase(p.key);
  }
  {
    const std::lock_guard lock(mutex_);
    status_.step_ms = status_.step_ms == 0 ? ms : 0.9 * status_.step_ms + 0.1 * ms;
  }
  if (produced.empty()) return;
  emit(ProducedBatch{produced});
}

/// Ends this process if a device failed in a step, before anything of the step is reported: the
/// failure fails no request, and the work goes on elsewhere.
void Compute::end_with_device(const std::string& load_id,
                              const std::vector<engine::Produced>& produced) {
  for (const engine::Produced& p : produced) {
    if (p.finish != wire::FinishReason::kError || p.error.code != Errc::kModelFailed) continue;
    log::error("the device failed; ending the process",
               {{"load", load_id}, {"reason", p.error.what}});
    _exit(kExitDeviceFailed);
  }
}

void Compute::publish_usage() {
  engine::Usage sum = ended_;
  for (const auto& [id, engine] : engines_) {
    const holdfast::engine::Usage u = engine->usage();
    sum.running += u.running;
    sum.pages_total += u.pages_total;
    sum.pages_used += u.pages_used;
    add_counts(sum, u);
  }
  const std::lock_guard lock(mutex_);
  status_.usage = sum;
}

void Compute::run_loader() {
  for (;;) {
    wire::Load load;
    {
      std::unique_lock lock(mutex_);
      loader_wakes_.wait(lock, [&] { return stopping_ || !loads_.empty(); });
      if (stopping_) return;
      load = std::move(loads_.front());
      loads_.pop_front();
      loading_ = load.load_id;
    }
    load_one(load);
  }
}

/// Describes a load that is ready. `bytes_before`: of the process, before the load.
static wire::LoadedModel ready_state(const wire::Load& load, engine::Engine& engine,
                                     std::int64_t bytes_before) {
  wire::LoadedModel model = engine.describe();
  malloc_trim(0);  // frees what only the load needed
  // A fake engine reports the memory that it pretends to take.
  if (model.memory.taken == 0) {
    model.memory.taken = std::max<std::int64_t>(process_bytes() - bytes_before, 0);
  }
  model.load_id = load.load_id;
  model.model_sha = load.model_sha;
  model.state = "ready";
  model.progress = 1;
  // The file was read whole and found as registered (worker/main.cpp); the next load need not
  // hash it.
  if (const auto stamp = huggingface::stamp_of(load.path)) model.identity = stamp->identity;
  return model;
}

void Compute::load_one(const wire::Load& load) {
  emit(LoadChanged{model_state(load, "loading", "")});
  double reported = 0;
  const Progress progress = [&](double done) {
    if (done < 1 && done - reported < kProgressStep) return;
    reported = done;
    wire::LoadedModel model = model_state(load, done < 1 ? "loading" : "warming", "");
    model.progress = done;
    emit(LoadChanged{std::move(model)});
  };
  const std::int64_t before = process_bytes();
  Result<std::unique_ptr<engine::Engine>> opened = factory_(load, progress);
  crash_point(CrashPoint::kWorkerLoadOpened);
  wire::LoadedModel model;
  if (opened.has_value()) {
    model = ready_state(load, *opened.value(), before);
  } else {
    const Error& error = opened.error();
    log::warn("load failed", {{"load", load.load_id}, {"reason", error.what}});
    model = model_state(load, "failed", std::string(errc_name(error.code)) + ": " + error.what);
  }
  bool unwanted = false;
  {
    // One lock for both: an unload comes before (and is seen) or after the engine is in place.
    const std::lock_guard lock(mutex_);
    loading_.clear();
    unwanted = std::erase(unloaded_while_loading_, load.load_id) > 0;
    if (!unwanted && opened.has_value()) {
      auto engine = std::make_shared<EnginePtr>(std::move(opened).value());
      compute_tasks_.push_back([this, model, engine] {
        engines_[model.load_id] = std::move(*engine);
        emit(LoadChanged{model});  // from here on a dispatch finds the engine
      });
    }
  }
  compute_wakes_.notify_one();
  if (unwanted) {
    opened = Error{Errc::kCancelled, ""};  // frees the engine before that is reported
    emit(LoadChanged{model_state(load, "unloaded", "unloaded while it was loading")});
  } else if (!opened.has_value()) {
    emit(LoadChanged{std::move(model)});
  }
}

}  // namespace holdfast::worker
