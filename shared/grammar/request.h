#pragma once
// How a request names what its text must look like: a member of wire::Sampling::extra, which is
// stored with the request and goes to the worker as it is:
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

struct GrammarRequest {
  std::string kind;     // as above
  std::string source;   // empty for "json_object"
  bool finish = false;  // complete within max_tokens (Matcher::ends_within)
};

/// Such a JSON object, for wire::Sampling::extra.
std::string extra_of(const GrammarRequest& request);
/// The member "grammar" of an extra; nullopt if there is none (or no extra). kInvalidRequest if it
/// has another form; other members are not looked at.
Result<std::optional<GrammarRequest>> read_extra(std::string_view extra_json);
/// Errors as the compile functions; kInvalidRequest for a kind that is not known.
Result<GrammarPtr> compile(const GrammarRequest& request, const GrammarLimits& limits = {});

/// Grammars over one vocabulary, those used last kept with their masks. Not thread-safe.
class GrammarCache {
 public:
  explicit GrammarCache(std::shared_ptr<const TokenTable> table, std::size_t size = 16)
      : table_(std::move(table)), size_(size) {}
  /// Errors as compile() and check_coverage().
  Result<std::shared_ptr<TokenMasks>> find(const GrammarRequest& request);
  /// Null if it is not kept.
  std::shared_ptr<TokenMasks> kept(const GrammarRequest& request);
  void keep(const GrammarRequest& request, std::shared_ptr<TokenMasks> masks);

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
