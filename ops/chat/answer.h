#pragma once
// One answer of a chat as it comes: text and thinking apart, whichever daemon or worker dies
// meanwhile, until it has ended or the user stops it.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "ops/chat/interrupts.h"
#include "shared/chat/output_parser.h"
#include "shared/client/client.h"
#include "shared/text/releaser.h"

namespace holdfast::cli {

/// Text that has become final.
struct AnswerPart {
  std::string text;
  std::string thinking;
};

/// Takes the tokens of an answer apart, by the output description of its model
/// (wire::ModelInfo::output). Not thread-safe.
class AnswerText {
 public:
  AnswerText(std::vector<std::string> stops, const std::string& output);
  AnswerPart feed(const wire::Event& event);
  /// Returns the rest, after the last token.
  AnswerPart finish();
  std::int64_t tokens() const { return tokens_; }

 private:
  AnswerPart parse(const std::string& text);
  text::Releaser releaser_;
  std::optional<chat::OutputParser> parser_;
  std::int64_t tokens_ = 0;
};

/// An answer that has ended.
struct ChatAnswer {
  wire::RequestInfo info;
  std::string text;
  std::string thinking;
  std::int64_t tokens = 0;
};

/// A call that a second Ctrl-C or SIGTERM left; what it was for goes on in the daemon.
struct Abandoned {};

template <class T>
using Outcome = std::variant<T, client::Failure, Abandoned>;

/// Submits the request. Waits while the daemon is away or ends, for a minute at most. Ctrl-C is
/// left to follow_answer().
Outcome<wire::RequestInfo> submit_question(client::Client& client, const wire::Submit& submit,
                                           const Interrupts& interrupts);

/// Follows a request from its first token to its end. `on_part` runs on the calling thread. Ctrl-C
/// cancels the request, which then ends by itself.
Outcome<ChatAnswer> follow_answer(client::Client& client, const wire::RequestInfo& info,
                                  const std::string& output, const Interrupts& interrupts,
                                  const std::function<void(const AnswerPart&)>& on_part);

}  // namespace holdfast::cli
