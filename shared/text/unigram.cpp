// Unigram ("t5"): of all ways to make a text of tokens the one with the greatest sum of scores.
// Source: SentencePiece (Kudo 2018); the text is normalised by the file's character map.

#include <algorithm>
#include <bit>
#include <limits>

#include "shared/text/charsmap.h"
#include "shared/text/tokenizer_base.h"
#include "shared/text/utf8.h"

namespace holdfast::text {
namespace {

constexpr std::string_view kMeta = "\xE2\x96\x81";  // U+2581
constexpr float kUnknownPenalty = 10;               // below the lowest score
constexpr std::size_t kLongestToken = 512;          // bounds the work of a hostile vocabulary

std::string meta_as_space(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const bool meta = text.starts_with(kMeta);
    out += meta ? ' ' : text[0];
    text.remove_prefix(meta ? kMeta.size() : 1);
  }
  return out;
}

/// A byte trie; the children of a node are a hash of (node, byte).
class Trie {
 public:
  void reserve(std::size_t bytes) { slots_.resize(std::bit_ceil(bytes * 2 + 16)); }
  void insert(std::string_view text, TokenId id) {
    std::uint32_t node = 0;
    for (const char c : text) node = child(node, static_cast<unsigned char>(c), true);
    if (ids_[node] < 0) ids_[node] = id;
  }
  /// Returns 0 if there is none.
  std::uint32_t child(std::uint32_t node, unsigned char byte) const {
    const std::uint64_t key = key_of(node, byte);
    for (std::size_t at = hash_of(key);; ++at) {
      const Slot& slot = slots_[at & (slots_.size() - 1)];
      if (slot.node == 0) return 0;
      if (slot.key == key) return slot.node;
    }
  }
  TokenId id(std::uint32_t node) const { return ids_[node]; }

 private:
  struct Slot {
    std::uint64_t key = 0;
    std::uint32_t node = 0;  // 0: free
  };
  static std::uint64_t key_of(std::uint32_t node, unsigned char byte) {
    return std::uint64_t{node} << 8 | byte;
  }
  static std::size_t hash_of(std::uint64_t key) {
    const std::uint64_t spread = (key ^ key >> 23) * 0x9E3779B97F4A7C15ULL;
    return spread ^ spread >> 32;
  }
  std::uint32_t child(std::uint32_t node, unsigned char byte, bool) {
    const std::uint32_t existing = child(node, byte);
    if (existing != 0) return existing;
    const auto made = static_cast<std::uint32_t>(ids_.size());
    ids_.push_back(-1);
    const std::uint64_t key = key_of(node, byte);
    std::size_t at = hash_of(key);
    while (slots_[at & (slots_.size() - 1)].node != 0) ++at;
    slots_[at & (slots_.size() - 1)] = {key, made};
    return made;
  }
  std::vector<Slot> slots_ = std::vector<Slot>(16);
  std::vector<TokenId> ids_ = {-1};
};

class Unigram final : public TokenizerBase {
 public:
  Result<void> make(const gguf::File& file, const Vocab& vocab) {
    HOLDFAST_CHECKED(read_charsmap(file));
    squeeze_ = file.get_bool("tokenizer.ggml.remove_extra_whitespaces").value_or(false);
    const std::size_t count = vocab.texts.size();
    std::vector<std::string> decoded_tokens(count);
    std::size_t bytes = 0;
    for (const std::string_view text : vocab.texts) bytes += std::min(text.size(), kLongestToken);
    trie_.reserve(bytes);
    scores_ = vocab.scores;
    float lowest = 0;
    byte_ids_.assign(256, -1);
    for (std::size_t i = 0; i < count; ++i) {
      const TokenKind kind = vocab.kinds[i];
      decoded_tokens[i] = meta_as_space(vocab.texts[i]);
      if (kind == TokenKind::kByte) {
        const int byte = byte_of_token_text(vocab.texts[i]);
        decoded_tokens[i].assign(1, static_cast<char>(byte));
        byte_ids_[static_cast<std::size_t>(byte)] = static_cast<TokenId>(i);
        has_bytes_ = true;
        continue;
      }
      if (kind != TokenKind::kNormal && kind != TokenKind::kUserDefined) continue;
      if (kind == TokenKind::kUserDefined) scores_[i] = 0;
      if (kind == TokenKind::kNormal) lowest = std::min(lowest, scores_[i]);
      const std::string_view text = vocab.texts[i];
      if (!text.empty() && text.size() <= kLongestToken)
        trie_.insert(text, static_cast<TokenId>(i));
    }
    unknown_ = vocab.unknown;
    unknown_score_ = static_cast<double>(lowest) - static_cast<double>(kUnknownPenalty);
    return set_up(file, vocab, decoded_tokens, vocab.add_bos);
  }

