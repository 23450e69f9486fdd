#pragma once
// Lines of a user: with editing and a history on a terminal, plain ones elsewhere.

#include <cstdint>
#include <memory>
#include <string>

#include "ops/chat/interrupts.h"

namespace holdfast::cli {

/// A line, or why there is none.
struct Line {
  enum class Kind : std::uint8_t {
    kText,
    kEnd,          // of the input
    kInterrupted,  // Ctrl-C, or SIGTERM
  };
  Kind kind = Kind::kEnd;
  std::string text;  // without its line break; UTF-8 on a terminal, any bytes elsewhere
};

/// Reads lines. Not thread-safe.
class LineReader {
 public:
  virtual ~LineReader() = default;
  virtual Line read(const std::string& prompt) = 0;
  /// Adds a text to the history of a terminal.
  virtual void remember(const std::string&) {}
};

/// Returns a reader of stdin. `terminal`: with prompts and editing (libedit).
std::unique_ptr<LineReader> make_line_reader(bool terminal, const Interrupts& interrupts);

/// Reads a message: a line, or several that a backslash or """ joins. `what` has the text, with
/// line breaks between its lines. A message that the input's end cuts off is kEnd if it is empty.
struct Message {
  Line::Kind kind = Line::Kind::kEnd;
  std::string text;
  bool quoted = false;  // it was within """: no command, whatever it begins with
};
Message read_message(LineReader& reader);

}  // namespace holdfast::cli
