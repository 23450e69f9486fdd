#pragma once
// Hand-written forms of the patterns that most models use; regular expressions are five times
// slower. Each rule states the pattern that it equals, and tests compare them.

#include <cstdint>
#include <string_view>
#include <vector>

namespace holdfast::text {

/// The parameters of a hand-written splitter.
struct WordRule {
  enum class Family : std::uint8_t {
    kNone,
    // 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
    kGpt2,
    // (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,DIGITS}
    // | ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
    kLlama3,
    // deepseek-llm's list of six patterns (pretokenizer.cpp)
    kDeepSeek,
  };
  Family family = Family::kNone;
  std::uint32_t digits = 0;        // kLlama3: at most so many digits in a word; 0 any number
  bool digits_first = false;       // kGpt2: every \p{N} is cut out as a word before all else
  bool contractions = true;        // kLlama3: has the first alternative
  bool newline_tail = true;        // kLlama3: has the [\r\n]* after symbols
  bool marks_are_letters = false;  // kLlama3: [\p{L}\p{M}]+ and [^\s\p{L}\p{M}\p{N}]+
};

/// Appends the ends of the words of `text` (valid UTF-8) to `ends`, each plus `base`.
void split_words(const WordRule& rule, std::string_view text, std::uint32_t base,
                 std::vector<std::uint32_t>& ends);

/// Does the same for Family::kDeepSeek.
void split_deepseek_words(std::string_view text, std::uint32_t base,
                          std::vector<std::uint32_t>& ends);

}  // namespace holdfast::text
