// Parsers for the reasoning and the calls of each family. Sources: the chat templates of the
// models' own repositories; gpt-oss: the "Harmony response format" of its model card.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "shared/base/json_text.h"
#include "shared/chat/parser_base.h"

namespace holdfast::chat {
namespace {

/// A family without markup: all is text.
class Plain final : public Family {
 public:
  bool step() override {
    out.content += take(buffer.size());
    return false;
  }
};

class Hermes final : public Family {
 public:
  bool step() override {
    switch (at_) {
      case At::kText:
        return text();
      case At::kCall: {
        const std::optional<bool> good = read_call();
        if (!good) return false;
        at_ = *good ? At::kAfterCall : At::kText;
        return !buffer.empty();
      }
      case At::kAfterCall:
        skip_space();
        if (buffer.empty() || may_become(kClose)) return false;
        if (starts_with(kClose)) take(kClose.size());
        at_ = At::kText;
        return true;
    }
    return false;
  }

 private:
  static constexpr std::string_view kOpen = "<tool_call>";
  static constexpr std::string_view kClose = "</tool_call>";
  bool text() {
    if (!reach(kOpen)) return false;
    start_scan(std::string(kOpen));
    at_ = At::kCall;
    return true;
  }
  enum class At : std::uint8_t { kText, kCall, kAfterCall };
  At at_ = At::kText;
};

class Llama3 final : public Family {
 public:
  bool step() override {
    switch (at_) {
      case At::kStart:
        return start();
      case At::kText:
        return text();
      case At::kCall: {
        const std::optional<bool> good = read_call();
        if (!good) return false;
        at_ = *good ? At::kStart : At::kText;
        again_ = *good;
        return !buffer.empty();
      }
      case At::kName:
        return name();
      case At::kValue:
        if (!scan_value()) return false;
        at_ = At::kClose;
        return true;
      case At::kClose:
        skip_space();
        if (may_become(kFunctionEnd)) return false;
        if (starts_with(kFunctionEnd)) take(kFunctionEnd.size());
        at_ = At::kText;
        return !buffer.empty();
      case At::kPython:
        return python();
    }
    return false;
  }
  void go_on() override { at_ = At::kText; }

 private:
  static constexpr std::string_view kPythonTag = "<|python_tag|>";
  static constexpr std::string_view kFunction = "<function=";
  static constexpr std::string_view kFunctionEnd = "</function>";

  /// Starts a message that is a call as a whole, or the next call after ";".
  bool start() {
    const std::size_t n = buffer.find_first_not_of(again_ ? " \n\t\r;," : " \n\t\r");
    if (n == std::string::npos) {
      if (last) say(take(buffer.size()));
      return false;
    }
    if (buffer[n] == '{') {
      std::string before = take(n);
      start_scan(again_ ? std::string() : std::move(before));
      at_ = At::kCall;
      return true;
    }
    at_ = At::kText;
    return true;
  }
  bool text() {
    const int which = reach_any({kPythonTag, kFunction});
    if (which >= 0) at_ = which == 0 ? At::kPython : At::kName;
    return which >= 0;
  }
  bool name() {
    const std::size_t end = buffer.find_first_of(">\n");
    if (end == std::string::npos && !last) return false;
    if (end == std::string::npos || buffer[end] != '>' || end == 0) {
      say(kFunction);
      at_ = At::kText;
      return true;
    }
    begin_call(take(end));
    take(1);
    start_value();
    at_ = At::kValue;
    return true;
  }
  /// Reads {"name": …} or tool.call(argument="value", …).
  bool python() {
    skip_space();
    if (buffer.empty()) return false;
    if (buffer.front() == '{') {
      at_ = At::kStart;
      return true;
    }
    if (!last) return false;
    const std::string all = take(buffer.size());
    if (!call_of_python(all)) say(all);
    return false;
  }
  bool call_of_python(const std::string& text) {
    const std::size_t dot = text.find(".call(");
    const std::size_t end = text.rfind(')');
    if (dot == std::string::npos || dot == 0 || end == std::string::npos || end < dot) return false;
    nlohmann::ordered_json arguments_object = nlohmann::ordered_json::object();
    std::string_view rest = std::string_view(text).substr(dot + 6, end - dot - 6);
    while (!rest.empty()) {
      const std::size_t equals = rest.find('=');
      if (equals == std::string_view::npos) return false;
      std::string key(rest.substr(0, equals));
      key.erase(0, key.find_first_not_of(" ,"));
      rest.remove_prefix(equals + 1);
      ValueEnd value;
      std::size_t n = 0;
      while (n < rest.size() && !value.feed(rest[n])) ++n;
      if (n < rest.size() && !value.ended_before()) ++n;
      const auto parsed =
          try_parse_json<nlohmann::ordered_json>(rest.substr(0, std::min(n, rest.size())));
      if (parsed.is_discarded()) return false;
      arguments_object[key] = parsed;
      rest.remove_prefix(std::min(n, rest.size()));
      while (!rest.empty() && (rest.front() == ',' || rest.front() == ' ')) rest.remove_prefix(1);
    }
    begin_call(text.substr(0, dot));
    arguments(arguments_object.dump());
    return true;
  }

