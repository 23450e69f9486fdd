#include "control/ingress/chat.h"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "control/ingress/chat_forms.h"
#include "control/ingress/plain_marks.h"
#include "shared/base/json_text.h"
#include "shared/chat/messages.h"
#include "shared/chat/output_parser.h"
#include "shared/chat/prefill.h"
#include "shared/jinja/chat_template.h"

namespace holdfast::ingress {
namespace {

using json = nlohmann::ordered_json;

// Depth of messages[i].tool_calls[j].function.arguments in the request.
constexpr int kArgumentsDepth = 6;
/// Bytes of messages that are rendered over all trials together; most messages that are searched
/// for the one that a template refuses.
constexpr std::size_t kTrialBytes = 32 << 20;
constexpr std::size_t kSearchMessages = 256;
/// Beginnings of the errors of a template that exceeded its bounds. No other form makes it end.
constexpr std::string_view kUsedUp[] = {"the template takes more than",
                                        "the template writes more than"};

Error invalid(const std::string& what) {
  return {Errc::kInvalidRequest, "chat: " + what};
}

Result<void> read_messages(json& root) {
  JsonLimits limits = kBodyLimits;
  limits.depth_max -= kArgumentsDepth;
  const auto open = [&](std::string_view text) -> Result<json> {
    return try_parse_json<json>(text, limits);
  };
  if (const auto fault = chat::normalize_messages(root["messages"], open)) {
    return invalid(fault->where + ": " + fault->what);
  }
  return {};
}

/// Replaces role and member names that the template does not know by those that it does.
void speak_as(std::string_view chat_template, json& messages) {
  const auto knows = [&](const char* word) {
    return chat_template.find(word) != std::string_view::npos;
  };
  for (json& message : messages) {
    if (message["role"] == "developer" && !knows("developer")) message["role"] = "system";
    if (message.contains("reasoning_content") && !message.contains("thinking") &&
        !knows("reasoning_content") && knows("thinking")) {
      message["thinking"] = message["reasoning_content"];
    }
  }
}

/// The messages that are the profile's, and the names of all in errors and notes.
struct Added : profile::AddedMessages {
  std::string name_of(std::size_t index) const {
    const std::ptrdiff_t i = index_in_request(index);
    if (i < 0) return "profile.messages[" + std::to_string(index - at) + "]";
    return "messages[" + std::to_string(i) + "]";
  }
};

class Renderer {
 public:
  Renderer(const json& root, const text::Tokenizer& tokenizer, const text::ChatTemplate& chat,
           std::string_view chat_template, const std::string& date)
      : chat_(chat),
        template_(chat_template),
        marks_(tokenizer, chat_template, root.dump()),
        parse_special_(root.value("parse_special", json(false)) == true) {
    const auto tools = root.find("tools");
    if (tools != root.end() && tools->is_array() && !tools->empty()) {
      input_.tools_json = marked(*tools).dump();
      has_tools_ = true;
    }
    const auto extra = root.find("chat_template_kwargs");
    if (extra != root.end() && extra->is_object()) input_.extra_json = extra->dump();
    read_generation_prompt(root);
    if (tokenizer.bos() >= 0) input_.bos_token = tokenizer.token_bytes(tokenizer.bos(), true);
    if (tokenizer.eos() >= 0) input_.eos_token = tokenizer.token_bytes(tokenizer.eos(), true);
    input_.date = date;
  }

  bool usable() const { return parse_special_ || marks_.usable(); }

  bool has_tools() const { return has_tools_; }

  /// Says which of the messages are the profile's.
  void set_added(const Added& added) { added_ = added; }
  const Added& added() const { return added_; }

