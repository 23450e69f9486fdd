#include <cstring>

#include "shared/text/tokenizer.h"

namespace holdfast::text {
namespace {

constexpr std::uint8_t kEndFlag = 1;
constexpr std::uint8_t kControlFlag = 2;

std::uint32_t read_u32(const std::string& blob, std::size_t at) {
  std::uint32_t value;
  std::memcpy(&value, blob.data() + at, sizeof value);
  return value;
}

void append_u32(std::string& blob, std::uint32_t value) {
  blob.append(reinterpret_cast<const char*>(&value), sizeof value);
}

Error bad_blob(const std::string& cause) {
  return {Errc::kFileInvalid,
          "read piece table: " + cause +
              "; expected a table made by this version; register the model again"};
}

}  // namespace

std::string decode(const Tokenizer& tokenizer, const std::vector<TokenId>& ids, bool special,
                   bool first_of_text) {
  std::string text;
  bool may_strip = first_of_text && tokenizer.adds_space_prefix();
  for (const TokenId id : ids) {
    std::string_view token_bytes = tokenizer.token_bytes(id, special);
    if (may_strip && !tokenizer.is_control(id)) {
      may_strip = false;
      if (!token_bytes.empty() && token_bytes.front() == ' ') token_bytes.remove_prefix(1);
    }
    text += token_bytes;
  }
  return text;
}

/// Returns a token's bytes; for control tokens, which have none, their names.
static std::string_view token_bytes_or_name(const Tokenizer& tokenizer, TokenId id) {
  return tokenizer.token_bytes(id, tokenizer.is_control(id));
}

std::string encode_detokenizer_table(const Tokenizer& tokenizer) {
  const std::int32_t count = tokenizer.vocab_size();
  std::string blob;
  append_u32(blob, static_cast<std::uint32_t>(count));
  std::uint64_t end = 0;
  for (TokenId id = 0; id < count; ++id) {
    end += token_bytes_or_name(tokenizer, id).size();
    // A token has at most the bytes of its text in the file, and the blob is read with u32 offsets.
    CHECK_MSG(end <= UINT32_MAX, "a vocabulary of more than 4 GiB");
    append_u32(blob, static_cast<std::uint32_t>(end));
  }
  for (TokenId id = 0; id < count; ++id) {
    blob.push_back(static_cast<char>((tokenizer.is_end(id) ? kEndFlag : 0) |
                                     (tokenizer.is_control(id) ? kControlFlag : 0)));
  }
  for (TokenId id = 0; id < count; ++id) blob += token_bytes_or_name(tokenizer, id);
  return blob;
}

Result<DetokenizerTable> DetokenizerTable::parse(std::string blob) {
  if (blob.size() < 4) return bad_blob("it is shorter than its header");
  const std::uint64_t count = read_u32(blob, 0);
  if (count > INT32_MAX || blob.size() < 4 + count * 5) {
    return bad_blob("it names " + std::to_string(count) + " tokens in " +
                    std::to_string(blob.size()) + " bytes");
  }
  const std::uint64_t bytes = blob.size() - 4 - count * 5;
  std::uint32_t last = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint32_t end = read_u32(blob, 4 + i * 4);
    if (end < last || end > bytes) {
      return bad_blob("the end of token " + std::to_string(i) + " is out of place");
    }
    last = end;
    const auto flags = static_cast<std::uint8_t>(blob[4 + count * 4 + i]);
    if (flags > (kEndFlag | kControlFlag)) {
      return bad_blob("token " + std::to_string(i) + " has unknown flags");
    }
  }
  if (last != bytes) return bad_blob("bytes are left over or missing at its end");
  DetokenizerTable table;
  table.blob_ = std::move(blob);
  table.count_ = static_cast<std::int32_t>(count);
  return table;
}

std::uint8_t DetokenizerTable::flags(TokenId id) const {
  if (id < 0 || id >= count_) return 0;
  const std::size_t at = 4 + static_cast<std::size_t>(count_) * 4 + static_cast<std::size_t>(id);
  return static_cast<std::uint8_t>(blob_[at]);
}

bool DetokenizerTable::is_end(TokenId id) const {
  return (flags(id) & kEndFlag) != 0;
}

bool DetokenizerTable::is_control(TokenId id) const {
  return (flags(id) & kControlFlag) != 0;
}

std::string_view DetokenizerTable::token_bytes(TokenId id) const {
  return is_control(id) ? std::string_view() : stored(id);
}

std::string_view DetokenizerTable::control_text(TokenId id) const {
  return is_control(id) && !is_end(id) ? stored(id) : std::string_view();
}

std::string_view DetokenizerTable::stored(TokenId id) const {
  if (id < 0 || id >= count_) return {};
  const auto at = static_cast<std::size_t>(id);
  const std::size_t begin = at == 0 ? 0 : read_u32(blob_, 4 + (at - 1) * 4);
  const std::size_t end = read_u32(blob_, 4 + at * 4);
  return std::string_view(blob_).substr(4 + static_cast<std::size_t>(count_) * 5 + begin,
                                        end - begin);
}

}  // namespace holdfast::text
