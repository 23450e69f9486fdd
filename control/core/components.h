#pragma once
// All components of the machine, and which of them each one calls.

#include "control/core/aliases.h"
#include "control/core/breakers.h"
#include "control/core/canaries.h"
#include "control/core/client_streams.h"
#include "control/core/config_history.h"
#include "control/core/core.h"
#include "control/core/dispatcher.h"
#include "control/core/fetches.h"
#include "control/core/fleet.h"
#include "control/core/idle_unloads.h"
#include "control/core/ingress_jobs.h"
#include "control/core/intake.h"
#include "control/core/lifecycle.h"
#include "control/core/loads.h"
#include "control/core/memory_pools.h"
#include "control/core/model_verbs.h"
#include "control/core/nodes.h"
#include "control/core/placement.h"
#include "control/core/postmortem.h"
#include "control/core/recovery.h"
#include "control/core/registry.h"
#include "control/core/request_verbs.h"
#include "control/core/results.h"

namespace holdfast::core {

/// The components of one machine. They refer to each other, so they stay where they are.
struct Components {
  explicit Components(const Config& base) : config_history(core, base) { core.config = base; }
  Components(const Components&) = delete;
  Components& operator=(const Components&) = delete;

  Core core;
  ConfigHistory config_history;
  Lifecycle lifecycle{core, loads, registry, canaries, streams};
  Recovery recovery{core, lifecycle, canaries, registry};
  RequestVerbs request_verbs{core, lifecycle};
  Dispatcher dispatcher{core, lifecycle, loads, registry, breakers, fleet};
  Results results{core, lifecycle, loads, fleet, breakers, canaries, streams};
  Registry registry{core, loads, canaries, lifecycle, fleet, aliases};
  ModelVerbs model_verbs{core, registry, loads, jobs, aliases, lifecycle};
  Loads loads{core, registry, fleet, memory, breakers, lifecycle};
  Nodes nodes{core, fleet};
  Placement placement{core, registry, loads, memory, fleet, breakers, aliases, lifecycle, nodes};
  Fetches fetches{core, registry, loads, nodes};
  IdleUnloads idle_unloads{core, registry, loads, lifecycle, aliases};
  MemoryPools memory{core, loads, registry};
  Fleet fleet{core, loads, registry, memory, lifecycle, postmortem, breakers, nodes};
  Postmortem postmortem{core, fleet, memory, breakers, registry, canaries, lifecycle};
  Breakers breakers{core, registry, loads};
  Aliases aliases{core, registry, lifecycle, canaries};
  Canaries canaries{core, aliases, registry, loads, lifecycle};
  IngressJobs jobs{core, lifecycle, registry};
  Intake intake{core, jobs, lifecycle, registry, loads, aliases, canaries};
  ClientStreams streams{core, lifecycle, registry, aliases, jobs};
};

}  // namespace holdfast::core
