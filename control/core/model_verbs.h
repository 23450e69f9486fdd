#pragma once
// Registration of models, and operator verbs for them.

#include <map>
#include <string>

#include "control/core/core.h"
#include "control/core/events.h"
#include "control/core/ingress_jobs.h"
#include "control/core/models.h"

namespace holdfast::core {

class Aliases;
class IngressJobs;
class Lifecycle;
class Loads;
class Registry;

/// Operator verbs for models: registration, load and unload, removal, verification.
class ModelVerbs {
 public:
  ModelVerbs(Core& core, Registry& registry, Loads& loads, IngressJobs& jobs, Aliases& aliases,
             Lifecycle& lifecycle)
      : core_(core),
        registry_(registry),
        loads_(loads),
        jobs_(jobs),
        aliases_(aliases),
        lifecycle_(lifecycle) {}

  /// Takes in the golden answers of the database.
  void boot(const Boot& event);
  void on(const OpAddModel& event);
  void on(const InspectedEvent& event);
  void on(const OpModel& event);
  void on(const OpGolden& event);

 private:
  void add_inspected(const IngressJob& job, const InspectedEvent& event);
  static void retain_profile(const ModelRow& old, ModelRow& row);
  bool remove(const OpModel& event, Model& model);
  bool set_keep_alive(const OpModel& event, Model& model);
  void verify(const OpModel& event, const Model& model);

  Core& core_;
  Registry& registry_;
  Loads& loads_;
  IngressJobs& jobs_;
  Aliases& aliases_;
  Lifecycle& lifecycle_;

  std::map<std::string, std::string> goldens_;  // see OpGolden
};

}  // namespace holdfast::core