  /// Takes the last message as the beginning of the answer. A message with reasoning alone is
  /// removed from `messages`: the template opens an answer, and the reasoning goes into it.
  Result<void> go_on(json& messages) {
    if (messages.back()["role"] != "assistant" || messages.back().contains("tool_calls")) {
      return invalid(
          "continue_final_message: needs a last message of the role assistant, without "
          "calls");
    }
    if (marks_.position_mark().empty()) {
      return invalid("messages: have all of the characters U+FDD0 to U+FDEF; leave two out");
    }
    begun_ = added_.name_of(messages.size() - 1);
    json last = marked(json::array({messages.back()}))[0];
    prefill_ = chat::prefill_of(last);
    if (prefill_ != chat::Prefill::kThinking) return {};
    const auto content = last["content"].get<std::string>();
    if (!chat::detects_reasoning(template_)) {
      prefill_ = chat::Prefill::kText;
      if (!content.empty()) return {};
      return invalid(begun_ +
                     ": its reasoning cannot be continued, as the model's template has no "
                     "<think>");
    }
    thinking_ = content.empty() ? last["reasoning_content"].get<std::string>()
                                : std::string(chat::open_thinking(content));
    input_.add_generation_prompt = true;
    messages.erase(messages.size() - 1);
    return {};
  }

  /// Renders the messages in these forms.
  Result<PlainMarks::Text> render(const json& messages, std::uint32_t forms = 0) {
    const json said = in_forms(messages, forms);
    const bool in_text = prefill_ && *prefill_ != chat::Prefill::kThinking;
    json list = marked(said);
    if (in_text) list.back()["content"].get_ref<std::string&>() += marks_.position_mark();
    input_.messages_json = list.dump();
    if (!has_tools_) input_.tools_json = no_tools(forms);
    HOLDFAST_TRY(std::string text, chat_.render(input_));
    if (prefill_ == chat::Prefill::kThinking) think(text);
    if (in_text) HOLDFAST_CHECKED(cut(text));
    PlainMarks::Text out{text, {}};
    if (!parse_special_) out = marks_.take(text);
    if (in_text && !out.text.ends_with(chat::text_after_thinking(
                       said.back()["content"].get_ref<const std::string&>()))) {
      return invalid(begun_ + ": cannot be continued, as the model's template changes its text");
    }
    return out;
  }

 private:
  void read_generation_prompt(const json& root) {
    const auto generation = root.find("add_generation_prompt");
    if (generation != root.end() && generation->is_boolean()) {
      input_.add_generation_prompt = generation->get<bool>();
    }
    if (root.value("continue_final_message", json(false)) == true)
      input_.add_generation_prompt = false;
  }

  static const char* no_tools(std::uint32_t forms) {
    return (forms & kToolsEmpty) != 0 ? "[]" : "";
  }

  json marked(json list) const {
    if (!parse_special_) marks_.add(list);
    return list;
  }

  /// Cuts off what the template writes after the text that is continued.
  Result<void> cut(std::string& text) const {
    const std::size_t end = text.rfind(marks_.position_mark());
    if (end == std::string::npos) {
      return invalid(begun_ + ": cannot be continued, as the model's template leaves its text out");
    }
    text.resize(end);
    return {};
  }

  /// Appends the reasoning to an answer that the template may have opened with <think> or not.
  void think(std::string& text) const {
    constexpr std::string_view kThink = "<think>";
    const std::size_t end = text.find_last_not_of(" \n");
    const bool open =
        end != std::string::npos && std::string_view(text).substr(0, end + 1).ends_with(kThink);
    if (!open) text.append(kThink).append("\n");
    const bool at_line = text.ends_with('\n');
    text.append(thinking_,
                at_line ? std::min(thinking_.find_first_not_of('\n'), thinking_.size()) : 0,
                std::string::npos);
  }

