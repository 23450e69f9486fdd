#include "control/store/encode.h"

#include <bit>
#include <charconv>
#include <cstring>
#include <nlohmann/json.hpp>
#include <type_traits>

#include "shared/base/bytes.h"
#include "shared/base/json_text.h"

namespace holdfast::store {
namespace {

static_assert(std::endian::native == std::endian::little, "columns are little-endian");

Error corrupt(const char* what) {
  return Error{Errc::kCorrupt, std::string(what) + ": the stored value is damaged"};
}

template <class T>
void put(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

/// Returns a JSON text, or an array of numbers for bytes that are not UTF-8.
nlohmann::json to_json(const std::string& s) {
  if (is_valid_utf8(s)) return s;
  nlohmann::json bytes = nlohmann::json::array();
  for (const char c : s) bytes.push_back(static_cast<unsigned char>(c));
  return bytes;
}

std::string from_json(const nlohmann::json& j) {
  if (j.is_string()) return j.get<std::string>();
  std::string out;
  for (const auto& byte : j) out.push_back(static_cast<char>(byte.get<unsigned>()));
  return out;
}

}  // namespace

std::string encode_ids(const std::vector<core::TokenId>& ids) {
  return {reinterpret_cast<const char*>(ids.data()), ids.size() * sizeof(core::TokenId)};
}

Result<std::vector<core::TokenId>> decode_ids(std::string_view bytes) {
  if (bytes.size() % sizeof(core::TokenId) != 0) return corrupt("token ids");
  std::vector<core::TokenId> ids(bytes.size() / sizeof(core::TokenId));
  if (!ids.empty()) std::memcpy(ids.data(), bytes.data(), bytes.size());
  return ids;
}

std::string encode_prompts(const std::vector<std::vector<core::TokenId>>& prompts) {
  std::string out;
  put(out, static_cast<std::uint32_t>(prompts.size()));
  for (const auto& ids : prompts) put(out, static_cast<std::uint32_t>(ids.size()));
  for (const auto& ids : prompts) out += encode_ids(ids);
  return out;
}

Result<std::vector<std::vector<core::TokenId>>> decode_prompts(std::string_view bytes) {
  ByteReader reader(std::as_bytes(std::span(bytes.data(), bytes.size())));
  const auto count = reader.read<std::uint32_t>();
  if (!count || *count > bytes.size() / 4) return corrupt("prompts");
  std::vector<std::size_t> sizes;
  for (std::uint32_t i = 0; i < *count; ++i) {
    const auto size = reader.read<std::uint32_t>();
    if (!size) return corrupt("prompts");
    sizes.push_back(*size);
  }
  std::vector<std::vector<core::TokenId>> prompts;
  for (const std::size_t size : sizes) {
    const auto part = reader.read_bytes(size * sizeof(core::TokenId));
    if (!part) return corrupt("prompts");
    HOLDFAST_TRY(auto ids, decode_ids({reinterpret_cast<const char*>(part->data()), part->size()}));
    prompts.push_back(std::move(ids));
  }
  if (reader.remaining() != 0) return corrupt("prompts");
  return prompts;
}

namespace {

/// Writes keys and numbers as JSON text. Each acceptance writes one, so no tree is built for it.
class JsonText {
 public:
  explicit JsonText(std::string& out) : out_(out) {}
  void raw(std::string_view text) { out_ += text; }
  void flag(std::string_view key, bool value) {
    out_ += key;
    out_ += value ? "true" : "false";
  }
  template <class T>
  void number(std::string_view key, T value) {
    out_ += key;
    char text[32];
    // A float is written as the double that it is: the shortest text, and exact when read again.
    std::conditional_t<std::is_floating_point_v<T>, double, T> wide = value;
    const auto [end, error] = std::to_chars(text, text + sizeof text, wide);
    CHECK(error == std::errc());
    out_.append(text, end);
  }

