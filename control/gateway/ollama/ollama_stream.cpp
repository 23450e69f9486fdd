#include "control/gateway/ollama/ollama_stream.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "control/gateway/common/logprobs.h"
#include "control/gateway/http/errors.h"
#include "shared/base/iso_time.h"
#include "shared/base/json_text.h"

namespace holdfast::gateway {

using json = nlohmann::ordered_json;

namespace {

constexpr std::int64_t kNanosecondsOfMs = 1'000'000;

std::string dump(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

json calls_json(const std::string& request_id, const std::vector<OllamaCall>& calls, int first) {
  json out = json::array();
  for (const OllamaCall& call : calls) {
    json arguments = try_parse_json<json>(call.arguments);
    if (!arguments.is_object()) arguments = json::object();  // it was cut off
    const int index = first + static_cast<int>(out.size());
    out.push_back({{"id", "call_" + call_id(request_id, 0, index)},
                   {"function",
                    {{"index", index}, {"name", call.name}, {"arguments", std::move(arguments)}}}});
  }
  return out;
}

/// The members of a line that hold text. `first_call`: the number of calls in earlier lines.
json line_of(const Shape& shape, const wire::RequestInfo& info, const OllamaPart& part,
             int first_call) {
  json line = {{"model", model_name(info)}, {"created_at", iso_time(info.created_ms)}};
  json calls = calls_json(info.request_id, part.calls, first_call);
  if (shape.api == Api::kOllamaChat) {
    json message = {{"role", "assistant"}, {"content", part.content}};
    if (!part.thinking.empty()) message["thinking"] = part.thinking;
    if (!calls.empty()) message["tool_calls"] = std::move(calls);
    line["message"] = std::move(message);
  } else {
    line["response"] = part.content;
    if (!part.thinking.empty()) line["thinking"] = part.thinking;
    if (!calls.empty()) line["tool_calls"] = std::move(calls);
  }
  if (!part.logs.empty()) {
    const json logs = try_parse_json<json>(logprobs_json(Api::kChat, part.logs));
    if (logs.is_object() && logs.contains("content")) line["logprobs"] = logs["content"];
  }
  line["done"] = false;
  return line;
}

/// Adds how the answer ended and what it took, as far as that is known.
void add_end(json& line, const wire::RequestInfo& info,
             const std::optional<std::chrono::nanoseconds>& generating) {
  const json usage = try_parse_json<json>(usage_json(info));
  line["done"] = true;
  line["done_reason"] = finish_word(info, 0) == "length" ? "length" : "stop";
  const std::int64_t total =
      std::max<std::int64_t>(info.finished_ms - info.created_ms, 0) * kNanosecondsOfMs;
  line["total_duration"] = total;
  line["load_duration"] = 0;  // a wait for the model is part of the wait for a worker
  line["prompt_eval_count"] = usage["prompt_tokens"];
  if (generating) {
    line["prompt_eval_duration"] = std::max<std::int64_t>(total - generating->count(), 0);
  }
  line["eval_count"] = usage["completion_tokens"];
  if (generating) line["eval_duration"] = generating->count();
}

bool has_failed(const wire::RequestInfo& info) {
  const std::string finish = finish_word(info, 0);
  return finish == "error" || finish == "expired";
}

}  // namespace

OllamaText::OllamaText(const Shape& shape, const wire::RequestInfo& info)
    : text_(info.stops, 0, info.sampling.logprobs >= 0, parse_options(shape)),
      with_logs_(info.sampling.logprobs >= 0) {}

void OllamaText::add(ChatDelta delta, OllamaPart* part) {
  part->content += delta.out.content;
  part->thinking += delta.out.reasoning;
  for (const chat::CallDelta& call : delta.out.calls) {
    if (!call.name.empty()) {
      if (open_call_) part->calls.push_back(std::move(*open_call_));
      open_call_ = OllamaCall{call.name, ""};
    }
    if (open_call_) open_call_->arguments += call.arguments;
  }
  if (!with_logs_) return;
  for (TokenLog& log : delta.logs) part->logs.push_back(std::move(log));
}

OllamaPart OllamaText::feed(const wire::Event& event) {
  OllamaPart part;
  if (event.choice != 0) return part;
  if (!first_) first_ = std::chrono::steady_clock::now();
  for (std::size_t i = 0; i < event.ids.size() && i < event.ends.size(); ++i) {
    add(text_.feed(one_token(event, i), false), &part);
  }
  return part;
}

OllamaPart OllamaText::finish() {
  OllamaPart part;
  add(text_.finish(), &part);
  if (open_call_) part.calls.push_back(std::move(*open_call_));
  open_call_.reset();
  return part;
}

std::optional<std::chrono::nanoseconds> OllamaText::generating() const {
  if (!first_) return std::nullopt;
  return std::chrono::steady_clock::now() - *first_;
}

OllamaWriter::OllamaWriter(const Shape& shape, wire::RequestInfo info)
    : shape_(shape), info_(std::move(info)), text_(shape_, info_) {}

std::string OllamaWriter::keep_alive() const {
  return dump(line_of(shape_, info_, {}, 0)) + "\n";
}

std::string OllamaWriter::waiting(const wire::RequestInfo& info) const {
  json line = line_of(shape_, info_, {}, 0);
  line["queue_position"] = info.queue_position;
  if (info.eta_ms >= 0) line["eta_ms"] = info.eta_ms;
  return dump(line) + "\n";
}

std::string OllamaWriter::on_event(const wire::Event& event) {
  const OllamaPart part = text_.feed(event);
  if (part.empty()) return {};
  const int first = std::exchange(calls_, calls_ + static_cast<int>(part.calls.size()));
  return dump(line_of(shape_, info_, part, first)) + "\n";
}

std::string OllamaWriter::on_fin(const wire::RequestInfo& info) {
  info_ = info;
  const OllamaPart rest = text_.finish();
  std::string out;
  if (!rest.empty()) out += dump(line_of(shape_, info_, rest, calls_)) + "\n";
  if (has_failed(info_)) return out + on_failure(failure_of(info_, 0));
  json line = line_of(shape_, info_, {}, 0);
  add_end(line, info_, text_.generating());
  return out + dump(line) + "\n";
}

std::string OllamaWriter::on_failure(const wire::Refusal& refusal) {
  return error_for(api_path(shape_.api), http_status(refusal.code), error_body(refusal, "")) + "\n";
}

OllamaCollector::OllamaCollector(const Shape& shape, wire::RequestInfo info)
    : shape_(shape), info_(std::move(info)), text_(shape_, info_) {}

void OllamaCollector::on_event(const wire::Event& event) {
  OllamaPart part = text_.feed(event);
  whole_.content += part.content;
  whole_.thinking += part.thinking;
  std::move(part.calls.begin(), part.calls.end(), std::back_inserter(whole_.calls));
  std::move(part.logs.begin(), part.logs.end(), std::back_inserter(whole_.logs));
}

Response OllamaCollector::on_fin(const wire::RequestInfo& info) {
  info_ = info;
  if (has_failed(info_)) return error_response(failure_of(info_, 0));
  OllamaPart rest = text_.finish();
  whole_.content += rest.content;
  whole_.thinking += rest.thinking;
  std::move(rest.calls.begin(), rest.calls.end(), std::back_inserter(whole_.calls));
  std::move(rest.logs.begin(), rest.logs.end(), std::back_inserter(whole_.logs));
  json document = line_of(shape_, info_, whole_, 0);
  add_end(document, info_, text_.generating());
  Response response;
  response.body = dump(document);
  return response;
}

OllamaVectors::OllamaVectors(const Shape& shape, wire::RequestInfo info)
    : shape_(shape), vectors_(shape, std::move(info)) {}

Response OllamaVectors::on_fin(const wire::RequestInfo& info) {
  Response response = vectors_.on_fin(info);
  if (response.status != 200) return response;
  json document = try_parse_json<json>(response.body);
  json vectors = json::array();
  for (json& one : document["data"]) vectors.push_back(std::move(one["embedding"]));
  if (shape_.api == Api::kOllamaEmbeddings) {
    response.body = dump({{"embedding", vectors.empty() ? json::array() : vectors[0]}});
    return response;
  }
  std::int64_t prompt = 0;
  for (const std::int64_t n : info.prompt_tokens) prompt += n;
  response.body = dump({{"model", model_name(info)},
                        {"embeddings", std::move(vectors)},
                        {"total_duration", (info.finished_ms - info.created_ms) * kNanosecondsOfMs},
                        {"load_duration", 0},
                        {"prompt_eval_count", prompt}});
  return response;
}

Response OllamaLoaded::on_fin(const wire::RequestInfo& info) {
  if (has_failed(info)) return error_response(failure_of(info, 0));
  json document = {{"model", model_name(info)}, {"created_at", iso_time(info.created_ms)}};
  if (chat_) {
    document["message"] = {{"role", "assistant"}, {"content", ""}};
  } else {
    document["response"] = "";
  }
  document["done"] = true;
  document["done_reason"] = "load";
  Response response;
  response.body = dump(document);
  return response;
}

}  // namespace holdfast::gateway
