#include "tests/fuzz/stub_daemon.h"

#include <nlohmann/json.hpp>

#include "shared/base/base64.h"
#include "shared/base/check.h"
#include "shared/base/json_text.h"
#include "shared/client/api_key.h"
#include "shared/wire/frame.h"

namespace holdfast::fuzz {

using client::Answer;
using client::Failure;
using nlohmann::json;

namespace {

Failure failure(Errc code, const std::string& message) {
  Failure out;
  out.code = code;
  out.message = message;
  return out;
}

/// Checks that the message makes a frame that the daemon takes.
template <class Message>
void check_frame(const Message& message) {
  const auto read = wire::decode(wire::encode(wire::Message(message)));
  CHECK_MSG(read.has_value(), "what the gateway sends is no frame");
}

wire::RequestInfo info_of(const wire::Submit& submit) {
  wire::RequestInfo info;
  info.request_id = submit.request_id;
  info.tenant = submit.tenant;
  info.model = submit.model;
  info.state = wire::RequestState::kSucceeded;
  info.created_ms = 1'700'000'000'000;
  info.max_tokens = submit.max_tokens.value_or(2);
  info.sampling = submit.sampling;
  info.stops = submit.stops;
  info.echo = submit.echo;
  info.meta = submit.meta;
  for (std::size_t p = 0; p < submit.prompts.size(); ++p) {
    info.prompt_tokens.push_back(3);
    if (submit.echo) info.prompt_text.push_back(submit.prompts[p].text.value_or("ids"));
    for (int i = 0; i < submit.n; ++i) {
      wire::ChoiceInfo choice;
      choice.choice = static_cast<std::int32_t>(info.choices.size());
      choice.prompt = static_cast<std::int32_t>(p);
      choice.next_index = 2;
      choice.finish = wire::FinishReason::kLength;
      info.choices.push_back(choice);
    }
  }
  return info;
}

}  // namespace

struct StubDaemon::VerbArguments {
  explicit VerbArguments(const json& args)
      : args(args), kind(args.value("kind", "")), id(args.value("id", "")) {}
  const json& args;
  std::string kind;
  std::string id;
};

void StubDaemon::reset() {
  refuses = is_away = false;
  requests_.clear();
  if (!std::exchange(changed_, false)) return;
  objects_.clear();
  objects_[{"file", "file-a"}] = {1, 1, R"({"filename":"a","purpose":"batch","hash":"h"})", "x\n"};
  objects_[{"batch", "batch_a"}] = {
      2, 1, R"({"id":"batch_a","object":"batch","status":"in_progress","request_counts":{}})", ""};
  objects_[{"response", "resp_a"}] = {
      3, 1,
      R"({"hash":"h","previous":"","items":[{"role":"user","content":"a"}],"echo":{},)"
      R"("final":{"id":"resp_a","output":[{"type":"message","role":"assistant","content":)"
      R"([{"type":"output_text","text":"b"}]}]}})",
      ""};
  objects_[{"response", "resp_b"}] = {4, 1, R"({"hash":"h","previous":"resp_a","items":[]})", ""};
  for (const char* role : {"client", "operator", "metrics"}) {
    const json key = {{"name", role},
                      {"role", role},
                      {"tenant", "t"},
                      {"hash", client::hash_api_key(std::string("hf_") + role)}};
    objects_[{client::kKeyKind, role}] = {5, 1, key.dump(), ""};
  }
}

Answer<std::string> StubDaemon::put(const VerbArguments& args) {
  const auto found = objects_.find({args.kind, args.id});
  const std::int64_t version = args.args.value("version", std::int64_t{-1});
  const std::int64_t now = found == objects_.end() ? 0 : found->second.version;
  if (version >= 0 && version != now) return failure(Errc::kConflict, "another version");
  changed_ = true;
  Object& object = objects_[{args.kind, args.id}];
  object.version = now + 1;
  if (object.seq == 0) object.seq = static_cast<std::int64_t>(objects_.size()) + 10;
  if (args.args.contains("body")) object.body = args.args["body"].dump();
  object.content += std::exchange(bytes_, {});
  return json{{"version", object.version}, {"bytes", object.content.size()}}.dump();
}

std::string StubDaemon::get(const VerbArguments& args) {
  const auto found = objects_.find({args.kind, args.id});
  if (found == objects_.end()) return R"({"found":false})";
  const auto from = static_cast<std::size_t>(args.args.value("from", std::int64_t{0}));
  const Object& object = found->second;
  const json document = {{"seq", object.seq},
                         {"id", args.id},
                         {"owner", "default"},
                         {"version", object.version},
                         {"created_ms", 1000},
                         {"expires_ms", 0},
                         {"body", json::parse(object.body)},
                         {"bytes", object.content.size()}};
  bytes_ = from < object.content.size() ? object.content.substr(from) : std::string();
  return json{{"found", true}, {"object", document}}.dump();
}

std::string StubDaemon::list(const VerbArguments& args) {
  json objects = json::array();
  for (const auto& [key, object] : objects_) {
    if (key.first != args.kind) continue;
    const json one = json::parse(get(VerbArguments(json{{"kind", key.first}, {"id", key.second}})));
    objects.push_back(one["object"]);
  }
  return json{{"objects", objects}, {"more", false}}.dump();
}

Answer<std::string> StubDaemon::answer(const std::string& verb, const std::string& text) {
  const json args = try_parse_json<json>(text);
  CHECK_MSG(args.is_object(), "arguments of a verb are a JSON object");
  if (is_away) return failure(Errc::kUnreachable, "away");
  const VerbArguments parsed(args);
  if (verb == "objects.put") return put(parsed);
  if (verb == "objects.get") return get(parsed);
  if (verb == "objects.list") return list(parsed);
  if (verb == "objects.delete") {
    changed_ = true;
    const bool gone = objects_.erase({parsed.kind, parsed.id}) > 0;
    return json{{"deleted", gone}}.dump();
  }
  if (verb == "ids.derive") {
    return json{{"id", args.value("prefix", "") + "derived"}, {"version", 2}}.dump();
  }
  if (verb == "models.tokenize") {
    return std::string(R"({"ids":[1,2],"context":8,"piece_bytes":"YWLD","piece_ends":[1,3]})");
  }
  if (verb == "models.detokenize") return std::string(R"({"text":"ab"})");
  return std::string("{}");
}

void StubDaemon::op_async(const client::Caller& caller, const std::string& verb,
                          const std::string& args, std::function<void(Answer<std::string>)> done) {
  wire::Op op;
  op.verb = verb;
  op.args = args;
  op.tenant = caller.tenant();
  check_frame(op);
  done(answer(verb, args));
}

void StubDaemon::op_bytes_async(const client::Caller& caller, const std::string& verb,
                                const std::string& args, std::string bytes,
                                std::function<void(Answer<client::OpAnswer>)> done) {
  wire::Op op;
  op.verb = verb;
  op.args = args;
  op.tenant = caller.tenant();
  op.bytes = bytes;
  check_frame(op);
  bytes_ = std::move(bytes);
  auto text = answer(verb, args);
  if (auto* wrong = std::get_if<1>(&text)) return done(std::move(*wrong));
  done(client::OpAnswer{std::get<0>(std::move(text)), std::exchange(bytes_, {})});
}

void StubDaemon::submit_async(const client::Principal& principal, wire::Submit submit,
                              std::function<void(Answer<wire::Accepted>)> done) {
  submit.tenant = principal.tenant();
  submit.api_key = principal.key();
  CHECK(wire::check_encodable(submit).has_value());
  check_frame(submit);
  if (is_away) return done(failure(Errc::kUnreachable, "away"));
  if (refuses) return done(failure(Errc::kQueueFull, "full"));
  wire::Accepted accepted;
  accepted.info = requests_[submit.request_id] = info_of(submit);
  done(accepted);
}

void StubDaemon::status_async(const client::Caller& caller, const std::string& request_id,
                              std::function<void(Answer<wire::RequestInfo>)> done) {
  wire::StatusQuery query;
  query.request_id = request_id;
  query.tenant = caller.tenant();
  check_frame(query);
  const auto found = requests_.find(request_id);
  if (found != requests_.end()) return done(found->second);
  if (!request_id.starts_with("r") || is_away) return done(failure(Errc::kNotFound, "none"));
  wire::Submit submit;
  submit.request_id = request_id;
  submit.prompts.resize(1);
  submit.n = 2;
  done(requests_[request_id] = info_of(submit));
}

void StubDaemon::cancel_async(const client::Caller& caller, const std::string& request_id,
                              std::function<void(Answer<wire::RequestInfo>)> done) {
  status_async(caller, request_id, std::move(done));
}

void StubDaemon::models_async(const client::Caller&,
                              std::function<void(Answer<std::vector<wire::ModelInfo>>)> done) {
  if (is_away) return done(failure(Errc::kUnreachable, "away"));
  wire::ModelInfo model;
  model.name = "m";
  model.state = "ready";
  model.output = "hermes+think";
  done(std::vector<wire::ModelInfo>{model});
}

client::StreamId StubDaemon::open_stream(const client::Caller&, const std::string& request_id,
                                         std::vector<std::int64_t> from,
                                         client::StreamHandler handler) {
  CHECK(from.empty());
  const auto found = requests_.find(request_id);
  if (found == requests_.end()) {
    handler.on_failure(failure(Errc::kNotFound, "none"));
    return 1;
  }
  if (handler.on_attached) handler.on_attached(found->second);
  for (const wire::ChoiceInfo& choice : found->second.choices) {
    if (choice.choice >= 4) break;
    wire::Event event;
    event.request_id = request_id;
    event.choice = choice.choice;
    event.ids = {5, 6};
    event.bytes = "ab<";
    event.ends = {2, 3};
    handler.on_event(event);
  }
  handler.on_fin(found->second);
  return 1;
}

// The gateway never blocks.
Answer<wire::Accepted> StubDaemon::submit(const client::Principal&, wire::Submit) {
  CHECK(false);
}
Answer<wire::RequestInfo> StubDaemon::status(const client::Caller&, const std::string&) {
  CHECK(false);
}
Answer<wire::RequestInfo> StubDaemon::cancel(const client::Caller&, const std::string&) {
  CHECK(false);
}
Answer<std::vector<wire::ModelInfo>> StubDaemon::models(const client::Caller&) {
  CHECK(false);
}
Answer<std::string> StubDaemon::op(const client::Caller&, const std::string&, const std::string&) {
  CHECK(false);
}
Answer<wire::RequestInfo> StubDaemon::stream(const client::Caller&, const std::string&,
                                             std::vector<std::int64_t>,
                                             const std::function<void(const wire::Event&)>&) {
  CHECK(false);
}

}  // namespace holdfast::fuzz
