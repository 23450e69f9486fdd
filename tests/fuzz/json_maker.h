#pragma once
// JSON of the right form with wrong values in it, made of a fuzzer's bytes. Plain bytes rarely pass
// a JSON parser, so code after it would see few of them.

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <string>
#include <string_view>

namespace holdfast::fuzz {

/// Decisions made of bytes. When they are used up every decision is 0.
class Choices {
 public:
  Choices(const std::uint8_t* data, std::size_t size) : at_(data), end_(data + size) {}
  bool empty() const { return at_ == end_; }
  unsigned byte() { return empty() ? 0U : *at_++; }
  /// Draws 0 to n - 1.
  unsigned below(unsigned n) { return n == 0 ? 0U : byte() % n; }
  /// True `n` times of 8.
  bool likely(unsigned n) { return byte() % 8 < n; }
  template <class List>
  const auto& from(const List& list) {
    return list[below(static_cast<unsigned>(std::size(list)))];
  }
  std::string_view bytes(std::size_t most) {
    const std::size_t n = std::min<std::size_t>(most, static_cast<std::size_t>(end_ - at_));
    const std::string_view out(reinterpret_cast<const char*>(at_), n);
    at_ += n;
    return out;
  }
  std::string_view rest() { return bytes(SIZE_MAX); }

 private:
  const std::uint8_t* at_;
  const std::uint8_t* end_;
};

/// A member that a reader takes. In `value` an @ stands for any value, ~ for any string, ^ for a
/// string that has JSON in it, % for a list of 0 to 3 of what follows up to the next %.
struct Member {
  const char* name;
  const char* value;
};

class JsonMaker {
 public:
  JsonMaker(Choices& choices, std::span<const Member> members, std::string* out)
      : choices_(choices), members_(members), out_(*out) {}

  /// Writes an object whose first `required` members are mostly present.
  void object(std::size_t required) {
    out_ += '{';
    bool any = false;
    for (std::size_t i = 0; i < required; ++i) {
      if (choices_.byte() % 16 != 15) add(members_[i], &any);
    }
    for (unsigned n = choices_.below(8); n > 0; --n) add(choices_.from(members_), &any);
    out_ += '}';
  }

  void value(int depth) {
    switch (choices_.below(12)) {
      case 0:
        out_ += "null";
        return;
      case 1:
        out_ += choices_.likely(4) ? "true" : "false";
        return;
      case 2:
      case 3:
        out_ += choices_.from(kNumbers);
        return;
      case 4:
      case 5:
        return string();
      case 6:
        return nested();
      case 7:
        return deep();
      case 8:
      case 9:
        return array(depth);
      case 10:
        out_ += std::to_string(choices_.byte());
        return;
      default:
        return random_object(depth);
    }
  }

  /// Writes `text` with its signs replaced.
  void expand(std::string_view text, int depth) {
    for (std::size_t i = 0; i < text.size(); ++i) {
      const char c = text[i];
      if (c == '@') {
        value(depth - 1);
      } else if (c == '~') {
        string();
      } else if (c == '^') {
        nested();
      } else if (c == '%') {
        const std::size_t end = text.find('%', i + 1);
        repeat(text.substr(i + 1, end - i - 1), depth);
        i = end;
      } else {
        out_ += c;
      }
    }
  }

