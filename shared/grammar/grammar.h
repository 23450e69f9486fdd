#pragma once
// Structured output: the form of a generated text, compiled once into byte automata.
// docs/use/structured-output.md says which text is allowed for which source.

#include <cstdint>
#include <memory>
#include <string_view>

#include "shared/base/result.h"

namespace holdfast::grammar {

/// The budget of one compilation. Over a limit: kInvalidRequest that names it.
struct GrammarLimits {
  std::size_t source_bytes_max = 512 * 1024;
  std::uint32_t depth_max = 64;            // nesting of the source
  std::uint32_t rules_max = 4'000;         // rules of the compiled grammar
  std::uint32_t states_max = 250'000;      // automaton states, in total
  std::uint64_t work_max = 100'000'000;    // elementary steps while compiling (about 1 s)
  std::uint32_t alternatives_max = 1'000;  // of one schema after anyOf and allOf are merged
};

/// A compiled grammar. Immutable, safe from any thread (automata.h defines it).
struct Grammar;
using GrammarPtr = std::shared_ptr<const Grammar>;

/// Compiles the JSON text that a schema allows. kInvalidRequest: not JSON, not a schema,
/// unsatisfiable, over a limit; kUnsupported: a keyword without support. Both name keyword and JSON
/// pointer.
Result<GrammarPtr> compile_json_schema(std::string_view schema_json,
                                       const GrammarLimits& limits = {});
/// Compiles one or more calls of some tools, in a family's format (docs/use/tool-calls.md). JSON:
///   {"form": "hermes" | "llama3", "tools": [{"name": …, "parameters": schema or nothing}, …],
///    "single": true, "reasoning": true, "opened": true}
/// `reasoning`: the model may reason first; `opened`: its prompt has begun that. Errors as above.
Result<GrammarPtr> compile_tool_call(std::string_view source_json,
                                     const GrammarLimits& limits = {});
/// Compiles any JSON object.
Result<GrammarPtr> compile_json_mode(const GrammarLimits& limits = {});
/// Compiles text that the whole expression matches (ECMA-262 syntax, no back references).
Result<GrammarPtr> compile_regex(std::string_view pattern, const GrammarLimits& limits = {});
/// Compiles text that the rule `root` of llama.cpp's grammar format derives. Left recursion is
/// kUnsupported.
Result<GrammarPtr> compile_gbnf(std::string_view source, const GrammarLimits& limits = {});

}  // namespace holdfast::grammar
