#pragma once
// Rows, messages and notes as lines of text with every field that is not zero or empty, for tests
// that compare whole rows and for people who read what a machine did.

#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "control/core/alias.h"
#include "control/core/canary.h"
#include "control/core/effects.h"
#include "shared/wire/fields.h"

namespace holdfast::core {

/// Visitor that collects " name=value" (see shared/wire/fields.h).
class TextVisitor {
 public:
  template <class T>
  void operator()(std::string_view name, const T& value) {
    const std::string text = value_text(value);
    if (!text.empty()) out_ << ' ' << name << '=' << text;
  }
  template <class T>
  void blob(std::string_view name, const T& value) {
    (*this)(name, value);
  }
  std::string str() const { return out_.str(); }

  /// Text of a value; empty for what is zero, false or empty.
  template <class T>
  static std::string value_text(const T& value);

 private:
  std::ostringstream out_;
};

// ---- rows in the shape of the visitor

template <class V>
void row_fields(V& v, const RequestRow& r) {
  v("seq", r.seq);
  v("id", r.id);
  v("tenant", r.tenant);
  v("idem_key", r.idem_key);
  v("body_hash", r.body_hash);
  v("model", r.model);
  v("model_sha", r.model_sha);
  v("state", wire::state_name(r.state));
  v("priority", r.priority);
  v("class", r.numerics_class);
  v("config_version", r.config_version);
  v("n", r.n);
  v("max_tokens", r.max_tokens);
  v("on_disconnect", r.on_disconnect);
  v("created", r.created_ms);
  v("started", r.started_ms);
  v("finished", r.finished_ms);
  v("queue_deadline", r.queue_deadline_ms);
  v("total_deadline", r.total_deadline_ms);
  v("error_code", r.error_code);
  v("error", r.error);
  v("alias", r.alias);
  v("route_key", r.route_key);
  v("canary", r.canary);
  v("rerouted_from", r.rerouted_from);
  v("api_key", r.api_key);
}
template <class V>
void row_fields(V& v, const ChoiceRow& r) {
  v("choice", r.choice);
  v("prompt", r.prompt);
  v("next_index", r.next_index);
  v("finish", wire::finish_name(r.finish));
  v("error_code", r.error_code);
  v("error", r.error);
  v("deaths", r.deaths);
  v("deaths_index", r.deaths_index);
}
template <class V>
void row_fields(V& v, const ModelRow& r) {
  v("name", r.name);
  v("sha", r.sha);
  v("path", r.path);
  v("size", r.size);
  v("mtime", r.mtime_ns);
  v("architecture", r.architecture);
  v("context", r.context);
  v("slots", r.slots);
  v("pages", r.pages);
  v("prefill_chunk", r.prefill_chunk);
  v("kv_type", r.kv_type);
  v("vocab", r.vocab);
  v("chat", r.chat);
  v("output", r.output);
  v("weights", r.weights_bytes);
  v("kv", r.kv_bytes);
  v("scratch", r.scratch_bytes);
  v("options", r.options);
  v("shape", r.shape);
  v("wanted", r.load_requested);
  v("state", model_state_name(r.state));
  v("reason", r.reason);
  v("created", r.created_ms);
  v("used", r.last_used_ms);
  v("tokenizer", r.tokenizer_sha);
  v("profile", r.profile);
}
template <class V>
void row_fields(V& v, const AliasRow& r) {
  v("name", r.name);
  v("id", r.id);
  v("targets", targets_text(r.targets));
  v("pending", targets_text(r.pending));
  v("pending_who", r.pending_who);
  v("pending_since", r.pending_ms);
  v("created", r.created_ms);
  v("changed", r.changed_ms);
}
template <class V>
void row_fields(V& v, const AliasHistoryRow& r) {
  v("alias", r.alias);
  v("at", r.at_ms);
  v("who", r.who);
  v("action", r.action);
  v("from", r.from);
  v("to", r.to);
  v("reason", r.reason);
}
template <class V>
void row_fields(V& v, const CanaryRow& r) {
  v("id", r.id);
  v("alias", r.alias);
  v("model", r.model);
  v("state", canary_state_name(r.state));
  for (const CanaryField& field : canary_fields()) v(field.name, r.settings.*field.field);
  v("windows", r.windows);
  v("passed", r.passed);
  v("suspect", r.suspect);
  v("started", r.started_ms);
  v("ended", r.ended_ms);
  v("who", r.who);
  v("reason", r.reason);
}
template <class V>
void row_fields(V& v, const CanaryWindowRow& r) {
  v("canary", r.canary);
  v("window", r.window);
  v("started", r.started_ms);
  v("ended", r.ended_ms);
  v("decision", r.decision);
  v("reason", r.reason);
  for (const EvidenceField& field : evidence_fields()) {
    v(std::string("canary.") + field.name, r.canary_side.*field.field);
    v(std::string("stable.") + field.name, r.stable_side.*field.field);
  }
}
template <class V>
void row_fields(V& v, const LoadRow& r) {
  v("load", r.load_id);
  v("model", r.model);
  v("sha", r.model_sha);
  v("worker", r.worker_key);
  v("incarnation", r.incarnation);
  v("state", model_state_name(r.state));
  v("class", r.numerics_class);
  v("slots", r.slots);
  v("pages", r.pages);
  v("page_tokens", r.page_tokens);
  v("context", r.context);
  v("bytes", r.bytes);
  v("reason", r.reason);
  v("created", r.created_ms);
  v("ready", r.ready_ms);
  v("ended", r.ended_ms);
}

template <class T>
std::string row_text(const T& row) {
  TextVisitor v;
  row_fields(v, row);
  return v.str();
}

template <class T>
std::string TextVisitor::value_text(const T& value) {
  if constexpr (std::is_convertible_v<T, std::string_view>) {
    return std::string(std::string_view(value));
  } else if constexpr (std::is_same_v<T, bool>) {
    return value ? "yes" : "";
  } else if constexpr (std::is_enum_v<T>) {
    return value_text(static_cast<std::int64_t>(value));
  } else if constexpr (std::is_arithmetic_v<T>) {
    if (value == T{}) return "";
    std::ostringstream out;
    out << +value;
    return out.str();
  } else if constexpr (requires { wire::fields(std::declval<TextVisitor&>(), value); }) {
    TextVisitor inner;
    wire::fields(inner, value);
    const std::string text = inner.str();
    return text.empty() ? "" : "{" + text.substr(1) + "}";
  } else if constexpr (requires { value.has_value(); }) {
    return value.has_value() ? "(" + value_text(*value) + ")" : "";
  } else {
    std::string text;
    for (const auto& item : value)
      text += (text.empty() ? "" : " ") + ("(" + value_text(item)) + ")";
    return text.empty() ? "" : "[" + text + "]";
  }
}

/// Text of one row change, in one line.
std::string change_text(const RowChange& change);
/// Text of one message, dispatch, token run or answer, in one line.
std::string outgoing_text(const Outgoing& out);

}  // namespace holdfast::core