 private:
  std::string& out_;
};

}  // namespace

std::string encode_params(const core::PayloadRow& payload) {
  const wire::Sampling& s = payload.sampling;
  std::string out;
  out.reserve(320);
  JsonText json(out);
  json.flag("{\"echo\":", payload.echo);
  json.raw(",\"extra\":");
  json.raw(s.extra.empty() ? "\"\"" : to_json(s.extra).dump());
  json.number(",\"frequency_penalty\":", s.frequency_penalty);
  json.flag(",\"ignore_eos\":", s.ignore_eos);
  json.number(",\"logprobs\":", s.logprobs);
  json.number(",\"min_p\":", s.min_p);
  json.number(",\"min_tokens\":", s.min_tokens);
  json.number(",\"presence_penalty\":", s.presence_penalty);
  if (s.prompt_logprobs >= 0) json.number(",\"prompt_logprobs\":", s.prompt_logprobs);
  json.number(",\"repetition_penalty\":", s.repetition_penalty);
  json.number(",\"seed\":", s.seed);
  json.raw(",\"stops\":");
  json.raw(payload.stops.empty() ? "[]" : encode_strings(payload.stops));
  json.number(",\"temperature\":", s.temperature);
  json.number(",\"top_k\":", s.top_k);
  json.number(",\"top_p\":", s.top_p);
  json.raw("}");
  return out;
}

namespace {

/// Reads what encode_params writes for a request without stops, extra and prompt_logprobs: a start
/// with many queued requests spends most of its time here. Returns false for anything else; then
/// the JSON parser decides.
class PlainParams {
 public:
  explicit PlainParams(std::string_view text) : at_(text.data()), end_(at_ + text.size()) {}
  bool read(Params& p) {
    wire::Sampling& s = p.sampling;
    return flag("{\"echo\":", p.echo) && literal(",\"extra\":\"\"") &&
           number(",\"frequency_penalty\":", s.frequency_penalty) &&
           flag(",\"ignore_eos\":", s.ignore_eos) && number(",\"logprobs\":", s.logprobs) &&
           number(",\"min_p\":", s.min_p) && number(",\"min_tokens\":", s.min_tokens) &&
           number(",\"presence_penalty\":", s.presence_penalty) &&
           number(",\"repetition_penalty\":", s.repetition_penalty) &&
           number(",\"seed\":", s.seed) && literal(",\"stops\":[]") &&
           number(",\"temperature\":", s.temperature) && number(",\"top_k\":", s.top_k) &&
           number(",\"top_p\":", s.top_p) && literal("}") && at_ == end_;
  }

 private:
  bool literal(std::string_view what) {
    if (static_cast<std::size_t>(end_ - at_) < what.size()) return false;
    if (std::memcmp(at_, what.data(), what.size()) != 0) return false;
    at_ += what.size();
    return true;
  }
  bool flag(std::string_view key, bool& value) {
    if (!literal(key)) return false;
    value = literal("true");
    return value || literal("false");
  }
  template <class T>
  bool number(std::string_view key, T& value) {
    if (!literal(key)) return false;
    std::conditional_t<std::is_floating_point_v<T>, double, T> wide{};
    const auto [stop, error] = std::from_chars(at_, end_, wide);
    if (error != std::errc()) return false;
    at_ = stop;
    value = static_cast<T>(wide);
    return true;
  }
  const char* at_;
  const char* end_;
};

}  // namespace

Result<Params> decode_params(std::string_view text) {
  if (Params plain; PlainParams(text).read(plain)) return plain;
  try {
    const auto j = try_parse_json<nlohmann::json>(text);
    Params p;
    wire::Sampling& s = p.sampling;
    s.temperature = j.at("temperature").get<float>();
    s.top_k = j.at("top_k").get<std::int32_t>();
    s.top_p = j.at("top_p").get<float>();
    s.min_p = j.at("min_p").get<float>();
    s.seed = j.at("seed").get<std::uint64_t>();
    s.ignore_eos = j.at("ignore_eos").get<bool>();
    s.min_tokens = j.at("min_tokens").get<std::int32_t>();
    s.logprobs = j.at("logprobs").get<std::int32_t>();
    s.prompt_logprobs = j.value("prompt_logprobs", s.prompt_logprobs);
    s.repetition_penalty = j.at("repetition_penalty").get<float>();
    s.presence_penalty = j.at("presence_penalty").get<float>();
    s.frequency_penalty = j.at("frequency_penalty").get<float>();
    s.extra = from_json(j.at("extra"));
    for (const auto& stop : j.at("stops")) p.stops.push_back(from_json(stop));
    p.echo = j.at("echo").get<bool>();
    return p;
  } catch (const nlohmann::json::exception&) {
    return corrupt("request parameters");
  }
}

std::string encode_strings(const std::vector<std::string>& strings) {
  nlohmann::json j = nlohmann::json::array();
  for (const std::string& s : strings) j.push_back(to_json(s));
  return j.dump();
}

Result<std::vector<std::string>> decode_strings(std::string_view text) {
  try {
    std::vector<std::string> out;
    const auto list = try_parse_json<nlohmann::json>(text);
    if (!list.is_array()) return corrupt("list of strings");
    for (const auto& item : list) out.push_back(from_json(item));
    return out;
  } catch (const nlohmann::json::exception&) {
    return corrupt("list of strings");
  }
}

}  // namespace holdfast::store
