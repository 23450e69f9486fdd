#include "control/store/encode.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstring>
#include <nlohmann/json.hpp>
#include <type_traits>

#include "shared/base/bytes.h"
#include "shared/base/json_text.h"
#include "shared/sampling/parameters.h"

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

/// A member of the stored object: a sampling parameter, or one of the others.
struct RowMember {
  enum Kind : std::uint8_t { kParameter, kEcho, kExtra, kStops };
  std::string_view name;
  Kind kind = kParameter;
  const sampling::Parameter* parameter = nullptr;
};

constexpr bool is_plain(const sampling::Parameter& parameter) {
  return std::visit([](auto member) { return sampling::kIsPlain<decltype(member)>; },
                    parameter.member);
}

/// The members in the order of their names, in which the text has them.
constexpr auto kRowMembers = [] {
  constexpr auto plain = std::count_if(sampling::kParameters.begin(), sampling::kParameters.end(),
                                       [](const auto& one) { return is_plain(one); });
  std::array<RowMember, plain + 3> out = {{{"echo", RowMember::kEcho, nullptr},
                                           {"extra", RowMember::kExtra, nullptr},
                                           {"stops", RowMember::kStops, nullptr}}};
  std::size_t n = 3;
  for (const sampling::Parameter& one : sampling::kParameters) {
    if (is_plain(one)) out[n++] = {one.name, RowMember::kParameter, &one};
  }
  std::sort(out.begin(), out.end(),
            [](const RowMember& a, const RowMember& b) { return a.name < b.name; });
  return out;
}();

/// Writes keys and values as JSON text. Each acceptance writes one, so no tree is built for it.
class JsonText {
 public:
  explicit JsonText(std::string& out) : out_(out) {}
  void key(std::string_view name) {
    out_ += first_ ? "{\"" : ",\"";
    out_ += name;
    out_ += "\":";
    first_ = false;
  }
  void raw(std::string_view text) { out_ += text; }
  void value(bool flag) { out_ += flag ? "true" : "false"; }
  template <class T>
  void value(T number) {
    char text[32];
    // A float is written as the double that it is: the shortest text, and exact when read again.
    std::conditional_t<std::is_floating_point_v<T>, double, T> wide = number;
    const auto [end, error] = std::to_chars(text, text + sizeof text, wide);
    CHECK(error == std::errc());
    out_.append(text, end);
  }

 private:
  std::string& out_;
  bool first_ = true;
};

/// Writes a parameter. A sparse one that is not set is left out.
void write_parameter(JsonText& json, const RowMember& row, const wire::Sampling& sampling) {
  sampling::visit_plain(*row.parameter, [&](auto member) {
    static const wire::Sampling defaults;
    if (row.parameter->sparse && sampling.*member == defaults.*member) return;
    json.key(row.name);
    json.value(sampling.*member);
  });
}

}  // namespace

std::string encode_params(const core::PayloadRow& payload) {
  const std::string& extra = payload.sampling.extra;
  std::string out;
  out.reserve(320);
  JsonText json(out);
  for (const RowMember& row : kRowMembers) {
    if (row.kind == RowMember::kParameter) {
      write_parameter(json, row, payload.sampling);
      continue;
    }
    json.key(row.name);
    if (row.kind == RowMember::kEcho) json.value(payload.echo);
    if (row.kind == RowMember::kExtra) json.raw(extra.empty() ? "\"\"" : to_json(extra).dump());
    if (row.kind == RowMember::kStops) {
      json.raw(payload.stops.empty() ? "[]" : encode_strings(payload.stops));
    }
  }
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
    for (const RowMember& row : kRowMembers) {
      if (!read_member(row, p)) return false;
    }
    return literal("}") && at_ == end_;
  }

 private:
  bool read_member(const RowMember& row, Params& p) {
    if (row.parameter != nullptr && row.parameter->sparse) return true;
    const bool first = &row == kRowMembers.data();
    if (!literal(first ? "{\"" : ",\"") || !literal(row.name) || !literal("\":")) return false;
    if (row.kind == RowMember::kEcho) return value(p.echo);
    if (row.kind == RowMember::kExtra) return literal("\"\"");
    if (row.kind == RowMember::kStops) return literal("[]");
    bool good = false;
    sampling::visit_plain(*row.parameter, [&](auto member) { good = value(p.sampling.*member); });
    return good;
  }
  bool literal(std::string_view what) {
    if (static_cast<std::size_t>(end_ - at_) < what.size()) return false;
    if (std::memcmp(at_, what.data(), what.size()) != 0) return false;
    at_ += what.size();
    return true;
  }
  bool value(bool& flag) {
    flag = literal("true");
    return flag || literal("false");
  }
  template <class T>
  bool value(T& number) {
    std::conditional_t<std::is_floating_point_v<T>, double, T> wide{};
    const auto [stop, error] = std::from_chars(at_, end_, wide);
    if (error != std::errc()) return false;
    at_ = stop;
    number = static_cast<T>(wide);
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
    for (const RowMember& row : kRowMembers) {
      if (row.kind != RowMember::kParameter) continue;
      sampling::visit_plain(*row.parameter, [&](auto member) {
        auto& value = p.sampling.*member;
        const std::string name(row.name);
        using Value = std::remove_reference_t<decltype(value)>;
        value = row.parameter->sparse ? j.value(name, value) : j.at(name).get<Value>();
      });
    }
    p.sampling.extra = from_json(j.at("extra"));
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
