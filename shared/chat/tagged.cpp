// Calls whose arguments are written one by one between tags, as text and not as JSON. Sources: the
// chat templates of GLM-4.5 and later, Qwen3-Coder, Seed-OSS and MiniMax-M2.

#include <algorithm>
#include <nlohmann/json.hpp>

#include "shared/base/json_text.h"
#include "shared/chat/parser_base.h"

namespace holdfast::chat {
namespace {

constexpr std::size_t kNameBytesMax = 256;

/// The tags around the parts of a call; empty: none.
struct Tags {
  std::string_view open;       // of one call, or of several
  std::string_view name;       // before the name
  std::string_view name_end;   // after it; empty: the line's end, or the next tag
  std::string_view key;        // before an argument's name
  std::string_view key_end;    // after it
  std::string_view value;      // before its value
  std::string_view value_end;  // after it
  std::string_view call_end;   // of one call
  std::string_view close;      // of what `open` opened
  bool lines = false;          // a line end before and after the value is not part of it
  bool may_lack_open = false;  // models omit it
};
constexpr Tags kGlm = {"<tool_call>",  "",           "",
                       "<arg_key>",    "</arg_key>", "<arg_value>",
                       "</arg_value>", "",           "</tool_call>"};
constexpr Tags kQwenCoder = {
    "<tool_call>", "<function=",   ">",  "<parameter=", ">", "", "</parameter>",
    "</function>", "</tool_call>", true, true};
constexpr Tags kSeed = {
    "<seed:tool_call>", "<function=",        ">",  "<parameter=", ">", "", "</parameter>",
    "</function>",      "</seed:tool_call>", true, true};
constexpr Tags kMinimax = {"<minimax:tool_call>",
                           "<invoke name=\"",
                           "\">",
                           "<parameter name=\"",
                           "\">",
                           "",
                           "</parameter>",
                           "</invoke>",
                           "</minimax:tool_call>"};

const Tags& tags_of(ToolFormat format) {
  switch (format) {
    case ToolFormat::kQwenCoder:
      return kQwenCoder;
    case ToolFormat::kSeed:
      return kSeed;
    case ToolFormat::kMinimax:
      return kMinimax;
    default:
      return kGlm;
  }
}

/// Converts a value that is not a string: JSON, or Python's notation; a value that is neither is a
/// string anyway.
std::string as_json(std::string_view raw) {
  const std::string text = trimmed(raw);
  if (text == "True") return "true";
  if (text == "False") return "false";
  if (text == "None") return "null";
  if (is_json(text)) return text;
  return '"' + escaped(raw) + '"';
}

class Tagged final : public Family {
 public:
  Tagged(const Tags& tags, JsonArguments types) : t_(tags), types_(std::move(types)) {}

  bool step() override {
    switch (at_) {
      case At::kText:
        return text();
      case At::kOpen:
        return open();
      case At::kName:
        return name();
      case At::kNext:
        return next();
      case At::kKey:
        return key();
      case At::kString:
        return string();
      case At::kJson:
        return json();
      case At::kAfterCall:
        return after_call();
    }
    return false;
  }

 private:
  bool text() {
    const int which = reach_any({t_.open, t_.may_lack_open ? t_.name : t_.open});
    if (which < 0) return false;
    taken_ = which == 0 ? t_.open : t_.name;
    at_ = which == 0 ? At::kOpen : At::kName;
    return true;
  }

  /// Looks for the tag before a name.
  bool open() {
    const std::size_t space = std::min(buffer.find_first_not_of(" \n\t\r"), buffer.size());
    const std::string_view rest = std::string_view(buffer).substr(space);
    if (!last && rest.empty()) return false;
    if (!last && rest.size() < t_.name.size() && t_.name.substr(0, rest.size()) == rest) {
      return false;
    }
    const bool matches = rest.starts_with(t_.name);
    taken_ += take(space + (matches ? t_.name.size() : 0));
    if (!matches) return is_text();
    at_ = At::kName;
    return true;
  }
  /// Writes text that was taken for a call and is not one.
  bool is_text() {
    say(taken_);
    at_ = At::kText;
    return true;
  }

