#pragma once
// Reads one call written as JSON, character by character: {"name": "f", "arguments": {…}}, with
// "parameters" for "arguments" and either member first.

#include <cstdint>
#include <string>
#include <string_view>

namespace holdfast::chat {

/// Finds where a JSON value ends, without building it. Tolerant: it follows strings and brackets
/// alone.
class ValueEnd {
 public:
  /// Returns true when `c` ended the value. `c` belongs to it, except for the character after a
  /// bare word.
  bool feed(char c);
  /// Returns true if the value is a bare word or number that the last character ended without being
  /// part of it.
  bool ended_before() const { return before_; }
  bool started() const { return started_; }

 private:
  bool feed_string(char c);

  int depth_ = 0;
  bool started_ = false, string_ = false, escape_ = false, bare_ = false, before_ = false;
};

/// Reads the object of a call. The arguments grow with each feed() once the name is known.
class CallScanner {
 public:
  enum class Status : std::uint8_t { kIncomplete, kDone, kBroken };
  /// Takes one character. kDone at the object's closing bracket; kBroken: this is not a call.
  Status feed(char c);
  const std::string& name() const { return name_; }
  /// Returns the JSON text of the arguments that came since the last call; empty while the name is
  /// unknown.
  std::string take_arguments();

 private:
  enum class At : std::uint8_t { kStart, kKey, kInKey, kColon, kValue, kAfterValue };
  /// Goes on to another place if the character is the right one.
  Status go_on(bool is_right, At next);
  Status begin_key(char c);
  Status feed_key(char c);
  Status feed_value(char c);
  /// Returns true if the value's characters are passed on while they come.
  bool streams() const;
  bool may_begin_value(char c) const;
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
