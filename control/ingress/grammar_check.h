#pragma once
// Checks before acceptance that the sampling parameters and the grammar of a request work with its
// model, by parsing and compiling them as the worker does.

#include <list>
#include <string>

#include "shared/base/result.h"
#include "shared/text/tokenizer.h"

namespace holdfast::ingress {

/// Checks `extra` and remembers the grammars that passed. Not thread-safe.
class GrammarCheck {
 public:
  /// Returns true if vectors are requested instead of text. `extra` is wire::Sampling::extra;
  /// `tokenizer` is null for a model without one. kInvalidRequest and kUnsupported as
  /// sampling::parse_extra and the compile functions of shared/grammar; kUnsupported also for what
  /// needs a tokenizer.
  Result<bool> check(const std::string& model_sha, const text::Tokenizer* tokenizer,
                     const std::string& extra);

 private:
  static constexpr std::size_t kEntriesMax = 64;
  static constexpr std::size_t kKeyBytesMax = 64 * 1024;  // a longer one is compiled every time
  std::list<std::string> good_;                           // passed: model and extra, newest first
};

}  // namespace holdfast::ingress
