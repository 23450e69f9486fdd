#include "shared/grammar/token_table.h"

#include <algorithm>
#include <array>
#include <string>

#include "shared/base/check.h"
#include "shared/text/tokenizer.h"

namespace holdfast::grammar {
namespace {

/// Sets the kinds from the last node to the first: children come after their parent.
void find_kinds(TokenTrie& trie) {
  trie.kinds_below.assign(trie.nodes.size(), 0);
  std::vector<std::uint32_t> parents(trie.nodes.size(), 0);
  std::vector<std::uint32_t> path(1, 0);
  for (std::uint32_t i = 1; i < trie.nodes.size(); ++i) {
    path.resize(trie.nodes[i].depth);
    parents[i] = path.back();
    path.push_back(i);
  }
  for (std::size_t i = trie.nodes.size(); i-- > 1;) {
    const auto kind_bit = static_cast<std::uint16_t>(1u << byte_kind(trie.nodes[i].byte));
    trie.kinds_below[parents[i]] |= trie.kinds_below[i] | kind_bit;
  }
}

/// Sorts ids by their bytes, then by id. Most differ in the first eight bytes, which are stored
/// next to the id as one number; the other bytes are scattered over the table.
void sort_by_bytes(const TokenTable& table, std::vector<TokenId>& ids) {
  struct Key {
    std::uint64_t head;  // first eight bytes, big-endian, zero-padded
    TokenId id;
  };
  std::vector<Key> keys;
  keys.reserve(ids.size());
  for (const TokenId id : ids) {
    const std::string_view bytes = table.bytes(id);
    std::uint64_t head = 0;
    for (std::size_t i = 0; i < 8; ++i) {
      head = head << 8 | (i < bytes.size() ? static_cast<std::uint8_t>(bytes[i]) : 0);
    }
    keys.push_back({head, id});
  }
  std::sort(keys.begin(), keys.end(), [&table](const Key& a, const Key& b) {
    if (a.head != b.head) return a.head < b.head;
    const int order = table.bytes(a.id).compare(table.bytes(b.id));
    return order < 0 || (order == 0 && a.id < b.id);
  });
  std::transform(keys.begin(), keys.end(), ids.begin(), [](const Key& key) { return key.id; });
}

/// Makes a trie in which equal bytes share a node.
TokenTrie make_trie(const TokenTable& table, std::vector<TokenId> ids) {
  sort_by_bytes(table, ids);
  TokenTrie trie;
  trie.nodes.emplace_back();
  std::vector<std::uint32_t> path{0};  // nodes from the root to the last token
  std::string_view last;
  for (const TokenId id : ids) {
    const std::string_view bytes = table.bytes(id);
    const auto differ = std::mismatch(last.begin(), last.end(), bytes.begin(), bytes.end());
    const auto common = static_cast<std::size_t>(differ.first - last.begin());
    for (; path.size() > common + 1; path.pop_back()) {
      trie.nodes[path.back()].end = static_cast<std::uint32_t>(trie.nodes.size());
    }
    for (std::size_t i = common; i < bytes.size(); ++i) {
      TokenTrie::Node node;
      node.byte = static_cast<std::uint8_t>(bytes[i]);
      node.depth = static_cast<std::uint16_t>(i + 1);
      node.token_begin = static_cast<std::uint32_t>(trie.ids.size());
      path.push_back(static_cast<std::uint32_t>(trie.nodes.size()));
      trie.nodes.push_back(node);
    }
    // Sorted: this is the last node of all, so the next one's tokens begin after its own.
    CHECK(path.back() + 1 == trie.nodes.size());
    trie.ids.push_back(id);
    trie.depth_max = std::max(trie.depth_max, static_cast<std::uint32_t>(bytes.size()));
    last = bytes;
  }
  for (const std::uint32_t node : path) {
    trie.nodes[node].end = static_cast<std::uint32_t>(trie.nodes.size());
  }
  trie.nodes.shrink_to_fit();  // it lives as long as the model
  trie.ids.shrink_to_fit();
  find_kinds(trie);
  return trie;
}

}  // namespace

namespace {

struct KindRange {
  std::uint8_t first, last;
  std::uint8_t kind;
};

// Later ranges override earlier ones.
constexpr KindRange kKindRanges[] = {
    {0x00, 0x1F, 6},  {0x20, 0x7E, 9},  {0x7F, 0x7F, 10}, {0x80, 0xBF, 11}, {0xC0, 0xDF, 12},
    {0xE0, 0xEF, 13}, {0xF0, 0xF4, 14}, {0xF5, 0xFF, 15}, {'a', 'z', 0},    {'A', 'Z', 1},
    {'0', '9', 2},    {' ', ' ', 3},    {'"', '"', 4},    {'\\', '\\', 5},  {'_', '_', 7},
    {'-', '-', 7},    {'.', '.', 8},    {',', ',', 8}};

constexpr std::array<std::uint8_t, 256> kKinds = [] {
  std::array<std::uint8_t, 256> kinds{};
  for (const KindRange& range : kKindRanges) {
    for (std::size_t byte = range.first; byte <= range.last; ++byte) kinds[byte] = range.kind;
  }
  return kinds;
}();

}  // namespace

int byte_kind(std::uint8_t byte) {
  return kKinds[byte];
}

std::uint32_t TokenTrie::longest(std::string_view bytes) const {
  std::uint32_t at = 0, found = 0;
  for (const char c : bytes) {
    std::uint32_t child = at + 1;
    while (child < nodes[at].end && nodes[child].byte != static_cast<std::uint8_t>(c)) {
      child = nodes[child].end;
    }
    if (child >= nodes[at].end) break;
    at = child;
    if (has_tokens(at)) found = at;
  }
  return found;
}

void TokenTable::split(std::string_view bytes, std::vector<TokenId>& out) const {
  while (!bytes.empty()) {
    const TokenTrie* trie = &tries_[1];
    std::uint32_t node = trie->longest(bytes);
    if (node == 0) node = (trie = &tries_[0])->longest(bytes);
    if (node == 0) return;
    out.push_back(trie->ids[trie->nodes[node].token_begin]);
    bytes.remove_prefix(trie->nodes[node].depth);
  }
}

std::shared_ptr<const TokenTable> TokenTable::make(std::span<const Token> tokens) {
  auto table = std::make_shared<TokenTable>();
  table->size_ = static_cast<std::int32_t>(tokens.size());
  table->is_end_.resize(tokens.size(), false);
  std::vector<TokenId> ids[2];
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const Token& token = tokens[i];
    const auto id = static_cast<TokenId>(i);
    table->begins_.push_back(static_cast<std::uint32_t>(table->blob_.size()));
    if (token.is_end) {
      table->is_end_[i] = true;
      table->end_ids_.push_back(id);
      continue;
    }
    const std::size_t size = token.bytes.size();
    if (size == 0 || size > kTokenBytesMax) continue;
    if (table->blob_.size() + size > UINT32_MAX) continue;
    table->blob_ += token.bytes;
    ids[size > kHorizonBytes ? 1 : 0].push_back(id);
    if (size == 1) table->single_bytes_.set(static_cast<std::uint8_t>(token.bytes[0]));
  }
  table->begins_.push_back(static_cast<std::uint32_t>(table->blob_.size()));
  table->begins_.shrink_to_fit();
  table->blob_.shrink_to_fit();
  for (int i = 0; i < 2; ++i) table->tries_[i] = make_trie(*table, std::move(ids[i]));
  return table;
}