  bool midway() const override { return at_ == At::kName; }
  enum class At : std::uint8_t { kStart, kText, kCall, kName, kValue, kClose, kPython };
  At at_ = At::kStart;
  bool again_ = false;
};

/// A JSON list of calls after a mark of the family.
class ListOfCalls : public Family {
 protected:
  void begin_list() { over_ = in_call_ = false; }
  /// Takes one step after the list's bracket, until over().
  bool list() {
    if (in_call_) {
      const std::optional<bool> good = read_call();
      if (!good) return false;
      in_call_ = false;
      over_ = !*good;
      return !buffer.empty();
    }
    const std::size_t n = buffer.find_first_not_of(" \n\t\r,");
    if (n == std::string::npos) return false;
    take(n);
    over_ = buffer.front() == ']';
    if (over_) {
      take(1);
    } else {
      start_scan({});
      in_call_ = true;
    }
    return true;
  }
  bool over() const { return over_; }

 private:
  bool over_ = false, in_call_ = false;
};

class Mistral final : public ListOfCalls {
 public:
  explicit Mistral(std::string_view open) : open_(open) {}
  bool step() override {
    switch (at_) {
      case At::kText:
        return text();
      case At::kFirst:
        skip_space();
        if (buffer.empty()) return false;
        if (buffer.front() == '[') {
          take(1);
          begin_list();
          at_ = At::kList;
        } else {
          at_ = At::kName;
        }
        return true;
      case At::kList: {
        const bool more = list();
        if (over()) at_ = At::kText;
        return more;
      }
      case At::kName:
        return name();
      case At::kValue:
        if (!scan_value()) return false;
        at_ = At::kText;
        return true;
    }
    return false;
  }

 private:
  bool text() {
    if (!reach(open_)) return false;
    at_ = At::kFirst;
    return true;
  }
  /// Reads name[ARGS]{…}, name[CALL_ID]id[ARGS]{…} or name{…}.
  bool name() {
    const std::size_t brace = buffer.find('{');
    if (brace == std::string::npos) {
      if (last) say(std::string(open_) + take(buffer.size()));
      return false;
    }
    std::string header = take(brace);
    std::string called = header.substr(0, header.find('['));
    while (!called.empty() && (called.back() == ' ' || called.back() == '\n')) called.pop_back();
    if (called.empty()) {
      say(std::string(open_) + header);
      at_ = At::kText;
      return true;
    }
    begin_call(called);
    start_value();
    at_ = At::kValue;
    return true;
  }
  enum class At : std::uint8_t { kText, kFirst, kList, kName, kValue };
  const std::string_view open_;
  At at_ = At::kText;
};

class DeepSeek final : public Family {
 public:
  bool step() override {
    switch (at_) {
      case At::kText:
        return text();
      case At::kHeader:
        return header();
      case At::kValue:
        if (!scan_value()) return false;
        at_ = At::kAfterCall;
        return true;
      case At::kAfterCall: {
        const Found found = find({kEnd, kBegin, kAllEnd});
        if (found.which < 0) {
          take(buffer.size() - held({kEnd, kBegin, kAllEnd}));
          return false;
        }
        take(found.at);
        if (found.which != 1) take(found.which == 0 ? kEnd.size() : kAllEnd.size());
        at_ = At::kText;
        return true;
      }
    }
    return false;
  }

