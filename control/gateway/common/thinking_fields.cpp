#include "control/gateway/common/thinking_fields.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>

#include "shared/base/json_text.h"
#include "shared/chat/thinking.h"

namespace holdfast::gateway {

using json = nlohmann::ordered_json;

namespace {

constexpr std::int64_t kTokensMax = 1 << 30;

/// The bound that an effort stands for. `word`: its name in templates, which know three.
struct Effort {
  std::string_view name;
  std::int64_t tokens;  // -1: no bound
  const char* word;     // null: none
};
constexpr Effort kEfforts[] = {
    {"none", 0, nullptr},        {"minimal", 512, "low"},  {"low", 1'024, "low"},
    {"medium", 8'192, "medium"}, {"high", 24'576, "high"}, {"xhigh", -1, "high"},
    {"max", -1, "high"},
};

const Effort* effort_of(const std::string& name) {
  const auto* at = std::find_if(std::begin(kEfforts), std::end(kEfforts),
                                [&](const Effort& effort) { return effort.name == name; });
  return at == std::end(kEfforts) ? nullptr : at;
}

class Reader {
 public:
  Reader(Fields& fields, Generation* out) : fields_(fields), out_(out) {}

  void read() {
    read_anthropic();
    read_openai();
    read_effort("output_config");  // Anthropic's
    bool enabled = true;
    if (fields_.boolean("enable_thinking", &enabled)) turn("enable_thinking", enabled);
    for (const char* name : {"thinking_token_budget", "thinking_budget", "thinking_budget_tokens",
                             "reasoning_budget"}) {
      std::int64_t tokens = 0;
      if (fields_.integer(name, -1, kTokensMax, &tokens)) bound(name, tokens);
    }
    apply_effort();
  }
  /// Puts the settings into the template's kwargs; what the client put there itself stays.
  void tell_template(json* root) const {
    json kwargs = root->value("chat_template_kwargs", json::object());
    if (!kwargs.is_object()) return;
    const auto put = [&](const char* name, const json& value) {
      if (!kwargs.contains(name)) kwargs[name] = value;
    };
    if (on_) put("enable_thinking", *on_);
    if (on_) put("thinking", *on_);
    if (effort_ != nullptr && effort_->word != nullptr) put("reasoning_effort", effort_->word);
    note_switch(kwargs);
    if (!kwargs.empty()) (*root)["chat_template_kwargs"] = std::move(kwargs);
  }
  /// Notes whether the template is told to think, be it by the client's own kwargs.
  void note_switch(const json& kwargs) const {
    for (const char* name : {"enable_thinking", "thinking"}) {
      if (kwargs.contains(name) && kwargs[name].is_boolean()) {
        out_->thinking.on = kwargs[name].get<bool>();
      }
    }
  }

 private:
  void name(const char* field) {
    std::vector<std::string>& fields = out_->thinking.fields;
    if (std::find(fields.begin(), fields.end(), field) == fields.end()) fields.emplace_back(field);
  }
  void turn(const char* field, bool on) {
    name(field);
    on_ = on;
  }
  /// Takes a bound; the least of several counts.
  void bound(const char* field, std::int64_t tokens) {
    name(field);
    if (tokens < 0) return;
    auto& least = out_->thinking.tokens;
    least = least ? std::min(*least, tokens) : tokens;
  }

  /// Reads {"type": "enabled", "budget_tokens": 1024}, {"type": "disabled"}, {"type": "adaptive"};
  /// some clients send true or false.
  void read_anthropic() {
    const json* thinking = fields_.take("thinking");
    if (thinking == nullptr) return;
    if (thinking->is_boolean()) return turn("thinking", thinking->get<bool>());
    if (!thinking->is_object()) return fields_.fail("thinking", "must be an object with a type");
    Fields inner(*thinking, "thinking.");
    std::string kind;
    inner.text("type", &kind);
    std::int64_t tokens = -1;
    const bool bounded = inner.integer("budget_tokens", 0, kTokensMax, &tokens);
    if (inner.error()) return fields_.fail(inner.error()->param, inner.error()->message);
    if (kind == "disabled") {
      bound("thinking", 0);
      on_ = false;
    } else if (is_on(kind)) {
      turn("thinking", true);
      if (bounded) bound_below_answer(tokens);
    } else {
      fields_.fail("thinking.type", "must be \"enabled\", \"disabled\" or \"adaptive\"");
    }
  }
  static bool is_on(const std::string& kind) {
    return kind == "enabled" || kind == "adaptive" || kind == "auto";
  }
  void bound_below_answer(std::int64_t tokens) {
    bound("thinking", tokens);
    const auto& most = out_->submit.max_tokens;
    if (most && tokens >= *most) {
      fields_.fail("thinking.budget_tokens", "must be less than max_tokens");
    }
  }
  /// Reads reasoning_effort of chats and {"effort": …, "max_tokens": …, "enabled": …} elsewhere.
  void read_openai() {
    read_effort(fields_, "reasoning_effort", "reasoning_effort");
    const json* reasoning = fields_.take("reasoning");
    if (reasoning == nullptr) return;
    if (!reasoning->is_object()) return fields_.fail("reasoning", "must be an object");
    Fields inner(*reasoning, "reasoning.");
    read_effort(inner, "effort", "reasoning.effort");
    std::int64_t tokens = 0;
    if (inner.integer("max_tokens", 0, kTokensMax, &tokens)) bound("reasoning.max_tokens", tokens);
    bool enabled = true;
    if (inner.boolean("enabled", &enabled)) turn("reasoning.enabled", enabled);
    for (const char* hint : {"summary", "generate_summary"}) (void)inner.take(hint);
    if (inner.error()) return fields_.fail(inner.error()->param, inner.error()->message);
    for (const std::string& other : inner.unknown()) out_->ignored.push_back("reasoning." + other);
  }
  void read_effort(Fields& fields, const char* member, const char* name) {
    std::string effort;
    if (fields.text(member, &effort)) take_effort(name, effort);
  }
  /// Reads {"effort": …}; the object's other members are read elsewhere.
  void read_effort(const char* holder) {
    const json* object = fields_.take(holder);
    if (object == nullptr || !object->is_object()) return;
    Fields inner(*object, std::string(holder) + ".");
    std::string effort;
    if (inner.text("effort", &effort)) take_effort("output_config.effort", effort);
    if (inner.error()) fields_.fail(inner.error()->param, inner.error()->message);
  }
  /// Takes an effort; an unknown word has no effect and is named as ignored.
  void take_effort(const char* field, const std::string& word) {
    const Effort* effort = effort_of(word);
    if (effort == nullptr) {
      out_->ignored.emplace_back(field);
      return;
    }
    name(field);
    effort_ = effort;
  }
  /// Applies the effort. It leaves a fifth of max_tokens for the answer; a bound in tokens outranks
  /// it.
  void apply_effort() {
    if (effort_ == nullptr) return;
    const bool off = effort_->tokens == 0;
    if (!on_) on_ = !off;
    if (out_->thinking.tokens || effort_->tokens < 0) return;
    std::int64_t tokens = effort_->tokens;
    if (out_->submit.max_tokens) tokens = std::min(tokens, *out_->submit.max_tokens * 4 / 5);
    out_->thinking.tokens = tokens;
  }

  Fields& fields_;
  Generation* out_;
  std::optional<bool> on_;
  const Effort* effort_ = nullptr;
};

}  // namespace

void read_thinking(Fields& fields, json* root, Generation* out) {
  Reader reader(fields, out);
  reader.read();
  reader.tell_template(root);
}

void bind_thinking(Generation* generation) {
  const ThinkingOptions& thinking = generation->thinking;
  const chat::OutputKind kind = chat::read_output(generation->shape.output);
  const auto marks = chat::thinking_marks(kind);
  if (!marks) {
    std::vector<std::string>& ignored = generation->ignored;
    ignored.insert(ignored.end(), thinking.fields.begin(), thinking.fields.end());
    return;
  }
  if (!thinking.tokens) return;
  std::string& extra = generation->submit.sampling.extra;
  json merged = extra.empty() ? json::object() : try_parse_json<json>(extra);
  merged["thinking"] = {{"tokens", *thinking.tokens},
                        {"marks", {marks->begin, marks->close, marks->force}},
                        {"anywhere", marks->anywhere},
                        {"open", kind.opens_reasoning}};
  extra = merged.dump();
}

}  // namespace holdfast::gateway
