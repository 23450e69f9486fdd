// chats: the chats that `holdfast chat` has stored.

#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>

#include "ops/chat/chat_store.h"
#include "ops/cli/verb_functions.h"
#include "ops/serve/daemon.h"
#include "ops/terminal/output.h"

namespace holdfast::cli {
namespace {

using nlohmann::json;

constexpr auto kTimeout = std::chrono::seconds(30);

json row_json(const ChatRow& row) {
  return {{"name", row.name},
          {"model", row.model},
          {"turns", row.turns},
          {"state", row.under_way ? "answering" : "idle"},
          {"created_ms", row.created_ms},
          {"changed_ms", row.changed_ms},
          {"last", row.last},
          {"bytes", row.bytes}};
}

Error no_chat(const std::string& name) {
  return {Errc::kNotFound, "no chat " + name + "; `holdfast chats list` shows them"};
}

}  // namespace

int chats_list(const Call& call) {
  const auto client = connect_operator(call, kTimeout);
  if (!client) return report_error(call, client.error());
  const auto listed = ChatStore(**client).list();
  if (const auto* failure = std::get_if<client::Failure>(&listed)) {
    return report_refusal(call, *failure);
  }
  json chats = json::array();
  for (const ChatRow& row : std::get<std::vector<ChatRow>>(listed)) chats.push_back(row_json(row));
  RenderOptions options;
  options.nested["chats"] = {"name", "model", "turns", "state", "changed_ms", "last"};
  options.columns = options.nested["chats"];
  options.when_empty = "no chats; `holdfast chat MODEL` begins one";
  print_document(call, {{"chats", chats}}, options);
  return kExitDone;
}

int chats_show(const Call& call) {
  const auto client = connect_operator(call, kTimeout);
  if (!client) return report_error(call, client.error());
  const std::string name = call.text("NAME");
  const auto found = ChatStore(**client).find(name);
  if (const auto* failure = std::get_if<client::Failure>(&found)) {
    return report_refusal(call, *failure);
  }
  const auto& stored = std::get<std::optional<ChatStore::Stored>>(found);
  if (!stored) return report_error(call, no_chat(name));
  Conversation conversation;
  if (const auto good = conversation.take(stored->journal); !good) {
    return report_error(call, good.error());
  }
  if (!call.json) {
    const std::string text = conversation.transcript();
    std::fwrite(text.data(), 1, text.size(), stdout);
    return kExitDone;
  }
  json document = row_json(stored->row);
  document.update(conversation.document());
  document["settings"] = settings_json(stored->row.settings);
  print_document(call, document);
  return kExitDone;
}

int chats_remove(const Call& call) {
  const auto client = connect_operator(call, kTimeout);
  if (!client) return report_error(call, client.error());
  const std::string name = call.text("NAME");
  const auto removed = ChatStore(**client).remove(name);
  if (const auto* failure = std::get_if<client::Failure>(&removed)) {
    return report_refusal(call, *failure);
  }
  if (!std::get<bool>(removed)) return report_error(call, no_chat(name));
  print_change(call, {{"name", name}, {"removed", true}}, name + ": removed");
  return kExitDone;
}

}  // namespace holdfast::cli
