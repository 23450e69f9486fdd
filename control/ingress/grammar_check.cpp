#include "control/ingress/grammar_check.h"

#include <algorithm>

#include "shared/grammar/request.h"
#include "shared/sampling/extra.h"

namespace holdfast::ingress {

namespace {

/// Compiles the grammar, and finds out whether the model's tokens can write it.
Result<void> check_grammar(const grammar::GrammarRequest& request, bool mirostat,
                           const text::Tokenizer* tokenizer) {
  if (tokenizer == nullptr) {
    return Error{Errc::kUnsupported,
                 "grammar: the model's file holds no tokenizer; leave the grammar out"};
  }
  if (request.finish && mirostat) {
    return Error{Errc::kUnsupported,
                 "grammar: 'finish' cannot be honoured with mirostat; leave one of them out"};
  }
  HOLDFAST_TRY(const grammar::GrammarPtr compiled, grammar::compile(request));
  HOLDFAST_CHECKED(grammar::check_coverage(*compiled, grammar::single_bytes(*tokenizer)));
  return {};
}

}  // namespace

Result<bool> GrammarCheck::check(const std::string& model_sha, const text::Tokenizer* tokenizer,
                                 const std::string& extra) {
  if (extra.empty()) return false;
  std::string key = model_sha + "\n" + extra;
  const auto at = std::find(good_.begin(), good_.end(), key);
  if (at != good_.end()) {
    good_.splice(good_.begin(), good_, at);
    return false;
  }
  const std::int32_t vocab = tokenizer == nullptr ? INT32_MAX : tokenizer->vocab_size();
  HOLDFAST_TRY(const auto sampling_extra, sampling::parse_extra(extra, vocab));
  if (!sampling_extra.banned_strings.empty() && tokenizer == nullptr) {
    return Error{Errc::kUnsupported,
                 "sampling: the model's file holds no tokenizer; leave banned_strings out"};
  }
  if (sampling_extra.thinking && tokenizer == nullptr) {
    return Error{Errc::kUnsupported,
                 "sampling: the model's file holds no tokenizer; leave the thinking budget out"};
  }
  HOLDFAST_TRY(const auto request, grammar::read_extra(extra));
  if (!request) return sampling_extra.embedding.has_value();
  HOLDFAST_CHECKED(check_grammar(*request, sampling_extra.mirostat != 0, tokenizer));
  if (key.size() > kKeyBytesMax) return false;
  good_.push_front(std::move(key));
  if (good_.size() > kEntriesMax) good_.pop_back();
  return false;
}

}  // namespace holdfast::ingress
