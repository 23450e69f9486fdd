#pragma once
// Answers in Ollama's shapes: lines of JSON, of which the last says how the answer ended, or one
// document.

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "control/gateway/common/render.h"
#include "control/gateway/common/vectors.h"

namespace holdfast::gateway {

/// A call of a tool as it comes: its arguments are text until it is whole.
struct OllamaCall {
  std::string name;
  std::string arguments;
};

/// A part of the answer: a line of a stream, or all of it.
struct OllamaPart {
  std::string content;
  std::string thinking;
  std::vector<OllamaCall> calls;
  std::vector<TokenLog> logs;
  bool empty() const {
    return content.empty() && thinking.empty() && calls.empty() && logs.empty();
  }
};

/// Makes parts of a request's events. A call is in a part once it is whole. Not thread-safe.
class OllamaText {
 public:
  OllamaText(const Shape& shape, const wire::RequestInfo& info);
  OllamaPart feed(const wire::Event& event);
  /// Returns the rest, after the last event.
  OllamaPart finish();
  /// Time between the first event and now; nullopt before the first.
  std::optional<std::chrono::nanoseconds> generating() const;

 private:
  void add(ChatDelta delta, OllamaPart* part);

  ChatText text_;
  bool with_logs_;
  std::optional<OllamaCall> open_call_;
  std::optional<std::chrono::steady_clock::time_point> first_;
};

/// Writes the answer as lines of JSON. Not thread-safe.
class OllamaWriter final : public EventWriter {
 public:
  OllamaWriter(const Shape& shape, wire::RequestInfo info);
  std::string content_type() const override { return "application/x-ndjson"; }
  /// Returns a line without text.
  std::string keep_alive() const override;
  bool tells_position() const override { return true; }
  /// Returns a line without text that has queue_position and eta_ms as well.
  std::string waiting(const wire::RequestInfo& info) const override;
  std::string open() override { return {}; }
  void update(const wire::RequestInfo& info) override { info_ = info; }
  std::string on_event(const wire::Event& event) override;
  std::string on_fin(const wire::RequestInfo& info) override;
  std::string on_failure(const wire::Refusal& refusal) override;

 private:
  Shape shape_;
  wire::RequestInfo info_;
  OllamaText text_;
  int calls_ = 0;
};

/// Gathers the answer as one document. Not thread-safe.
class OllamaCollector final : public WholeAnswer {
 public:
  OllamaCollector(const Shape& shape, wire::RequestInfo info);
  void update(const wire::RequestInfo& info) override { info_ = info; }
  void on_event(const wire::Event& event) override;
  Response on_fin(const wire::RequestInfo& info) override;

 private:
  Shape shape_;
  wire::RequestInfo info_;
  OllamaText text_;
  OllamaPart whole_;
};

/// Gathers vectors as /api/embed and /api/embeddings show them. Not thread-safe.
class OllamaVectors final : public WholeAnswer {
 public:
  OllamaVectors(const Shape& shape, wire::RequestInfo info);
  void update(const wire::RequestInfo& info) override { vectors_.update(info); }
  void on_event(const wire::Event& event) override { vectors_.on_event(event); }
  Response on_fin(const wire::RequestInfo& info) override;

 private:
  Shape shape_;
  VectorCollector vectors_;
};

/// Says that a model is loaded, when the request that loaded it has ended. Not thread-safe.
class OllamaLoaded final : public WholeAnswer {
 public:
  explicit OllamaLoaded(bool chat) : chat_(chat) {}
  void update(const wire::RequestInfo&) override {}
  void on_event(const wire::Event&) override {}
  Response on_fin(const wire::RequestInfo& info) override;

 private:
  bool chat_;
};

}  // namespace holdfast::gateway
