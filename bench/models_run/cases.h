#pragma once
// The measurements of bench/models, each on a cluster of its own, and their common functions.

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "bench/lib/load.h"
#include "bench/lib/options.h"
#include "bench/lib/report.h"

namespace holdfast::bench {

/// Loads, uses and unloads one model again and again: measures what remains of it, and how its
/// first request after `ready` compares with later ones. The real engine.
Result<void> bench_cycles(const Options& options, Report& report);
/// Two loads at once where one fits: each time one is admitted, and the other waits and shows its
/// numbers.
Result<void> bench_collide(const Options& options, Report& report);
/// Three models, memory for two, requests for all at random.
Result<void> bench_pressure(const Options& options, Report& report);
/// Four equal workers at saturation.
Result<void> bench_balance(const Options& options, Report& report);

/// Loads, unloads and uses three real models next to processes that spin, for options.minutes: no
/// worker may be given up, nothing may fail, every text equals the earlier one.
Result<void> bench_spinners(const Options& options, Report& report);

/// A cluster that waits long for a silent worker: these cases count what loads do, and a host that
/// stands still for a moment would lose them a worker.
Result<std::unique_ptr<LocalCluster>> start_patient_cluster(const Options& options,
                                                            const std::string& name,
                                                            std::vector<std::string> config = {});

/// A model to register.
struct ModelSpec {
  std::string name = "bench";
  std::string engine_options = "{}";  // of the fake engine
  int slots = 4;
  int context = 1024;
  bool load = true;
  std::string path = {};
};
/// Registers `path`, or the file of `options.model` if it is empty, under this name.
Result<void> add_model(LocalCluster& cluster, const Options& options, const ModelSpec& spec);
/// The operator's document of a model.
Result<nlohmann::json> show_model(LocalCluster& cluster, const std::string& name);
/// Waits until the model is in this state; kTimeout names its current state.
Result<void> wait_state(LocalCluster& cluster, const std::string& name, const std::string& state,
                        std::int64_t patience_ms = 60'000);
Result<void> operate(LocalCluster& cluster, const std::string& verb, const std::string& name);

/// An ended request.
struct RequestResult {
  double ms = 0;  // from the call to the end of the stream
  std::int64_t tokens = 0;
  std::vector<wire::TokenId> ids;
  std::string failure;  // empty = succeeded
};
/// Sends one request of prompt ids and streams it to its end.
RequestResult ask(client::Client& client, const std::string& model, std::int64_t number,
                  std::int64_t max_tokens);

}  // namespace holdfast::bench
