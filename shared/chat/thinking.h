#pragma once
// Finds the reasoning of an answer, token by token: how many tokens it takes, and how its end is
// written. The worker bounds it and the gateway counts it by the same rule.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>

#include "shared/chat/output_parser.h"

namespace holdfast::chat {

/// The texts that begin and end reasoning.
struct ThinkingMarks {
  std::string begin;
  std::string close;      // ends it
  std::string force;      // the text that ends it early: begins with `close`
  bool anywhere = false;  // it may begin anywhere, else only at the start of the answer
  bool operator==(const ThinkingMarks&) const = default;
};

/// Returns nullopt if answers of this kind have no reasoning that is marked.
std::optional<ThinkingMarks> thinking_marks(const OutputKind& kind);

/// Counts the tokens between the marks. A token that holds the end of a mark is not counted. Not
/// thread-safe.
class ThinkingMeter {
 public:
  /// Starts an answer; `open` means that the prompt has begun the reasoning.
  ThinkingMeter(ThinkingMarks marks, bool open);
  /// Takes the text of one token, control tokens by their names.
  void feed(std::string_view text);

  bool inside() const { return at_ == At::kInside; }
  /// Returns true if no more reasoning can follow.
  bool over() const { return at_ == At::kOver; }
  /// Returns the tokens so far, with those that may yet turn out to be part of the closing mark.
  std::int64_t tokens() const { return counted_ + static_cast<std::int64_t>(ends_.size()); }
  const ThinkingMarks& marks() const { return marks_; }

 private:
  enum class At : std::uint8_t { kStart, kInside, kOutside, kOver };
  bool step();
  bool find_at_start();
  bool find_begin();
  bool find_close();

  ThinkingMarks marks_;
  At at_;
  std::string tail_;              // text that may be part of a mark
  std::deque<std::size_t> ends_;  // inside: ends in it of the tokens
  std::int64_t counted_ = 0;
};

}  // namespace holdfast::chat
