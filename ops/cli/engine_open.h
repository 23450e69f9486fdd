#pragma once
// An engine in this process as a tool's arguments ask for it, with progress on a terminal.

#include <memory>

#include "ops/cli/engine_tools.h"
#include "worker/engine/engine.h"

namespace holdfast::cli {

/// A line that rewrites itself on a terminal, nothing elsewhere; `done` from 0 to 1.
void show_share(const char* what, double done);

/// The choice as the engine takes it; what is left are its defaults.
engine::EngineOptions engine_options(const EngineChoice& choice);

/// As engine::open_engine.
Result<std::unique_ptr<engine::Engine>> open_chosen(const EngineChoice& choice,
                                                    const engine::EngineOptions& options);

}  // namespace holdfast::cli
