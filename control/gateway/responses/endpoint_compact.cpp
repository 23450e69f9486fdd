// POST /v1/responses/compact: a conversation becomes the messages of its user and one item that
// holds the model's summary of the rest. The summary is an ordinary request under an id of its own,
// so it is made once even if processes die, and the same POST finds it again.

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

#include "control/gateway/common/attachment.h"
#include "control/gateway/common/endpoints.h"
#include "control/gateway/common/object_endpoints.h"
#include "control/gateway/common/post_headers.h"
#include "control/gateway/common/tool_fields.h"
#include "control/gateway/http/json_body.h"
#include "control/gateway/responses/compaction.h"
#include "control/gateway/responses/conversation.h"
#include "control/gateway/responses/response_stream.h"
#include "shared/base/json_fields.h"
#include "shared/base/json_text.h"

namespace holdfast::gateway {
namespace {

using json = nlohmann::ordered_json;

constexpr std::int64_t kSummaryTokens = 2'048;    // at most, unless the body has another number
constexpr std::int64_t kSummaryTokensLeast = 64;  // if the context has less room than that
constexpr std::int64_t kSummarySeed = 0;

/// One POST until its request is submitted.
struct Compaction {
  Context& context;
  ExchangePtr exchange;
  std::string id;
  std::string hash;
  ResponsesRequest request;
  PostHeaders headers;
  json retained = json::array();  // first items of the answer
  Generation generation;
};
using CompactionPtr = std::shared_ptr<Compaction>;

/// Returns a message as OpenAI shows it, with an id.
json output_message(json item, const std::string& id) {
  json content = item.value("content", json::array());
  if (content.is_string()) content = {{{"type", "input_text"}, {"text", content}}};
  return {{"id", item.contains("id") ? item["id"] : json(id)},
          {"type", "message"},
          {"status", "completed"},
          {"role", item.value("role", json())},
          {"content", std::move(content)}};
}

/// True for items that users and programs wrote: they are retained unchanged.
bool is_retained(const json& item) {
  const json role = item.is_object() ? item.value("role", json()) : json();
  const bool message = item.is_object() && item.value("type", json("message")) == "message";
  return message && (role == "user" || role == "system" || role == "developer");
}

void retain_messages(const std::vector<std::string>& turns, const std::string& id, json* retained) {
  for (const std::string& turn : turns) {
    for (const json& item : try_parse_json<json>(turn)) {
      if (!is_retained(item)) continue;
      retained->push_back(
          output_message(item, "msg_" + id + "_" + std::to_string(retained->size())));
    }
  }
}

/// Makes the document when the summary is complete.
class CompactAnswer final : public WholeAnswer {
 public:
  CompactAnswer(const Shape& shape, const wire::RequestInfo& info, json retained)
      : stream_(shape, info, "{}", INT64_MAX), retained_(std::move(retained)) {}

  void update(const wire::RequestInfo& info) override { stream_.update(info); }
  void on_event(const wire::Event& event) override { (void)stream_.on_event(event); }

  Response on_fin(const wire::RequestInfo& info) override {
    (void)stream_.on_fin(info);
    if (info.state != wire::RequestState::kSucceeded) return not_made(info);
    const TurnParts& parts = stream_.parts();
    // If the model spent all its tokens on reasoning, that reasoning is about the conversation.
    const std::string& summary = parts.content.empty() ? parts.reasoning : parts.content;
    if (summary.empty()) {
      return error_response(500, "the model " + model_name(info) +
                                     " wrote no summary: ask another one, or send the items "
                                     "that matter as they are");
    }
    retained_.push_back({{"id", "cmp_" + info.request_id},
                         {"type", "compaction"},
                         {"encrypted_content", pack_summary(summary)}});
    json document = {{"id", info.request_id},
                     {"object", "response.compaction"},
                     {"created_at", info.created_ms / 1000},
                     {"model", model_name(info)}};
    document["output"] = std::move(retained_);
    document["usage"] = response_json(info, "{}", json::array(), parts.usage)["usage"];
    return json_response(document);
  }

 private:
  static Response not_made(const wire::RequestInfo& info) {
    if (info.state != wire::RequestState::kCancelled) return error_response(failure_of(info, 0));
    wire::Refusal refusal;
    refusal.code = Errc::kCancelled;
    refusal.message = "the summary " + info.request_id + " was cancelled";
    return error_response(refusal);
  }

