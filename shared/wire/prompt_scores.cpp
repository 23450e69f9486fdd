#include "shared/wire/prompt_scores.h"

#include <cstring>

#include "shared/base/base64.h"
#include "shared/base/check.h"

namespace holdfast::wire {
namespace {

// No other member and no base64 contains these: a search from the end finds them without a JSON
// parser, which is slow for a long prompt's scores.
constexpr std::string_view kScores = "\"prompt\":\"";
constexpr std::string_view kTokenBytes = "\",\"pieces\":\"";
constexpr std::string_view kEnd = "\"}";

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__);
static_assert(sizeof(PromptScores::Score) == 8 && sizeof(PromptScores::Alternative) == 8);

template <class T>
void put(std::string& out, const T* values, std::size_t n) {
  out.append(reinterpret_cast<const char*>(values), n * sizeof(T));
}

/// Takes `n` values off the front; false if there are fewer.
template <class T>
bool take(std::string_view& from, T* values, std::size_t n) {
  if (from.size() / sizeof(T) < n) return false;
  if (n > 0) std::memcpy(values, from.data(), n * sizeof(T));
  from.remove_prefix(n * sizeof(T));
  return true;
}

std::string encode_scores(const PromptScores& s) {
  const std::uint32_t head[2] = {static_cast<std::uint32_t>(s.ids.size()),
                                 static_cast<std::uint32_t>(s.top)};
  std::string out;
  put(out, head, 2);
  put(out, s.ids.data(), s.ids.size());
  const auto top = static_cast<std::size_t>(s.top);
  for (std::size_t i = 0; i < s.scores.size(); ++i) {
    put(out, &s.scores[i], 1);
    put(out, s.alternatives.data() + i * top, top);
  }
  return out;
}

bool decode_scores(std::string_view in, PromptScores& s) {
  std::uint32_t head[2];
  if (!take(in, head, 2) || head[0] == 0) return false;
  const std::size_t tokens = head[0];
  const std::size_t top = head[1];
  if (in.size() / sizeof(TokenId) < tokens) return false;
  const std::size_t rest = in.size() - tokens * sizeof(TokenId);
  if (rest % 8 != 0 || (tokens - 1) != rest / 8 / (1 + top) || rest / 8 % (1 + top) != 0) {
    return false;
  }
  s.top = static_cast<std::int32_t>(top);
  s.ids.resize(tokens);
  s.scores.resize(tokens - 1);
  s.alternatives.resize((tokens - 1) * top);
  CHECK(take(in, s.ids.data(), tokens));  // the counts fit the bytes
  for (std::size_t i = 0; i + 1 < tokens; ++i) {
    CHECK(take(in, &s.scores[i], 1) && take(in, s.alternatives.data() + i * top, top));
  }
  return true;
}

std::string encode_token_bytes(const std::map<TokenId, PromptScores::TokenBytes>& token_bytes) {
  std::string out;
  for (const auto& [id, entry] : token_bytes) {
    const auto size = static_cast<std::uint32_t>(2 * entry.bytes.size() + (entry.control ? 1 : 0));
    put(out, &id, 1);
    put(out, &size, 1);
    out += entry.bytes;
  }
  return out;
}

bool decode_token_bytes(std::string_view in,
                        std::map<TokenId, PromptScores::TokenBytes>& token_bytes) {
  while (!in.empty()) {
    TokenId id = 0;
    std::uint32_t size = 0;
    if (!take(in, &id, 1) || !take(in, &size, 1) || in.size() < size / 2) return false;
    token_bytes[id] = {std::string(in.substr(0, size / 2)), size % 2 != 0};
    in.remove_prefix(size / 2);
  }
  return true;
}

/// Returns where the scores' member begins; npos: there is none.
std::size_t find_scores(std::string_view extra) {
  return extra.ends_with(kEnd) ? extra.rfind(kScores) : std::string_view::npos;
}

}  // namespace

std::string with_prompt_scores(std::string extra, const PromptScores& scores) {
  CHECK(!scores.ids.empty() && scores.scores.size() == scores.ids.size() - 1);
  CHECK(scores.alternatives.size() == scores.scores.size() * static_cast<std::size_t>(scores.top));
  if (extra.empty()) extra = "{}";
  CHECK(extra.ends_with('}'));
  extra.pop_back();
  if (!extra.ends_with('{')) extra += ',';
  extra += kScores;
  extra += to_base64(encode_scores(scores));
  if (!scores.token_bytes.empty()) {
    extra += kTokenBytes;
    extra += to_base64(encode_token_bytes(scores.token_bytes));
  }
  return extra.append(kEnd);
}

std::optional<PromptScores> read_prompt_scores(std::string_view extra) {
  const std::size_t at = find_scores(extra);
  if (at == std::string_view::npos) return std::nullopt;
  std::string_view text = extra.substr(at + kScores.size());
  text.remove_suffix(kEnd.size());
  const std::size_t texts_at = text.find(kTokenBytes);
  const auto scores = from_base64(text.substr(0, texts_at));
  PromptScores out;
  if (!scores || !decode_scores(*scores, out)) return std::nullopt;
  if (texts_at == std::string_view::npos) return out;
  const auto token_bytes = from_base64(text.substr(texts_at + kTokenBytes.size()));
  if (!token_bytes || !decode_token_bytes(*token_bytes, out.token_bytes)) return std::nullopt;
  return out;
}

std::optional<PromptScores> take_prompt_scores(std::string& extra) {
  auto scores = read_prompt_scores(extra);
  if (!scores) return scores;
  extra.resize(find_scores(extra));
  if (extra.ends_with(',')) extra.pop_back();
  extra += '}';
  return scores;
}

}  // namespace holdfast::wire
