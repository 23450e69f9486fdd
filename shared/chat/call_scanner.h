#pragma once
// One call written as JSON, read character by character: {"name": "f", "arguments": {…}}, with
// "parameters" for "arguments" and either member first.

#include <cstdint>
#include <string>
#include <string_view>

namespace holdfast::chat {

/// Finds where a JSON value ends, without building it. Tolerant: it looks at strings and brackets.
class ValueEnd {
 public:
  /// True when `c` ended the value (it belongs to it, but for the character behind a bare word).
  bool feed(char c);
  /// The value is a bare word or number, and `c` behind it ended it: c is not part of it.
  bool ended_before() const { return before_; }
  bool started() const { return started_; }

 private:
  int depth_ = 0;
  bool started_ = false, string_ = false, escape_ = false, bare_ = false, before_ = false;
};

/// Reads the object of a call. `arguments` grows with each feed() once the name is known.
class CallScanner {
 public:
  enum class Status : std::uint8_t { kMore, kDone, kBroken };
  /// One character. kDone with the object's closing bracket; kBroken: this is no call.
  Status feed(char c);
  const std::string& name() const { return name_; }
  /// What came of the arguments since the last take, as JSON text; empty while the name is unknown.
  std::string take_arguments();

 private:
  enum class At : std::uint8_t { kStart, kKey, kInKey, kColon, kValue, kBehindValue };
  Status begin_value(char c);
  Status end_value();
  At at_ = At::kStart;
  std::string key_;
  std::string value_;  // of name; of arguments while they are not streamed
  ValueEnd end_;
  bool escape_ = false;
  bool named_ = false;
  bool has_arguments_ = false;
  bool text_arguments_ = false;  // a JSON text inside a string
  std::string name_;
  std::string arguments_;
};

}  // namespace holdfast::chat
