#pragma once
// The answer of /v1/messages in Anthropic's shapes: one document, or typed events, which are a
// function of the tokens alone and numbered by their ids (REQUEST.NUMBER).

#include <string>
#include <vector>

#include "control/gateway/common/render.h"

namespace holdfast::gateway {

/// One block of the answer; both shapes consist of blocks in the order in which they came.
struct MessageBlock {
  enum class Kind : std::uint8_t { kThinking, kText, kCall };
  Kind kind = Kind::kText;
  std::string text;  // a call's arguments, JSON
  std::string name;  // of the call's function
};

/// Writes the answer as typed events. Not thread-safe.
class MessageWriter final : public EventWriter {
 public:
  /// `resume_from`: the number of the last event that the client has; empty for none.
  MessageWriter(const Shape& shape, wire::RequestInfo info, std::vector<std::int64_t> resume_from);
  std::string open() override;
  void update(const wire::RequestInfo& info) override { info_ = info; }
  std::string on_event(const wire::Event& event) override;
  std::string on_fin(const wire::RequestInfo& info) override;
  std::string on_failure(const wire::Refusal& refusal) override;

  const std::vector<MessageBlock>& blocks() const { return blocks_; }
  const ChatText& text() const { return text_; }

 private:
  void take(const ChatDelta& delta);
  void begin(MessageBlock::Kind kind, const std::string& name);
  void write_delta(const char* type, const char* member, const std::string& text);
  void close();
  void say(const char* type, const std::string& data);

  wire::RequestInfo info_;
  std::int64_t after_;
  std::int64_t number_ = 0;
  ChatText text_;
  std::vector<MessageBlock> blocks_;
  bool open_ = false;  // the last block is
  std::string out_;
};

/// Gathers the answer as one document. Not thread-safe.
class MessageCollector final : public WholeAnswer {
 public:
  MessageCollector(const Shape& shape, wire::RequestInfo info);
  void update(const wire::RequestInfo& info) override { writer_.update(info); }
  void on_event(const wire::Event& event) override { (void)writer_.on_event(event); }
  Response on_fin(const wire::RequestInfo& info) override;

 private:
  MessageWriter writer_;
};

}  // namespace holdfast::gateway
