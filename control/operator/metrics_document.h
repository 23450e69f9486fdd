#pragma once
// The document of the operator verb `metrics`: the counters of `status`, by their Prometheus names
// (docs/run/metrics.md).

#include <nlohmann/json_fwd.hpp>

#include "control/core/machine.h"
#include "control/operator/operator_verbs.h"
#include "control/store/store.h"

namespace holdfast::daemon {

/// Renders the document. Label values are bounded: 64 models, 32 tenants (those with a bound of
/// their own), 64 workers.
nlohmann::json metrics_document(const core::Machine& machine, const store::Store& store,
                                const ProcessFacts& facts);

}  // namespace holdfast::daemon