std::shared_ptr<const TokenTable> TokenTable::make(const text::Tokenizer& tokenizer) {
  std::vector<Token> tokens;
  tokens.reserve(static_cast<std::size_t>(tokenizer.vocab_size()));
  for (TokenId id = 0; id < tokenizer.vocab_size(); ++id) {
    tokens.push_back({tokenizer.token_bytes(id), tokenizer.is_end(id)});
  }
  return make(tokens);
}

bool TokenTable::is_end(TokenId id) const {
  return id >= 0 && id < size_ && is_end_[static_cast<std::size_t>(id)];
}

std::string_view TokenTable::bytes(TokenId id) const {
  if (id < 0 || id >= size_) return {};
  const auto at = static_cast<std::size_t>(id);
  return std::string_view(blob_).substr(begins_[at], begins_[at + 1] - begins_[at]);
}

std::bitset<256> single_bytes(const text::Tokenizer& tokenizer) {
  std::bitset<256> bytes;
  for (TokenId id = 0; id < tokenizer.vocab_size(); ++id) {
    const std::string_view token_bytes = tokenizer.token_bytes(id);
    if (token_bytes.size() == 1 && !tokenizer.is_end(id))
      bytes.set(static_cast<std::uint8_t>(token_bytes[0]));
  }
  return bytes;
}

Result<void> check_coverage(const Grammar& grammar, const std::bitset<256>& single_bytes) {
  const std::bitset<256> missing = grammar.bytes_used & ~single_bytes;
  if (missing.none()) return {};
  std::size_t byte = 0;
  while (!missing[byte]) ++byte;
  return Error{Errc::kUnsupported,
               "match grammar: the model's vocabulary has no token for the byte " +
                   std::to_string(byte) +
                   ", which the grammar may need; use a model with a byte-complete vocabulary"};
}

}  // namespace holdfast::grammar
