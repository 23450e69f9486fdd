#pragma once
// Documents of the config verbs.

#include <string>

#include "control/core/machine.h"

namespace holdfast::daemon {

/// Renders the document of `verb`: config.list, config.get, config.explain, config.history,
/// config.diff; after a change (config.set, config.unset, config.rollback) the new version. `args`:
/// JSON. kNotFound, kUsage.
Result<std::string> config_document(const std::string& verb, const std::string& args,
                                    const core::Machine& machine);

}  // namespace holdfast::daemon
