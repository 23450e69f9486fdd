#pragma once
// The measurements of bench/models, each on a house of its own, and what they share.

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "bench/lib/load.h"
#include "bench/lib/options.h"
#include "bench/lib/report.h"

namespace holdfast::bench {

/// Loads, uses and unloads one model again and again: what is left of it, and how its first request
/// after `ready` compares with later ones. The real engine.
Result<void> bench_cycles(const Options& options, Report& report);
/// Two loads at once where one fits: each time one is admitted, the other waits with its numbers.
Result<void> bench_collide(const Options& options, Report& report);
/// Three models, room for two, requests for all at random.
Result<void> bench_pressure(const Options& options, Report& report);
/// Four equal workers at saturation.
Result<void> bench_balance(const Options& options, Report& report);
/// The same open load with and without the checks of bounds.
Result<void> bench_guards(const Options& options, Report& report);

/// Three real models loaded, unloaded and used beside processes that spin, for options.minutes:
/// nobody may be given up, nothing may fail, every text is the one of before.
Result<void> bench_spinners(const Options& options, Report& report);

/// A house that waits long for a silent worker: these cases count what loads do, and a host that
/// stands still for a moment would lose them a worker.
Result<std::unique_ptr<House>> patient_house(const Options& options, const std::string& name,
                                             std::vector<std::string> config = {});

struct ModelWish {
  std::string name = "bench";
  std::string engine_options = "{}";  // of the fake engine
  int slots = 4;
  int context = 1024;
  bool load = true;
  std::string path = {};
};
/// Registers the file of `options.model`, or that of `path`, under this name.
Result<void> add_model(House& house, const Options& options, const ModelWish& wish);
/// The operator's document of a model.
Result<nlohmann::json> show_model(House& house, const std::string& name);
/// Until the model is in this state; kTimeout names the one that it is in.
Result<void> wait_state(House& house, const std::string& name, const std::string& state,
                        std::int64_t patience_ms = 60'000);
Result<void> operate(House& house, const std::string& verb, const std::string& name);

struct Heard {
  double ms = 0;  // from the call to the end of the stream
  std::int64_t tokens = 0;
  std::vector<wire::TokenId> ids;
  std::string failure;  // empty = succeeded
};
/// One request of prompt ids, streamed to its end.
Heard ask(client::Client& client, const std::string& model, std::int64_t number,
          std::int64_t max_tokens);

}  // namespace holdfast::bench
