#pragma once
// The fields of each message on the wire: one visitor for writing and reading, so that the two
// cannot diverge. `v(name, member)` is a value, `v.blob(name, member)` a byte string (content that
// need not be UTF-8). Names and numbers never change their meaning; new fields are added at the
// end.

#include <concepts>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "shared/wire/messages.h"

namespace holdfast::wire {

template <class T, class U>
concept Like = std::same_as<std::remove_const_t<T>, U>;

/// The largest number of each enumeration.
template <class E>
struct EnumMax;
template <>
struct EnumMax<PriorityClass> : std::integral_constant<PriorityClass, PriorityClass::kBatch> {};
template <>
struct EnumMax<OnDisconnect> : std::integral_constant<OnDisconnect, OnDisconnect::kCancel> {};
template <>
struct EnumMax<RequestState> : std::integral_constant<RequestState, RequestState::kQuarantined> {};
template <>
struct EnumMax<FinishReason> : std::integral_constant<FinishReason, FinishReason::kExpired> {};
template <>
struct EnumMax<ShipKind> : std::integral_constant<ShipKind, ShipKind::kTakeOver> {};

/// The type number and the name of each message.
template <class T>
struct MessageType;
#define HOLDFAST_MESSAGE(Type, number, text)         \
  template <>                                        \
  struct MessageType<Type> {                         \
    static constexpr std::uint16_t kNumber = number; \
    static constexpr std::string_view kName = text;  \
  };
HOLDFAST_MESSAGE(Submit, 1, "SUBMIT")
HOLDFAST_MESSAGE(Accepted, 2, "ACCEPTED")
HOLDFAST_MESSAGE(Refused, 3, "REFUSED")
HOLDFAST_MESSAGE(Attach, 4, "ATTACH")
HOLDFAST_MESSAGE(Attached, 5, "ATTACHED")
HOLDFAST_MESSAGE(Credit, 6, "CREDIT")
HOLDFAST_MESSAGE(Detach, 7, "DETACH")
HOLDFAST_MESSAGE(Event, 8, "EVENT")
HOLDFAST_MESSAGE(Fin, 9, "FIN")
HOLDFAST_MESSAGE(Cancel, 10, "CANCEL")
HOLDFAST_MESSAGE(StatusQuery, 11, "STATUS")
HOLDFAST_MESSAGE(StatusReply, 12, "STATUS_REPLY")
HOLDFAST_MESSAGE(ModelsQuery, 13, "MODELS")
HOLDFAST_MESSAGE(ModelsReply, 14, "MODELS_REPLY")
HOLDFAST_MESSAGE(Ping, 15, "PING")
HOLDFAST_MESSAGE(Pong, 16, "PONG")
HOLDFAST_MESSAGE(Op, 32, "OP")
HOLDFAST_MESSAGE(OpResult, 33, "OP_RESULT")
HOLDFAST_MESSAGE(Hello, 48, "HELLO")
HOLDFAST_MESSAGE(Welcome, 49, "WELCOME")
HOLDFAST_MESSAGE(Adopt, 50, "ADOPT")
HOLDFAST_MESSAGE(Drop, 51, "DROP")
HOLDFAST_MESSAGE(Load, 52, "LOAD")
HOLDFAST_MESSAGE(Unload, 53, "UNLOAD")
HOLDFAST_MESSAGE(StateReport, 54, "STATE")
HOLDFAST_MESSAGE(Dispatch, 55, "DISPATCH")
HOLDFAST_MESSAGE(Tokens, 56, "TOKENS")
HOLDFAST_MESSAGE(Ack, 57, "ACK")
HOLDFAST_MESSAGE(CancelWork, 58, "CANCEL_WORK")
HOLDFAST_MESSAGE(Returned, 59, "RETURNED")
HOLDFAST_MESSAGE(Drain, 60, "DRAIN")
HOLDFAST_MESSAGE(Drained, 61, "DRAINED")
HOLDFAST_MESSAGE(WorkerStats, 62, "STATS")
HOLDFAST_MESSAGE(IngressHello, 80, "INGRESS_HELLO")
HOLDFAST_MESSAGE(Prepare, 81, "PREPARE")
HOLDFAST_MESSAGE(Prepared, 82, "PREPARED")
HOLDFAST_MESSAGE(NeedTokenizer, 83, "NEED_TOKENIZER")
HOLDFAST_MESSAGE(TokenizerBlob, 84, "TOKENIZER_BLOB")
HOLDFAST_MESSAGE(Inspect, 85, "INSPECT")
HOLDFAST_MESSAGE(Inspected, 86, "INSPECTED")
HOLDFAST_MESSAGE(StandbyHello, 96, "STANDBY_HELLO")
HOLDFAST_MESSAGE(Ship, 97, "SHIP")
HOLDFAST_MESSAGE(Shipped, 98, "SHIPPED")
#undef HOLDFAST_MESSAGE

/// Visits the fields of a message or of a part of one, in the order in which they are sent.
template <class V>
void fields(V& v, Like<Fence> auto& m) {
  v("epoch", m.epoch);
  v("counter", m.counter);
}
template <class V>
void fields(V& v, Like<Sampling> auto& m) {
  v("temperature", m.temperature);
  v("top_k", m.top_k);
  v("top_p", m.top_p);
  v("min_p", m.min_p);
  v("seed", m.seed);
  v("ignore_eos", m.ignore_eos);
  v("min_tokens", m.min_tokens);
  v("logprobs", m.logprobs);
  v("repetition_penalty", m.repetition_penalty);
  v("presence_penalty", m.presence_penalty);
  v("frequency_penalty", m.frequency_penalty);
  v("extra", m.extra);
  v("prompt_logprobs", m.prompt_logprobs);
}
template <class V>
void fields(V& v, Like<Prompt> auto& m) {
  v.blob("text", m.text);
  v("ids", m.ids);
  v.blob("messages_json", m.messages_json);
}
template <class V>
void fields(V& v, Like<Submit> auto& m) {
  v("tag", m.tag);
  v("request_id", m.request_id);
  v("tenant", m.tenant);
  v("idem_key", m.idem_key);
  v("model", m.model);
  v("prompts", m.prompts);
  v("n", m.n);
  v("max_tokens", m.max_tokens);
  v("sampling", m.sampling);
  v("seed_given", m.seed_given);
  v("stops", m.stops);
  v("echo", m.echo);
  v("add_special", m.add_special);
  v("priority", m.priority);
  v("queue_timeout_ms", m.queue_timeout_ms);
  v("total_timeout_ms", m.total_timeout_ms);
  v("on_disconnect", m.on_disconnect);
  v("body_hash", m.body_hash);
  v("meta", m.meta);
  v("sticky", m.sticky);
  v("api_key", m.api_key);
  v("key_max_requests", m.key_max_requests);
  v("key_requests_per_minute", m.key_requests_per_minute);
  v("keep_alive_ms", m.keep_alive_ms);
  v("given", m.given);
}
template <class V>
void fields(V& v, Like<KeyStanding> auto& m) {
  v("limit", m.limit);
  v("left", m.left);
  v("reset_ms", m.reset_ms);
}
template <class V>
void fields(V& v, Like<ChoiceInfo> auto& m) {
  v("choice", m.choice);
  v("prompt", m.prompt);
  v("next_index", m.next_index);
  v("finish", m.finish);
  v("error_code", m.error_code);
  v("error", m.error);
}
template <class V>
void fields(V& v, Like<RequestInfo> auto& m) {
  v("request_id", m.request_id);
  v("tenant", m.tenant);
  v("model", m.model);
  v("model_sha", m.model_sha);
  v("state", m.state);
  v("created_ms", m.created_ms);
  v("finished_ms", m.finished_ms);
  v("prompt_tokens", m.prompt_tokens);
  v("prompt_text", m.prompt_text);
  v("choices", m.choices);
  v("max_tokens", m.max_tokens);
  v("sampling", m.sampling);
  v("stops", m.stops);
  v("echo", m.echo);
  v("queue_position", m.queue_position);
  v("eta_ms", m.eta_ms);
  v("meta", m.meta);
  v("alias", m.alias);
}
template <class V>
void fields(V& v, Like<Accepted> auto& m) {
  v("tag", m.tag);
  v("duplicate", m.duplicate);
  v("info", m.info);
  v("key", m.key);
  v("notes", m.notes);
}
template <class V>
void fields(V& v, Like<Refusal> auto& m) {
  v("code", m.code);
  v("message", m.message);
  v("needed", m.needed);
  v("free", m.free);
  v("largest", m.largest);
  v("retry_after_ms", m.retry_after_ms);
  v("queue_position", m.queue_position);
  v("eta_ms", m.eta_ms);
  v("key", m.key);
}
template <class V>
void fields(V& v, Like<Refused> auto& m) {
  v("tag", m.tag);
  v("refusal", m.refusal);
}
template <class V>
void fields(V& v, Like<Attach> auto& m) {
  v("tag", m.tag);
  v("request_id", m.request_id);
  v("tenant", m.tenant);
  v("idem_key", m.idem_key);
  v("from", m.from);
  v("window", m.window);
}
template <class V>
void fields(V& v, Like<Attached> auto& m) {
  v("tag", m.tag);
  v("info", m.info);
}
template <class V>
void fields(V& v, Like<Credit> auto& m) {
  v("tag", m.tag);
  v("request_id", m.request_id);
  v("choice", m.choice);
  v("upto", m.upto);
}
template <class V>
void fields(V& v, Like<Detach> auto& m) {
  v("tag", m.tag);
  v("request_id", m.request_id);
  v("for_good", m.for_good);
}
template <class V>
void fields(V& v, Like<Event> auto& m) {
  v("tag", m.tag);
  v("request_id", m.request_id);
  v("choice", m.choice);
  v("start", m.start);
  v("ids", m.ids);
  v.blob("bytes", m.bytes);
  v("ends", m.ends);
  v("extra", m.extra);
  v("special", m.special);
}
template <class V>
void fields(V& v, Like<Fin> auto& m) {
  v("tag", m.tag);
  v("info", m.info);
}
template <class V>
void fields(V& v, Like<Cancel> auto& m) {
  v("tag", m.tag);
  v("request_id", m.request_id);
  v("tenant", m.tenant);
}
template <class V>
void fields(V& v, Like<StatusQuery> auto& m) {
  v("tag", m.tag);
  v("request_id", m.request_id);
  v("tenant", m.tenant);
  v("idem_key", m.idem_key);
}
template <class V>
void fields(V& v, Like<StatusReply> auto& m) {
  v("tag", m.tag);
  v("info", m.info);
}
template <class V>
void fields(V& v, Like<ModelsQuery> auto& m) {
  v("tag", m.tag);
}
template <class V>
void fields(V& v, Like<ModelInfo> auto& m) {
  v("name", m.name);
  v("sha", m.sha);
  v("architecture", m.architecture);
  v("state", m.state);
  v("context", m.context);
  v("created_ms", m.created_ms);
  v("chat", m.chat);
  v("output", m.output);
  v("reason", m.reason);
  v("alias_of", m.alias_of);
  v("encoder", m.encoder);
}
template <class V>
void fields(V& v, Like<ModelsReply> auto& m) {
  v("tag", m.tag);
  v("models", m.models);
}
template <class V>
void fields(V& v, Like<Ping> auto& m) {
  v("tag", m.tag);
}
template <class V>
void fields(V& v, Like<Pong> auto& m) {
  v("tag", m.tag);
  v("message_bytes", m.message_bytes);
}
template <class V>
void fields(V& v, Like<Op> auto& m) {
  v("tag", m.tag);
  v("verb", m.verb);
  v("args", m.args);
  v("tenant", m.tenant);
  v("from_network", m.from_network);
  v.blob("bytes", m.bytes);
}
template <class V>
void fields(V& v, Like<OpResult> auto& m) {
  v("tag", m.tag);
  v("ok", m.ok);
  v("refusal", m.refusal);
  v("result", m.result);
  v.blob("bytes", m.bytes);
}
template <class V>
void fields(V& v, Like<ActiveItem> auto& m) {
  v("request_id", m.request_id);
  v("choice", m.choice);
  v("fence", m.fence);
  v("first_unacked", m.first_unacked);
  v("next_index", m.next_index);
  v("finished", m.finished);
}
template <class V>
void fields(V& v, Like<MemoryPool> auto& m) {
  v("key", m.key);
  v("total", m.total);
  v("available", m.available);
  v("stall", m.stall);
  v("part", m.part);
}
template <class V>
void fields(V& v, Like<MemoryReport> auto& m) {
  v("total", m.total);
  v("free", m.free);
  v("weights", m.weights);
  v("kv", m.kv);
  v("scratch", m.scratch);
  v("rss", m.rss);
  v("taken", m.taken);
  v("at_us", m.at_us);
  v("pools", m.pools);
}
template <class V>
void fields(V& v, Like<LoadedModel> auto& m) {
  v("load_id", m.load_id);
  v("model_sha", m.model_sha);
  v("numerics_class", m.numerics_class);
  v("state", m.state);
  v("slots", m.slots);
  v("pages_total", m.pages_total);
  v("page_tokens", m.page_tokens);
  v("context", m.context);
  v("memory", m.memory);
  v("reason", m.reason);
  v("progress", m.progress);
  v("identity", m.identity);
}
template <class V>
void fields(V& v, Like<Hello> auto& m) {
  v("worker_key", m.worker_key);
  v("incarnation", m.incarnation);
  v("pid", m.pid);
  v("started_ticks", m.started_ticks);
  v("host", m.host);
  v("device", m.device);
  v("kernels", m.kernels);
  v("threads", m.threads);
  v("engine", m.engine);
  v("memory", m.memory);
  v("models", m.models);
  v("active", m.active);
  v("epoch_seen", m.last_epoch);
  v("only_class", m.only_class);
}
template <class V>
void fields(V& v, Like<Welcome> auto& m) {
  v("epoch", m.epoch);
  v("worker_id", m.worker_id);
  v("greet_again", m.greet_again);
}
template <class V>
void fields(V& v, Like<Adopt> auto& m) {
  v("request_id", m.request_id);
  v("choice", m.choice);
  v("fence", m.fence);
  v("ack_upto", m.ack_upto);
}
template <class V>
void fields(V& v, Like<Drop> auto& m) {
  v("request_id", m.request_id);
  v("choice", m.choice);
  v("reason", m.reason);
}
template <class V>
void fields(V& v, Like<Load> auto& m) {
  v("load_id", m.load_id);
  v("model_sha", m.model_sha);
  v.blob("path", m.path);
  v("size", m.size);
  v("mtime_ns", m.mtime_ns);
  v("context", m.context);
  v("slots", m.slots);
  v("pages", m.pages);
  v("kv_type", m.kv_type);
  v("kernels", m.kernels);
  v("prefill_chunk", m.prefill_chunk);
  v("options", m.options);
  v("threads", m.threads);
  v("identity", m.identity);
  v("bytes", m.bytes);
}
template <class V>
void fields(V& v, Like<Unload> auto& m) {
  v("load_id", m.load_id);
}
template <class V>
void fields(V& v, Like<StateReport> auto& m) {
  v("model", m.model);
}
template <class V>
void fields(V& v, Like<Dispatch> auto& m) {
  v("request_id", m.request_id);
  v("choice", m.choice);
  v("fence", m.fence);
  v("load_id", m.load_id);
  v("model_sha", m.model_sha);
  v("prompt_ids", m.prompt_ids);
  v("committed_ids", m.committed_ids);
  v("sampling", m.sampling);
  v("stops", m.stops);
  v("max_tokens", m.max_tokens);
  v("time_left_ms", m.time_left_ms);
  v("priority", m.priority);
  v.blob("state", m.state);
  v.blob("prefix_root", m.prefix_root);
}
template <class V>
void fields(V& v, Like<TokenEvent> auto& m) {
  v("request_id", m.request_id);
  v("choice", m.choice);
  v("fence", m.fence);
  v("start", m.start);
  v("ids", m.ids);
  v("finish", m.finish);
  v("error_code", m.error_code);
  v("error", m.error);
  v("extra", m.extra);
  v("cached_tokens", m.cached_tokens);
}
template <class V>
void fields(V& v, Like<Tokens> auto& m) {
  v("step", m.step);
  v("events", m.events);
}
template <class V>
void fields(V& v, Like<AckItem> auto& m) {
  v("request_id", m.request_id);
  v("choice", m.choice);
  v("fence", m.fence);
  v("upto", m.upto);
  v("finished", m.finished);
}
template <class V>
void fields(V& v, Like<Ack> auto& m) {
  v("items", m.items);
}
template <class V>
void fields(V& v, Like<CancelWork> auto& m) {
  v("request_id", m.request_id);
  v("choice", m.choice);
  v("fence", m.fence);
}
template <class V>
void fields(V& v, Like<Returned> auto& m) {
  v("request_id", m.request_id);
  v("choice", m.choice);
  v("fence", m.fence);
  v("reason", m.reason);
}
template <class V>
void fields(V& v, Like<Drain> auto& m) {
  v("resume", m.resume);
}
template <class V>
void fields(V&, Like<Drained> auto&) {}
template <class V>
void fields(V& v, Like<WorkerStats> auto& m) {
  v("memory", m.memory);
  v("running", m.running);
  v("pages_used", m.pages_used);
  v("steps", m.steps);
  v("tokens", m.tokens);
  v("allocations", m.allocations);
  v("step_ms", m.step_ms);
  v("prefill_tokens", m.prefill_tokens);
  v("preemptions", m.preemptions);
  v("draft_tokens", m.draft_tokens);
  v("accepted_draft_tokens", m.accepted_draft_tokens);
}
template <class V>
void fields(V& v, Like<IngressHello> auto& m) {
  v("pid", m.pid);
}
template <class V>
void fields(V& v, Like<GenerationOptions> auto& m) {
  v("sampling", m.sampling);
  v("stops", m.stops);
  v("max_tokens", m.max_tokens);
  v("given", m.given);
  v("seed_given", m.seed_given);
  v("most_tokens", m.most_tokens);
}
template <class V>
void fields(V& v, Like<Prepare> auto& m) {
  v("job", m.job);
  v("model_sha", m.model_sha);
  v("prompts", m.prompts);
  v("add_special", m.add_special);
  v("echo", m.echo);
  v("extra", m.extra);
  v("parse_special", m.parse_special);
  v("names", m.names);
  v("profile", m.profile);
  v("options", m.options);
}
template <class V>
void fields(V& v, Like<Prepared> auto& m) {
  v("job", m.job);
  v("ok", m.ok);
  v("refusal", m.refusal);
  v("ids", m.ids);
  v("text", m.text);
  v("embedding", m.embedding);
  v("notes", m.notes);
  v("options", m.options);
}
template <class V>
void fields(V& v, Like<NeedTokenizer> auto& m) {
  v("model_sha", m.model_sha);
}
template <class V>
void fields(V& v, Like<TokenizerBlob> auto& m) {
  v("model_sha", m.model_sha);
  v.blob("blob", m.blob);
}
template <class V>
void fields(V& v, Like<Inspect> auto& m) {
  v("job", m.job);
  v.blob("path", m.path);
  v.blob("roots", m.roots);
  v("profile", m.profile);
}
template <class V>
void fields(V& v, Like<Inspected> auto& m) {
  v("job", m.job);
  v("ok", m.ok);
  v("refusal", m.refusal);
  v("model_sha", m.model_sha);
  v("size", m.size);
  v("mtime_ns", m.mtime_ns);
  v("shape", m.shape);
  v.blob("tokenizer", m.tokenizer);
  v.blob("pieces", m.detokenizer);
  v("output", m.output);
  v("identity", m.identity);
  v("has_template", m.has_template);
}

template <class V>
void fields(V& v, Like<StandbyHello> auto& m) {
  v("url", m.url);
  v("term", m.term);
}
template <class V>
void fields(V& v, Like<Ship> auto& m) {
  v("term", m.term);
  v("number", m.number);
  v("kind", m.kind);
  v("in_step", m.in_step);
  v("sync", m.sync);
  v.blob("changes", m.changes);
}
template <class V>
void fields(V& v, Like<Shipped> auto& m) {
  v("term", m.term);
  v("number", m.number);
}

}  // namespace holdfast::wire
