#pragma once
// An engine in this process, opened by a tool's arguments, with progress on a terminal.

#include <memory>

#include "ops/cli/engine_tools.h"
#include "worker/engine/engine.h"

namespace holdfast::cli {

/// Rewrites one line on a terminal, does nothing elsewhere; `done` from 0 to 1.
void show_share(const char* what, double done);

/// The choice as the engine takes it; everything else has its default.
engine::EngineOptions engine_options(const EngineChoice& choice);

/// Opens the chosen engine. Errors: those of engine::open_engine.
Result<std::unique_ptr<engine::Engine>> open_chosen(const EngineChoice& choice,
                                                    const engine::EngineOptions& options);

}  // namespace holdfast::cli
