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
#include "shared/text/chat_template.h"

namespace holdfast::ingress {
namespace {

using json = nlohmann::ordered_json;

// Of messages[i].tool_calls[j].function.arguments.
constexpr int kArgumentsDepth = 6;
/// Bytes of messages that are rendered in all forms together, and messages that are looked at to
/// find the one that a template refuses.
constexpr std::size_t kTrialBytes = 32 << 20;
constexpr std::size_t kSearchMessages = 256;
/// What a template says that used up its bounds: no other form of messages makes it end.
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

/// The words that templates use, where they know only one of them.
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

class Renderer {
 public:
  Renderer(const json& root, const text::Tokenizer& tokenizer, const text::ChatTemplate& chat,
           const std::string& date)
      : root_(root),
        chat_(chat),
        marks_(tokenizer, tokenizer.chat_template(), root.dump()),
        parse_special_(root.value("parse_special", json(false)) == true) {
    const auto tools = root.find("tools");
    if (tools != root.end() && tools->is_array() && !tools->empty()) {
      input_.tools_json = marked(*tools).dump();
      has_tools_ = true;
    }
    const auto extra = root.find("chat_template_kwargs");
    if (extra != root.end() && extra->is_object()) input_.extra_json = extra->dump();
    const auto generation = root.find("add_generation_prompt");
    if (generation != root.end() && generation->is_boolean()) {
      input_.add_generation_prompt = generation->get<bool>();
    }
    if (tokenizer.bos() >= 0) input_.bos_token = tokenizer.piece(tokenizer.bos(), true);
    if (tokenizer.eos() >= 0) input_.eos_token = tokenizer.piece(tokenizer.eos(), true);
    input_.date = date;
  }

  bool usable() const { return parse_special_ || marks_.usable(); }

  bool has_tools() const { return has_tools_; }

  /// The messages in these forms.
  Result<PlainMarks::Text> render(const json& messages, std::uint32_t forms = 0) {
    input_.messages_json = marked(forms == 0 ? messages : in_forms(messages, forms)).dump();
    if (!has_tools_) input_.tools_json = (forms & kToolsEmpty) != 0 ? "[]" : "";
    HF_TRY(std::string text, chat_.render(input_));
    if (parse_special_) return PlainMarks::Text{std::move(text), {}};
    return marks_.take(text);
  }

 private:
  json marked(json list) const {
    if (!parse_special_) marks_.add(list);
    return list;
  }

  const json& root_;
  const text::ChatTemplate& chat_;
  const PlainMarks marks_;
  const bool parse_special_;
  bool has_tools_ = false;
  text::ChatInput input_;
};

/// The first message with which a template refuses those up to it, for the same reason as all.
Error name_message(Renderer& renderer, const json& messages, Error error) {
  if (messages.size() > kSearchMessages) return error;
  json some = json::array();
  for (std::size_t i = 0; i < messages.size(); ++i) {
    some.push_back(messages[i]);
    const auto text = renderer.render(some);
    if (text || text.error().what != error.what) continue;
    error.what = "messages[" + std::to_string(i) + "]: " + error.what;
    return error;
  }
  return error;
}

void note_forms(std::uint32_t forms, std::vector<std::string>* notes) {
  constexpr std::pair<ChatForm, const char*> kNames[] = {
      {kSystemsJoined, "system-joined"},       {kShortIds, "short-ids"},
      {kArgumentsAsText, "arguments-as-text"}, {kArgumentsAsObjects, "arguments-as-objects"},
      {kSystemInUser, "system-in-user"},       {kCallsAsText, "calls-as-text"},
      {kTurnsJoined, "turns-joined"}};  // of kToolsEmpty nothing is to be said
  for (const auto& [form, name] : kNames) {
    if ((forms & form) != 0) notes->emplace_back(name);
  }
}

/// One way to say the messages, as a template took it.
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

/// The first form in which the template takes the messages and leaves nothing out, else the one in
/// which it leaves out the least.
Result<Trial> try_forms(Renderer& renderer, const json& messages) {
  const std::vector<std::uint32_t> trials =
      form_trials(applicable_forms(messages, renderer.has_tools()));
  const std::size_t most = std::max<std::size_t>(kTrialBytes / (messages.dump().size() + 1), 4);
  std::optional<Trial> best;
  std::optional<Error> refused;
  for (std::size_t i = 0; i < trials.size() && i < most; ++i) {
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
                                 const std::string& date) {
  json root = try_parse_json<json>(text);
  if (!root.is_object()) return invalid("not a JSON object");
  HF_CHECKED(read_messages(root));
  if (tokenizer.chat_template().empty()) {
    return Error{Errc::kNoChatTemplate,
                 "chat: the model's file holds no chat template; send a prompt instead"};
  }
  HF_TRY(const auto chat_template, text::ChatTemplate::parse(tokenizer.chat_template()));
  json& messages = root["messages"];
  speak_as(tokenizer.chat_template(), messages);
  Renderer renderer(root, tokenizer, *chat_template, date);
  if (!renderer.usable()) {
    return invalid("messages: have all of the characters U+FDD0 to U+FDEF; leave one out");
  }
  HF_TRY(Trial trial, try_forms(renderer, messages));
  RenderedChat out;
  note_forms(trial.forms, &out.notes);
  for (const std::size_t i : trial.lost)
    out.notes.push_back("lost=messages[" + std::to_string(i) + "]");
  if (root.contains("tools") && tokenizer.chat_template().find("tools") == std::string_view::npos) {
    out.notes.emplace_back("lost=tools");
  }
  out.text = std::move(trial.text.text);
  out.plain = std::move(trial.text.plain);
  return out;
}

}  // namespace holdfast::ingress
