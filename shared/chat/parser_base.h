#pragma once
// What the parsers of all families share: a buffer of text that is not understood yet, and where
// its parts go.

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "shared/chat/call_scanner.h"
#include "shared/chat/output_parser.h"

namespace holdfast::chat {

/// Without white space around it.
std::string trimmed(std::string_view text);
/// The inside of a JSON string, whatever the text is cut into.
std::string escaped(std::string_view text);

/// One family. step() takes from `buffer` what it can and writes to `out`; it returns false when it
/// needs more text. With `last` set no more comes, and what is left must go somewhere.
class Family {
 public:
  virtual ~Family() = default;
  virtual bool step() = 0;
  /// Before anything came: what comes stands in the middle of a text, where no header of a message
  /// and no answer that is a call as a whole can begin.
  virtual void go_on() {}
  bool pending() const {
    return !buffer.empty() || (calls == 0 && !space_.empty()) || (!announced_ && !raw_.empty()) ||
           midway();
  }
  /// Nothing follows: gives the space that was kept back.
  void end_text();

  std::string buffer;
  bool last = false;
  OutputDelta out;
  int calls = 0;

 protected:
  /// Something was taken from the buffer that is given only when it is known what follows.
  virtual bool midway() const { return false; }
  /// The first of the marks in the buffer: where, and which (-1: none).
  struct Found {
    std::size_t at = std::string::npos;
    int which = -1;
  };
  Found find(std::initializer_list<std::string_view> marks) const;
  /// How much of the buffer's end may be the beginning of a mark: not to be given away yet.
  std::size_t held(std::initializer_list<std::string_view> marks) const;
  std::string take(std::size_t bytes);
  bool starts_with(std::string_view mark) const {
    return buffer.compare(0, mark.size(), mark) == 0;
  }
  /// The whole buffer may still become this mark.
  bool may_become(std::string_view mark) const {
    return !last && buffer.size() < mark.size() && mark.substr(0, buffer.size()) == buffer;
  }
  void skip_space();

  /// Text for the reader. Space is kept back until more text follows, so that none stands before a
  /// call.
  void say(std::string_view text);

  void begin_call(const std::string& name);
  void arguments(std::string_view text);

  /// Says the text before a mark and takes the mark. False: it is not there yet.
  bool reach(std::string_view mark) { return reach_any({mark}) >= 0; }
  /// The same of the first of several: which, -1: none is there yet.
  int reach_any(std::initializer_list<std::string_view> marks);
  /// Reads one call object from the buffer: whether it was one, nullopt: more is needed. What was
  /// none is content again, unless its name was told already.
  std::optional<bool> read_call();
  /// Begins a call object; `before`: what was taken of its wrapping, content again if it is broken.
  void start_scan(std::string before);
  /// Reads one JSON value as arguments of the call that has begun. True when it ended.
  bool scan_value();
  void start_value() { value_ = ValueEnd(); }

 private:
  std::string space_;
  CallScanner scanner_;
  ValueEnd value_;
  bool announced_ = false;
  std::string raw_;
};

std::unique_ptr<Family> make_plain();
std::unique_ptr<Family> make_hermes();
std::unique_ptr<Family> make_llama3();
std::unique_ptr<Family> make_mistral();
std::unique_ptr<Family> make_deepseek();
std::unique_ptr<Family> make_harmony();
std::unique_ptr<Family> make_functionary();
std::unique_ptr<Family> make_cohere();
std::unique_ptr<Family> make_granite();
/// Without `tools` channels alone are taken out.
std::unique_ptr<Family> make_gemma(bool tools);
/// kGlm, kQwenCoder, kSeed, kMinimax.
std::unique_ptr<Family> make_tagged(ToolFormat format, const JsonArguments& types);

}  // namespace holdfast::chat
