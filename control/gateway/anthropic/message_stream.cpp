#include "control/gateway/anthropic/message_stream.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "control/gateway/http/errors.h"
#include "control/gateway/http/sse.h"
#include "shared/base/json_text.h"

namespace holdfast::gateway {

using json = nlohmann::ordered_json;

namespace {

std::string dump(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

json block_json(const std::string& request_id, const MessageBlock& block, int call, bool whole) {
  switch (block.kind) {
    case MessageBlock::Kind::kThinking:
      return {{"type", "thinking"}, {"thinking", whole ? block.text : ""}, {"signature", ""}};
    case MessageBlock::Kind::kText:
      return {{"type", "text"}, {"text", whole ? block.text : ""}};
    case MessageBlock::Kind::kCall:
      break;
  }
  json input = whole ? try_parse_json<json>(block.text) : json::object();
  if (!input.is_object()) input = json::object();  // it was cut off
  return {{"type", "tool_use"},
          {"id", "toolu_" + call_id(request_id, 0, call)},
          {"name", block.name},
          {"input", std::move(input)}};
}

/// Returns the usage: Anthropic counts cached tokens apart from the input.
json usage_of(const wire::RequestInfo& info, const ChatText& text) {
  const json usage = try_parse_json<json>(usage_json(info));
  const std::int64_t prompt = usage["prompt_tokens"].get<std::int64_t>();
  return {{"input_tokens", std::max<std::int64_t>(prompt - text.cached_tokens(), 0)},
          {"cache_creation_input_tokens", 0},
          {"cache_read_input_tokens", text.cached_tokens()},
          {"output_tokens", usage["completion_tokens"]}};
}

/// Returns stop_reason and stop_sequence.
json stop_of(const wire::RequestInfo& info, const ChatText& text) {
  const std::string finish = finish_word(info, 0);
  const int stop = text.stop_index();
  if (stop >= 0 && static_cast<std::size_t>(stop) < info.stops.size()) {
    return {{"stop_reason", "stop_sequence"},
            {"stop_sequence", info.stops[static_cast<std::size_t>(stop)]}};
  }
  const char* reason = finish == "length" ? "max_tokens"
                       : text.calls() > 0 ? "tool_use"
                                          : "end_turn";
  return {{"stop_reason", reason}, {"stop_sequence", nullptr}};
}

json message_json(const wire::RequestInfo& info, const ChatText& text, json content,
                  const json& stop) {
  json out = {{"id", public_id(Api::kMessages, info.request_id)},
              {"type", "message"},
              {"role", "assistant"},
              {"model", model_name(info)},
              {"content", std::move(content)}};
  out["stop_reason"] = stop["stop_reason"];
  out["stop_sequence"] = stop["stop_sequence"];
  out["usage"] = usage_of(info, text);
  return out;
}

}  // namespace

MessageWriter::MessageWriter(const Shape& shape, wire::RequestInfo info,
                             std::vector<std::int64_t> resume_from)
    : info_(std::move(info)),
      after_(resume_from.empty() ? -1 : resume_from[0]),
      text_(info_.stops, 0, false, parse_options(shape)) {}

void MessageWriter::say(const char* type, const std::string& data) {
  const std::int64_t number = number_++;
  if (number <= after_) return;
  out_ += "event: " + std::string(type) + "\n";
  append_event(out_, info_.request_id + "." + std::to_string(number), data);
}

std::string MessageWriter::open() {
  out_ = kRetryLine;
  const json none = {{"stop_reason", nullptr}, {"stop_sequence", nullptr}};
  json message = message_json(info_, text_, json::array(), none);
  message["usage"]["output_tokens"] = 0;  // the same whenever the stream is opened
  say("message_start", dump({{"type", "message_start"}, {"message", message}}));
  return std::exchange(out_, {});
}

void MessageWriter::begin(MessageBlock::Kind kind, const std::string& name) {
  if (open_ && blocks_.back().kind == kind && kind != MessageBlock::Kind::kCall) return;
  close();
  blocks_.push_back({kind, "", name});
  open_ = true;
  say("content_block_start", dump({{"type", "content_block_start"},
                                   {"index", blocks_.size() - 1},
                                   {"content_block", block_json(info_.request_id, blocks_.back(),
                                                                text_.calls() - 1, false)}}));
}

void MessageWriter::write_delta(const char* type, const char* member, const std::string& text) {
  if (text.empty()) return;
  blocks_.back().text += text;
  say("content_block_delta", dump({{"type", "content_block_delta"},
                                   {"index", blocks_.size() - 1},
                                   {"delta", {{"type", type}, {member, text}}}}));
}

void MessageWriter::close() {
  if (!std::exchange(open_, false)) return;
  say("content_block_stop", dump({{"type", "content_block_stop"}, {"index", blocks_.size() - 1}}));
}

void MessageWriter::take(const ChatDelta& delta) {
  if (!delta.out.reasoning.empty()) {
    begin(MessageBlock::Kind::kThinking, "");
    write_delta("thinking_delta", "thinking", delta.out.reasoning);
  }
  if (!delta.out.content.empty()) {
    begin(MessageBlock::Kind::kText, "");
    write_delta("text_delta", "text", delta.out.content);
  }
  for (const chat::CallDelta& call : delta.out.calls) {
    if (!call.name.empty()) begin(MessageBlock::Kind::kCall, call.name);
    write_delta("input_json_delta", "partial_json", call.arguments);
  }
}

std::string MessageWriter::on_event(const wire::Event& event) {
  if (event.choice != 0) return {};
  for (std::size_t i = 0; i < event.ids.size() && i < event.ends.size(); ++i) {
    take(text_.feed(one_token(event, i), false));
  }
  return std::exchange(out_, {});
}

std::string MessageWriter::on_fin(const wire::RequestInfo& info) {
  info_ = info;
  take(text_.finish());
  close();
  const std::string finish = finish_word(info_, 0);
  if (finish == "error" || finish == "expired") return on_failure(failure_of(info_, 0));
  say("message_delta", dump({{"type", "message_delta"},
                             {"delta", stop_of(info_, text_)},
                             {"usage", usage_of(info_, text_)}}));
  say("message_stop", R"({"type":"message_stop"})");
  return std::exchange(out_, {});
}

std::string MessageWriter::on_failure(const wire::Refusal& refusal) {
  say("error", error_for("/v1/messages", http_status(refusal.code), error_body(refusal, "")));
  return std::exchange(out_, {});
}

MessageCollector::MessageCollector(const Shape& shape, wire::RequestInfo info)
    : writer_(shape, std::move(info), {INT64_MAX}) {}

Response MessageCollector::on_fin(const wire::RequestInfo& info) {
  (void)writer_.on_fin(info);
  const std::string finish = finish_word(info, 0);
  if (finish == "error" || finish == "expired") return error_response(failure_of(info, 0));
  json content = json::array();
  int calls = 0;
  for (const MessageBlock& block : writer_.blocks()) {
    const bool call = block.kind == MessageBlock::Kind::kCall;
    content.push_back(block_json(info.request_id, block, call ? calls++ : 0, true));
  }
  Response response;
  const ChatText& text = writer_.text();
  response.body = dump(message_json(info, text, std::move(content), stop_of(info, text)));
  return response;
}

}  // namespace holdfast::gateway
