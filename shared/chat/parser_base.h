#pragma once
// The common part of all families' parsers: a buffer of text that is not parsed yet, and the
// output.

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "shared/chat/call_scanner.h"
#include "shared/chat/output_parser.h"

namespace holdfast::chat {

/// Returns the text without white space around it.
std::string trimmed(std::string_view text);
/// Returns the text escaped for the inside of a JSON string. It may be cut anywhere.
std::string escaped(std::string_view text);

/// The parser of one family. step() takes what it can from `buffer` and writes to `out`; it returns
/// false when it needs more text. With `last` set no more text comes, and the rest must be written.
class Family {
 public:
  virtual ~Family() = default;
  virtual bool step() = 0;
  /// Starts in the middle of a text: no message header and no answer that is a call as a whole can
  /// begin here. Called before any text.
  virtual void go_on() {}
  bool pending() const {
    return !buffer.empty() || (calls == 0 && !space_.empty()) || (!announced_ && !raw_.empty()) ||
           midway();
  }
  /// Returns the white space that was held back, as nothing follows.
  void end_text();

  std::string buffer;
  bool last = false;
  OutputDelta out;
  int calls = 0;

 protected:
  /// Returns true if text was taken from the buffer that depends on the text after it.
  virtual bool midway() const { return false; }
  /// The first of the marks in the buffer: its offset, and its index (-1: none).
  struct Found {
    std::size_t at = std::string::npos;
    int which = -1;
  };
  Found find(std::initializer_list<std::string_view> marks) const;
  /// Returns how many bytes at the buffer's end may be the beginning of a mark; they are held back.
  std::size_t held(std::initializer_list<std::string_view> marks) const;
  std::string take(std::size_t bytes);
  bool starts_with(std::string_view mark) const {
    return buffer.compare(0, mark.size(), mark) == 0;
  }
  /// Returns true if the whole buffer may still become this mark.
  bool may_become(std::string_view mark) const {
    return !last && buffer.size() < mark.size() && mark.substr(0, buffer.size()) == buffer;
  }
  void skip_space();

  /// Writes text for the reader. White space is held back until more text follows, so that none
  /// stands before a call.
  void say(std::string_view text);

  void begin_call(const std::string& name);
  void arguments(std::string_view text);

  /// Writes the text before a mark and takes the mark. False: it is not there yet.
  bool reach(std::string_view mark) { return reach_any({mark}) >= 0; }
  /// Does the same for the first of several marks. Returns its index; -1: none is there yet.
  int reach_any(std::initializer_list<std::string_view> marks);
  /// Reads one call object from the buffer. Returns true if it was a call; nullopt: more text is
  /// needed. Text that was not a call is content again, unless its name was returned already.
  std::optional<bool> read_call();
  /// Begins a call object. `before` is the text taken before it, which is content if the call is
  /// broken.
  void start_scan(std::string before);
  /// Reads one JSON value as arguments of the call that has begun. True when it ended.
  bool scan_value();
  void start_value() { value_ = ValueEnd(); }

 private:
  /// Passes on what is known of the call.
  void announce_call();

  std::string space_;
  CallScanner scanner_;
  ValueEnd value_;
  bool announced_ = false;
  std::string raw_;
};

/// Make the parser of the ToolFormat of that name; make_plain() that of an answer that is text as a
/// whole.
std::unique_ptr<Family> make_plain();
std::unique_ptr<Family> make_hermes();
std::unique_ptr<Family> make_llama3();
std::unique_ptr<Family> make_mistral();
std::unique_ptr<Family> make_deepseek();
std::unique_ptr<Family> make_harmony();
std::unique_ptr<Family> make_functionary();
std::unique_ptr<Family> make_cohere();
std::unique_ptr<Family> make_granite();
/// Makes Gemma's parser. Without `tools` it parses channels alone.
std::unique_ptr<Family> make_gemma(bool tools);
/// Makes the parser of kGlm, kQwenCoder, kSeed or kMinimax.
std::unique_ptr<Family> make_tagged(ToolFormat format, const JsonArguments& types);

}  // namespace holdfast::chat
