#include "ops/chat/conversation.h"

#include <nlohmann/json.hpp>

#include "shared/base/json_text.h"

namespace holdfast::cli {
namespace {

using nlohmann::json;

std::string text_of(const json& entry, const char* name) {
  const auto it = entry.find(name);
  return it != entry.end() && it->is_string() ? it->get<std::string>() : std::string();
}

std::int64_t number_of(const json& entry) {
  const auto it = entry.find("turn");
  return it != entry.end() && it->is_number_integer() ? it->get<std::int64_t>() : 0;
}

std::string line_of(const json& entry) {
  return entry.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
}

bool has_text(const json& list) {
  for (const json& item : list) {
    if (!item.is_string()) return false;
  }
  return list.is_array();
}

json turn_json(const ChatTurn& turn) {
  json out = {{"turn", turn.number},
              {"model", turn.model},
              {"question", turn.text},
              {"answer", turn.answer},
              {"finish", turn.finish.empty() ? "under_way" : turn.finish},
              {"request", turn.request_id}};
  if (!turn.thinking.empty()) out["thinking"] = turn.thinking;
  if (!turn.error.empty()) out["error"] = turn.error;
  return out;
}

}  // namespace

json settings_json(const ChatSettings& settings) {
  json out = json::object();
  for (const auto& [name, values] : settings) out[name] = values;
  return out;
}

ChatSettings read_settings(const json& value) {
  ChatSettings out;
  if (!value.is_object()) return out;
  for (const auto& [name, values] : value.items()) {
    if (has_text(values)) out[name] = values.get<std::vector<std::string>>();
  }
  return out;
}

std::string question_line(const ChatTurn& turn) {
  return line_of({{"kind", "question"},
                  {"turn", turn.number},
                  {"text", turn.text},
                  {"model", turn.model},
                  {"settings", settings_json(turn.settings)},
                  {"request", turn.request_id}});
}

std::string answer_line(const ChatTurn& turn) {
  json entry = {
      {"kind", "answer"}, {"turn", turn.number}, {"text", turn.answer}, {"finish", turn.finish}};
  if (!turn.thinking.empty()) entry["thinking"] = turn.thinking;
  if (!turn.error.empty()) entry["error"] = turn.error;
  return line_of(entry);
}

std::string system_line(std::string_view text) {
  return line_of({{"kind", "system"}, {"text", text}});
}

std::string drop_line(std::int64_t number, std::string_view why) {
  return line_of({{"kind", "drop"}, {"turn", number}, {"why", why}});
}

bool Conversation::take_question(const json& entry) {
  const std::int64_t number = number_of(entry);
  if (number <= last_number_ || under_way() != nullptr) return false;
  ChatTurn turn;
  turn.number = last_number_ = number;
  turn.text = text_of(entry, "text");
  turn.model = text_of(entry, "model");
  turn.request_id = text_of(entry, "request");
  if (entry.contains("settings")) turn.settings = read_settings(entry["settings"]);
  turns_.push_back(std::move(turn));
  refused_text_.clear();
  return true;
}

bool Conversation::take_answer(const json& entry) {
  const std::string finish = text_of(entry, "finish");
  if (under_way() == nullptr || turns_.back().number != number_of(entry) || finish.empty()) {
    return false;
  }
  ChatTurn& turn = turns_.back();
  turn.answer = text_of(entry, "text");
  turn.thinking = text_of(entry, "thinking");
  turn.finish = finish;
  turn.error = text_of(entry, "error");
  return true;
}

bool Conversation::take_drop(const json& entry) {
  if (turns_.empty() || turns_.back().number != number_of(entry)) return false;
  const std::string why = text_of(entry, "why");
  refused_text_ = why == "undo" || why == "retry" ? std::string() : turns_.back().text;
  turns_.pop_back();
  return true;
}

bool Conversation::take_entry(const json& entry) {
  if (!entry.is_object()) return false;
  const std::string kind = text_of(entry, "kind");
  if (kind == "question") return take_question(entry);
  if (kind == "answer") return take_answer(entry);
  if (kind == "drop") return take_drop(entry);
  if (kind != "system") return false;
  system_ = text_of(entry, "text");
  return true;
}

Result<void> Conversation::take(std::string_view lines) {
  for (std::size_t line = 1; !lines.empty(); ++line) {
    const std::size_t end = lines.find('\n');
    const bool whole = end != std::string_view::npos;
    const json entry = try_parse_json<json>(lines.substr(0, end));
    if (!whole || !take_entry(entry)) {
      return Error{Errc::kCorrupt, "read the chat: line " + std::to_string(line) +
                                       " of its journal fits none before it; start another with "
                                       "--new, `holdfast db check` looks at the whole database"};
    }
    lines.remove_prefix(end + 1);
  }
  return {};
}

const ChatTurn* Conversation::under_way() const {
  return turns_.empty() || !turns_.back().finish.empty() ? nullptr : &turns_.back();
}

std::string Conversation::messages() const {
  json list = json::array();
  if (!system_.empty()) list.push_back({{"role", "system"}, {"content", system_}});
  for (const ChatTurn& turn : turns_) {
    list.push_back({{"role", "user"}, {"content", turn.text}});
    if (turn.finish.empty()) continue;
    list.push_back({{"role", "assistant"}, {"content", turn.answer}});
  }
  return json{{"messages", std::move(list)}}.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::string Conversation::transcript() const {
  std::string out;
  if (!system_.empty()) out += "**system**\n\n" + system_ + "\n\n";
  for (const ChatTurn& turn : turns_) {
    out += "**user**\n\n" + turn.text + "\n\n**" + turn.model + "**";
    if (turn.finish.empty()) out += " (under way)";
    if (turn.finish == "cancelled") out += " (stopped)";
    if (turn.finish == "length") out += " (cut off by its length)";
    if (!turn.error.empty()) out += " (broke off: " + turn.error + ")";
    out += "\n\n";
    if (!turn.answer.empty()) out += turn.answer + "\n\n";
  }
  if (out.ends_with("\n\n")) out.pop_back();
  return out;
}

json Conversation::document() const {
  json turns = json::array();
  for (const ChatTurn& turn : turns_) turns.push_back(turn_json(turn));
  json out = {{"turns", std::move(turns)}};
  if (!system_.empty()) out["system"] = system_;
  return out;
}

}  // namespace holdfast::cli
