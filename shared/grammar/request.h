#pragma once
// The grammar of a request: a member of wire::Sampling::extra, which is stored with the request and
// sent to the worker unchanged:
//   {"grammar": {"kind": "json_schema" | "json_object" | "regex" | "gbnf" | "tool_call",
//                "source": "…", "finish": true}}

#include <list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "shared/grammar/grammar.h"
#include "shared/grammar/token_masks.h"
#include "shared/grammar/token_table.h"

namespace holdfast::grammar {

/// A grammar as a request names it.
struct GrammarRequest {
  std::string kind;     // as above
  std::string source;   // empty for "json_object"
  bool finish = false;  // complete within max_tokens (Matcher::ends_within)
};

/// Returns such a JSON object, for wire::Sampling::extra.
std::string extra_of(const GrammarRequest& request);
/// Reads the member "grammar" of an extra; nullopt if there is none (or no extra). kInvalidRequest
/// if it has another form; other members are ignored.
Result<std::optional<GrammarRequest>> read_extra(std::string_view extra_json);
/// Compiles the grammar. Errors as the compile functions; kInvalidRequest for an unknown kind.
Result<GrammarPtr> compile(const GrammarRequest& request, const GrammarLimits& limits = {});

/// Caches grammars over one vocabulary with their masks, those used last. Not thread-safe.
class GrammarCache {
 public:
  explicit GrammarCache(std::shared_ptr<const TokenTable> table, std::size_t size = 16)
      : table_(std::move(table)), size_(size) {}
  /// Returns the grammar's masks, compiled if needed. Errors as compile() and check_coverage().
  Result<std::shared_ptr<TokenMasks>> find(const GrammarRequest& request);
  /// Returns null if it is not cached.
  std::shared_ptr<TokenMasks> lookup(const GrammarRequest& request);
  void insert(const GrammarRequest& request, std::shared_ptr<TokenMasks> masks);

 private:
  struct Entry {
    GrammarRequest request;
    std::shared_ptr<TokenMasks> masks;
  };
  std::shared_ptr<const TokenTable> table_;
  std::size_t size_;
  std::list<Entry> entries_;  // newest first
};

}  // namespace holdfast::grammar