  bool name() {
    const Found end = t_.name_end.empty() ? find({"\n", t_.key, t_.close}) : find({t_.name_end});
    if (end.which < 0 && !last && buffer.size() <= kNameBytesMax) return false;
    const std::string called = trimmed(buffer.substr(0, std::min(end.at, buffer.size())));
    const bool good = end.which >= 0 && !called.empty() && called.size() <= kNameBytesMax &&
                      called.find_first_of(" \n\t{}<>\"") == std::string::npos;
    if (!good) return is_text();
    take(end.at + t_.name_end.size());
    begin_call(called);
    called_ = called;
    first_ = true;
    at_ = At::kNext;
    return true;
  }

  /// Looks for the next argument or the call's end. Words between are dropped.
  bool next() {
    const Found found =
        t_.call_end.empty() ? find({t_.key, t_.close}) : find({t_.key, t_.close, t_.call_end});
    if (found.which < 0) {
      take(buffer.size() - held({t_.key, t_.close, t_.call_end}));
      return false;
    }
    take(found.at);
    if (found.which == 0) {
      take(t_.key.size());
      at_ = At::kKey;
      return true;
    }
    if (found.which == 2) take(t_.call_end.size());
    arguments(first_ ? "{}" : "}");
    at_ = At::kAfterCall;
    return true;
  }

  bool key() {
    const std::size_t end = buffer.find(t_.key_end);
    if (end == std::string::npos) {
      if (last) take(buffer.size());
      return false;
    }
    if (!t_.value.empty()) {
      const std::size_t value = buffer.find(t_.value, end);
      if (value == std::string::npos) {
        if (last) take(buffer.size());
        return false;
      }
      begin_argument(take(end));
      take(value - end + t_.value.size());
    } else {
      begin_argument(take(end));
      take(t_.key_end.size());
    }
    return true;
  }
  void begin_argument(const std::string& raw) {
    const std::string key = trimmed(raw);
    arguments((first_ ? "{\"" : ", \"") + escaped(key) + "\": ");
    first_ = false;
    const auto of_call = types_.find(called_);
    const bool other = of_call != types_.end() && of_call->second.contains(key);
    at_ = other ? At::kJson : At::kString;
    begun_ = false;
  }

  /// Writes a string as it comes, except for a line end that may be the last one.
  bool string() {
    if (!begun_) {
      if (buffer.empty() && !last) return false;
      if (t_.lines && !buffer.empty() && buffer.front() == '\n') take(1);
      arguments("\"");
      begun_ = true;
    }
    const Found end = find({t_.value_end});
    std::size_t n = end.which < 0 ? buffer.size() - held({t_.value_end}) : end.at;
    const bool trailing_newline =
        t_.lines && n > 0 && buffer[n - 1] == '\n' && (end.which >= 0 || !last);
    arguments(escaped(take(n - (trailing_newline ? 1 : 0))));
    if (end.which < 0) return false;
    take((trailing_newline ? 1 : 0) + t_.value_end.size());
    arguments("\"");
    at_ = At::kNext;
    return true;
  }
  bool json() {
    const Found end = find({t_.value_end});
    if (end.which < 0 && !last) return false;
    arguments(as_json(take(std::min(end.at, buffer.size()))));
    if (end.which < 0) return false;
    take(t_.value_end.size());
    at_ = At::kNext;
    return true;
  }

  /// Looks for another call within the same tags.
  bool after_call() {
    skip_space();
    if (buffer.empty() || may_become(t_.close)) return false;
    if (may_become(t_.name)) return false;
    if (!t_.name.empty() && starts_with(t_.name)) {
      taken_.clear();
      at_ = At::kOpen;
      return true;
    }
    if (starts_with(t_.close)) take(t_.close.size());
    at_ = At::kText;
    return true;
  }

  bool midway() const override {
    const bool unnamed = (at_ == At::kOpen || at_ == At::kName) && !taken_.empty();
    return unnamed || at_ == At::kJson || (at_ == At::kString && !begun_);
  }

  enum class At : std::uint8_t { kText, kOpen, kName, kNext, kKey, kString, kJson, kAfterCall };
  const Tags& t_;
  const JsonArguments types_;
  At at_ = At::kText;
  std::string called_;
  std::string taken_;   // text that may be a call, before its name is known
  bool first_ = true;   // no argument yet
  bool begun_ = false;  // the string's quote was written
};

}  // namespace

std::unique_ptr<Family> make_tagged(ToolFormat format, const JsonArguments& types) {
  return std::make_unique<Tagged>(tags_of(format), types);
}

}  // namespace holdfast::chat
