#include "ops/chat/line_reader.h"

#include <histedit.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <clocale>
#include <cstdio>
#include <cstdlib>
#include <cwchar>

#include "shared/base/check.h"

namespace holdfast::cli {
namespace {

constexpr const char* kQuotes = "\"\"\"";
constexpr std::size_t kLongest = 64 << 20;  // of a message

/// Waits until stdin can be read. False: a signal came first.
bool wait_for_input(const Interrupts& interrupts) {
  for (;;) {
    pollfd sources[] = {{STDIN_FILENO, POLLIN, 0}, {interrupts.fd(), POLLIN, 0}};
    if (interrupts.any()) return false;
    if (poll(sources, 2, -1) < 0 && errno != EINTR) return true;  // read() then says what is wrong
    if (interrupts.any()) return false;
    if (sources[0].revents != 0) return true;
  }
}

class PlainReader final : public LineReader {
 public:
  explicit PlainReader(const Interrupts& interrupts) : interrupts_(interrupts) {}

  Line read(const std::string&) override {
    std::size_t from = 0;
    for (;;) {
      const std::size_t end = text_.find('\n', from);
      if (end != std::string::npos) return take(end, 1);
      from = text_.size();
      if (ended_ || text_.size() > kLongest) return take(text_.size(), 0);
      if (!wait_for_input(interrupts_)) return {Line::Kind::kInterrupted, {}};
      fill();
    }
  }

 private:
  Line take(std::size_t end, std::size_t line_break) {
    if (line_break == 0 && text_.empty()) return {};
    Line line{Line::Kind::kText, text_.substr(0, end)};
    text_.erase(0, end + line_break);
    if (line.text.ends_with('\r')) line.text.pop_back();
    return line;
  }
  void fill() {
    char buffer[65'536];
    const ssize_t n = ::read(STDIN_FILENO, buffer, sizeof buffer);
    if (n > 0) text_.append(buffer, static_cast<std::size_t>(n));
    ended_ = n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN);
  }

  const Interrupts& interrupts_;
  std::string text_;
  bool ended_ = false;
};

class EditReader final : public LineReader {
 public:
  explicit EditReader(const Interrupts& interrupts) : interrupts_(interrupts) {
    // The editor shows characters as the locale has them; what is typed is UTF-8 everywhere today.
    std::setlocale(LC_CTYPE, "");
    if (MB_CUR_MAX == 1) std::setlocale(LC_CTYPE, "C.UTF-8");
    editor_ = el_init("holdfast", stdin, stdout, stderr);
    history_ = history_init();
    CHECK(editor_ != nullptr && history_ != nullptr);
    HistEvent event;
    history(history_, &event, H_SETSIZE, 500);
    history(history_, &event, H_SETUNIQUE, 1);
    el_set(editor_, EL_CLIENTDATA, this);
    el_set(editor_, EL_EDITOR, "emacs");
    el_set(editor_, EL_SIGNAL, 0);  // Interrupts has them
    el_set(editor_, EL_HIST, history, history_);
    el_set(editor_, EL_PROMPT, &prompt_of);
    el_set(editor_, EL_BIND, "^R", "em-inc-search-prev", nullptr);
    el_set(editor_, EL_GETCFN, &read_character);
    el_source(editor_, nullptr);  // ~/.editrc
  }
  ~EditReader() override {
    el_end(editor_);
    history_end(history_);
  }
  EditReader(const EditReader&) = delete;
  EditReader& operator=(const EditReader&) = delete;

  Line read(const std::string& prompt) override {
    prompt_ = prompt;
    int count = 0;
    const char* text = el_gets(editor_, &count);
    if (interrupts_.any()) {
      std::fputs("\n", stdout);
      std::fflush(stdout);
      return {Line::Kind::kInterrupted, {}};
    }
    if (text == nullptr || count <= 0) {
      std::fputs("\n", stdout);
      return {};
    }
    Line line{Line::Kind::kText, std::string(text, static_cast<std::size_t>(count))};
    if (line.text.ends_with('\n')) line.text.pop_back();
    return line;
  }
  void remember(const std::string& text) override {
    HistEvent event;
    if (text.find('\n') == std::string::npos) history(history_, &event, H_ENTER, text.c_str());
  }

 private:
  static EditReader* self_of(EditLine* editor) {
    void* self = nullptr;
    el_get(editor, EL_CLIENTDATA, &self);
    return static_cast<EditReader*>(self);
  }
  static char* prompt_of(EditLine* editor) { return self_of(editor)->prompt_.data(); }
  /// Reads one character for the editor: 1, 0 at the end, -1 after a signal.
  static int read_character(EditLine* editor, wchar_t* out) {
    EditReader* self = self_of(editor);
    std::mbstate_t state{};
    for (;;) {
      if (!wait_for_input(self->interrupts_)) return -1;
      char byte = 0;
      const ssize_t n = ::read(STDIN_FILENO, &byte, 1);
      if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
      if (n <= 0) return static_cast<int>(n);
      const std::size_t used = std::mbrtowc(out, &byte, 1, &state);
      if (used <= 1) return 1;
      if (used == static_cast<std::size_t>(-2)) continue;  // half a character
      *out = L'\xfffd';
      return 1;
    }
  }

  const Interrupts& interrupts_;
  EditLine* editor_ = nullptr;
  History* history_ = nullptr;
  std::string prompt_;
};

/// Lines of a message that begins with """ up to the closing ones. False: the input ended first.
bool read_quoted(LineReader& reader, Message& message) {
  message.quoted = true;
  message.text.erase(0, 3);
  for (std::size_t from = 0;;) {
    const std::size_t end = message.text.find(kQuotes, from);
    if (end != std::string::npos) {
      message.text.erase(end, 3);  // words after them belong to the text
      break;
    }
    from = message.text.size();
    Line line = reader.read("… ");
    message.kind = line.kind;
    if (line.kind == Line::Kind::kInterrupted) return false;
    if (line.kind == Line::Kind::kEnd || message.text.size() > kLongest) break;
    message.text += "\n" + line.text;
  }
  if (message.text.starts_with('\n')) message.text.erase(0, 1);
  if (message.text.ends_with('\n')) message.text.pop_back();
  return true;
}

}  // namespace

std::unique_ptr<LineReader> make_line_reader(bool terminal, const Interrupts& interrupts) {
  if (terminal) return std::make_unique<EditReader>(interrupts);
  return std::make_unique<PlainReader>(interrupts);
}

Message read_message(LineReader& reader) {
  Line line = reader.read("> ");
  Message message{line.kind, std::move(line.text)};
  if (message.kind != Line::Kind::kText) return message;
  if (message.text.starts_with(kQuotes)) {
    if (read_quoted(reader, message) && !message.text.empty()) message.kind = Line::Kind::kText;
    return message;
  }
  while (message.text.ends_with('\\')) {
    message.text.back() = '\n';
    line = reader.read("… ");
    if (line.kind == Line::Kind::kInterrupted) return {line.kind, {}};
    if (line.kind == Line::Kind::kEnd) break;
    message.text += line.text;
  }
  return message;
}

}  // namespace holdfast::cli
