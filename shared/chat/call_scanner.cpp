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

/// Reads a quoted JSON string into text; false if it is not one.
bool unquote(const std::string& json, std::string& out) {
  const auto value = try_parse_json<nlohmann::json>(json);
  if (!value.is_string()) return false;
  out = value.get<std::string>();
  return true;
}

}  // namespace

bool ValueEnd::feed(char c) {
  if (string_) {
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
  if (bare_) {
    if (!is_space(c) && c != ',' && c != '}' && c != ']') return false;
    before_ = true;
    return true;
  }
  if (!started_ && is_space(c)) return false;
  started_ = true;
  if (c == '"') {
    string_ = true;
  } else if (c == '{' || c == '[') {
    ++depth_;
  } else if (c == '}' || c == ']') {
    return --depth_ <= 0;
  } else if (depth_ == 0) {
    bare_ = true;
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

CallScanner::Status CallScanner::begin_value(char c) {
  if (is_space(c)) return Status::kIncomplete;
  const bool arguments = key_ == "arguments" || key_ == "parameters";
  if (is_name(key_) && (c != '"' || named_)) return Status::kBroken;
  if (arguments && ((c != '{' && c != '"') || has_arguments_)) return Status::kBroken;
  has_arguments_ = has_arguments_ || arguments;
  text_arguments_ = arguments && c == '"';
  end_ = ValueEnd();
  at_ = At::kAfterValue;  // until the first character is taken
  value_.clear();
  const bool streams = arguments && !text_arguments_;
  (streams ? arguments_ : value_) += c;
  end_.feed(c);
  at_ = At::kValue;
  return Status::kIncomplete;
}

CallScanner::Status CallScanner::feed(char c) {
  switch (at_) {
    case At::kStart:
      if (is_space(c)) return Status::kIncomplete;
      if (c != '{') return Status::kBroken;
      at_ = At::kKey;
      return Status::kIncomplete;
    case At::kKey:
      if (is_space(c) || c == ',') return Status::kIncomplete;
      if (c == '}') return named_ ? Status::kDone : Status::kBroken;
      if (c != '"') return Status::kBroken;
      key_.clear();
      at_ = At::kInKey;
      return Status::kIncomplete;
    case At::kInKey:
      if (c == '"' && !escape_) {
        at_ = At::kColon;
      } else {
        escape_ = c == '\\' && !escape_;
        key_ += c;
        if (key_.size() > kNameBytesMax) return Status::kBroken;
      }
      return Status::kIncomplete;
    case At::kColon:
      if (is_space(c)) return Status::kIncomplete;
      if (c != ':') return Status::kBroken;
      value_.clear();
      end_ = ValueEnd();
      at_ = At::kValue;
      return Status::kIncomplete;
    case At::kValue: {
      if (!end_.started()) return begin_value(c);
      const bool streams = !text_arguments_ && (key_ == "arguments" || key_ == "parameters");
      const bool ended = end_.feed(c);
      if (!ended || !end_.ended_before()) (streams ? arguments_ : value_) += c;
      if (!ended) return Status::kIncomplete;
      const bool before = end_.ended_before();
      const Status status = end_value();
      text_arguments_ = false;
      if (status != Status::kIncomplete || !before) return status;
      return feed(c);
    }
    case At::kAfterValue:
      if (is_space(c)) return Status::kIncomplete;
      if (c == ',') {
        at_ = At::kKey;
        return Status::kIncomplete;
      }
      return c == '}' && named_ ? Status::kDone : Status::kBroken;
  }
  return Status::kBroken;
}

std::string CallScanner::take_arguments() {
  if (!named_ || text_arguments_) return {};
  std::string out;
  out.swap(arguments_);
  return out;
}

}  // namespace holdfast::chat
