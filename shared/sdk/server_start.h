#pragma once
// A server for a program that wants one: looks whether one runs, and starts `holdfast serve` if
// not.

#include <string>

#include "shared/base/result.h"

namespace holdfast::sdk {

/// Returns once a daemon answers on the state directory; starts a server of its own session if none
/// does. Several programs may ask at once: one server comes of it. kIo: no program `holdfast` was
/// found; kUnreachable: it did not answer within a minute, with the end of its log.
Result<void> ensure_server(const std::string& state_dir);

/// Ends the server of a state directory (its supervisor). kNotFound: none runs.
Result<void> stop_server(const std::string& state_dir);

}  // namespace holdfast::sdk
