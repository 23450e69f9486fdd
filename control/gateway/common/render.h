#pragma once
// Answers in OpenAI's shapes: a stream of chunks, or one document. No sockets, only strings.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "control/gateway/common/chat_text.h"
#include "control/gateway/http/http_types.h"
#include "control/gateway/http/shape.h"
#include "control/gateway/http/sse.h"
#include "shared/wire/messages.h"
#include "shared/wire/prompt_scores.h"

namespace holdfast::gateway {

/// An answer as a stream, of server-sent events if nothing else is said. Each function returns the
/// text to be sent.
class EventWriter {
 public:
  virtual ~EventWriter() = default;
  virtual std::string content_type() const { return "text/event-stream; charset=utf-8"; }
  /// Returns what is sent while nothing else is, to be ignored by the client.
  virtual std::string keep_alive() const { return std::string(kKeepAliveComment); }
  /// True if waiting() is worth asking the daemon for.
  virtual bool tells_position() const { return false; }
  /// Returns what tells a client where its waiting request stands; empty: the form has no such
  /// thing.
  virtual std::string waiting(const wire::RequestInfo&) const { return {}; }
  virtual std::string open() = 0;
  virtual void update(const wire::RequestInfo& info) = 0;
  virtual std::string on_event(const wire::Event& event) = 0;
  virtual std::string on_fin(const wire::RequestInfo& info) = 0;
  virtual std::string on_failure(const wire::Refusal& refusal) = 0;
};

/// Writes the events of one attachment. Every event has an id from which a later renderer continues
/// without loss or repetition: it is fed from index 0 again and given the id's indexes as
/// `resume_from`. Not thread-safe.
class StreamRenderer final : public EventWriter {
 public:
  /// `resume_from`: the indexes of the id with which the client came back; empty for a stream from
  /// the start.
  StreamRenderer(const Shape& shape, wire::RequestInfo info, std::vector<std::int64_t> resume_from);

  /// Returns the first events, with empty text: they give the client an id with which to come back.
  std::string open() override;
  /// Takes newer facts of the request (prompt text, resolved model).
  void update(const wire::RequestInfo& info) override { info_ = info; }
  std::string on_event(const wire::Event& event) override;
  /// Returns finish reasons, usage and [DONE].
  std::string on_fin(const wire::RequestInfo& info) override;
  /// Returns an error event and [DONE], if the stream cannot go on (unknown request, refused).
  std::string on_failure(const wire::Refusal& refusal) override;

  int choices() const { return static_cast<int>(texts_.size()); }

 private:
  std::string id() const;
  std::string chunk(const std::string& choices) const;
  std::string choice_json(int choice, const ChatDelta& delta, bool role,
                          const std::string& finish) const;
  std::string delta_json(int choice, const chat::OutputDelta& delta, bool role) const;
  bool add_echo(int choice, ChatDelta& delta);
  /// True if the worker generates nothing: the answer is the prompt alone.
  bool echo_only() const {
    return info_.echo && info_.max_tokens == 0 && info_.sampling.prompt_logprobs < 0;
  }

  Shape shape_;
  wire::RequestInfo info_;
  std::vector<std::int64_t> resume_from_;
  bool resumed_;  // the client came back with an id
  std::vector<ChatText> texts_;
  std::vector<bool> echoed_;
  std::vector<std::optional<wire::PromptScores>> scores_;  // until sent with the prompt
};

/// An answer in one document.
class WholeAnswer {
 public:
  virtual ~WholeAnswer() = default;
  virtual void update(const wire::RequestInfo& info) = 0;
  virtual void on_event(const wire::Event& event) = 0;
  /// Returns 200 with the document, or the error of a request that failed.
  virtual Response on_fin(const wire::RequestInfo& info) = 0;
};

/// Gathers a whole text. Not thread-safe.
class Collector final : public WholeAnswer {
 public:
  Collector(const Shape& shape, wire::RequestInfo info);
  void update(const wire::RequestInfo& info) override { info_ = info; }
  void on_event(const wire::Event& event) override;
  Response on_fin(const wire::RequestInfo& info) override;

 private:
  Shape shape_;
  wire::RequestInfo info_;
  std::string message_json(int choice, const std::string& text) const;
  std::string choice_json(int index, std::size_t c, const std::string& finish) const;
  std::string prompt_member(std::size_t c) const;
  std::vector<std::size_t> returned_choices() const;
  std::vector<ChatText> texts_;
  struct Part {  // of one choice
    std::optional<wire::PromptScores> scores;
    std::string content;
    std::string reasoning;
    std::vector<chat::CallDelta> calls;
    std::vector<TokenLog> logs;
    void add(ChatDelta delta);
  };
  std::vector<Part> parts_;
};

/// Returns "cmpl-ID", "chatcmpl-ID", "embd-ID" or "msg_ID".
std::string public_id(Api api, const std::string& request_id);

/// Returns the id of a call: nine letters and digits, the same whenever the answer is shown. Some
/// chat templates require exactly nine.
std::string call_id(const std::string& request_id, int choice, int call);

/// Returns the name that the client asked for: an alias may move a request to another model before
/// its first token.
const std::string& model_name(const wire::RequestInfo& info);

/// Parts of a request's token counts.
struct UsageDetails {
  std::int64_t cached = 0;     // of its prompts
  std::int64_t reasoning = 0;  // of its answers
};
/// Counts over `texts`, which are all choices. Choices of one prompt share it, so it counts once.
/// Returns nullopt if the request was made without Shape::usage_details: its answer shows none.
std::optional<UsageDetails> usage_details(const Shape& shape, const wire::RequestInfo& info,
                                          const std::vector<ChatText>& texts);

/// Returns {"prompt_tokens":…,"completion_tokens":…,"total_tokens":…}, with details where known.
std::string usage_json(const wire::RequestInfo& info,
                       const std::optional<UsageDetails>& details = {});

/// Returns why a choice ended, in OpenAI's words ("stop", "length") or ours ("cancelled",
/// "expired", "error").
std::string finish_word(const wire::RequestInfo& info, int choice);

/// Returns the error of a choice or request that ended with one.
wire::Refusal failure_of(const wire::RequestInfo& info, int choice);

}  // namespace holdfast::gateway
