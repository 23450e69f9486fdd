#include "control/ingress/plain_marks.h"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

namespace holdfast::ingress {
namespace {

using json = nlohmann::ordered_json;

constexpr int kFirstMark = 0x90;  // U+FDD0 to U+FDEF, which are noncharacters: EF B7 90 …
constexpr int kMarks = 32;

/// Bytes of the character that begins at `at`.
std::size_t character(std::string_view text, std::size_t at) {
  std::size_t end = at + 1;
  while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) ++end;
  return end - at;
}

/// Tells marks of templates from words. Tokens like "<b>" or runs of spaces may be words of the
/// vocabulary; marks have brackets.
bool has_brackets(std::string_view name) {
  return name.size() > 2 && (name[0] == '<' || name[0] == '[');
}

constexpr std::string_view kThinks[] = {"<think>", "<thinking>", "<thought>", "<reasoning>",
                                        "[THINK]"};
constexpr std::string_view kThought[] = {"</think>", "</thinking>", "</thought>", "</reasoning>",
                                         "[/THINK]"};

bool ends_thinking(std::string_view text) {
  return (text[0] == '<' || text[0] == '[') &&
         std::any_of(std::begin(kThought), std::end(kThought),
                     [&](std::string_view mark) { return text.starts_with(mark); });
}

bool is_of_thinking(std::string name) {
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return name.find("think") != std::string::npos || name.find("thought") != std::string::npos ||
         name.find("reason") != std::string::npos;
}

}  // namespace

PlainMarks::PlainMarks(const text::Tokenizer& tokenizer, std::string_view chat_template,
                       std::string_view request)
    : tokenizer_(tokenizer), template_(chat_template) {
  constexpr char kDigits[] = "0123456789abcdef";
  for (int i = 0; i < kMarks; ++i) {
    const std::string mark = {'\xef', '\xb7', static_cast<char>(kFirstMark + i)};
    if (request.find(mark) != std::string_view::npos) continue;
    if (!mark_.empty()) {
      position_mark_ = mark;
      return;
    }
    mark_ = mark;
    escaped_ = std::string("\\ufd") + kDigits[13 + i / 16] + kDigits[i % 16];
  }
}

bool PlainMarks::is_plain(text::TokenId id, Writer writer) const {
  const std::string_view name = tokenizer_.token_bytes(id, /*special=*/true);
  const bool control = tokenizer_.is_control(id);
  if (writer == Writer::kClosed) return control;
  if (writer == Writer::kModel) return control && !is_of_thinking(std::string(name));
  // Some vocabularies have the marks of turns and calls among their words.
  return control || (has_brackets(name) && template_.find(name) != std::string_view::npos);
}

bool PlainMarks::begins_thinking(std::string_view text) const {
  const std::size_t at = text.find_first_not_of(" \t\r\n");
  if (at == std::string_view::npos) return false;
  const text::TokenId id = tokenizer_.special_at(text, at, nullptr);
  if (id >= 0 && is_of_thinking(std::string(tokenizer_.token_bytes(id, /*special=*/true))))
    return true;
  return std::any_of(std::begin(kThinks), std::end(kThinks),
                     [&](std::string_view mark) { return text.substr(at).starts_with(mark); });
}

/// Returns true if a mark goes after the character at `at`.
bool PlainMarks::wants_mark(std::string_view text, std::size_t at, Writer writer) const {
  if (writer == Writer::kClosed && ends_thinking(text.substr(at))) return true;
  bool open = false;
  const text::TokenId id = tokenizer_.special_at(text, at, &open);
  // The template's text could complete a special token that begins here.
  const auto c = static_cast<unsigned char>(text[at]);
  if (open && std::isspace(c) == 0 && std::isalnum(c) == 0) return true;
  return id >= 0 && is_plain(id, writer);
}

void PlainMarks::add_to(std::string& text, Writer writer) const {
  // An end of reasoning that never began is text: a template would drop what stands before it.
  if (writer == Writer::kModel && !begins_thinking(text)) writer = Writer::kClosed;
  std::string out;
  std::size_t from = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (!wants_mark(text, i, writer)) continue;
    const std::size_t end = i + character(text, i);
    out.append(text, from, end - from);
    out += mark_;
    from = end;
  }
  if (from == 0) return;
  out.append(text, from, std::string::npos);
  text = std::move(out);
}

void PlainMarks::add_to(json& value, Writer writer) const {
  if (value.is_string()) {
    add_to(value.get_ref<std::string&>(), writer);
  } else if (value.is_array()) {
    for (json& item : value) add_to(item, writer);
  } else if (value.is_object()) {
    json marked = json::object();
    for (auto& [name, member] : value.items()) {
      std::string marked_name = name;
      add_to(marked_name, Writer::kClient);
      add_to(member, writer);
      marked.emplace(std::move(marked_name), std::move(member));
    }
    value = std::move(marked);
  }
}

void PlainMarks::add(json& list) const {
  for (json& item : list) {
    if (!item.is_object()) {
      add_to(item, Writer::kClient);
      continue;
    }
    const bool by_model = item.contains("role") && item["role"] == "assistant";
    for (auto& [name, member] : item.items()) {
      if (name == "role") continue;
      add_to(member, by_model && name == "content" ? Writer::kModel : Writer::kClient);
    }
  }
}

namespace {

std::size_t begin_of_last_character(std::string_view text) {
  std::size_t begin = text.size() - 1;
  while (begin > 0 && (static_cast<unsigned char>(text[begin]) & 0xc0) == 0x80) --begin;
  return begin;
}

}  // namespace

PlainMarks::Text PlainMarks::take(std::string_view rendered) const {
  Text out;
  out.text.reserve(rendered.size());
  const auto is_next = [&](std::string_view what, std::size_t at) {
    return rendered.compare(at, what.size(), what) == 0;
  };
  for (std::size_t at = 0; at < rendered.size();) {
    const std::size_t mark = is_next(mark_, at)      ? mark_.size()
                             : is_next(escaped_, at) ? escaped_.size()
                                                     : 0;
    if (mark == 0) {
      out.text += rendered[at++];
      continue;
    }
    at += mark;
    if (out.text.empty()) continue;
    const std::size_t begin = begin_of_last_character(out.text);
    if (out.plain.empty() || out.plain.back() < begin) out.plain.push_back(begin);
  }
  return out;
}

}  // namespace holdfast::ingress
