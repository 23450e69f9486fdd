#pragma once
// Chats as objects of the daemon's database (schema/protocol.md, "objects.…"): the body says what a
// list shows, the content is the journal. A change is on disk before a call returns.

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "ops/chat/conversation.h"
#include "shared/client/client.h"

namespace holdfast::cli {

inline constexpr const char* kChatKind = "chat";

/// A chat without its turns.
struct ChatRow {
  std::string name;
  std::string uid;  // of this chat alone: a later one of the same name has another
  std::string model;
  ChatSettings settings;
  std::int64_t turns = 0;
  std::string last;  // the beginning of the last question
  bool under_way = false;
  std::int64_t created_ms = 0;
  std::int64_t changed_ms = 0;
  std::int64_t bytes = 0;  // of the journal
};

/// Returns nothing for 1 to 64 letters, digits, '.', '_' and '-' that begin with a letter or a
/// digit, else kUsage.
Result<void> check_chat_name(const std::string& name);

/// Reads a row of objects.list or objects.get.
ChatRow read_chat_row(const nlohmann::json& object);

/// The chats of the local user, over a client of the operator endpoint. Calls block until the
/// client's timeout, also while the daemon is started again.
class ChatStore {
 public:
  explicit ChatStore(client::Client& client) : client_(client) {}

  /// Returns all chats, the last changed first.
  client::Answer<std::vector<ChatRow>> list();
  struct Stored {
    ChatRow row;
    std::string journal;
  };
  /// Returns nullopt for an unknown name.
  client::Answer<std::optional<Stored>> find(const std::string& name);
  /// Makes a chat without turns. kConflict if the name is taken.
  std::optional<client::Failure> make(ChatRow& row);
  /// Appends lines to the journal and writes the row. An append whose answer was lost is not
  /// repeated. kConflict if another program has changed the chat since `row` was read.
  std::optional<client::Failure> append(ChatRow& row, const std::string& lines);
  /// Returns false if there was none of that name.
  client::Answer<bool> remove(const std::string& name);

 private:
  client::Answer<nlohmann::json> ask(const char* verb, const nlohmann::json& args);
  std::optional<client::Failure> put(ChatRow& row, nlohmann::json args);
  client::Answer<std::string> read(const std::string& name, std::int64_t from);
  bool has_appended(const ChatRow& row, const std::string& lines);

  client::Client& client_;
};

}  // namespace holdfast::cli
