#include "shared/chat/prefill.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace holdfast::chat {
namespace {

using json = nlohmann::ordered_json;

constexpr std::string_view kBegin = "<think>", kEnd = "</think>";

std::string_view text_member(const json& message, const char* name) {
  const auto it = message.find(name);
  return it != message.end() && it->is_string()
             ? std::string_view(it->get_ref<const std::string&>())
             : std::string_view();
}

std::string_view without_space_before(std::string_view text) {
  return text.substr(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
}

}  // namespace

std::string_view open_thinking(std::string_view content) {
  const std::string_view text = without_space_before(content);
  const bool open = text.starts_with(kBegin) && text.find(kEnd) == std::string_view::npos;
  return open ? text.substr(kBegin.size()) : std::string_view();
}

std::string_view text_after_thinking(std::string_view content) {
  const std::size_t end = content.rfind(kEnd);
  return without_space_before(
      content.substr(end == std::string_view::npos ? 0 : end + kEnd.size()));
}

Prefill prefill_of(const json& message) {
  const std::string_view content = text_member(message, "content");
  if (open_thinking(content).data() != nullptr) return Prefill::kThinking;
  if (!content.empty()) return Prefill::kText;
  return text_member(message, "reasoning_content").empty() ? Prefill::kEmpty : Prefill::kThinking;
}

}  // namespace holdfast::chat
