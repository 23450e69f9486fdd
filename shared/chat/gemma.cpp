// Gemma 4: calls whose arguments are JSON except for unquoted keys and strings between marks of
// their own, and thoughts in a channel. Source: the models' chat template.

#include <nlohmann/json.hpp>

#include "shared/base/json_text.h"
#include "shared/chat/parser_base.h"

namespace holdfast::chat {
namespace {

constexpr std::string_view kChannel = "<|channel>", kChannelEnd = "<channel|>";
constexpr std::string_view kCall = "<|tool_call>", kCallEnd = "<tool_call|>";
constexpr std::string_view kQuote = "<|\"|>";
constexpr std::string_view kBeforeName = "call:";
constexpr std::size_t kNameBytesMax = 256;

/// Returns a word between JSON punctuation as JSON: a number, true, false, null, or else a string.
std::string word_as_json(const std::string& word, bool is_key) {
  if (is_key) return '"' + escaped(word) + '"';
  if (word == "None" || word == "null") return "null";
  if (word == "True" || word == "False") return word == "True" ? "true" : "false";
  return is_json(word) ? word : '"' + escaped(word) + '"';
}

class Gemma final : public Family {
 public:
  explicit Gemma(bool tools) : tools_(tools) {}

  bool step() override {
    switch (at_) {
      case At::kText:
        return text();
      case At::kChannelName:
        return channel_name();
      case At::kThought:
        return thought();
      case At::kName:
        return name();
      case At::kArguments:
        return value();
      case At::kString:
        return string();
      case At::kAfterCall:
        return after_call();
    }
    return false;
  }

 private:
  bool text() {
    if (after_channel_) {  // white space after a channel is not part of the answer
      skip_space();
      if (buffer.empty()) return false;
      after_channel_ = false;
    }
    const int which = tools_ ? reach_any({kChannel, kCall}) : reach_any({kChannel});
    if (which < 0) return false;
    at_ = which == 0 ? At::kChannelName : At::kName;
    return true;
  }

  /// Reads the line with the channel's name. All channels are thoughts.
  bool channel_name() {
    const Found end = find({"\n", kChannelEnd});
    if (end.which < 0) {
      if (last) take(buffer.size());
      return false;
    }
    take(end.at + (end.which == 0 ? 1 : 0));
    newlines_.clear();
    at_ = At::kThought;
    return true;
  }
  /// Reads a thought. Line ends after it are not part of it.
  bool thought() {
    const Found end = find({kChannelEnd});
    const bool over = end.which >= 0;
    std::string more = newlines_ + take(over ? end.at : buffer.size() - held({kChannelEnd}));
    const std::size_t content_end = more.find_last_not_of('\n') + 1;  // 0: there are only line ends
    newlines_ = more.substr(content_end);
    out.reasoning += more.substr(0, content_end);
    if (!over) return false;
    take(kChannelEnd.size());
    after_channel_ = true;
    at_ = At::kText;
    return true;
  }

  bool name() {
    if (may_become(kBeforeName)) return false;
    const std::size_t end = std::min(buffer.find('{'), buffer.size());
    const bool whole = end < buffer.size(), begun = starts_with(kBeforeName);
    if (begun && !whole && !last && end <= kNameBytesMax) return false;
    const std::size_t name_begin = kBeforeName.size();
    const std::string called =
        begun && whole ? trimmed(buffer.substr(name_begin, end - name_begin)) : std::string();
    if (called.empty() || end > kNameBytesMax ||
        called.find_first_of(" \n\t}<>\"") != std::string::npos) {
      say(kCall);  // not a call
      at_ = At::kText;
      return true;
    }
    take(end);
    begin_call(called);
    open_.clear();
    at_ = At::kArguments;
    return true;
  }

  /// Reads one punctuation mark, word or opening mark of the arguments.
  bool value() {
    skip_space();
    if (buffer.empty() || may_become(kQuote) || may_become(kCallEnd)) return false;
    if (starts_with(kCallEnd)) return close();
    if (starts_with(kQuote) || buffer.front() == '"') {
      quote_ = buffer.front() == '"' ? "\"" : kQuote;
      take(quote_.size());
      arguments("\"");
      at_ = At::kString;
      return true;
    }
    const char c = buffer.front();
    if (std::string_view("{}[],:").find(c) == std::string_view::npos) return word();
    if (c == '{' || c == '[') open_ += c;
    if ((c == '}' || c == ']') && !open_.empty()) open_.pop_back();
    key_ = c == '{' || (c == ',' && !open_.empty() && open_.back() == '{');
    arguments(take(1));
    if (open_.empty()) at_ = At::kAfterCall;
    return true;
  }
  bool word() {
    const std::size_t end = buffer.find_first_of("{}[],:<\"", 1);
    if (end == std::string::npos && !last) return false;
    arguments(word_as_json(trimmed(take(std::min(end, buffer.size()))), key_));
    return true;
  }
  /// Closes the brackets of a call that ended before them.
  bool close() {
    for (; !open_.empty(); open_.pop_back()) arguments(open_.back() == '{' ? "}" : "]");
    at_ = At::kAfterCall;
    return true;
  }
  /// Reads a string. Between Gemma's own marks nothing is escaped; between quotes it is JSON.
  bool string() {
    const bool json = quote_ == "\"";
    std::size_t end = buffer.find(quote_);
    while (json && end != std::string::npos && is_escaped(end)) end = buffer.find(quote_, end + 1);
    const bool over = end != std::string::npos;
    if (json && !over) {
      if (last) arguments(take(buffer.size()));
      return false;
    }
    const std::string inside = take(over ? end : buffer.size() - held({quote_}));
    arguments(json ? inside : escaped(inside));
    if (!over) return false;
    take(quote_.size());
    arguments("\"");
    at_ = At::kArguments;
    return true;
  }
  bool is_escaped(std::size_t at) const {
    std::size_t n = 0;
    while (n < at && buffer[at - 1 - n] == '\\') ++n;
    return n % 2 == 1;
  }

  bool after_call() {
    skip_space();
    if (buffer.empty() || may_become(kCallEnd)) return false;
    if (starts_with(kCallEnd)) take(kCallEnd.size());
    at_ = At::kText;
    return true;
  }

  bool midway() const override { return at_ == At::kName; }

  enum class At : std::uint8_t {
    kText,
    kChannelName,
    kThought,
    kName,
    kArguments,
    kString,
    kAfterCall
  };
  const bool tools_;
  At at_ = At::kText;
  bool after_channel_ = false;
  std::string newlines_;  // of a thought, held back
  std::string open_;      // open brackets of the arguments
  bool key_ = false;      // the next word is a key
  std::string_view quote_;
};

}  // namespace

std::unique_ptr<Family> make_gemma(bool tools) {
  return std::make_unique<Gemma>(tools);
}

}  // namespace holdfast::chat
