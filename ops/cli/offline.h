#pragma once
// Reads of control.db while no daemon runs: lists and details only, read-only, short snapshots.

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "ops/terminal/call.h"
#include "ops/terminal/render.h"
#include "shared/base/result.h"

namespace holdfast::cli {

/// True if a database is there and no daemon answers: then the verbs below stand in for it.
bool should_read_offline(const Call& call);

/// Answers requests.list, requests.show, models.list and models.show as the daemon would, from the
/// rows alone. kNotFound for an unknown id or name; kVersionNewer, kStorage for the database.
Result<nlohmann::json> read_offline(const Call& call, const std::string& verb,
                                    const nlohmann::json& args);

/// The id of the request that is meant: by its id, its HTTP name (chatcmpl-ID) or its idempotency
/// key. The text itself if the database knows none of them: the daemon then says so. kConflict if
/// several tenants' requests have the key.
Result<std::string> find_request(const Call& call, const std::string& named);

/// Runs the verb by the daemon, or on the database while that is down (said on stderr); prints.
int read_and_print(const Call& call, const std::string& verb, const nlohmann::json& args,
                   RenderOptions options = {});

}  // namespace holdfast::cli