 private:
  static constexpr std::string_view kAllBegin = "<｜tool▁calls▁begin｜>";
  static constexpr std::string_view kAllEnd = "<｜tool▁calls▁end｜>";
  static constexpr std::string_view kBegin = "<｜tool▁call▁begin｜>";
  static constexpr std::string_view kEnd = "<｜tool▁call▁end｜>";
  static constexpr std::string_view kSeparator = "<｜tool▁sep｜>";
  bool text() {
    const int which = reach_any({kAllBegin, kBegin, kAllEnd});
    if (which == 1) at_ = At::kHeader;
    return which >= 0;
  }
  /// Reads "function<sep>name\n```json\n" (V3, R1) or "name<sep>" (V3.1).
  bool header() {
    const std::size_t separator = buffer.find(kSeparator);
    const std::size_t brace =
        separator == std::string::npos ? separator : buffer.find('{', separator);
    if (brace == std::string::npos) {
      if (last) say(std::string(kBegin) + take(buffer.size()));
      return false;
    }
    const std::string first = buffer.substr(0, separator);
    const std::size_t name_begin = separator + kSeparator.size();
    std::string called = first;
    if (first == "function")
      called = buffer.substr(name_begin, buffer.find_first_of("\n`{", name_begin) - name_begin);
    while (!called.empty() && called.back() == ' ') called.pop_back();
    if (called.empty()) {
      say(std::string(kBegin) + take(brace));
      at_ = At::kText;
      return true;
    }
    take(brace);
    begin_call(called);
    start_value();
    at_ = At::kValue;
    return true;
  }
  bool midway() const override { return at_ == At::kHeader; }
  enum class At : std::uint8_t { kText, kHeader, kValue, kAfterCall };
  At at_ = At::kText;
};

/// Command R: each part stands between its own marks; text outside of them is the answer's.
class Cohere final : public ListOfCalls {
 public:
  bool step() override {
    switch (at_) {
      case At::kText:
        return text();
      case At::kThoughts: {
        const Found end = find({kThoughtsEnd});
        out.reasoning += take(end.which < 0 ? buffer.size() - held({kThoughtsEnd}) : end.at);
        if (end.which < 0) return false;
        take(kThoughtsEnd.size());
        at_ = At::kText;
        return true;
      }
      case At::kAction: {
        skip_space();
        if (buffer.empty()) return false;
        const bool listed = buffer.front() == '[';
        if (listed) take(1);
        begin_list();
        at_ = listed ? At::kList : At::kText;
        return true;
      }
      case At::kList: {
        const bool more = list();
        if (over()) at_ = At::kText;
        return more;
      }
    }
    return false;
  }

 private:
  static constexpr std::string_view kThoughts = "<|START_THINKING|>";
  static constexpr std::string_view kThoughtsEnd = "<|END_THINKING|>";
  static constexpr std::string_view kAction = "<|START_ACTION|>";
  static constexpr std::string_view kActionEnd = "<|END_ACTION|>";
  static constexpr std::string_view kResponse = "<|START_RESPONSE|>";
  static constexpr std::string_view kResponseEnd = "<|END_RESPONSE|>";

  bool text() {
    const int which = reach_any({kThoughts, kAction, kActionEnd, kResponse, kResponseEnd});
    if (which == 0) at_ = At::kThoughts;
    if (which == 1) at_ = At::kAction;
    return which >= 0;
  }
  enum class At : std::uint8_t { kText, kThoughts, kAction, kList };
  At at_ = At::kText;
};

class Harmony final : public Family {
 public:
  bool step() override { return at_ == At::kHeader ? header() : body(); }
  void go_on() override {
    at_ = At::kBody;
    first_ = false;
  }

 private:
  static constexpr std::string_view kStart = "<|start|>";
  static constexpr std::string_view kChannel = "<|channel|>";
  static constexpr std::string_view kMessage = "<|message|>";

