#pragma once
// Follows one text token by token.

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "shared/grammar/pushdown.h"
#include "shared/grammar/token_masks.h"

namespace holdfast::grammar {

/// A pure function of the ids accepted so far: replaying them in a new matcher gives the same
/// state. Not thread-safe.
class Matcher {
 public:
  explicit Matcher(std::shared_ptr<TokenMasks> masks);

  /// False, and nothing changes, for a token that may not come next. An end token is taken where
  /// the text may end, and nothing after it.
  bool accept(TokenId id);
  /// The same for bytes, which need not be a token.
  bool accept_bytes(std::string_view bytes);
  /// Bit i of word i / 64 = token i may come next; `bits` has table.mask_words() words, all of
  /// which are written. False, with all bits zero, if the grammar is too ambiguous to go on.
  bool fill_mask(std::span<std::uint64_t> bits);
  /// The text so far is complete: end tokens are allowed.
  bool may_end() const { return may_end_ && !ended_; }
  /// Nothing but an end token is allowed.
  bool must_end() const { return places_.empty() && may_end(); }
  /// Whether behind `id`, which may come next, the text can be complete and ended with at most `n`
  /// tokens. True is sure: each byte of the shortest way is a token of its own.
  bool ends_within(TokenId id, std::int64_t n);
  /// What comes next whichever text it becomes, at most `most` bytes of it; where the text may be
  /// read in more than a few ways, perhaps less.
  std::string forced(std::size_t most);
  /// An end token was accepted.
  bool ended() const { return ended_; }
  const TokenTable& table() const { return masks_->table(); }

 private:
  bool read(std::string_view bytes, bool& may_end);
  int only_byte(const Places& places) const;

  std::shared_ptr<TokenMasks> masks_;
  Pushdown machine_;
  Places places_;
  Places now_;
  Places then_;
  std::uint32_t position_ = 0;
  bool may_end_ = false;
  bool ended_ = false;
};

}  // namespace holdfast::grammar
