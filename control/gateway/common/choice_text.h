#pragma once
// One choice of a request as text: what may be shown after i tokens, and what a client that has
// seen the text of i tokens is still to get. Pure: the same ids give the same text, however they
// are cut into events.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "shared/text/releaser.h"
#include "shared/wire/messages.h"

namespace holdfast::gateway {

struct TokenLog {           // one token with its log-probabilities
  std::string bytes;        // of the token; perhaps not whole UTF-8
  std::int64_t offset = 0;  // characters before it in the choice's text
  std::string extra;        // JSON, as the worker made it
};

/// Returns token `i` of an event as an event of its own, for work whose result must depend on the
/// tokens and not on how they came.
wire::Event one_token(const wire::Event& event, std::size_t i);

/// Text (and token logs) that has become final.
struct Delta {
  std::string text;
  std::vector<TokenLog> logs;
  bool empty() const { return text.empty() && logs.empty(); }
};

/// The rule behind event ids. An id i says: the client has the text that i tokens release. It must
/// not be given for the last token while that token still holds something back (a possible stop
/// sequence, half a character), because the end adds what was held and needs an id of its own. So a
/// token that holds something back is handed out only with its successor or with the end: then i =
/// all tokens always means "all text". Not thread-safe.
class ChoiceText {
 public:
  /// The text of tokens [0, resume_from) is known to the client and is not handed out again.
  ChoiceText(std::vector<std::string> stops, std::int64_t resume_from, bool with_logprobs);

  /// Takes the tokens of `event` from the next index on and skips older ones. With `hold_last` the
  /// rule above holds; without it (the answer cannot be resumed) all released text comes at once.
  Delta feed(const wire::Event& event, bool hold_last);
  /// Returns the rest, after the last token.
  Delta finish();

  std::int64_t considered() const { return considered_; }  // tokens fed
  /// Tokens whose text has been handed out: the index for event ids.
  std::int64_t sent() const { return sent_; }
  bool stopped() const { return releaser_.stopped(); }
  int stop_index() const { return releaser_.stop_index(); }  // of the stops; -1: none has come
  /// True if some text is held back: a possible stop sequence, half a character.
  bool holds() const;

 private:
  void take(wire::TokenId id, std::string_view bytes, const std::string* extra, Delta* out);

  text::Releaser releaser_;
  std::int64_t resume_from_;
  bool with_logprobs_;
  std::int64_t considered_ = 0;
  std::int64_t sent_;
  std::int64_t characters_ = 0;
  Delta waiting_;  // of the last token
};

/// Returns the number of code points that begin in `bytes`.
std::int64_t count_characters(std::string_view bytes);

/// Returns `bytes` with everything that is not UTF-8 replaced by U+FFFD.
std::string clean_utf8(std::string_view bytes);

}  // namespace holdfast::gateway
