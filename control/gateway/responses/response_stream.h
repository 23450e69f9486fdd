#pragma once
// The answer of a response as it comes: gathered, and as OpenAI's stream of typed events. The
// events are a function of the tokens alone, token by token, so a stream that is resumed numbers
// them the same.

#include <cstdint>
#include <optional>
#include <string>

#include "control/gateway/common/chat_text.h"
#include "control/gateway/http/shape.h"
#include "control/gateway/responses/response_body.h"

namespace holdfast::gateway {

/// Returns an error in the form of a response's stream: {"code":…,"message":…,"param":null}.
nlohmann::ordered_json stream_error(const wire::Refusal& refusal);

/// Gathers the answer and writes its events. Not thread-safe.
class ResponseStream {
 public:
  /// `after`: the number of the last event that the client has, -1 for none.
  ResponseStream(const Shape& shape, wire::RequestInfo info, std::string echo, std::int64_t after);

  std::string open();
  void update(const wire::RequestInfo& info) { info_ = info; }
  std::string on_event(const wire::Event& event);
  std::string on_fin(const wire::RequestInfo& info);
  std::string on_failure(const wire::Refusal& refusal);

  /// The answer so far.
  const TurnParts& parts() const { return parts_; }

 private:
  enum class Open : std::uint8_t { kNothing, kReasoning, kMessage, kCall };
  void take(const ChatDelta& delta);
  void begin(Open what);
  void close();
  void say(const char* type, nlohmann::ordered_json event);
  void whole(const char* type);
  std::string part_text() const;

  wire::RequestInfo info_;
  std::string echo_;
  std::int64_t after_;
  std::int64_t number_ = 0;  // of the next event
  ChatText text_;
  TurnParts parts_;
  Open open_ = Open::kNothing;
  int items_ = 0;         // number of items begun
  std::size_t from_ = 0;  // where the open item's text begins in its part
  std::string out_;
};

}  // namespace holdfast::gateway
