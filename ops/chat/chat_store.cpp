#include "ops/chat/chat_store.h"

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>

#include "shared/base/base64.h"
#include "shared/base/json_text.h"

namespace holdfast::cli {
namespace {

using client::Answer;
using client::Failure;
using nlohmann::json;

constexpr std::int64_t kReadBytes = 512 * 1024;

Failure no_document(const char* verb) {
  Failure failure;
  failure.message = std::string(verb) + ": the daemon's answer is no document";
  return failure;
}

json body_of(const ChatRow& row) {
  return {{"uid", row.uid},     {"model", row.model}, {"settings", settings_json(row.settings)},
          {"turns", row.turns}, {"last", row.last},   {"under_way", row.under_way}};
}

}  // namespace

Result<void> check_chat_name(const std::string& name) {
  constexpr std::size_t kLongest = 64;
  const auto letter = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; };
  const bool good = !name.empty() && name.size() <= kLongest && letter(name[0]) &&
                    std::all_of(name.begin(), name.end(), [&](char c) {
                      return letter(c) || c == '.' || c == '_' || c == '-';
                    });
  if (good) return {};
  return Error{Errc::kUsage, "chat \"" + name +
                                 "\": expected a name of 1 to 64 letters, digits, '.', '_' and "
                                 "'-' that begins with a letter or a digit"};
}

ChatRow read_chat_row(const json& object) {
  const json& body = object.at("body");
  ChatRow row;
  row.name = object.at("id");
  row.created_ms = object.at("created_ms");
  row.changed_ms = object.at("changed_ms");
  row.bytes = object.at("bytes");
  row.uid = body.value("uid", "");
  row.model = body.value("model", "");
  row.settings = read_settings(body.value("settings", json::object()));
  row.turns = body.value("turns", std::int64_t{0});
  row.last = body.value("last", "");
  row.under_way = body.value("under_way", false);
  return row;
}

Answer<json> ChatStore::ask(const char* verb, const json& args) {
  const auto answer = client_.op(client::Principal::local(), verb,
                                 args.dump(-1, ' ', false, json::error_handler_t::replace));
  if (const auto* failure = std::get_if<Failure>(&answer)) return *failure;
  json document = try_parse_json<json>(std::get<std::string>(answer));
  if (!document.is_object()) return no_document(verb);
  return document;
}

Answer<std::vector<ChatRow>> ChatStore::list() {
  std::vector<ChatRow> rows;
  json args = {{"kind", kChatKind}, {"order", "oldest"}, {"limit", 1000}};
  for (;;) {
    const auto answer = ask("objects.list", args);
    if (const auto* failure = std::get_if<Failure>(&answer)) return *failure;
    const json& page = std::get<json>(answer);
    for (const json& object : page.at("objects")) rows.push_back(read_chat_row(object));
    if (page.at("more") != true) break;
    args["from"] = page.at("objects").back().at("seq");
  }
  std::stable_sort(rows.begin(), rows.end(),
                   [](const ChatRow& a, const ChatRow& b) { return a.changed_ms > b.changed_ms; });
  return rows;
}

/// Returns the journal from a byte on; the end is where nothing more comes.
Answer<std::string> ChatStore::read(const std::string& name, std::int64_t from) {
  std::string journal;
  for (;;) {
    const auto answer =
        ask("objects.get", {{"kind", kChatKind},
                            {"id", name},
                            {"from", from + static_cast<std::int64_t>(journal.size())},
                            {"limit", kReadBytes}});
    if (const auto* failure = std::get_if<Failure>(&answer)) return *failure;
    const auto bytes = from_base64(std::get<json>(answer).value("content", ""));
    if (!bytes) return no_document("objects.get");
    if (bytes->empty()) return journal;
    journal += *bytes;
  }
}

Answer<std::optional<ChatStore::Stored>> ChatStore::find(const std::string& name) {
  const auto answer = ask("objects.get", {{"kind", kChatKind}, {"id", name}});
  if (const auto* failure = std::get_if<Failure>(&answer)) return *failure;
  const json& document = std::get<json>(answer);
  if (document.value("found", false) != true) return std::optional<Stored>();
  Stored stored{read_chat_row(document.at("object")), {}};
  auto journal = read(name, 0);
  if (const auto* failure = std::get_if<Failure>(&journal)) return *failure;
  stored.journal = std::move(std::get<std::string>(journal));
  stored.row.bytes = static_cast<std::int64_t>(stored.journal.size());
  return std::optional<Stored>(std::move(stored));
}

std::optional<Failure> ChatStore::put(ChatRow& row, json args) {
  args["kind"] = kChatKind;
  args["id"] = row.name;
  args["body"] = body_of(row);
  const auto answer = ask("objects.put", args);
  if (const auto* failure = std::get_if<Failure>(&answer)) return *failure;
  row.bytes = std::get<json>(answer).value("bytes", row.bytes);
  return std::nullopt;
}

std::optional<Failure> ChatStore::make(ChatRow& row) {
  auto failure = put(row, {{"version", 0}});
  if (!failure || failure->code != Errc::kConflict) return failure;
  // The daemon may have made it and died before its answer left.
  const auto found = find(row.name);
  const auto* stored = std::get_if<std::optional<Stored>>(&found);
  const bool ours = stored != nullptr && *stored && (*stored)->row.uid == row.uid;
  return ours ? std::nullopt : failure;
}

/// Returns true if the journal has these lines where the row ends.
bool ChatStore::has_appended(const ChatRow& row, const std::string& lines) {
  const auto there = read(row.name, row.bytes);
  const auto* text = std::get_if<std::string>(&there);
  return text != nullptr && *text == lines;
}

std::optional<Failure> ChatStore::append(ChatRow& row, const std::string& lines) {
  auto failure = put(row, {{"append", to_base64(lines)}, {"append_at", row.bytes}});
  if (!failure || failure->code != Errc::kConflict) return failure;
  if (has_appended(row, lines)) {
    row.bytes += static_cast<std::int64_t>(lines.size());
    return std::nullopt;
  }
  failure->message = "chat " + row.name +
                     ": another program has changed it meanwhile (or removed it); open it again";
  return failure;
}

Answer<bool> ChatStore::remove(const std::string& name) {
  const auto answer = ask("objects.delete", {{"kind", kChatKind}, {"id", name}});
  if (const auto* failure = std::get_if<Failure>(&answer)) return *failure;
  return std::get<json>(answer).value("deleted", false);
}

}  // namespace holdfast::cli
