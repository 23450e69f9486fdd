#include "ops/cli/sampling_flags.h"

#include <algorithm>
#include <deque>
#include <nlohmann/json.hpp>

#include "shared/base/bytes.h"
#include "shared/base/json_text.h"
#include "shared/sampling/extra.h"

namespace holdfast::cli {
namespace {

using sampling::MemberOf;
using sampling::Parameter;

/// "top_k" -> "top-k".
std::string key_of(const Parameter& parameter) {
  std::string key(parameter.name);
  std::replace(key.begin(), key.end(), '_', '-');
  return key;
}

Error refuse(const Parameter& parameter, std::string_view given) {
  return {Errc::kInvalidRequest, "--" + key_of(parameter) + " " + std::string(given) +
                                     ": expected " + sampling::range_text(parameter)};
}

/// The kind of flag for each type of member.
struct KindOf {
  template <class T, class S>
  Kind operator()(T S::*) const {
    if constexpr (std::is_same_v<T, bool>) return Kind::kSwitch;
    if constexpr (std::is_floating_point_v<T>) return Kind::kReal;
    if constexpr (std::is_integral_v<T>) return Kind::kInteger;
    return Kind::kList;
  }
};

/// "logits are divided by it; 0 is greedy (default 1)".
std::string help_of(const Parameter& parameter, Kind kind) {
  std::string help(parameter.meaning);
  if (kind == Kind::kList) help += "; may be repeated";
  if (std::holds_alternative<sampling::LogitBias sampling::SamplingOptions::*>(parameter.member)) {
    help += ", each ID=NUMBER";
  }
  if (kind == Kind::kReal || kind == Kind::kInteger) {
    help += " (default " + sampling::default_text(parameter) + ")";
  }
  return help;
}

/// Writes a plain parameter into a body; others are in the extra already.
struct BodyWriter {
  const wire::Sampling& sampling;
  const std::string name;
  nlohmann::json& body;
  template <class T, class S>
  void operator()(T S::*member) const {
    if constexpr (std::is_same_v<S, wire::Sampling>) body[name] = sampling.*member;
  }
};

/// Reads the value of one flag: plain ones into the parameters, others into the extra.
class FlagReader {
 public:
  FlagReader(const Call& call, const Parameter& parameter, wire::Sampling* plain,
             nlohmann::json* extra)
      : parameter_(parameter), key_(key_of(parameter)), call_(call), plain_(plain), extra_(extra) {}

  Result<void> operator()(bool wire::Sampling::*member) const {
    plain_->*member = true;
    return {};
  }
  Result<void> operator()(float wire::Sampling::*member) const {
    HOLDFAST_TRY(const double value, real());
    plain_->*member = static_cast<float>(value);
    return {};
  }
  Result<void> operator()(std::int32_t wire::Sampling::*member) const {
    HOLDFAST_TRY(const std::int64_t value, integer());
    plain_->*member = static_cast<std::int32_t>(value);
    return {};
  }
  Result<void> operator()(std::uint64_t wire::Sampling::*) const { return {}; }
  Result<void> operator()(float sampling::SamplingOptions::*) const {
    HOLDFAST_TRY(option(), real());
    return {};
  }
  Result<void> operator()(std::int64_t sampling::SamplingOptions::*) const {
    HOLDFAST_TRY(option(), integer());
    return {};
  }
  Result<void> operator()(sampling::Texts sampling::SamplingOptions::*) const {
    option() = call_.list(key_);
    return {};
  }
  Result<void> operator()(sampling::Order sampling::SamplingOptions::*) const {
    option() = call_.list(key_);
    return {};
  }
  Result<void> operator()(sampling::LogitBias sampling::SamplingOptions::*) const {
    for (const std::string& pair : call_.list(key_)) {
      const std::size_t equals = pair.find('=');
      const char* number = pair.c_str() + std::min(equals + 1, pair.size());
      char* end = nullptr;
      const double bias = std::strtod(number, &end);
      if (equals == std::string::npos || end == number || *end != '\0') {
        return refuse(parameter_, pair);
      }
      option()[pair.substr(0, equals)] = bias;
    }
    return {};
  }

 private:
  nlohmann::json& option() const { return (*extra_)[std::string(parameter_.name)]; }
  Result<double> real() const {
    const double value = call_.real(key_);
    if (sampling::is_valid(parameter_, value)) return value;
    return refuse(parameter_, call_.text(key_));
  }
  Result<std::int64_t> integer() const {
    const std::int64_t value = call_.integer(key_);
    if (sampling::is_valid(parameter_, value)) return value;
    return refuse(parameter_, call_.text(key_));
  }

  const Parameter& parameter_;
  std::string key_;
  const Call& call_;
  wire::Sampling* plain_;
  nlohmann::json* extra_;
};

}  // namespace

std::vector<Argument> sampling_arguments() {
  static std::deque<std::string> texts;  // what the arguments point to
  const auto text = [](std::string value) { return texts.emplace_back(std::move(value)).c_str(); };
  std::vector<Argument> out;
  for (const Parameter& parameter : sampling::kParameters) {
    if (parameter.own_reader) continue;
    const Kind kind = std::visit(KindOf(), parameter.member);
    out.push_back({text("--" + key_of(parameter)), kind, text(help_of(parameter, kind))});
  }
  return out;
}

Result<void> take_sampling(const Call& call, wire::Sampling* out) {
  nlohmann::json extra = nlohmann::json::object();
  for (const Parameter& parameter : sampling::kParameters) {
    const std::string key = key_of(parameter);
    if (parameter.own_reader || !call.has(key)) continue;
    const std::vector<std::string>& given = call.list(key);
    if (!std::all_of(given.begin(), given.end(), is_valid_utf8)) {
      return Error{Errc::kInvalidRequest, "--" + key + " is not valid UTF-8"};
    }
    HOLDFAST_CHECKED(std::visit(FlagReader(call, parameter, out, &extra), parameter.member));
  }
  out->top_k = std::max(out->top_k, 0);  // -1 is another word for 0
  if (extra.empty()) return {};
  out->extra = extra.dump();
  if (const auto good = sampling::parse_extra(out->extra, INT32_MAX); !good) return good.error();
  return {};
}

nlohmann::json sampling_body(const Call& call) {
  wire::Sampling sampling;
  CHECK(take_sampling(call, &sampling));
  nlohmann::json body = nlohmann::json::object();
  if (!sampling.extra.empty()) body = try_parse_json<nlohmann::json>(sampling.extra);
  for (const Parameter& parameter : sampling::kParameters) {
    if (parameter.own_reader || !call.has(key_of(parameter))) continue;
    std::visit(BodyWriter{sampling, std::string(parameter.name), body}, parameter.member);
  }
  return body;
}

}  // namespace holdfast::cli