 protected:
  Result<void> encode_fragment(std::string_view fragment, bool after_special,
                               Work& work) const override {
    normalise(fragment, after_special && adds_space_prefix(), work.text);
    std::vector<Best> best(work.text.size() + 1);
    search(work.text, best);
    append(work.text, best, work.ids);
    return {};
  }

 private:
  struct Best {
    double score = -std::numeric_limits<double>::infinity();
    std::uint32_t from = 0;
    TokenId id = -1;  // -1: a character that is not a token
  };

  Result<void> read_charsmap(const gguf::File& file) {
    const auto bytes = file.get_ints("tokenizer.ggml.precompiled_charsmap");
    if (!bytes) return {};
    std::string blob;
    for (const std::int64_t byte : *bytes) blob.push_back(static_cast<char>(byte));
    HOLDFAST_TRY(charsmap_, Charsmap::parse(std::move(blob)));
    return {};
  }

  void normalise(std::string_view text, bool prefix, std::string& out) const {
    std::string plain;
    for (std::size_t at = 0; at < text.size();) {
      const Charsmap::Found found = charsmap_.find(text.substr(at));
      const std::size_t bytes = found.bytes > 0 ? found.bytes : decode_char(text.data() + at).bytes;
      plain.append(found.bytes > 0 ? found.text : text.substr(at, bytes));
      at += bytes;
    }
    out.clear();
    bool space = squeeze_;  // leading spaces are removed
    if (prefix) out = kMeta;
    for (const char c : plain) {
      if (c != ' ') {
        out += c;
        space = false;
      } else if (!space || !squeeze_) {
        out += kMeta;
        space = true;
      }
    }
    if (squeeze_ && space && out.ends_with(kMeta)) out.resize(out.size() - kMeta.size());
    if (first_invalid_utf8(out)) out.clear();  // only a broken map makes such text
  }

  /// Computes best[i] = the best way to reach byte i.
  void search(std::string_view text, std::vector<Best>& best) const {
    best[0].score = 0;
    for (std::uint32_t at = 0; at < text.size();) {
      const std::uint32_t bytes = decode_char(text.data() + at).bytes;
      const double here = best[at].score;
      bool single = false;
      std::uint32_t node = 0;
      for (std::uint32_t end = at; end < text.size();) {
        node = trie_.child(node, static_cast<unsigned char>(text[end++]));
        if (node == 0) break;
        const TokenId id = trie_.id(node);
        if (id < 0) continue;
        single = single || end - at == bytes;
        const double score = here + static_cast<double>(scores_[static_cast<std::size_t>(id)]);
        if (score > best[end].score) best[end] = {score, at, id};
      }
      if (!single && here + unknown_score_ > best[at + bytes].score) {
        best[at + bytes] = {here + unknown_score_, at, -1};
      }
      at += bytes;
    }
  }

  /// Appends the tokens from the end back; adjacent characters that are not tokens are one unknown
  /// token, or their bytes.
  void append(std::string_view text, const std::vector<Best>& best,
              std::vector<TokenId>& ids) const {
    const std::size_t first = ids.size();
    bool unknown = false;
    for (auto at = static_cast<std::uint32_t>(text.size()); at > 0; at = best[at].from) {
      const TokenId id = best[at].id;
      if (id >= 0) {
        ids.push_back(id);
      } else if (has_bytes_) {
        for (std::uint32_t i = at; i-- > best[at].from;) {
          const TokenId byte = byte_ids_[static_cast<unsigned char>(text[i])];
          if (byte >= 0) ids.push_back(byte);
        }
      } else if (!unknown && unknown_ >= 0) {
        ids.push_back(unknown_);
      }
      unknown = id < 0;
    }
    std::reverse(ids.begin() + static_cast<std::ptrdiff_t>(first), ids.end());
  }

  Charsmap charsmap_;
  Trie trie_;
  std::vector<float> scores_;
  std::vector<TokenId> byte_ids_;
  bool has_bytes_ = false;
  bool squeeze_ = false;
  TokenId unknown_ = -1;
  double unknown_score_ = 0;
};

}  // namespace

Result<std::shared_ptr<const Tokenizer>> make_unigram(const gguf::File& file, const Vocab& vocab) {
  auto made = std::make_shared<Unigram>();
  HOLDFAST_CHECKED(made->make(file, vocab));
  return std::shared_ptr<const Tokenizer>(std::move(made));
}

}  // namespace holdfast::text
