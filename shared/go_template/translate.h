#pragma once
// Translates chat templates in Go's text/template, as Ollama's Modelfiles have them, to the Jinja
// that runs here (shared/jinja). Translation is by meaning: what has no exact counterpart is
// refused by name.
//
// A template that reads .Messages is run once over the messages, neighbours of one role joined. An
// older one, with .Prompt and .Response, is run once for each turn, and for the last one up to its
// .Response.

#include <cstddef>
#include <string>
#include <string_view>

#include "shared/base/result.h"

namespace holdfast::go_template {

/// Bounds of a template: bytes of its text, depth of its blocks and expressions.
inline constexpr std::size_t kBytesMax = std::size_t{64} << 10;
inline constexpr int kDepthMax = 64;

/// Returns the Jinja text. kInvalidRequest with "go template line N: …" for a syntax error or a
/// text beyond the bounds; kUnsupported with the same beginning for what has no counterpart.
Result<std::string> to_jinja(std::string_view go);

}  // namespace holdfast::go_template