 private:
  static constexpr int kDepth = 4;
  static constexpr const char* kNumbers[] = {"0",
                                             "1",
                                             "-1",
                                             "2",
                                             "-0",
                                             "-0.0",
                                             "0.5",
                                             "16.0",
                                             "1e3",
                                             "1e308",
                                             "-1e308",
                                             "1e400",
                                             "5e-324",
                                             "1e-400",
                                             "1e999999999",
                                             "2147483647",
                                             "2147483648",
                                             "-2147483649",
                                             "9007199254740993",
                                             "9223372036854775807",
                                             "9223372036854775808",
                                             "-9223372036854775808",
                                             "-9223372036854775809",
                                             "18446744073709551615",
                                             "18446744073709551616",
                                             "1.7976931348623159e308",
                                             "123456789012345678901234567890",
                                             "0.1000000000000000055511151231257827",
                                             "01",
                                             "+1",
                                             ".5"};
  static constexpr const char* kStrings[] = {"",
                                             "a",
                                             "m",
                                             "f",
                                             "type",
                                             "auto",
                                             "none",
                                             "required",
                                             "function",
                                             "text",
                                             "user",
                                             "system",
                                             "assistant",
                                             "tool",
                                             "0",
                                             "-1",
                                             "24h",
                                             "true",
                                             "\\u0000",
                                             "\\ud83d\\ude00",
                                             "\\ud800",
                                             "\\u2028",
                                             "\xF0\x9F\x98\x80",
                                             "\xC3\xA9",
                                             "\xFF",
                                             "\\\\",
                                             "\\\"",
                                             "\\n",
                                             "</s>",
                                             "<|im_start|>",
                                             "{",
                                             "[",
                                             "{}",
                                             "../..",
                                             "%00",
                                             "a.b",
                                             "$ref"};

  void add(const Member& member, bool* any) {
    if (*any) out_ += ',';
    *any = true;
    out_.append("\"").append(member.name).append("\":");
    if (choices_.likely(6)) {
      expand(member.value, kDepth);
    } else {
      value(kDepth);
    }
  }
  void repeat(std::string_view item, int depth) {
    for (unsigned n = choices_.below(4), i = 0; i < n; ++i) {
      if (i > 0) out_ += ',';
      expand(item, depth);
    }
  }
  void string() {
    out_ += '"';
    switch (choices_.below(8)) {
      case 0:
        escaped(choices_.bytes(choices_.below(32)));
        break;
      case 1:
        out_.append(choices_.byte(), choices_.likely(6) ? 'a' : ' ');
        break;
      case 2:
        out_ += choices_.from(members_).name;
        break;
      default:
        out_ += choices_.from(kStrings);
        break;
    }
    out_ += '"';
  }
  /// Writes JSON in a string, perhaps twice.
  void nested() {
    std::string inner;
    JsonMaker maker(choices_, members_, &inner);
    if (choices_.likely(4)) {
      maker.value(1);
    } else {
      maker.random_object(1);
    }
    out_ += '"';
    escaped(inner);
    out_ += '"';
  }
  void deep() {
    const unsigned n = choices_.below(70);
    const bool objects = choices_.likely(4);
    for (unsigned i = 0; i < n; ++i) out_ += objects ? "{\"a\":" : "[";
    out_ += '1';
    out_.append(n, objects ? '}' : ']');
  }
  void array(int depth) {
    out_ += '[';
    for (unsigned n = depth <= 0 ? 0 : choices_.below(5), i = 0; i < n; ++i) {
      if (i > 0) out_ += ',';
      value(depth - 1);
    }
    out_ += ']';
  }
  /// Writes an object with names that readers take, in the wrong place and perhaps twice.
  void random_object(int depth) {
    out_ += '{';
    for (unsigned n = depth <= 0 ? 0 : choices_.below(5), i = 0; i < n; ++i) {
      if (i > 0) out_ += ',';
      out_.append("\"").append(choices_.likely(6) ? choices_.from(members_).name
                                                  : choices_.from(kStrings));
      out_ += "\":";
      value(depth - 1);
    }
    out_ += '}';
  }
  void escaped(std::string_view text) {
    static constexpr char kHex[] = "0123456789abcdef";
    for (const char c : text) {
      const auto u = static_cast<unsigned char>(c);
      if (c == '"' || c == '\\') {
        out_ += '\\';
        out_ += c;
      } else if (u < 0x20) {
        out_.append("\\u00").append({kHex[u >> 4], kHex[u & 15]});
      } else {
        out_ += c;
      }
    }
  }

  Choices& choices_;
  std::span<const Member> members_;
  std::string& out_;
};

}  // namespace holdfast::fuzz
