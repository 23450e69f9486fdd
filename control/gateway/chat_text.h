#pragma once
// One choice of a request as what its client is shown: plain text, or, of a chat model that reasons
// or calls tools, text, reasoning and calls. Event ids mean the same as those of ChoiceText: who
// has index i has all that i tokens give, and the index of all tokens means all there is.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "control/gateway/choice_text.h"
#include "shared/chat/output_parser.h"
#include "shared/chat/thinking.h"

namespace holdfast::gateway {

struct ChatDelta {
  chat::OutputDelta out;
  std::vector<TokenLog> logs;
  bool empty() const { return out.empty() && logs.empty(); }
};

/// Not thread-safe.
class ChatText {
 public:
  /// `parse`: how to take the text apart; nullopt: it is all content.
  ChatText(std::vector<std::string> stops, std::int64_t seen, bool keep_logs,
           const std::optional<chat::OutputOptions>& parse);

  /// As ChoiceText::feed and finish.
  ChatDelta feed(const wire::Event& event, bool hold_last);
  ChatDelta finish();

  std::int64_t considered() const { return text_.considered(); }
  std::int64_t shown() const { return parser_ ? shown_ : text_.shown(); }
  int stop_index() const { return text_.stop_index(); }
  int calls() const { return parser_ ? parser_->calls() : 0; }
  /// Tokens of the prompt that a known prefix spared.
  std::int64_t cached_tokens() const { return cached_; }
  std::int64_t reasoning_tokens() const { return meter_ ? meter_->tokens() : 0; }

 private:
  ChatDelta parse_token(const wire::Event& event, std::size_t i);
  ChoiceText text_;
  std::optional<chat::OutputParser> parser_;
  std::optional<chat::ThinkingMeter> meter_;
  std::int64_t cached_ = 0;
  std::int64_t seen_;
  std::int64_t shown_;
  ChatDelta waiting_;  // of the last token
};

}  // namespace holdfast::gateway
