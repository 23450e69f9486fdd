#include "worker/engine/banned.h"

#include <algorithm>
#include <utility>

namespace holdfast::engine {
namespace {

/// The node of this prefix in a trie (tokens below it start so), or false.
bool descend(const grammar::TokenTrie& trie, std::string_view bytes, std::size_t& node) {
  node = 0;
  if (trie.nodes.empty()) return false;
  for (const char c : bytes) {
    const std::size_t end = trie.nodes[node].end;
    std::size_t child = node + 1;
    while (child < end && trie.nodes[child].byte != static_cast<std::uint8_t>(c)) {
      child = trie.nodes[child].end;
    }
    if (child >= end) return false;
    node = child;
  }
  return true;
}

}  // namespace

BannedTexts::BannedTexts(std::shared_ptr<const grammar::TokenTable> table,
                         std::vector<std::string> texts)
    : table_(std::move(table)), texts_(std::move(texts)) {
  for (const std::string& text : texts_) tail_bytes_ = std::max(tail_bytes_, text.size() - 1);
  for (TokenId id = 0; id < table_->size(); ++id) {
    const std::string_view bytes = table_->bytes(id);
    if (std::any_of(texts_.begin(), texts_.end(), [&](const std::string& text) {
          return bytes.find(text) != std::string_view::npos;
        })) {
      always_.push_back(id);
    }
  }
}

void BannedTexts::starting_with(std::string_view bytes, std::vector<TokenId>& ids) const {
  for (const grammar::TokenTrie* trie : {&table_->short_trie(), &table_->long_trie()}) {
    std::size_t node = 0;
    if (!descend(*trie, bytes, node)) continue;
    ids.insert(ids.end(), trie->ids.begin() + trie->nodes[node].token_begin,
               trie->ids.begin() + trie->tokens_end(trie->nodes[node]));
  }
}

void BannedTexts::after(std::string_view tail, std::vector<TokenId>& ids) const {
  ids.insert(ids.end(), always_.begin(), always_.end());
  for (const std::string& text : texts_) {
    const std::size_t most = std::min(text.size() - 1, tail.size());
    for (std::size_t k = 1; k <= most; ++k) {
      if (tail.substr(tail.size() - k) != std::string_view(text).substr(0, k)) continue;
      starting_with(std::string_view(text).substr(k), ids);
    }
  }
}

}  // namespace holdfast::engine
