#include "ops/chat/session.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "ops/terminal/output.h"
#include "shared/base/bytes.h"

namespace holdfast::cli {
namespace {

using client::Failure;
using nlohmann::json;

constexpr const char* kDim = "\033[2m";
constexpr const char* kPlain = "\033[0m";
constexpr std::size_t kSummaryBytes = 80;

void write_out(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

/// The beginning of a text, in one line, cut between characters.
std::string summary_of(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20; }, ' ');
  if (text.size() <= kSummaryBytes) return text;
  std::size_t end = kSummaryBytes;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  return text.substr(0, end) + "…";
}

std::string trimmed(const std::string& text) {
  const std::size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == std::string::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r\n") - begin + 1);
}

bool is_lost(const Failure& failure) {
  return failure.code == Errc::kUnreachable || failure.code == Errc::kTimeout;
}

/// Advice about a refusal, beyond what its message says.
std::string advice_on(const Failure& failure) {
  if (failure.code != Errc::kContextExceeded) return "/retry asks again";
  return "the chat fills the model's context: /undo takes the last turn back, --new starts another "
         "chat, `holdfast models add NAME FILE --context N` gives more";
}

/// The error that ended an answer; its finish is never empty.
void take_end(const wire::RequestInfo& info, ChatTurn& turn) {
  turn.finish = "error";
  turn.request_id = info.request_id;
  if (!info.choices.empty()) {
    turn.finish = wire::finish_name(info.choices[0].finish);
    turn.error = info.choices[0].error;
    if (turn.error.empty()) turn.error = info.choices[0].error_code;
  }
  const bool ended = wire::is_terminal(info.state) && turn.finish != "none";
  if (!ended) turn.finish = "error";
  if (!ended)
    turn.error = "request " + info.request_id + " is " + std::string(wire::state_name(info.state));
}

Result<void> write_file(const std::string& path, const std::string& text) {
  const auto failed = [&](const char* step) {
    return Error{Errc::kIo, std::string(step) + " " + path + ": " + std::strerror(errno)};
  };
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) return failed("create");
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t n = write(fd, text.data() + done, text.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    done += static_cast<std::size_t>(n);
  }
  const bool whole = done == text.size();
  Result<void> result;
  if (!whole) result = failed("write");
  if (close(fd) != 0 && whole) result = failed("write");
  return result;
}

}  // namespace

const ChatSession::CommandRow ChatSession::kCommands[] = {
    {"help", "these lines", &ChatSession::show_help},
    {"system", "TEXT: what precedes all turns; alone it shows it, - takes it away",
     &ChatSession::change_system},
    {"retry", "ask the last question again, for another answer", &ChatSession::retry},
    {"undo", "take the last turn back", &ChatSession::undo},
    {"save", "FILE: write the chat into a new file, as Markdown (FILE.json: as JSON)",
     &ChatSession::save},
    {"exit", "leave; the chat stays in the database (end of input, Ctrl-C: the same)",
     &ChatSession::leave},
    {"quit", nullptr, &ChatSession::leave},
    {"bye", nullptr, &ChatSession::leave},
};

ChatSession::ChatSession(const Call& call, client::Client& requests, client::Client& operators,
                         ChatRow row, Conversation conversation, ChatOptions options)
    : call_(call),
      requests_(requests),
      store_(operators),
      row_(std::move(row)),
      conversation_(std::move(conversation)),
      options_(std::move(options)) {}

void ChatSession::note(const std::string& line) const {
  if (call_.quiet) return;
  if (options_.terminal && options_.colour) {
    std::fprintf(stderr, "%s%s%s\n", kDim, line.c_str(), kPlain);
  } else {
    std::fprintf(stderr, "%s%s\n", options_.terminal ? "" : "holdfast: ", line.c_str());
  }
}

/// Writes lines into the database, then takes them. The error, if any, is reported.
int ChatSession::append(const std::string& lines) {
  Conversation next = conversation_;
  if (const auto good = next.take(lines); !good) return report_error(call_, good.error());
  ChatRow row = row_;
  row.turns = static_cast<std::int64_t>(next.turns().size());
  row.last = next.turns().empty() ? std::string() : summary_of(next.turns().back().text);
  row.under_way = next.under_way() != nullptr;
  if (const auto failure = store_.append(row, lines)) return report_refusal(call_, *failure);
  row_ = std::move(row);
  conversation_ = std::move(next);
  return kExitDone;
}

