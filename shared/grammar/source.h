#pragma once
// A cursor over the characters of a source text.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "shared/base/result.h"

namespace holdfast::grammar {

constexpr char32_t kNoChar = 0xFFFFFFFF;

/// Converts UTF-8 to code points; kInvalidRequest with the byte offset where it is not UTF-8.
Result<std::u32string> decode_source(std::string_view text);

/// A reader of characters. Reads past the end return kNoChar.
class SourceReader {
 public:
  explicit SourceReader(std::u32string text) : text_(std::move(text)) {}
  bool at_end() const { return at_ >= text_.size(); }
  std::size_t offset() const { return at_; }
  void seek(std::size_t at) { at_ = at; }
  char32_t peek(std::size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : kNoChar;
  }
  bool take(char32_t c) {
    if (at_end() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  /// Reads decimal digits as a number of at most `max`; nullopt (digits skipped) if there is no
  /// such number.
  std::optional<std::uint32_t> read_number(std::uint32_t max);
  /// Reads exactly n hexadecimal digits, else nothing.
  std::optional<char32_t> read_hex(int n);
  /// Returns "line 3, column 5" of the current position, from 1.
  std::string position() const;

 private:
  std::u32string text_;
  std::size_t at_ = 0;
};

}  // namespace holdfast::grammar
