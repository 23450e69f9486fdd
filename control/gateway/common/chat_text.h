#pragma once
// One choice of a request as its client sees it: plain text, or, for a chat model that reasons or
// calls tools, text, reasoning and calls. Event ids mean the same as with ChoiceText: a client that
// has index i has all that i tokens give, and the index of all tokens means everything.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "control/gateway/common/choice_text.h"
#include "shared/chat/output_parser.h"
#include "shared/chat/thinking.h"

namespace holdfast::gateway {

/// The output that new tokens or the end of a choice release.
struct ChatDelta {
  chat::OutputDelta out;
  /// Parts of the answer that have become final, with their token logs.
  std::vector<TokenLog> logs;
  bool empty() const { return out.empty() && logs.empty(); }
};

/// Takes the text of a choice apart. Not thread-safe.
class ChatText {
 public:
  /// `parse` says how the text is taken apart; with nullopt all of it is content.
  ChatText(std::vector<std::string> stops, std::int64_t resume_from, bool with_logprobs,
           const std::optional<chat::OutputOptions>& parse);

  /// Work as ChoiceText::feed and finish.
  ChatDelta feed(const wire::Event& event, bool hold_last);
  ChatDelta finish();

  std::int64_t considered() const { return text_.considered(); }
  std::int64_t sent() const { return parser_ ? sent_ : text_.sent(); }
  int stop_index() const { return text_.stop_index(); }
  int calls() const { return parser_ ? parser_->calls() : 0; }
  /// Tokens of the prompt that were taken from the prefix cache.
  std::int64_t cached_tokens() const { return cached_; }
  std::int64_t reasoning_tokens() const { return meter_ ? meter_->tokens() : 0; }

 private:
  ChatDelta parse_token(const wire::Event& event, std::size_t i);
  ChoiceText text_;
  std::optional<chat::OutputParser> parser_;
  std::optional<chat::ThinkingMeter> meter_;
  std::int64_t cached_ = 0;
  std::int64_t resume_from_;
  std::int64_t sent_;
  ChatDelta waiting_;  // of the last token
};

}  // namespace holdfast::gateway