  ResponseStream stream_;
  json retained_;
};

void show(const CompactionPtr& compaction, const wire::Accepted& accepted) {
  View view;
  view.shape = compaction->generation.shape;
  view.leaves_for_good = leaves_for_good(compaction->headers, /*stream=*/false);
  view.headers = answer_headers(compaction->generation.ignored, accepted.duplicate, accepted.key,
                                accepted.notes);
  view.whole =
      std::make_unique<CompactAnswer>(view.shape, accepted.info, std::move(compaction->retained));
  show_request(compaction->context, compaction->exchange, accepted.info, std::move(view));
}

/// Returns the number of tokens that fits, if `requested` was too large; 0 if none does.
std::int64_t tokens_that_fit(const client::Failure& failure, std::int64_t requested) {
  if (failure.code != Errc::kContextExceeded) return 0;
  const std::int64_t free_tokens = failure.free >= 0             ? failure.free
                                   : failure.needed == requested ? failure.largest
                                                                 : 0;
  return free_tokens >= kSummaryTokensLeast && free_tokens < requested ? free_tokens : 0;
}

/// Submits the summary. A conversation is compacted when its context is nearly full, so the summary
/// takes what is left.
void submit(const CompactionPtr& compaction, std::int64_t tokens) {
  wire::Submit message = compaction->generation.submit;
  message.max_tokens = tokens;
  compaction->context.client.submit_async(
      compaction->exchange->request().from, std::move(message),
      [compaction, tokens](client::Answer<wire::Accepted> answer) {
        compaction->exchange->post([compaction, tokens, answer = std::move(answer)] {
          if (compaction->exchange->closed()) return;
          const auto* failure = std::get_if<client::Failure>(&answer);
          if (failure == nullptr) return show(compaction, std::get<wire::Accepted>(answer));
          if (const std::int64_t free_tokens = tokens_that_fit(*failure, tokens); free_tokens > 0) {
            return submit(compaction, free_tokens);
          }
          compaction->exchange->respond(error_response(*failure));
        });
      });
}

void make_ready(const CompactionPtr& compaction) {
  wire::Submit& message = compaction->generation.submit;
  message.request_id = compaction->id;
  put_limits(compaction->exchange->request(), &message, &compaction->generation.ignored);
  message.body_hash = compaction->hash;
  compaction->generation.shape.client_id = client_request_id(compaction->exchange->request());
  message.on_disconnect = compaction->headers.on_disconnect;
  find_output(*compaction->context.outputs, compaction->context.client, message.model,
              on_strand<std::string>(compaction->exchange, [compaction](const std::string& output) {
                compaction->generation.shape.output = output;
                compaction->generation.submit.meta = encode_shape(compaction->generation.shape);
                submit(compaction,
                       compaction->generation.submit.max_tokens.value_or(kSummaryTokens));
              }));
}

void compose(const CompactionPtr& compaction, Conversation conversation) {
  std::vector<std::string> turns = std::move(conversation.before);
  turns.push_back(std::move(conversation.items));
  json body;
  FieldError error;
  bool right = chat_body(compaction->request, turns, &body, &error);
  if (right) {
    ask_for_summary(&body["messages"]);
    body["temperature"] = 0;
    body["seed"] = kSummarySeed;
    right = parse_chat(body, compaction->context.params, &compaction->generation, &error);
    // A summary has its own bound: none that a profile has for answers.
    auto& given = compaction->generation.submit.given;
    if (right && given) given->emplace_back("max_tokens");
  }
  if (!right) {
    if (error.param == "messages") error.param = "input";
    return compaction->exchange->respond(error_response(error));
  }
  compaction->generation.shape.body_hash = compaction->hash;
  retain_messages(turns, compaction->id, &compaction->retained);
  make_ready(compaction);
}

/// Returns the members of a turn's body on which a summary depends; the others are named as
/// ignored.
json summary_fields(const json& body, std::vector<std::string>* ignored) {
  constexpr const char* kTaken[] = {
      "model", "input",    "instructions",     "previous_response_id", "max_output_tokens",
      "user",  "priority", "queue_timeout_ms", "total_timeout_ms",     "session_id"};
  json requested = json::object();
  for (const auto& [name, value] : body.items()) {
    const bool taken = std::find(std::begin(kTaken), std::end(kTaken), name) != std::end(kTaken);
    if (taken) {
      requested[name] = value;
    } else if (!value.is_null()) {
      ignored->push_back(name);
    }
  }
  return requested;
}

}  // namespace

void post_responses_compact(Context& context, const ExchangePtr& exchange, const Captures&) {
  const Request& request = exchange->request();
  auto compaction = std::make_shared<Compaction>(
      Compaction{context, exchange, {}, {}, {}, {}, json::array(), {}});
  FieldError error;
  json body;
  if (!read_post_headers(request, &compaction->headers, &error) ||
      !parse_json_object(request.body, &body, &error) ||
      !parse_response(summary_fields(body, &compaction->generation.ignored), &compaction->request,
                      &error)) {
    return exchange->respond(error_response(error));
  }
  if (compaction->headers.resume) {
    return exchange->respond(resume_mismatch("Last-Event-ID: a compaction has no events"));
  }
  compaction->hash = hash_body(request.path, body);
  with_new_id(context, exchange, kResponseKind, "resp_", [compaction](const NewId& made) {
    compaction->id = made.id;
    gather_conversation(
        compaction->context, compaction->exchange, nullptr, compaction->request.previous,
        compaction->request.items,
        [compaction](Conversation conversation) { compose(compaction, std::move(conversation)); });
  });
}

}  // namespace holdfast::gateway
