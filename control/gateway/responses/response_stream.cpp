#include "control/gateway/responses/response_stream.h"

#include <nlohmann/json.hpp>

#include "control/gateway/common/render.h"
#include "control/gateway/http/sse.h"
#include "shared/base/json_text.h"

namespace holdfast::gateway {

using json = nlohmann::ordered_json;

json stream_error(const wire::Refusal& refusal) {
  const json body = try_parse_json<json>(error_body(refusal, ""));
  return {
      {"code", body["error"]["code"]}, {"message", body["error"]["message"]}, {"param", nullptr}};
}

ResponseStream::ResponseStream(const Shape& shape, wire::RequestInfo info, std::string echo,
                               std::int64_t after)
    : info_(std::move(info)),
      echo_(std::move(echo)),
      after_(after),
      text_(info_.stops, 0, false, parse_options(shape)) {}

void ResponseStream::say(const char* type, json event) {
  const std::int64_t number = number_++;
  if (number <= after_) return;
  json data = {{"type", type}, {"sequence_number", number}};
  for (auto& [name, value] : event.items()) data[name] = std::move(value);
  out_ += "event: " + std::string(type) + "\n";
  append_event(out_, info_.request_id + "." + std::to_string(number),
               data.dump(-1, ' ', false, json::error_handler_t::replace));
}

/// Adds an event with the whole response in it.
void ResponseStream::whole(const char* type) {
  say(type, {{"response",
              response_json(info_, echo_, output_items(info_.request_id, parts_), parts_.usage)}});
}

std::string ResponseStream::open() {
  out_ = kRetryLine;
  // The first events show the state at the start, whenever the stream is opened.
  const wire::RequestInfo now = info_;
  info_.state = wire::RequestState::kQueued;
  whole("response.created");
  info_.state = wire::RequestState::kRunning;
  whole("response.in_progress");
  info_ = now;
  return std::exchange(out_, {});
}

std::string ResponseStream::part_text() const {
  switch (open_) {
    case Open::kReasoning:
      return parts_.reasoning.substr(from_);
    case Open::kMessage:
      return parts_.content.substr(from_);
    case Open::kCall:
      return parts_.calls.back().arguments;
    case Open::kNothing:
      break;
  }
  return {};
}

void ResponseStream::begin(Open what) {
  if (open_ == what && what != Open::kCall) return;
  close();
  open_ = what;
  const std::string& id = info_.request_id;
  json item;
  if (what == Open::kReasoning) {
    from_ = parts_.reasoning.size();
    item = reasoning_item(id, "", "in_progress");
  } else if (what == Open::kMessage) {
    from_ = parts_.content.size();
    item = message_item(id, "", "in_progress");
  } else {
    item = call_item(id, static_cast<int>(parts_.calls.size()) - 1, {parts_.calls.back().name, ""},
                     "in_progress");
  }
  say("response.output_item.added", {{"output_index", items_}, {"item", item}});
  if (what == Open::kMessage) {
    say("response.content_part.added",
        {{"item_id", item["id"]},
         {"output_index", items_},
         {"content_index", 0},
         {"part", {{"type", "output_text"}, {"text", ""}, {"annotations", json::array()}}}});
  }
  ++items_;
}

void ResponseStream::close() {
  if (open_ == Open::kNothing) return;
  const std::string& id = info_.request_id;
  const std::string text = part_text();
  const int index = items_ - 1;
  json item;
  if (open_ == Open::kReasoning) {
    item = reasoning_item(id, text, "completed");
    say("response.reasoning_text.done",
        {{"item_id", item["id"]}, {"output_index", index}, {"content_index", 0}, {"text", text}});
  } else if (open_ == Open::kMessage) {
    item = message_item(id, text, "completed");
    const json where = {{"item_id", item["id"]}, {"output_index", index}, {"content_index", 0}};
    json done = where;
    done["text"] = text;
    done["logprobs"] = json::array();
    say("response.output_text.done", std::move(done));
    json part = where;
    part["part"] = {{"type", "output_text"}, {"text", text}, {"annotations", json::array()}};
    say("response.content_part.done", std::move(part));
  } else {
    item =
        call_item(id, static_cast<int>(parts_.calls.size()) - 1, parts_.calls.back(), "completed");
    say("response.function_call_arguments.done",
        {{"item_id", item["id"]}, {"output_index", index}, {"arguments", text}});
  }
  say("response.output_item.done", {{"output_index", index}, {"item", std::move(item)}});
  open_ = Open::kNothing;
}

void ResponseStream::take(const ChatDelta& delta) {
  const std::string& id = info_.request_id;
  const auto said = [&](const char* type, const std::string& item, const std::string& text,
                        bool in_content) {
    json event = {{"item_id", item + id}, {"output_index", items_ - 1}};
    if (in_content) event["content_index"] = 0;
    event["delta"] = text;
    say(type, std::move(event));
  };
  if (!delta.out.reasoning.empty()) {
    begin(Open::kReasoning);
    parts_.reasoning += delta.out.reasoning;
    said("response.reasoning_text.delta", "rs_", delta.out.reasoning, true);
  }
  if (!delta.out.content.empty()) {
    begin(Open::kMessage);
    parts_.content += delta.out.content;
    said("response.output_text.delta", "msg_", delta.out.content, true);
  }
  for (const chat::CallDelta& call : delta.out.calls) {
    if (!call.name.empty() || parts_.calls.empty()) {
      parts_.calls.push_back({call.name, ""});
      begin(Open::kCall);
    }
    if (call.arguments.empty()) continue;
    parts_.calls.back().arguments += call.arguments;
    json event = {{"item_id", "fc_" + id + "_" + std::to_string(parts_.calls.size() - 1)},
                  {"output_index", items_ - 1},
                  {"delta", call.arguments}};
    say("response.function_call_arguments.delta", std::move(event));
  }
}

std::string ResponseStream::on_event(const wire::Event& event) {
  if (event.choice != 0) return {};
  for (std::size_t i = 0; i < event.ids.size() && i < event.ends.size(); ++i) {
    take(text_.feed(one_token(event, i), false));
  }
  return std::exchange(out_, {});
}

std::string ResponseStream::on_fin(const wire::RequestInfo& info) {
  info_ = info;
  take(text_.finish());
  close();
  parts_.ended = true;
  parts_.usage = {text_.cached_tokens(), text_.reasoning_tokens()};
  const std::string status = response_status(info_);
  whole(("response." + status).c_str());
  return std::exchange(out_, {});
}

std::string ResponseStream::on_failure(const wire::Refusal& refusal) {
  say("error", stream_error(refusal));
  return std::exchange(out_, {});
}

}  // namespace holdfast::gateway
