#pragma once
// The compute thread steps the engines in turn; a loader thread opens models, so that a load does
// not stop what runs. Everything passes through two queues; no other state is shared.

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "shared/base/step_journal.h"
#include "shared/wire/socket.h"
#include "worker/engine/engine.h"
#include "worker/link/work_table.h"

namespace holdfast::worker {

using Progress = std::function<void(double)>;
/// Opens the engine that a LOAD asks for. Called on the loader thread.
using EngineFactory =
    std::function<Result<std::unique_ptr<engine::Engine>>(const wire::Load&, const Progress&)>;

/// Tokens and ends of choices from one step.
struct ProducedBatch {
  std::vector<engine::Produced> produced;
};
/// A choice that the engine could not take.
struct AddFailed {
  engine::SequenceKey key = 0;
  Error error;
};
/// A model's new state: its progress, ready, failed or gone.
struct LoadChanged {
  wire::LoadedModel model;
};
using ComputeEvent = std::variant<ProducedBatch, AddFailed, LoadChanged>;

/// The state of the compute thread for STATS and the watchdog.
struct ComputeStatus {
  engine::Usage usage;             // sums over the engines
  double step_ms = 0;              // recent mean of a step
  std::int64_t step_since_us = 0;  // start of the step that is running (monotonic), 0 = none
};

/// Owns the engines and both threads; its destructor stops and joins them.
class Compute {
 public:
  /// `wake` is notified when events wait; it must outlive this. `journal`: notes the running step
  /// for the process that reaps this one; nullptr = none.
  Compute(EngineFactory factory, const wire::WakeUp& wake,
          std::shared_ptr<StepJournal> journal = nullptr);
  ~Compute();

  // Called on the I/O thread.
  void order(std::vector<Order> orders);
  void load(wire::Load load);
  void unload(std::string load_id);
  std::vector<ComputeEvent> take_events();
  ComputeStatus status() const;

 private:
  using EnginePtr = std::unique_ptr<engine::Engine>;
  using Task = std::function<void()>;

  void run_compute();
  void run_loader();
  void load_one(const wire::Load& load);
  void carry_out(Order& order);
  void step_all();
  void step_one(const std::string& load_id, engine::Engine& engine);
  static void end_with_device(const std::string& load_id,
                              const std::vector<engine::Produced>& produced);
  void emit(ComputeEvent event);
  void post_compute(Task task);
  void publish_usage();

  const EngineFactory factory_;
  const wire::WakeUp& wake_;

  mutable std::mutex mutex_;  // guards the fields up to the next blank line
  std::condition_variable compute_wakes_, loader_wakes_, events_not_full_;
  std::deque<Task> compute_tasks_;
  std::deque<wire::Load> loads_;
  std::vector<std::string> unloaded_while_loading_;
  std::vector<ComputeEvent> events_;
  ComputeStatus status_;
  bool stopping_ = false;

  std::atomic<std::int64_t> step_since_us_{0};
  std::map<std::string, EnginePtr> engines_;  // by load id; compute thread only
  engine::Usage ended_;                       // counts of engines that are gone; as above
  std::map<std::string, std::map<engine::SequenceKey, std::uint64_t>> marks_;  // as above
  const std::shared_ptr<StepJournal> journal_;
  std::string loading_;  // guarded by mutex_
  std::thread compute_, loader_;
};

}  // namespace holdfast::worker