int ChatSession::set_system(const std::string& text) {
  if (text == conversation_.system()) return kExitDone;
  return append(system_line(text));
}

/// Leaves an answer that goes on in the daemon.
int ChatSession::abandon() {
  left_ = true;
  note("left; the answer goes on: " + options_.open_with);
  return 128 + (interrupts_->terminated() ? SIGTERM : SIGINT);
}

Result<wire::Submit> ChatSession::request_of(const ChatTurn& turn) const {
  HOLDFAST_TRY(wire::Submit submit, options_.make_submit(turn.settings));
  submit.model = turn.model;
  submit.request_id = turn.request_id;
  submit.idem_key = "chat-" + row_.uid + "-" + std::to_string(turn.number);
  submit.body_hash = submit.idem_key;  // the turn is the same, whoever asks for it again
  // Another answer for /retry, and the same one for the same chat.
  submit.sampling.seed += static_cast<std::uint64_t>(turn.number - 1);
  wire::Prompt prompt;
  prompt.messages_json = conversation_.messages();
  submit.prompts.push_back(std::move(prompt));
  return submit;
}

/// Ends a turn that is still open because the daemon was away.
int ChatSession::settle() {
  return conversation_.under_way() == nullptr ? static_cast<int>(kExitDone) : finish_turn();
}

int ChatSession::ask(const std::string& text, const std::string& lines_before) {
  ChatTurn turn;
  turn.number = conversation_.next_number();
  turn.text = text;
  turn.model = row_.model;
  turn.settings = row_.settings;
  turn.request_id = client::new_request_id();
  if (const int exit = append(lines_before + question_line(turn)); exit != kExitDone) return exit;
  return finish_turn();
}

/// Takes a question back that got no answer, and says why.
int ChatSession::drop_turn(const Failure& failure) {
  const ChatTurn turn = *conversation_.under_way();
  Failure told = failure;
  told.message += "; the question is taken back, " + advice_on(failure);
  const int exit = report_refusal(call_, told);
  const int written = append(drop_line(turn.number, errc_name(failure.code)));
  return written == kExitDone ? exit : written;
}

/// Gets the answer of the turn under way, be it begun already or not.
int ChatSession::finish_turn() {
  ChatTurn turn = *conversation_.under_way();
  const auto submit = request_of(turn);
  if (!submit) return drop_turn({submit.error().code, submit.error().what});
  interrupts_->clear();
  const auto accepted = submit_question(requests_, *submit, *interrupts_);
  if (std::holds_alternative<Abandoned>(accepted)) return abandon();
  if (const auto* failure = std::get_if<Failure>(&accepted)) {
    if (!is_lost(*failure)) return drop_turn(*failure);
    left_ = true;  // whether it was accepted is not known here: the key tells at the next opening
    return report_refusal(call_, *failure);
  }
  printed_ = Printed::kNothing;
  const auto answer =
      follow_answer(requests_, std::get<wire::RequestInfo>(accepted), options_.output, *interrupts_,
                    [&](const AnswerPart& part) { show_part(part); });
  if (std::holds_alternative<Abandoned>(answer)) {
    end_text(turn);
    return abandon();
  }
  if (const auto* failure = std::get_if<Failure>(&answer)) return drop_turn(*failure);
  const auto& whole = std::get<ChatAnswer>(answer);
  turn.answer = whole.text;
  turn.thinking = whole.thinking;
  take_end(whole.info, turn);
  return end_turn(turn, whole.info, whole.tokens);
}

/// Takes a turn back that ended without an answer.
int ChatSession::end_without_answer(const ChatTurn& turn, const wire::RequestInfo& info) {
  end_text(turn);
  if (turn.finish == "cancelled") {
    note("stopped before the answer began; the question is taken back, /retry asks it again");
    return append(drop_line(turn.number, "cancelled"));
  }
  const std::string code = info.choices.empty() ? "" : info.choices[0].error_code;
  std::string what = "request " + info.request_id + " " + turn.finish;
  if (!turn.error.empty()) what += ": " + turn.error;
  return drop_turn({code.empty() ? Errc::kInternal : errc_from_name(code), std::move(what)});
}

