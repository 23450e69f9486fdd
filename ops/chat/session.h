#pragma once
// A chat with a user: reads messages and commands, shows answers, and writes every turn into the
// database before and after the model has it.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ops/chat/answer.h"
#include "ops/chat/chat_store.h"
#include "ops/chat/conversation.h"
#include "ops/chat/interrupts.h"
#include "ops/chat/line_reader.h"
#include "ops/terminal/call.h"
#include "shared/client/client.h"

namespace holdfast::cli {

/// How a chat is shown, and what it asks for.
struct ChatOptions {
  bool terminal = false;  // prompts, notes between the turns, thinking
  bool colour = false;
  bool thinking = true;   // show it
  std::string output;     // how the model writes it: wire::ModelInfo::output
  std::string open_with;  // the command that opens this chat again
  /// Makes a request of settings; kInvalidRequest names a wrong one.
  std::function<Result<wire::Submit>(const ChatSettings&)> make_submit;
};

/// A chat that is open. Not thread-safe.
class ChatSession {
 public:
  /// Both clients must outlive it. `row` and `conversation` are as they are stored.
  ChatSession(const Call& call, client::Client& requests, client::Client& operators, ChatRow row,
              Conversation conversation, ChatOptions options);

  /// Talks until the end of the input, /exit, Ctrl-C at the prompt or SIGTERM. Returns the exit
  /// code; without a terminal the first turn that fails ends it. An answer that was under way comes
  /// first. `system`: its last text, if there is one, then replaces the one before all turns.
  int run(LineReader& reader, Interrupts& interrupts, const std::vector<std::string>& system);

 private:
  using Command = int (ChatSession::*)(const std::string&);
  struct CommandRow {
    const char* name;
    const char* help;
    Command run;
  };
  static const CommandRow kCommands[];

  int open(const std::vector<std::string>& system);
  int set_system(const std::string& text);
  int take_message(const Message& message);
  int run_command(const std::string& line);
  int show_help(const std::string&);
  int change_system(const std::string& text);
  int retry(const std::string&);
  int undo(const std::string&);
  int save(const std::string& path);
  int leave(const std::string&);

  int ask(const std::string& text, const std::string& lines_before);
  int finish_turn();
  int settle();
  int end_turn(const ChatTurn& turn, const wire::RequestInfo& info, std::int64_t tokens);
  int end_without_answer(const ChatTurn& turn, const wire::RequestInfo& info);
  int drop_turn(const client::Failure& failure);
  Result<wire::Submit> request_of(const ChatTurn& turn) const;
  int append(const std::string& lines);
  int abandon();
  void show_opening() const;
  void show_part(const AnswerPart& part);
  void separate();
  void end_text(const ChatTurn& turn);
  void print_turn(const ChatTurn& turn, const wire::RequestInfo& info, std::int64_t tokens) const;
  /// A line for the user that is no part of an answer.
  void note(const std::string& line) const;

  const Call& call_;
  client::Client& requests_;
  ChatStore store_;
  ChatRow row_;
  Conversation conversation_;
  ChatOptions options_;
  Interrupts* interrupts_ = nullptr;
  bool left_ = false;
  bool answered_ = false;  // an answer was printed: the next one is separated from it
  enum class Printed : std::uint8_t { kNothing, kThinking, kText } printed_ = Printed::kNothing;
};

}  // namespace holdfast::cli
