#pragma once
// A cluster that is nothing but the control plane's state machine: nodes, workers and clients are
// events. There is no socket, no database and no process, so what is measured is the machine's own
// time.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "control/core/machine.h"

namespace holdfast::bench {

struct ScaleOptions {
  int nodes = 1'000;  // with one worker each
  int models = 100;   // each on nodes / loads_of_a_worker workers
  int loads_of_a_worker = 10;
  int slots = 12;               // sequences of a load
  int streams = 100'000;        // that run at each time
  double requests_s = 2'000;    // arrivals, while as many end
  double seconds = 20;          // of arrivals
  double token_groups_s = 0.5;  // messages of a worker with tokens of all its sequences
};

/// Drives the machine by hand. Ends the program on what a correct machine never does (CHECK).
class ScaleCluster {
 public:
  explicit ScaleCluster(const ScaleOptions& options);

  /// Joins all nodes, registers and loads all models.
  void build();
  /// Submits a request for a model; returns true if it was dispatched in the same step.
  bool submit(int model);
  /// Ends the sequence that has run the longest.
  void finish_oldest();
  /// One message of a worker, with a token of each of its sequences.
  void tokens_of(int worker);
  /// A node's second: its health and its worker's numbers.
  void signs_of(int node);

  std::size_t running() const { return running_; }
  std::size_t loads() const { return loads_; }
  int workers() const { return options_.nodes; }
  /// The machine's clock from here on, in microseconds.
  void set_time(std::int64_t now_us);

 private:
  struct Sequence {
    std::string request_id;
    core::Fence fence;
    std::int64_t produced = 0;  // tokens
  };
  struct Worker {
    std::deque<Sequence> sequences;  // oldest first
  };
  void step(const core::Event& event);
  void send_tokens(int worker, std::vector<wire::TokenEvent> events);
  void join(int node);
  void add_model(int model);
  void ready(core::PeerId peer, const wire::Load& load);
  void take(const core::Effects& effects);

  const ScaleOptions options_;
  core::Machine machine_;
  core::Now now_{1'000'000, 1'700'000'000'000};
  std::vector<Worker> workers_;
  std::deque<int> order_;  // the worker of each running sequence, in order of dispatch
  std::deque<std::pair<core::PeerId, wire::Load>> to_load_;
  std::vector<std::uint64_t> inspections_;
  std::size_t running_ = 0, loads_ = 0;
  std::uint64_t submitted_ = 0;
};

}  // namespace holdfast::bench
