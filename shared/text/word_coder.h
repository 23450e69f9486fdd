#pragma once
// Word to token ids, the common part of BPE and SentencePiece: a word that is a token and that its
// own merges make is found with one lookup; any other word is merged.

#include <atomic>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "shared/text/merges.h"
#include "shared/text/token_map.h"

namespace holdfast::text {

/// Encodes words. Immutable except for a memo of single-token words, which is a set of atomics
/// whose values do not depend on the writer: safe from any thread.
class WordCoder {
 public:
  WordCoder() = default;
  /// Makes a coder. `words`: text to id of the tokens that plain text may become. `ignore_merges`:
  /// such a word becomes that token whatever the merges are.
  WordCoder(TokenMap words, MergeTable merges, std::size_t vocab_size, bool ignore_merges)
      : words_(std::move(words)),
        merges_(std::move(merges)),
        ignore_merges_(ignore_merges),
        memo_(std::make_unique<std::atomic<std::uint8_t>[]>(vocab_size)) {}

  const TokenMap& words() const { return words_; }

  /// Appends the symbols of `word`: ids, or negative numbers where there is no token.
  /// symbols_of(word, out) appends the word's smallest symbols.
  template <class SymbolsOf>
  void encode(std::string_view word, const SymbolsOf& symbols_of, std::vector<std::int32_t>& out,
              MergeScratch& scratch) const {
    const std::int32_t whole = words_.find(word);
    Memo memo = Memo::kNo;
    if (whole >= 0) {
      memo = ignore_merges_ ? Memo::kYes : remembered(whole);
      if (memo == Memo::kYes) return out.push_back(whole);
    }
    const std::size_t first = out.size();
    symbols_of(word, out);
    merge_symbols(merges_, out, first, scratch);
    if (whole >= 0 && memo == Memo::kNotYet) {
      const bool yes = out.size() == first + 1 && out.back() == whole;
      memo_[static_cast<std::size_t>(whole)].store(
          static_cast<std::uint8_t>(yes ? Memo::kYes : Memo::kNo), std::memory_order_relaxed);
    }
  }

 private:
  enum class Memo : std::uint8_t { kNotYet = 0, kYes = 1, kNo = 2 };
  Memo remembered(std::int32_t id) const {
    return static_cast<Memo>(memo_[static_cast<std::size_t>(id)].load(std::memory_order_relaxed));
  }

  TokenMap words_;
  MergeTable merges_;
  bool ignore_merges_ = false;
  std::unique_ptr<std::atomic<std::uint8_t>[]> memo_;
};

}  // namespace holdfast::text
