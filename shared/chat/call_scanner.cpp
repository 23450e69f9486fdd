#include "shared/chat/call_scanner.h"

#include <nlohmann/json.hpp>

#include "shared/base/json_text.h"

namespace holdfast::chat {
namespace {

constexpr std::size_t kNameBytesMax = 256;

bool is_space(char c) {
  return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

/// Returns true for the member that names the tool; Command R calls it "tool_name".
bool is_name(const std::string& key) {
  return key == "name" || key == "tool_name";
}

bool is_arguments(const std::string& key) {
  return key == "arguments" || key == "parameters";
}

/// Reads a quoted JSON string into text; false if it is not one.
bool unquote(const std::string& json, std::string& out) {
  const auto value = try_parse_json<nlohmann::json>(json);
  if (!value.is_string()) return false;
  out = value.get<std::string>();
  return true;
}

}  // namespace

bool ValueEnd::feed(char c) {
  if (string_) return feed_string(c);
  if (bare_) {
    before_ = is_space(c) || c == ',' || c == '}' || c == ']';
    return before_;
  }
  if (!started_ && is_space(c)) return false;
  started_ = true;
  switch (c) {
    case '"':
      string_ = true;
      return false;
    case '{':
    case '[':
      ++depth_;
      return false;
    case '}':
    case ']':
      return --depth_ <= 0;
    default:
      bare_ = depth_ == 0;
      return false;
  }
}

bool ValueEnd::feed_string(char c) {
  if (escape_) {
    escape_ = false;
  } else if (c == '\\') {
    escape_ = true;
  } else if (c == '"') {
    string_ = false;
    return depth_ == 0;
  }
  return false;
}

CallScanner::Status CallScanner::end_value() {
  at_ = At::kAfterValue;
  if (is_name(key_)) {
    if (!unquote(value_, name_) || name_.empty() || name_.size() > kNameBytesMax) {
      return Status::kBroken;
    }
    named_ = true;
  } else if (text_arguments_) {
    std::string text;
    if (!unquote(value_, text)) return Status::kBroken;
    arguments_ = std::move(text);
  }
  value_.clear();
  return Status::kIncomplete;
}

bool CallScanner::may_begin_value(char c) const {
  if (is_name(key_)) return c == '"' && !named_;
  if (is_arguments(key_)) return (c == '{' || c == '"') && !has_arguments_;
  return true;
}

CallScanner::Status CallScanner::begin_value(char c) {
  if (is_space(c)) return Status::kIncomplete;
  if (!may_begin_value(c)) return Status::kBroken;
  const bool arguments = is_arguments(key_);
  has_arguments_ = has_arguments_ || arguments;
  text_arguments_ = arguments && c == '"';
  end_ = ValueEnd();
  value_.clear();
  (streams() ? arguments_ : value_) += c;
  end_.feed(c);
  return Status::kIncomplete;
}

bool CallScanner::streams() const {
  return is_arguments(key_) && !text_arguments_;
}

CallScanner::Status CallScanner::feed(char c) {
  if (at_ == At::kInKey) return feed_key(c);
  if (at_ == At::kValue) return end_.started() ? feed_value(c) : begin_value(c);
  if (is_space(c)) return Status::kIncomplete;
  switch (at_) {
    case At::kStart:
      return go_on(c == '{', At::kKey);
    case At::kKey:
      return begin_key(c);
    case At::kColon:
      value_.clear();
      end_ = ValueEnd();
      return go_on(c == ':', At::kValue);
    default:  // after a value
      if (c == '}' && named_) return Status::kDone;
      return go_on(c == ',', At::kKey);
  }
}

CallScanner::Status CallScanner::go_on(bool is_right, At next) {
  if (!is_right) return Status::kBroken;
  at_ = next;
  return Status::kIncomplete;
}

CallScanner::Status CallScanner::begin_key(char c) {
  if (c == ',') return Status::kIncomplete;
  if (c == '}') return named_ ? Status::kDone : Status::kBroken;
  key_.clear();
  return go_on(c == '"', At::kInKey);
}

CallScanner::Status CallScanner::feed_key(char c) {
  if (c == '"' && !escape_) return go_on(true, At::kColon);
  escape_ = c == '\\' && !escape_;
  key_ += c;
  return key_.size() > kNameBytesMax ? Status::kBroken : Status::kIncomplete;
}

CallScanner::Status CallScanner::feed_value(char c) {
  const bool ended = end_.feed(c);
  const bool before = ended && end_.ended_before();
  if (!before) (streams() ? arguments_ : value_) += c;
  if (!ended) return Status::kIncomplete;
  const Status status = end_value();
  text_arguments_ = false;
  if (status != Status::kIncomplete || !before) return status;
  return feed(c);
}

std::string CallScanner::take_arguments() {
  if (!named_ || text_arguments_) return {};
  std::string out;
  out.swap(arguments_);
  return out;
}

}  // namespace holdfast::chat