/// Writes an answer that has ended, or takes the turn back if there is none.
int ChatSession::end_turn(const ChatTurn& turn, const wire::RequestInfo& info,
                          std::int64_t tokens) {
  const bool good = turn.finish == "stop" || turn.finish == "length";
  if (!good && turn.answer.empty()) return end_without_answer(turn, info);
  if (const int exit = append(answer_line(turn)); exit != kExitDone) return exit;
  print_turn(turn, info, tokens);
  end_text(turn);
  answered_ = true;
  if (turn.finish == "length") note("cut off after " + std::to_string(tokens) + " tokens");
  if (good) return kExitDone;
  if (turn.finish == "cancelled") {
    note("stopped; what came stays in the chat");
    return kExitDone;
  }
  return report_error(call_, Errc::kInternal,
                      "request " + info.request_id + " " + turn.finish + ": " + turn.error +
                          "; what came stays in the chat, /retry asks again");
}

void ChatSession::print_turn(const ChatTurn& turn, const wire::RequestInfo& info,
                             std::int64_t tokens) const {
  if (!call_.json) return;
  const std::int64_t prompt = info.prompt_tokens.empty() ? 0 : info.prompt_tokens[0];
  json document = {{"chat", row_.name},          {"turn", turn.number},
                   {"request", turn.request_id}, {"model", info.model},
                   {"question", turn.text},      {"answer", turn.answer},
                   {"finish", turn.finish},      {"seed", info.sampling.seed},
                   {"prompt_tokens", prompt},    {"tokens", tokens}};
  if (!turn.thinking.empty()) document["thinking"] = turn.thinking;
  if (!turn.error.empty()) document["error"] = turn.error;
  write_out(document.dump(-1, ' ', false, json::error_handler_t::replace) + "\n");
}

/// Prints what came. Thinking is for people alone.
void ChatSession::show_part(const AnswerPart& part) {
  if (call_.json) return;
  if (options_.terminal && options_.thinking && !part.thinking.empty()) {
    if (printed_ != Printed::kThinking) write_out(options_.colour ? kDim : "(thinking) ");
    printed_ = Printed::kThinking;
    write_out(part.thinking);
  }
  if (part.text.empty()) return;
  if (printed_ == Printed::kThinking) {
    write_out(options_.colour ? std::string(kPlain) + "\n\n" : "\n\n");
  }
  if (printed_ == Printed::kNothing) separate();
  printed_ = Printed::kText;
  write_out(part.text);
}

/// Writes the empty line between two answers of a script.
void ChatSession::separate() {
  if (answered_ && !options_.terminal) write_out("\n");
}

void ChatSession::end_text(const ChatTurn& turn) {
  if (call_.json) return;
  if (printed_ == Printed::kThinking && options_.colour) write_out(kPlain);
  // An answer without text has its line too: the n-th is that of the n-th question.
  const bool empty_answer = turn.finish == "stop" && turn.answer.empty();
  if (empty_answer) separate();
  if (printed_ != Printed::kNothing || empty_answer) write_out(options_.terminal ? "\n\n" : "\n");
  printed_ = Printed::kNothing;
}

int ChatSession::show_help(const std::string&) {
  for (const CommandRow& row : kCommands) {
    if (row.help != nullptr) std::fprintf(stderr, "  /%-7s %s\n", row.name, row.help);
  }
  std::fputs(
      "  A line that ends in \\ goes on in the next; \"\"\" begins and ends a text of several "
      "lines.\n  Ctrl-C stops an answer.\n",
      stderr);
  return kExitDone;
}

int ChatSession::change_system(const std::string& text) {
  if (text.empty()) {
    note(conversation_.system().empty() ? "no system text" : conversation_.system());
    return kExitDone;
  }
  const int exit = set_system(text == "-" ? std::string() : text);
  if (exit == kExitDone) note(text == "-" ? "no system text from now on" : "system text set");
  return exit;
}