  const text::ChatTemplate& chat_;
  const std::string_view template_;
  const PlainMarks marks_;
  const bool parse_special_;
  bool has_tools_ = false;
  text::ChatInput input_;
  Added added_;
  std::optional<chat::Prefill> prefill_;  // what of the answer the last message holds
  std::string begun_;                     // "messages[i]" of that message, for errors
  std::string thinking_;                  // its reasoning
};

/// Names the first message at which the template refuses the messages so far with the same error as
/// all of them.
Error name_message(Renderer& renderer, const json& messages, Error error) {
  if (messages.size() > kSearchMessages) return error;
  json some = json::array();
  for (std::size_t i = 0; i < messages.size(); ++i) {
    some.push_back(messages[i]);
    const auto text = renderer.render(some);
    if (text || text.error().what != error.what) continue;
    error.what = renderer.added().name_of(i) + ": " + error.what;
    return error;
  }
  return error;
}

void note_forms(std::uint32_t forms, std::vector<std::string>* notes) {
  constexpr std::pair<ChatForm, const char*> kNames[] = {
      {kSystemsJoined, "system-joined"},       {kShortIds, "short-ids"},
      {kArgumentsAsText, "arguments-as-text"}, {kArgumentsAsObjects, "arguments-as-objects"},
      {kSystemInUser, "system-in-user"},       {kCallsAsText, "calls-as-text"},
      {kTurnsJoined, "turns-joined"}};  // kToolsEmpty is not reported
  for (const auto& [form, name] : kNames) {
    if ((forms & form) != 0) notes->emplace_back(name);
  }
}

/// The messages in one combination of forms, as the template rendered them.
struct Trial {
  PlainMarks::Text text;
  std::uint32_t forms = 0;
  std::vector<std::size_t> lost;
};

bool used_up(const Error& error) {
  return std::any_of(std::begin(kUsedUp), std::end(kUsedUp), [&](std::string_view words) {
    return error.what.find(words) != std::string::npos;
  });
}

/// The first combination of forms in which the template takes the messages and leaves nothing out,
/// else the one in which it leaves out the least.
Result<Trial> try_forms(Renderer& renderer, const json& messages) {
  const std::vector<std::uint32_t> trials =
      form_trials(applicable_forms(messages, renderer.has_tools()));
  const std::size_t most = std::max<std::size_t>(kTrialBytes / (messages.dump().size() + 1), 4);
  std::optional<Trial> best;
  std::optional<Error> refused;
  for (std::size_t i = 0; i < std::min(trials.size(), most); ++i) {
    auto text = renderer.render(messages, trials[i]);
    if (!text) {
      if (!refused) refused = text.error();
      if (used_up(*refused)) return *refused;
      continue;
    }
    Trial trial{std::move(*text), trials[i], {}};
    trial.lost = lost_messages(messages, trial.text.text);
    if (trial.lost.empty()) return trial;
    if (!best || trial.lost.size() < best->lost.size()) best = std::move(trial);
  }
  if (best) return std::move(*best);
  return name_message(renderer, messages, *refused);
}

}  // namespace

Result<RenderedChat> render_chat(std::string_view text, const text::Tokenizer& tokenizer,
                                 const std::string& date, const profile::Profile& profile) {
  json root = try_parse_json<json>(text);
  if (!root.is_object()) return invalid("not a JSON object");
  HOLDFAST_CHECKED(read_messages(root));
  const std::string_view source = profile.chat_template.empty()
                                      ? std::string_view(tokenizer.chat_template())
                                      : std::string_view(profile.chat_template);
  if (source.empty()) {
    return Error{Errc::kNoChatTemplate,
                 "chat: the model's file holds no chat template; send a prompt instead"};
  }
  HOLDFAST_TRY(const auto chat_template, text::ChatTemplate::parse(source));
  json& messages = root["messages"];
  const Added added{profile::add_messages(profile, messages)};
  speak_as(source, messages);
  Renderer renderer(root, tokenizer, *chat_template, source, date);
  renderer.set_added(added);
  if (!renderer.usable()) {
    return invalid("messages: have all of the characters U+FDD0 to U+FDEF; leave one out");
  }
  if (root.value("continue_final_message", json(false)) == true) {
    HOLDFAST_CHECKED(renderer.go_on(messages));
  }
  HOLDFAST_TRY(Trial trial, try_forms(renderer, messages));
  RenderedChat out;
  note_forms(trial.forms, &out.notes);
  for (const std::size_t i : trial.lost) out.notes.push_back("lost=" + added.name_of(i));
  if (root.contains("tools") && source.find("tools") == std::string_view::npos) {
    out.notes.emplace_back("lost=tools");
  }
  out.text = std::move(trial.text.text);
  out.plain = std::move(trial.text.plain);
  return out;
}

}  // namespace holdfast::ingress
