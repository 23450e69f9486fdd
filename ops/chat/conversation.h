#pragma once
// A chat as its journal tells it: what was asked, answered and taken back. The journal is lines of
// JSON that are appended and never changed, so whichever process dies, a reader finds each turn as
// it was, and the last one perhaps without its answer.

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "shared/base/result.h"

namespace holdfast::cli {

/// The flags that decide how answers are made, by their names without dashes.
using ChatSettings = std::map<std::string, std::vector<std::string>>;
/// Returns them as a JSON object, and back; what is no list of texts is left out.
nlohmann::json settings_json(const ChatSettings& settings);
ChatSettings read_settings(const nlohmann::json& value);

/// One turn: the user's text, and the answer once it has ended.
struct ChatTurn {
  std::int64_t number = 0;  // from 1; no number is used twice in a chat
  std::string text;
  std::string model;
  ChatSettings settings;
  std::string request_id;
  std::string answer;
  std::string thinking;
  std::string finish;  // "stop", "length", "cancelled", …; empty: under way
  std::string error;   // of an answer that broke off
};

/// Lines of a journal, each with its line break.
std::string question_line(const ChatTurn& turn);
std::string answer_line(const ChatTurn& turn);
std::string system_line(std::string_view text);
/// A turn that no longer counts. `why`: "undo", "retry", or the code of the error that ended it.
std::string drop_line(std::int64_t number, std::string_view why);

/// The state of a chat after its journal. Not thread-safe.
class Conversation {
 public:
  /// Takes lines in the order of the journal. kCorrupt for one that is none; those before it count.
  Result<void> take(std::string_view lines);

  /// The text that precedes all turns; empty: none.
  const std::string& system() const { return system_; }
  /// The turns that count, the oldest first.
  const std::vector<ChatTurn>& turns() const { return turns_; }
  /// The turn without an answer; nullptr if there is none. It is the last one.
  const ChatTurn* under_way() const;
  std::int64_t next_number() const { return last_number_ + 1; }
  /// The text of a question that an error took back, until the next question; empty: none.
  const std::string& refused_text() const { return refused_text_; }
  /// The prompt of the last turn: {"messages": […]}.
  std::string messages() const;
  /// The chat for people: Markdown.
  std::string transcript() const;
  /// The chat for programs.
  nlohmann::json document() const;

 private:
  bool take_entry(const nlohmann::json& entry);
  bool take_question(const nlohmann::json& entry);
  bool take_answer(const nlohmann::json& entry);
  bool take_drop(const nlohmann::json& entry);

  std::string system_;
  std::vector<ChatTurn> turns_;
  std::int64_t last_number_ = 0;
  std::string refused_text_;
};

}  // namespace holdfast::cli
