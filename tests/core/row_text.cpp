#include "tests/core/row_text.h"

namespace holdfast::core {
namespace {

struct ChangeText {
  TextVisitor v;
  std::string operator()(const InsertRequest& c) {
    row_fields(v, c.row);
    std::string text =
        "insert request" + v.str() + " sampling=" + TextVisitor::value_text(c.payload.sampling);
    TextVisitor payload;
    payload("stops", c.payload.stops);
    payload("echo", c.payload.echo);
    payload("meta", c.payload.meta);
    payload("prompts", c.payload.prompt_ids);
    payload("text", c.payload.prompt_text);
    text += payload.str();
    for (const ChoiceRow& choice : c.choices) text += " |" + row_text(choice);
    return text;
  }
  std::string operator()(const UpdateRequest& c) {
    v("seq", c.seq);
    v("state", wire::state_name(c.state));
    v("priority", c.priority);
    v("class", c.numerics_class);
    v("started", c.started_ms);
    v("finished", c.finished_ms);
    v("error_code", c.error_code);
    v("error", c.error);
    return "update request" + v.str();
  }
  std::string operator()(const UpdateChoice& c) {
    v("seq", c.seq);
    row_fields(v, c.row);
    return "update choice" + v.str();
  }
  std::string operator()(const InsertChunk& c) {
    v("seq", c.seq);
    v("choice", c.choice);
    v("start", c.start);
    v("ids", c.ids);
    v("extra", c.extra);
    return "insert chunk" + v.str();
  }
  std::string operator()(const BeginAttempt& c) {
    v("seq", c.seq);
    v("choice", c.choice);
    v("fence", c.fence);
    v("worker", c.worker_key);
    v("incarnation", c.incarnation);
    v("load", c.load_id);
    v("start", c.start_index);
    v("adopted", c.adopted);
    v("at", c.started_ms);
    return "begin attempt" + v.str();
  }
  std::string operator()(const EndAttempt& c) {
    v("seq", c.seq);
    v("choice", c.choice);
    v("fence", c.fence);
    v("at", c.ended_ms);
    v("end", c.end_index);
    v("reason", c.reason);
    return "end attempt" + v.str();
  }
  std::string operator()(const PutModel& c) { return "put model" + row_text(c.row); }
  std::string operator()(const PutModelBlobs& c) {
    v("sha", c.sha);
    v("tokenizer", c.tokenizer);
    v("pieces", c.detokenizer);
    return "put blobs" + v.str();
  }
  std::string operator()(const DeleteModel& c) { return "delete model " + c.name; }
  std::string operator()(const PutLoad& c) { return "put load" + row_text(c.row); }
  std::string operator()(const AliasChange& change) { return std::visit(*this, change); }
  std::string operator()(const PutAlias& c) { return "put alias" + row_text(c.row); }
  std::string operator()(const DeleteAlias& c) { return "delete alias " + c.name; }
  std::string operator()(const InsertAliasHistory& c) { return "alias history" + row_text(c.row); }
  std::string operator()(const PutCanary& c) { return "put canary" + row_text(c.row); }
  std::string operator()(const InsertCanaryWindow& c) { return "window" + row_text(c.row); }
  std::string operator()(const RerouteRequest& c) {
    v("seq", c.seq);
    v("model", c.model);
    v("model_sha", c.model_sha);
    v("from", c.rerouted_from);
    return "reroute" + v.str();
  }
  std::string operator()(const InsertTransition& c) {
    v("subject", c.subject);
    v("key", c.key);
    v("from", c.from);
    v("to", c.to);
    v("at", c.at_ms);
    v("before", c.memory_before);
    v("after", c.memory_after);
    v("reason", c.reason);
    return "transition" + v.str();
  }
  std::string operator()(const PutFlag& c) { return "flag " + c.name + "=" + c.value; }
  std::string operator()(const InsertConfigVersion& c) {
    v("version", c.version.version);
    v("at", c.version.at_ms);
    v("source", c.version.source);
    v("who", c.version.who);
    v("change", c.version.change);
    return "config version" + v.str();
  }
  std::string operator()(const DeleteRequest& c) {
    return "delete request " + std::to_string(c.seq);
  }
  std::string operator()(const PutObject& c) {
    return "object " + c.row.kind + " " + c.row.id + " version " + std::to_string(c.row.version);
  }
  std::string operator()(const DeleteObject& c) { return "delete object " + std::to_string(c.seq); }
};

struct OutgoingText {
  std::string operator()(const SendMessage& m) const {
    const std::string to = std::to_string(m.to) + " <- ";
    return std::visit(
        [&](const auto& message) {
          using M = std::decay_t<decltype(message)>;
          TextVisitor v;
          wire::fields(v, message);
          return to + std::string(wire::MessageType<M>::kName) + v.str();
        },
        m.message);
  }
  std::string operator()(const SendDispatch& m) const {
    TextVisitor v;
    wire::fields(v, m.dispatch);
    return std::to_string(m.to) + " <- DISPATCH seq=" + std::to_string(m.seq) +
           " prompt=" + std::to_string(m.prompt) + v.str();
  }
  std::string operator()(const SendEvent& m) const {
    TextVisitor v;
    v("tag", m.tag);
    v("request", m.request_id);
    v("sha", m.model_sha);
    v("seq", m.seq);
    v("choice", m.choice);
    v("ids", m.ids);
    return std::to_string(m.to) + " <- EVENT [" + std::to_string(m.start) + ", " +
           std::to_string(m.until) + ")" + v.str();
  }
  std::string operator()(const SendOpResult& m) const {
    TextVisitor v;
    v("tag", m.tag);
    v("verb", m.verb);
    v("key", m.key);
    if (!m.ok) v("refusal", m.refusal);
    return std::to_string(m.to) + " <- " + (m.ok ? "OP DONE" : "OP REFUSED") + v.str();
  }
};

}  // namespace

std::string change_text(const RowChange& change) {
  return std::visit(ChangeText{}, change);
}

std::string outgoing_text(const Outgoing& out) {
  return std::visit(OutgoingText{}, out);
}

}  // namespace holdfast::core
