#pragma once
// Whether the sampling and the grammar that a request asks for can be honoured with its model: said
// before the request is accepted, by reading and compiling them as the worker will.

#include <list>
#include <string>

#include "shared/base/result.h"
#include "shared/text/tokenizer.h"

namespace holdfast::ingress {

/// Not thread-safe.
class GrammarCheck {
 public:
  /// `extra` is wire::Sampling::extra. kInvalidRequest and kUnsupported as sampling::parse_extra
  /// and the compile functions of shared/grammar; kUnsupported for what needs a tokenizer.
  /// True: no text is asked for, but vectors.
  Result<bool> check(const std::string& model_sha, const text::Tokenizer* tokenizer,
                     const std::string& extra);

 private:
  static constexpr std::size_t kKept = 64;
  static constexpr std::size_t kKeptBytesMax = 64 * 1024;  // a longer one is compiled every time
  std::list<std::string> good_;                            // model and extra, newest first
};

}  // namespace holdfast::ingress