  bool header() {
    if (first_) {
      if (may_become(kChannel) || may_become(kStart) || may_become(" to=")) return false;
      if (buffer.empty()) return false;
      first_ = false;
      if (!starts_with(kChannel) && !starts_with(kStart) && !starts_with(" to=")) {
        to_ = To::kContent;  // there are no channels
        at_ = At::kBody;
        return true;
      }
    }
    const std::size_t end = buffer.find(kMessage);
    if (end == std::string::npos) {
      if (last) take(buffer.size());
      return false;
    }
    const std::string head = take(end);
    take(kMessage.size());
    open(head);
    at_ = At::kBody;
    return true;
  }
  void open(const std::string& head) {
    const auto word_after = [&](std::string_view mark) {
      const std::size_t at = head.find(mark);
      if (at == std::string::npos) return std::string();
      const std::size_t begin = at + mark.size();
      return head.substr(begin, head.find_first_of(" <\n", begin) - begin);
    };
    const std::string called = word_after("to=functions.");
    to_ = word_after(kChannel) == "analysis" ? To::kReasoning : To::kContent;
    if (called.empty()) return;
    to_ = To::kCall;
    begin_call(called);
  }
  bool body() {
    const Found found = find({"<|end|>", "<|call|>", "<|return|>", kStart, kChannel});
    const bool over = found.which >= 0;
    const std::string text =
        take(over ? found.at
                  : buffer.size() - held({"<|end|>", "<|call|>", "<|return|>", kStart, kChannel}));
    if (to_ == To::kReasoning) {
      out.reasoning += text;
    } else if (to_ == To::kCall) {
      arguments(text);
    } else {
      say(text);
    }
    if (!over) return false;
    const std::size_t sizes[] = {7, 8, 10, 0, 0};
    take(sizes[found.which]);
    at_ = At::kHeader;
    return true;
  }
  enum class At : std::uint8_t { kHeader, kBody };
  enum class To : std::uint8_t { kContent, kReasoning, kCall };
  At at_ = At::kHeader;
  To to_ = To::kContent;
  bool first_ = true;
};

class Functionary final : public Family {
 public:
  bool step() override { return named_ ? body() : name(); }
  void go_on() override { named_ = marked_ = true; }

 private:
  static constexpr std::string_view kNext = ">>>";
  bool name() {
    if (!marked_ && may_become(kNext)) return false;
    if (!marked_ && starts_with(kNext)) take(kNext.size());
    marked_ = true;
    const std::size_t end = buffer.find('\n');
    if (end == std::string::npos) {
      if (last) say(take(buffer.size()));
      return false;
    }
    const std::string who = take(end);
    const bool plain = who.empty() || who.find_first_of(" \t{<") != std::string::npos;
    if (plain && calls == 0) {
      say(who);  // no recipient: plain text
    } else {
      take(1);
    }
    call_ = !plain && who != "all";
    if (call_) begin_call(who);
    named_ = true;
    return true;
  }
  bool body() {
    const Found found = find({kNext});
    const std::string text = take(found.which >= 0 ? found.at : buffer.size() - held({kNext}));
    if (call_) {
      arguments(text);
    } else {
      say(text);
    }
    if (found.which < 0) return false;
    take(kNext.size());
    named_ = false;
    return true;
  }
  bool marked_ = false;  // the mark that may precede the first name was looked for
  bool named_ = false;
  bool call_ = false;
};

}  // namespace

std::unique_ptr<Family> make_plain() {
  return std::make_unique<Plain>();
}
std::unique_ptr<Family> make_hermes() {
  return std::make_unique<Hermes>();
}
std::unique_ptr<Family> make_llama3() {
  return std::make_unique<Llama3>();
}
std::unique_ptr<Family> make_mistral() {
  return std::make_unique<Mistral>("[TOOL_CALLS]");
}
std::unique_ptr<Family> make_deepseek() {
  return std::make_unique<DeepSeek>();
}
std::unique_ptr<Family> make_harmony() {
  return std::make_unique<Harmony>();
}
std::unique_ptr<Family> make_granite() {
  return std::make_unique<Mistral>("<|tool_call|>");
}
std::unique_ptr<Family> make_cohere() {
  return std::make_unique<Cohere>();
}
std::unique_ptr<Family> make_functionary() {
  return std::make_unique<Functionary>();
}

}  // namespace holdfast::chat
