#pragma once
// Matches one text against a grammar, token by token.

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "shared/grammar/pushdown.h"
#include "shared/grammar/token_masks.h"

namespace holdfast::grammar {

/// The state of one text: a pure function of the ids accepted so far, so replaying them in a new
/// matcher gives the same state. Not thread-safe.
class Matcher {
 public:
  explicit Matcher(std::shared_ptr<TokenMasks> masks);

  /// Accepts a token. False, and nothing changes, for a token that may not come next. An end token
  /// is accepted where the text may end, and nothing after it.
  bool accept(TokenId id);
  /// Accepts bytes, which need not be a token.
  bool accept_bytes(std::string_view bytes);
  /// Sets bit i of word i / 64 if token i may come next; `bits` has table.mask_words() words, all
  /// of which are written. False, with all bits zero, if the grammar is too ambiguous to go on.
  bool fill_mask(std::span<std::uint64_t> bits);
  /// Returns true if the text so far is complete: end tokens are allowed.
  bool may_end() const { return may_end_ && !ended_; }
  /// Returns true if only an end token is allowed.
  bool must_end() const { return configurations_.empty() && may_end(); }
  /// Returns true if after `id`, which may come next, the text can surely be completed and ended
  /// with at most `n` tokens: each byte of the shortest way is a token of its own.
  bool ends_within(TokenId id, std::int64_t n);
  /// Returns the bytes that every continuation has next, at most `most`; perhaps fewer where the
  /// text may be read in more than a few ways.
  std::string forced(std::size_t most);
  /// Returns true if an end token was accepted.
  bool ended() const { return ended_; }
  const TokenTable& table() const { return masks_->table(); }

 private:
  bool read(std::string_view bytes, bool& may_end);
  int only_byte(const Configurations& configurations) const;

  std::shared_ptr<TokenMasks> masks_;
  Pushdown machine_;
  Configurations configurations_;
  Configurations now_;
  Configurations then_;
  std::uint32_t position_ = 0;
  bool may_end_ = false;
  bool ended_ = false;
};

}  // namespace holdfast::grammar
