#pragma once
// Parts of documents that more than one verb answers with. This header is for .cpp files that have
// nlohmann/json.hpp.

#include <nlohmann/json_fwd.hpp>

#include "control/core/machine.h"
#include "control/store/store.h"

namespace holdfast::daemon {

/// Return the lists of models, of workers (lost ones too) and of devices of all hosts, the state of
/// the queue with its bounds, and each limit with what is used of it.
nlohmann::json models_json(const core::Machine& machine);
nlohmann::json workers_json(const core::Machine& machine);
nlohmann::json queue_json(const core::Machine& machine);
nlohmann::json host_devices_json(const core::Machine& machine);
nlohmann::json limits_json(const core::Machine& machine, const store::Store& store);

}  // namespace holdfast::daemon
