#include "control/gateway/common/render.h"

#include <algorithm>
#include <numeric>

#include "control/gateway/common/logprobs.h"
#include "control/gateway/http/errors.h"
#include "control/gateway/http/json_body.h"
#include "control/gateway/http/sse.h"
#include "shared/base/log.h"

namespace holdfast::gateway {
namespace {

std::vector<ChatText> make_texts(const Shape& shape, const wire::RequestInfo& info,
                                 const std::vector<std::int64_t>& resume_from) {
  const std::size_t count = std::max<std::size_t>(
      {info.choices.size(), static_cast<std::size_t>(std::max(shape.choices, 1))});
  std::vector<ChatText> out;
  out.reserve(count);
  const auto parse = parse_options(shape);
  for (std::size_t c = 0; c < count; ++c) {
    out.emplace_back(info.stops, c < resume_from.size() ? resume_from[c] : 0,
                     info.sampling.logprobs >= 0, parse);
  }
  return out;
}

const wire::ChoiceInfo* find_choice(const wire::RequestInfo& info, int choice) {
  for (const wire::ChoiceInfo& c : info.choices) {
    if (c.choice == choice) return &c;
  }
  return nullptr;
}

std::string prompt_text(const wire::RequestInfo& info, int choice) {
  const wire::ChoiceInfo* found = find_choice(info, choice);
  if (!info.echo || found == nullptr) return {};
  const auto prompt = static_cast<std::size_t>(std::max(found->prompt, 0));
  return prompt < info.prompt_text.size() ? clean_utf8(info.prompt_text[prompt]) : std::string();
}

/// Returns the members that all documents of a request share, up to "choices":.
std::string common_members(const Shape& shape, const wire::RequestInfo& info, bool stream) {
  std::string out = "{\"id\":";
  append_json_string(out, public_id(shape.api, info.request_id));
  out += shape.api == Api::kCompletions ? ",\"object\":\"text_completion\""
         : stream                       ? ",\"object\":\"chat.completion.chunk\""
                                        : ",\"object\":\"chat.completion\"";
  out += ",\"created\":" + std::to_string(info.created_ms / 1000) + ",\"model\":";
  append_json_string(out, model_name(info));
  if (!info.model_sha.empty()) {
    out += ",\"system_fingerprint\":";
    append_json_string(out, "fp_" + info.model_sha.substr(0, 12));
  }
  out += ",\"choices\":";
  return out;
}

/// Returns the function of a call, whole or the part that a delta has.
std::string function_json(const chat::CallDelta& call) {
  std::string out = "{";
  if (!call.name.empty()) {
    out += "\"name\":";
    append_json_string(out, call.name);
    out += ",";
  }
  out += "\"arguments\":";
  append_json_string(out, call.arguments);
  return out + "}";
}

std::string call_json(const std::string& request_id, int choice, const chat::CallDelta& call,
                      bool with_index) {
  std::string out = "{";
  if (with_index) out += "\"index\":" + std::to_string(call.index) + ",";
  if (!call.name.empty()) {
    out += "\"id\":\"" + call_id(request_id, choice, call.index) + "\",\"type\":\"function\",";
  }
  return out + "\"function\":" + function_json(call) + "}";
}

/// Returns the member with the calls and a comma before it; empty if none is shown. The older form
/// (function_call) has one call at most.
std::string calls_member(const Shape& shape, const std::string& request_id, int choice,
                         const std::vector<chat::CallDelta>& calls, bool with_index) {
  std::string list;
  for (const chat::CallDelta& call : calls) {
    if (shape.function_call && call.index > 0) break;
    if (shape.function_call) return ",\"function_call\":" + function_json(call);
    list += (list.empty() ? "" : ",") + call_json(request_id, choice, call, with_index);
  }
  return list.empty() ? list : ",\"tool_calls\":[" + list + "]";
}

/// Returns the finish reason: a text that ended by itself after a call waits for the call's result.
std::string with_calls(const Shape& shape, std::string finish, const ChatText& text) {
  if (finish != "stop" || text.calls() == 0) return finish;
  return shape.function_call ? "function_call" : "tool_calls";
}

/// Takes the prompt's scores, which come with the first token.
void take_scores(const wire::Event& event, std::optional<wire::PromptScores>& scores) {
  if (event.start > 0 || event.extra.empty()) return;
  scores = wire::read_prompt_scores(event.extra[0]);
}

/// Returns the value of "logprobs" for a part of an answer. `scores`: the prompt's, if it is in
/// this part.
std::string logs_json(Api api, const wire::RequestInfo& info, int choice,
                      const std::vector<TokenLog>& logs, const wire::PromptScores* scores) {
  const bool echoes = info.echo && info.sampling.logprobs >= 0;
  const std::string prompt = echoes ? prompt_text(info, choice) : std::string();
  const EchoLog echo{prompt, echoes ? scores : nullptr, info.sampling.logprobs};
  return logs.empty() && echo.scores == nullptr ? "null" : logprobs_json(api, logs, echo);
}

}  // namespace

std::string call_id(const std::string& request_id, int choice, int call) {
  constexpr char kLetters[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
  std::uint64_t hash = 0xcbf29ce484222325ULL;  // FNV-1a
  const auto add = [&](char c) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  };
  for (const char c : request_id) add(c);
  for (const char c : "/" + std::to_string(choice) + "/" + std::to_string(call)) add(c);
  std::string id;
  for (int i = 0; i < 9; ++i, hash /= 62) id += kLetters[hash % 62];
  return id;
}

std::string public_id(Api api, const std::string& request_id) {
  switch (api) {
    case Api::kChat:
      return "chatcmpl-" + request_id;
    case Api::kEmbeddings:
      return "embd-" + request_id;
    case Api::kMessages:
      return "msg_" + request_id;
    case Api::kTokens:
    case Api::kOllamaChat:
    case Api::kOllamaGenerate:
    case Api::kOllamaRaw:
    case Api::kOllamaEmbed:
    case Api::kOllamaEmbeddings:
      return request_id;  // its answers have none
    case Api::kCompletions:
      break;
  }
  return "cmpl-" + request_id;
}

const std::string& model_name(const wire::RequestInfo& info) {
  return info.alias.empty() ? info.model : info.alias;
}

std::optional<UsageDetails> usage_details(const Shape& shape, const wire::RequestInfo& info,
                                          const std::vector<ChatText>& texts) {
  if (!shape.usage_details) return std::nullopt;
  UsageDetails details;
  const std::size_t prompts = std::max<std::size_t>(info.prompt_tokens.size(), 1);
  const std::size_t each = std::max<std::size_t>(texts.size() / prompts, 1);
  for (std::size_t c = 0; c < texts.size(); ++c) {
    if (c % each == 0) details.cached += texts[c].cached_tokens();
    details.reasoning += texts[c].reasoning_tokens();
  }
  return details;
}

std::string usage_json(const wire::RequestInfo& info, const std::optional<UsageDetails>& details) {
  std::int64_t prompt = 0;
  std::int64_t completion = 0;
  for (const std::int64_t n : info.prompt_tokens) prompt += n;
  // With max_tokens 0 the worker's event is no token.
  for (const wire::ChoiceInfo& c : info.choices)
    completion += info.max_tokens == 0 ? 0 : c.next_index;
  std::string out = "{\"prompt_tokens\":" + std::to_string(prompt) +
                    ",\"completion_tokens\":" + std::to_string(completion) +
                    ",\"total_tokens\":" + std::to_string(prompt + completion);
  if (details) {
    out += ",\"prompt_tokens_details\":{\"cached_tokens\":" + std::to_string(details->cached) +
           "},\"completion_tokens_details\":{\"reasoning_tokens\":" +
           std::to_string(details->reasoning) + "}";
  }
  return out + "}";
}

std::string finish_word(const wire::RequestInfo& info, int choice) {
  const wire::ChoiceInfo* found = find_choice(info, choice);
  if (found != nullptr && found->finish != wire::FinishReason::kNone) {
    return std::string(wire::finish_name(found->finish));
  }
  switch (info.state) {
    case wire::RequestState::kCancelled:
      return "cancelled";
    case wire::RequestState::kExpired:
      return "expired";
    case wire::RequestState::kFailed:
    case wire::RequestState::kQuarantined:
      return "error";
    default:
      return "stop";
  }
}

wire::Refusal failure_of(const wire::RequestInfo& info, int choice) {
  wire::Refusal refusal;
  const wire::ChoiceInfo* found = find_choice(info, choice);
  if (found != nullptr && !found->error_code.empty()) {
    refusal.code = errc_from_name(found->error_code);
    refusal.message = found->error;
  } else if (finish_word(info, choice) == "expired") {
    refusal.code = Errc::kExpired;
  }
  if (refusal.message.empty()) {
    refusal.message =
        "request " + info.request_id + " ended as " + std::string(wire::state_name(info.state));
  }
  return refusal;
}

// ---------------------------------------------------------------- stream

StreamRenderer::StreamRenderer(const Shape& shape, wire::RequestInfo info,
                               std::vector<std::int64_t> resume_from)
    : shape_(shape),
      info_(std::move(info)),
      resume_from_(std::move(resume_from)),
      resumed_(!resume_from_.empty()) {
  texts_ = make_texts(shape_, info_, resume_from_);
  resume_from_.resize(texts_.size(), 0);
  echoed_.resize(texts_.size(), false);
  scores_.resize(texts_.size());
}

std::string StreamRenderer::id() const {
  EventId id{info_.request_id, {}};
  for (const ChatText& text : texts_) id.sent.push_back(text.sent());
  return format_event_id(id);
}

std::string StreamRenderer::chunk(const std::string& choices) const {
  std::string out = common_members(shape_, info_, true);
  out.append("[").append(choices).append("]");
  if (shape_.include_usage) out += ",\"usage\":null";
  out += "}";
  return out;
}

std::string StreamRenderer::delta_json(int choice, const chat::OutputDelta& delta,
                                       bool role) const {
  std::string out = "{";
  const auto member = [&](const char* name, const std::string& text) {
    out += (out.size() > 1 ? ",\"" : "\"") + std::string(name) + "\":";
    append_json_string(out, text);
  };
  if (role) member("role", "assistant");
  if (!delta.reasoning.empty()) member("reasoning_content", delta.reasoning);
  if (role || !delta.content.empty()) member("content", delta.content);
  const std::string calls = calls_member(shape_, info_.request_id, choice, delta.calls, true);
  out += calls.substr(out.size() > 1 || calls.empty() ? 0 : 1);
  return out + "}";
}

std::string StreamRenderer::choice_json(int choice, const ChatDelta& delta, bool role,
                                        const std::string& finish) const {
  std::string out = "{\"index\":" + std::to_string(choice);
  if (shape_.api == Api::kChat) {
    out += ",\"delta\":" + delta_json(choice, delta.out, role);
  } else {
    out += ",\"text\":";
    append_json_string(out, delta.out.content);
  }
  out += ",\"logprobs\":";
  const auto& scores = scores_[static_cast<std::size_t>(choice)];
  out += logs_json(shape_.api, info_, choice, delta.logs, scores ? &*scores : nullptr);
  out += ",\"finish_reason\":";
  if (finish.empty()) {
    out += "null}";
  } else {
    append_json_string(out, finish);
    out += "}";
  }
  return out;
}

/// Puts the prompt in front of the first token's text, if it was not sent yet: index 0 of an id
/// means that it was not. Returns true if it did.
bool StreamRenderer::add_echo(int choice, ChatDelta& delta) {
  const auto c = static_cast<std::size_t>(choice);
  if (echoed_[c] || resume_from_[c] > 0 || (resumed_ && echo_only())) return false;
  echoed_[c] = true;
  delta.out.content.insert(0, prompt_text(info_, choice));
  return true;
}

std::string StreamRenderer::open() {
  std::string out(kRetryLine);
  // If only the prompt is to come, index 0 must mean "has it": no id is given before that.
  if (echo_only()) return out;
  for (int c = 0; c < choices(); ++c) {
    const auto i = static_cast<std::size_t>(c);
    const bool role = shape_.api == Api::kChat && resume_from_[i] == 0;
    if (c == 0 || role) append_event(out, id(), chunk(choice_json(c, {}, role, "")));
  }
  return out;
}

namespace {

/// True if the text of the choice goes on with the event.
bool is_in_order(const wire::Event& event, const std::vector<ChatText>& texts) {
  const auto c = static_cast<std::size_t>(event.choice);
  return event.choice >= 0 && c < texts.size() && event.start <= texts[c].considered();
}

}  // namespace

std::string StreamRenderer::on_event(const wire::Event& event) {
  if (!is_in_order(event, texts_)) {
    log::error("token event out of order",
               {{"request", event.request_id}, {"choice", event.choice}, {"start", event.start}});
    return {};
  }
  const auto c = static_cast<std::size_t>(event.choice);
  if (resume_from_[c] == 0) take_scores(event, scores_[c]);
  ChatDelta delta = texts_[c].feed(event, true);
  const bool echoes = texts_[c].sent() > resume_from_[c] && add_echo(event.choice, delta);
  std::string out;
  if (!delta.empty() || (echoes && scores_[c])) {
    append_event(out, id(), chunk(choice_json(event.choice, delta, false, "")));
  }
  if (echoes) scores_[c].reset();
  return out;
}

std::string StreamRenderer::on_fin(const wire::RequestInfo& info) {
  info_ = info;
  std::string out;
  std::string together;
  for (int c = 0; c < choices(); ++c) {
    const auto i = static_cast<std::size_t>(c);
    ChatDelta delta = texts_[i].finish();
    add_echo(c, delta);
    const std::string finish = with_calls(shape_, finish_word(info_, c), texts_[i]);
    if (finish == "error") {
      if (!delta.empty()) append_event(out, id(), chunk(choice_json(c, delta, false, "")));
      append_event(out, id(), error_body(failure_of(info_, c), "", c));
    } else if (echo_only()) {
      together += (together.empty() ? "" : ",") + choice_json(c, delta, false, finish);
    } else {
      append_event(out, id(), chunk(choice_json(c, delta, false, finish)));
    }
  }
  // All prompts in one event: its id, all zeros, says that the client has every one of them.
  if (!together.empty()) append_event(out, id(), chunk(together));
  if (shape_.include_usage) {
    std::string last = common_members(shape_, info_, true);
    last += "[],\"usage\":" + usage_json(info_, usage_details(shape_, info_, texts_)) + "}";
    append_event(out, id(), last);
  }
  append_event(out, id(), "[DONE]");
  return out;
}

std::string StreamRenderer::on_failure(const wire::Refusal& refusal) {
  std::string out;
  append_event(out, id(), error_body(refusal, ""));
  append_event(out, id(), "[DONE]");
  return out;
}

// ---------------------------------------------------------------- whole answer

Collector::Collector(const Shape& shape, wire::RequestInfo info)
    : shape_(shape), info_(std::move(info)), texts_(make_texts(shape_, info_, {})) {
  parts_.resize(texts_.size());
}

void Collector::on_event(const wire::Event& event) {
  const auto c = static_cast<std::size_t>(event.choice);
  if (event.choice < 0 || c >= texts_.size()) return;
  take_scores(event, parts_[c].scores);
  parts_[c].add(texts_[c].feed(event, false));
}

void Collector::Part::add(ChatDelta delta) {
  content += delta.out.content;
  reasoning += delta.out.reasoning;
  for (chat::CallDelta& call : delta.out.calls) {
    if (call.name.empty() && !calls.empty()) {
      calls.back().arguments += call.arguments;
    } else {
      calls.push_back(std::move(call));
    }
  }
  for (TokenLog& log : delta.logs) logs.push_back(std::move(log));
}

std::string Collector::message_json(int choice, const std::string& text) const {
  const Part& part = parts_[static_cast<std::size_t>(choice)];
  std::string out = "{\"role\":\"assistant\",\"content\":";
  if (text.empty() && !part.calls.empty()) {
    out += "null";
  } else {
    append_json_string(out, text);
  }
  if (!part.reasoning.empty()) {
    out += ",\"reasoning_content\":";
    append_json_string(out, part.reasoning);
  }
  return out + calls_member(shape_, info_.request_id, choice, part.calls, false) + "}";
}

/// Returns the choices to be shown, in order: all, or the best of each prompt.
std::vector<std::size_t> Collector::returned_choices() const {
  std::vector<std::size_t> order(texts_.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto prompts = std::max<std::size_t>(info_.prompt_tokens.size(), 1);
  const std::size_t drawn = texts_.size() / prompts;
  const auto returned_choices = static_cast<std::size_t>(std::max(shape_.returned_choices, 0));
  if (returned_choices == 0 || returned_choices >= drawn) return order;
  std::vector<double> score;
  for (const Part& part : parts_) score.push_back(mean_logprob(part.logs));
  std::vector<std::size_t> best;
  for (std::size_t p = 0; p < prompts; ++p) {
    const auto first = order.begin() + static_cast<std::ptrdiff_t>(p * drawn);
    std::stable_sort(first, first + static_cast<std::ptrdiff_t>(drawn),
                     [&](std::size_t a, std::size_t b) { return score[a] > score[b]; });
    best.insert(best.end(), first, first + static_cast<std::ptrdiff_t>(returned_choices));
  }
  return best;
}

/// Returns vLLM's member with the scores of the prompt: for each choice of a completion, for a
/// chat's whole answer. Empty unless it was asked for.
std::string Collector::prompt_member(std::size_t c) const {
  if (shape_.prompt_logprobs < 0) return {};
  const auto& scores = parts_[c].scores;
  return ",\"prompt_logprobs\":" +
         (scores ? prompt_logprobs_json(*scores, shape_.prompt_logprobs) : "null");
}

std::string Collector::choice_json(int index, std::size_t c, const std::string& finish) const {
  const int choice = static_cast<int>(c);
  const std::string text = prompt_text(info_, choice) + parts_[c].content;
  std::string out = "{\"index\":" + std::to_string(index);
  if (shape_.api == Api::kChat) {
    out += ",\"message\":" + message_json(choice, text);
  } else {
    out += ",\"text\":";
    append_json_string(out, text);
  }
  const Part& part = parts_[c];
  out += ",\"logprobs\":";
  out += shape_.hide_logs ? "null"
                          : logs_json(shape_.api, info_, choice, part.logs,
                                      part.scores ? &*part.scores : nullptr);
  if (shape_.api != Api::kChat) out += prompt_member(c);
  out += ",\"finish_reason\":";
  append_json_string(out, finish);
  return out + "}";
}

Response Collector::on_fin(const wire::RequestInfo& info) {
  info_ = info;
  bool any_token = false;
  std::vector<std::string> finishes;
  for (std::size_t c = 0; c < texts_.size(); ++c) {
    const int choice = static_cast<int>(c);
    parts_[c].add(texts_[c].finish());
    any_token = any_token || texts_[c].considered() > 0;
    finishes.push_back(with_calls(shape_, finish_word(info_, choice), texts_[c]));
    if (finishes[c] == "error" || (finishes[c] == "expired" && !any_token)) {
      return error_response(failure_of(info_, choice));
    }
  }
  std::string choices;
  int index = 0;
  for (const std::size_t c : returned_choices()) {
    choices += (index == 0 ? "" : ",") + choice_json(index, c, finishes[c]);
    ++index;
  }
  Response response;
  response.body = common_members(shape_, info_, false) + "[" + choices +
                  "],\"usage\":" + usage_json(info_, usage_details(shape_, info_, texts_));
  if (shape_.api == Api::kChat) response.body += prompt_member(0);
  response.body += "}";
  return response;
}

}  // namespace holdfast::gateway