int ChatSession::retry(const std::string&) {
  if (const int exit = settle(); exit != kExitDone) return exit;
  if (!conversation_.refused_text().empty()) return ask(conversation_.refused_text(), {});
  if (conversation_.turns().empty()) {
    return report_error(call_, Errc::kUsage, "/retry: nothing was asked yet");
  }
  const ChatTurn turn = conversation_.turns().back();
  return ask(turn.text, drop_line(turn.number, "retry"));
}

int ChatSession::undo(const std::string&) {
  if (const int exit = settle(); exit != kExitDone) return exit;
  if (conversation_.turns().empty()) {
    return report_error(call_, Errc::kUsage, "/undo: the chat has no turn");
  }
  const ChatTurn turn = conversation_.turns().back();
  const int exit = append(drop_line(turn.number, "undo"));
  if (exit == kExitDone) note("taken back: " + summary_of(turn.text));
  return exit;
}

int ChatSession::save(const std::string& path) {
  if (path.empty()) return report_error(call_, Errc::kUsage, "/save: expected a file");
  json document = conversation_.document();
  document["chat"] = row_.name;
  const std::string text = path.ends_with(".json")
                               ? document.dump(2, ' ', false, json::error_handler_t::replace) + "\n"
                               : conversation_.transcript();
  if (const auto written = write_file(path, text); !written) {
    return report_error(call_, written.error());
  }
  note("written to " + path);
  return kExitDone;
}

int ChatSession::leave(const std::string&) {
  left_ = true;
  return kExitDone;
}

int ChatSession::run_command(const std::string& line) {
  const std::size_t space = line.find_first_of(" \t\n");
  const std::string name = line.substr(1, space == std::string::npos ? space : space - 1);
  const std::string rest = space == std::string::npos ? std::string() : trimmed(line.substr(space));
  for (const CommandRow& row : kCommands) {
    if (name == row.name) return (this->*row.run)(rest);
  }
  return report_error(call_, Errc::kUsage,
                      "/" + name +
                          ": no such command; /help lists them, \"\"\" around a text "
                          "sends it as it is");
}

int ChatSession::take_message(const Message& message) {
  if (!is_valid_utf8(message.text)) {
    return report_error(call_, Errc::kInvalidRequest, "the message is not valid UTF-8");
  }
  const std::string text = message.quoted ? message.text : trimmed(message.text);
  if (text.empty()) return kExitDone;
  if (text[0] == '/' && !message.quoted) return run_command(text);
  const int settled = settle();
  return settled == kExitDone ? ask(text, {}) : settled;
}

/// Says which chat it is, and where it was.
void ChatSession::show_opening() const {
  if (!options_.terminal || call_.quiet) return;
  const auto& turns = conversation_.turns();
  note("chat " + row_.name + " with " + row_.model + ", " +
       (turns.empty() ? "new"
                      : std::to_string(turns.size()) + (turns.size() == 1 ? " turn" : " turns")) +
       "; /help lists commands, Ctrl-D leaves");
  if (turns.empty()) return;
  const ChatTurn& last = turns.back();
  write_out("> " + last.text + "\n");
  if (last.finish.empty()) return note("its answer was under way:");
  write_out(last.answer + "\n\n");
}

/// Ends what was under way when the chat was left, and takes a new system text.
int ChatSession::open(const std::vector<std::string>& system) {
  show_opening();
  if (conversation_.under_way() != nullptr && !options_.terminal) {
    note("the answer of the last question was under way; it comes first");
  }
  const int exit = settle();
  if (exit != kExitDone || system.empty()) return exit;
  return set_system(system.back());
}

int ChatSession::run(LineReader& reader, Interrupts& interrupts,
                     const std::vector<std::string>& system) {
  interrupts_ = &interrupts;
  for (const ChatTurn& turn : conversation_.turns()) reader.remember(turn.text);
  int exit = open(system);
  while (!left_ && (exit == kExitDone || options_.terminal)) {
    interrupts.clear();
    const Message message = read_message(reader);
    if (interrupts.terminated()) return 128 + SIGTERM;
    if (message.kind == Line::Kind::kInterrupted && !options_.terminal) return 128 + SIGINT;
    if (message.kind != Line::Kind::kText) return kExitDone;
    reader.remember(message.text);
    exit = take_message(message);
  }
  return exit;
}

}  // namespace holdfast::cli
