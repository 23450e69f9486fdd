#pragma once
// The model registry: states of models, and failures of their loads.

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "control/core/core.h"
#include "control/core/events.h"
#include "control/core/models.h"

namespace holdfast::core {

class Aliases;
class Canaries;
class Fleet;
class Lifecycle;
class Loads;

/// The registered models, with their states. A model has the state of the furthest of its loads.
class Registry {
 public:
  Registry(Core& core, Loads& loads, Canaries& canaries, Lifecycle& lifecycle, Fleet& fleet,
           Aliases& aliases)
      : core_(core),
        loads_(loads),
        canaries_(canaries),
        lifecycle_(lifecycle),
        fleet_(fleet),
        aliases_(aliases) {}

  /// Takes in the models of the database.
  void boot(const Boot& event);
  /// Asks for a load of an unloaded model if an unload met requests that wait: they are served as
  /// new ones would be, by a new load.
  void want_if_waited_for(Model& model);
  /// Writes the row of a model.
  void put_model(const Model& model);
  /// Sets the model's state to that of the furthest of its loads.
  void refresh_model(Model& model, const std::string& reason);
  /// Asks for a load of the model, if nobody has done so.
  void want(Model& model);
  /// Asks for a load as `models load` does: the model may have failed before.
  void load_again(Model& model, const std::string& reason);
  /// Unloads the model, for this reason.
  void unload(Model& model, const std::string& reason);
  /// Stores how long clients want the model to stay after its last request; nullopt: as the
  /// configuration says. It holds until the model is unloaded.
  void set_keep_alive(Model& model, std::optional<std::int64_t> keep_alive_ms);
  /// Stores what tells the model's file from another one with the same size and time of change.
  void set_identity(Model& model, const std::string& identity);
  /// Stores the failed loads in a row, over restarts of the daemon too, which a load may take down
  /// with it.
  void count_failures(Model& model, std::int32_t failures);
  /// Uses up a try, whatever the reason. The next one waits, and there is a last one, also where
  /// the worker was lost each time.
  void count_load_failure(Model& model, const std::string& worker_key, const std::string& reason,
                          bool worker_lost = false);
  /// Gives up a model that nobody loads: requests that wait for it end, and models that made room
  /// for it come back.
  void give_up(Model& model, const std::string& reason);

  /// Models by name.
  std::map<std::string, Model>& models() { return models_; }
  const std::map<std::string, Model>& models() const { return models_; }

 private:
  void set_model_state(Model& model, ModelState state, const std::string& reason);
  void time_switch(Model& model);

  Core& core_;
  Loads& loads_;
  Canaries& canaries_;
  Lifecycle& lifecycle_;
  Fleet& fleet_;
  Aliases& aliases_;

  std::map<std::string, Model> models_;  // by name
};

}  // namespace holdfast::core
