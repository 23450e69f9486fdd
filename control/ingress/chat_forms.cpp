#include "control/ingress/chat_forms.h"

#include <algorithm>
#include <bit>
#include <cctype>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

namespace holdfast::ingress {
namespace {

using json = nlohmann::ordered_json;

constexpr std::size_t kIdBytes = 9;

std::string role_of(const json& message) {
  return message.value("role", std::string());
}

std::string content_of(const json& message) {
  const auto it = message.find("content");
  return it != message.end() && it->is_string() ? it->get<std::string>() : std::string();
}

bool is_system(const json& message) {
  const std::string role = role_of(message);
  return role == "system" || role == "developer";
}

bool is_short_id(const std::string& id) {
  return id.size() == kIdBytes &&
         std::all_of(id.begin(), id.end(), [](unsigned char c) { return std::isalnum(c) != 0; });
}

std::string joined(const std::string& a, const std::string& b) {
  return a.empty() ? b : b.empty() ? a : a + "\n\n" + b;
}

json* calls_of(json& message) {
  const auto it = message.find("tool_calls");
  return it != message.end() && it->is_array() ? &*it : nullptr;
}

const json* calls_of(const json& message) {
  const auto it = message.find("tool_calls");
  return it != message.end() && it->is_array() ? &*it : nullptr;
}

json join_systems(const json& messages) {
  json out = json::array();
  for (const json& message : messages) {
    if (!is_system(message)) {
      out.push_back(message);
    } else if (out.empty()) {
      out.push_back(message);
    } else if (out.size() == 1 && is_system(out[0])) {
      out[0]["content"] = joined(content_of(out[0]), content_of(message));
    } else {
      out.push_back({{"role", "user"}, {"content", content_of(message)}});
    }
  }
  return out;
}

/// Replaces ids that are not nine letters and digits by the number of the call.
void shorten_ids(json& messages) {
  std::map<std::string, std::string> shorter;
  const auto shortened = [&](const std::string& id) {
    if (is_short_id(id)) return id;
    const auto [it, is_new] = shorter.emplace(id, std::string());
    if (is_new) {
      const std::string number = std::to_string(shorter.size());
      it->second = "call" + std::string(kIdBytes - 4 - std::min(number.size(), kIdBytes - 4), '0') +
                   number.substr(0, kIdBytes - 4);
    }
    return it->second;
  };
  std::size_t unnamed = 0;
  for (json& message : messages) {
    if (json* calls = calls_of(message)) {
      for (json& call : *calls) {
        const std::string id = call.value("id", "");
        call["id"] = shortened(id.empty() ? "unnamed " + std::to_string(unnamed++) : id);
      }
    }
    if (role_of(message) == "tool") {
      message["tool_call_id"] = shortened(message.value("tool_call_id", ""));
    }
  }
}

template <class Change>
void change_arguments(json& messages, Change change) {
  for (json& message : messages) {
    json* calls = calls_of(message);
    if (calls == nullptr) continue;
    for (json& call : *calls) change(call["function"]["arguments"]);
  }
}

std::string call_text(const json& call) {
  const json& function = call["function"];
  return json{{"name", function["name"]}, {"arguments", function["arguments"]}}.dump();
}

void write_calls(json& messages) {
  for (json& message : messages) {
    if (const json* calls = calls_of(std::as_const(message))) {
      std::string text = content_of(message);
      for (const json& call : *calls) text = joined(text, call_text(call));
      message["content"] = std::move(text);
      message.erase("tool_calls");
    } else if (role_of(message) == "tool") {
      const std::string name = message.value("name", "");
      const std::string head = "Result of " + (name.empty() ? std::string("the tool") : name);
      message = {{"role", "user"}, {"content", head + ":\n" + content_of(message)}};
    }
  }
}

json move_systems(const json& messages) {
  json out = json::array();
  std::string text;
  for (const json& message : messages) {
    if (is_system(message)) {
      text = joined(text, content_of(message));
      continue;
    }
    out.push_back(message);
    if (text.empty()) continue;
    if (role_of(message) == "user") {
      out.back()["content"] = joined(text, content_of(message));
    } else {
      out.back() = {{"role", "user"}, {"content", text}};
      out.push_back(message);
    }
    text.clear();
  }
  if (!text.empty()) out.push_back({{"role", "user"}, {"content", text}});
  return out;
}

/// True if the message goes on with what the one before it says.
bool joins(const json& before, const json& message) {
  const std::string role = role_of(message);
  return role_of(before) == role && (role == "user" || role == "assistant") &&
         !before.contains("tool_calls");
}

json join_turns(const json& messages) {
  json out = json::array();
  for (const json& message : messages) {
    const bool is_first_turn = out.empty() || is_system(out.back());
    if (is_first_turn && role_of(message) == "assistant") {
      out.push_back({{"role", "user"}, {"content", ""}});
    }
    if (out.empty() || !joins(out.back(), message)) {
      out.push_back(message);
      continue;
    }
    json one = message;
    one["content"] = joined(content_of(out.back()), content_of(message));
    out.back() = std::move(one);
  }
  return out;
}

/// The longest run of bytes for which `is_part` holds.
template <class IsPart>
std::string_view longest_run(std::string_view text, IsPart is_part) {
  std::string_view best;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = at;
    while (end < text.size() && is_part(static_cast<unsigned char>(text[end]))) ++end;
    if (end - at > best.size()) best = text.substr(at, end - at);
    at = end + 1;
  }
  return best;
}

/// The longest run of letters and digits, which every way to write a text leaves as they are.
/// Without any, the longest run of bytes that are not ASCII.
std::string_view longest_word(std::string_view text) {
  const auto word = longest_run(text, [](unsigned char c) { return std::isalnum(c) != 0; });
  return word.empty() ? longest_run(text, [](unsigned char c) { return c >= 0x80; }) : word;
}

/// The texts in a call's arguments, one a line.
std::string values_of(const json& arguments) {
  if (arguments.is_string()) return arguments.get<std::string>();
  if (!arguments.is_structured()) return arguments.dump();
  std::string out;
  for (const json& value : arguments) out += values_of(value) + "\n";
  return out;
}

}  // namespace

