#pragma once
// Operator verbs while no daemon runs: holdfastd itself carries them out on the state directory,
// with the lock held, and exits. So a change means the same with and without a daemon.

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "shared/base/result.h"
#include "shared/wire/messages.h"

namespace holdfast::cli {

/// True if the state directory has a database.
bool has_database(const std::string& state_dir);

/// Returns the answer that a daemon would give. kIo: holdfastd cannot be run or says nothing.
Result<wire::OpResult> operate_offline(const std::string& state_dir, const std::string& verb,
                                       const std::string& args);

}  // namespace holdfast::cli
