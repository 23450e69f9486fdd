#include "control/gateway/responses/compaction.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>

#include "shared/base/base64.h"
#include "shared/base/json_text.h"

namespace holdfast::gateway {

using json = nlohmann::ordered_json;

namespace {

constexpr int kVersion = 1;

// Both texts are part of the model's prompt: another wording makes other summaries and answers.
constexpr std::string_view kInstruction =
    "Summarise the conversation above. It will go on from your summary and the user's own messages "
    "alone. Keep what was asked and decided, what was found out, results of tools that are still "
    "needed (exact names, paths, numbers, code), what has been done and what is left to do. Write "
    "plain text: no greeting, no question, no call of a tool.";
constexpr std::string_view kHead = "Summary of the conversation so far:\n\n";

}  // namespace

bool is_compaction(const std::string& kind) {
  return kind == "compaction" || kind == "compaction_summary";
}

std::string pack_summary(const std::string& summary) {
  const json document = {{"v", kVersion}, {"summary", summary}};
  std::string text = to_base64(document.dump(-1, ' ', false, json::error_handler_t::replace));
  while (text.ends_with('=')) text.pop_back();
  std::replace(text.begin(), text.end(), '+', '-');
  std::replace(text.begin(), text.end(), '/', '_');
  return text;
}

std::optional<std::string> unpack_summary(const std::string& content) {
  if (content.find_first_of("+/=") != std::string::npos) return std::nullopt;
  std::string text = content;
  std::replace(text.begin(), text.end(), '-', '+');
  std::replace(text.begin(), text.end(), '_', '/');
  text.append((4 - text.size() % 4) % 4, '=');
  const auto bytes = from_base64(text);
  if (!bytes) return std::nullopt;
  const json document = try_parse_json<json>(*bytes, kBodyLimits);
  if (!document.is_object() || document.value("v", json()) != kVersion) return std::nullopt;
  const json summary = document.value("summary", json());
  if (!summary.is_string()) return std::nullopt;
  return summary.get<std::string>();
}

json summary_message(const std::string& summary) {
  return {{"role", "assistant"}, {"content", std::string(kHead) + summary}};
}

void ask_for_summary(json* messages) {
  // Some templates refuse two messages of the user in a row.
  const bool joins = !messages->empty() && messages->back()["role"] == "user" &&
                     messages->back()["content"].is_string();
  if (!joins) {
    messages->push_back({{"role", "user"}, {"content", kInstruction}});
    return;
  }
  json& content = messages->back()["content"];
  content = content.get<std::string>() + "\n\n" + std::string(kInstruction);
}

}  // namespace holdfast::gateway