/// Forms that calls may be written in.
static std::uint32_t forms_of_calls(const json& calls) {
  std::uint32_t forms = kCallsAsText;
  for (const json& call : calls) {
    if (!is_short_id(call.value("id", ""))) forms |= kShortIds;
    const bool is_object = call["function"]["arguments"].is_object();
    forms |= is_object ? kArgumentsAsText : kArgumentsAsObjects;
  }
  return forms;
}

std::uint32_t applicable_forms(const json& messages, bool has_tools) {
  std::uint32_t forms = kTurnsJoined | (has_tools ? 0U : kToolsEmpty);
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const json& message = messages[i];
    if (is_system(message)) forms |= kSystemInUser | (i > 0 ? kSystemsJoined : 0U);
    if (role_of(message) == "tool") {
      forms |= kCallsAsText;
      if (!is_short_id(message.value("tool_call_id", ""))) forms |= kShortIds;
    }
    if (const json* calls = calls_of(message)) forms |= forms_of_calls(*calls);
  }
  return forms;
}

std::vector<std::uint32_t> form_trials(std::uint32_t applicable) {
  std::vector<std::uint32_t> trials;
  for (std::uint32_t forms = 0; forms <= kAllChatForms; ++forms) {
    const bool both = (forms & kArgumentsAsText) != 0 && (forms & kArgumentsAsObjects) != 0;
    if ((forms & ~applicable) == 0 && !both) trials.push_back(forms);
  }
  std::stable_sort(trials.begin(), trials.end(), [](std::uint32_t a, std::uint32_t b) {
    return std::popcount(a) < std::popcount(b);
  });
  return trials;
}

static void make_text(json& arguments) {
  if (!arguments.is_string()) arguments = arguments.dump();
}

static void make_object(json& arguments) {
  if (!arguments.is_object()) arguments = json{{"input", arguments}};
}

json in_forms(json messages, std::uint32_t forms) {
  if ((forms & kSystemsJoined) != 0) messages = join_systems(messages);
  if ((forms & kShortIds) != 0) shorten_ids(messages);
  if ((forms & kArgumentsAsText) != 0) change_arguments(messages, make_text);
  if ((forms & kArgumentsAsObjects) != 0) change_arguments(messages, make_object);
  if ((forms & kCallsAsText) != 0) write_calls(messages);
  if ((forms & kSystemInUser) != 0) messages = move_systems(messages);
  if ((forms & kTurnsJoined) != 0) messages = join_turns(messages);
  return messages;
}

namespace {

/// Looks for words in a prompt, in the order of its messages.
class WordSearch {
 public:
  explicit WordSearch(std::string_view prompt) : prompt_(prompt) {}

  bool has(std::string_view word) const {
    return word.empty() || prompt_.find(word) != std::string_view::npos;
  }
  bool has_ahead(std::string_view word) const {
    return word.empty() || prompt_.find(word, cursor_) != std::string_view::npos;
  }
  /// Goes behind the word. Returns false if it is not ahead.
  bool go_to(std::string_view word) {
    if (word.empty()) return true;
    const std::size_t at = prompt_.find(word, cursor_);
    if (at == std::string_view::npos) return false;
    cursor_ = at + word.size();
    return true;
  }

 private:
  std::string_view prompt_;
  std::size_t cursor_ = 0;
};

bool finds_calls(WordSearch& search, const json& calls) {
  bool found = true;
  for (const json& call : calls) {
    const std::string name = call["function"].value("name", "");
    const std::string values = values_of(call["function"]["arguments"]);
    // Templates write the name or the arguments first.
    found = search.has_ahead(longest_word(values)) && found;
    found = search.go_to(longest_word(name)) && found;
  }
  return found;
}

bool finds(WordSearch& search, const json& message) {
  const std::string content = content_of(message);
  if (is_system(message)) return search.has(longest_word(content));
  if (const json* calls = calls_of(message)) return finds_calls(search, *calls);
  const std::string role = role_of(message);
  if (role == "user" || role == "tool") return search.go_to(longest_word(content));
  return true;
}

}  // namespace

std::vector<std::size_t> lost_messages(const json& messages, std::string_view prompt) {
  std::vector<std::size_t> lost;
  WordSearch search(prompt);
  for (std::size_t i = 0; i < messages.size(); ++i) {
    if (!finds(search, messages[i])) lost.push_back(i);
  }
  return lost;
}

}  // namespace holdfast::ingress
