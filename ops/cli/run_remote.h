#pragma once
// `run`, `embed` and `requests tail` against a Holdfast elsewhere, over HTTP.

#include <string>

#include "ops/terminal/call.h"

namespace holdfast::cli {

/// Runs `run` for a prompt; `call.remote` is set. The text is that of the socket: the prompt's
/// tokens are asked for, with the chat template where that is wanted, and completed as they are.
/// Returns the exit code.
int run_over_http(const Call& call, const std::string& prompt);

/// Runs `requests tail` for a request's id; `call.remote` is set. Returns the exit code.
int tail_over_http(const Call& call, const std::string& id);

/// Runs `embed` for a model of the server; `call.remote` is set. Prints {"model", "tokens" (of all
/// texts), "data": [{"index", "embedding"}]}. Returns the exit code.
int embed_over_http(const Call& call);

}  // namespace holdfast::cli
