#pragma once
// A model's tokens as bytes, in two tries (short and long tokens), made once for a vocabulary.

#include <bitset>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "shared/grammar/automata.h"

namespace holdfast::text {
class Tokenizer;
}

namespace holdfast::grammar {

using TokenId = std::int32_t;

/// A trie in preorder: the subtree of node i is [i, nodes[i].end), its first child is i + 1.
struct TokenTrie {
  struct Node {
    std::uint32_t end = 0;
    std::uint32_t token_begin = 0;  // in `ids`: tokens whose bytes end here, then those below
    std::uint16_t depth = 0;        // bytes from the root; the root is node 0, depth 0
    std::uint8_t byte = 0;
  };
  std::vector<Node> nodes;
  std::vector<std::uint16_t> kinds_below;  // by node: kinds of the bytes below it, a bit each
  std::vector<TokenId> ids;
  std::uint32_t depth_max = 0;

  /// Returns the node of the longest token that `bytes` begin with; 0 if there is none.
  std::uint32_t longest(std::string_view bytes) const;
  /// Returns the end in `ids` of a node's tokens, or of its subtree's.
  std::uint32_t own_end(std::uint32_t node) const { return begin_or_end(node + 1); }
  std::uint32_t tokens_end(const Node& node) const { return begin_or_end(node.end); }
  bool has_tokens(std::uint32_t node) const { return own_end(node) > nodes[node].token_begin; }

 private:
  std::uint32_t begin_or_end(std::uint32_t node) const {
    return node < nodes.size() ? nodes[node].token_begin : static_cast<std::uint32_t>(ids.size());
  }
};

/// Kinds of bytes that grammars mostly treat alike, as a number below kByteKinds.
constexpr int kByteKinds = 16;
int byte_kind(std::uint8_t byte);

/// The tokens of a vocabulary. Immutable, safe from any thread.
class TokenTable {
 public:
  /// A token for a grammar: its bytes, or the end of generation. Tokens without bytes that are not
  /// ends (control tokens) are never allowed, nor are those of over kTokenBytesMax bytes and those
  /// after the first 4 GiB of bytes.
  struct Token {
    std::string_view bytes;
    bool is_end = false;
  };
  static constexpr std::size_t kTokenBytesMax = 1024;

  /// Makes a table; copies the bytes. Cost: a sort of the vocabulary (about 60 ms for 150,000
  /// tokens).
  static std::shared_ptr<const TokenTable> make(std::span<const Token> tokens);
  static std::shared_ptr<const TokenTable> make(const text::Tokenizer& tokenizer);

  std::int32_t size() const { return size_; }
  std::size_t mask_words() const { return (static_cast<std::size_t>(size_) + 63) / 64; }
  const std::vector<TokenId>& end_ids() const { return end_ids_; }
  bool is_end(TokenId id) const;
  /// Returns the token's bytes; empty for tokens that are never part of a text.
  std::string_view bytes(TokenId id) const;
  /// Appends the tokens of `bytes`, the longest that fits first, as far as there are any.
  void split(std::string_view bytes, std::vector<TokenId>& out) const;
  /// Returns the bytes that are a token of their own: a text of these alone is always possible.
  const std::bitset<256>& single_bytes() const { return single_bytes_; }
  /// Returns the trie of tokens of at most kHorizonBytes; long_trie() has the longer ones.
  const TokenTrie& short_trie() const { return tries_[0]; }
  const TokenTrie& long_trie() const { return tries_[1]; }

 private:
  std::int32_t size_ = 0;
  std::string blob_;
  std::vector<std::uint32_t> begins_;  // [size + 1]
  std::vector<TokenId> end_ids_;
  std::vector<bool> is_end_;
  std::bitset<256> single_bytes_;
  TokenTrie tries_[2];
};

/// Returns the bytes that are a token of their own in a vocabulary.
std::bitset<256> single_bytes(const text::Tokenizer& tokenizer);
/// Returns kUnsupported if the grammar may need a byte that is no token of its own (it is named): a
/// text could reach a point where no token fits.
Result<void> check_coverage(const Grammar& grammar, const std::bitset<256>& single_bytes);

}  // namespace holdfast::grammar
