#include "shared/sampling/extra.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "shared/base/json_text.h"
#include "shared/base/readable.h"

namespace holdfast::sampling {
namespace {

using nlohmann::json;

Error bad(const std::string& cause) {
  return {Errc::kInvalidRequest, "sampling: " + cause};
}

std::string dump(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

Error refuse(const Parameter& parameter, const json& value) {
  return bad(out_of_range(parameter, dump(value)));
}

/// Returns nullopt for more or longer texts than a parameter may have.
std::optional<Texts> read_texts(const json& value) {
  const auto good = [](const json& text) {
    return text.is_string() && !text.get_ref<const std::string&>().empty() &&
           text.get_ref<const std::string&>().size() <= kTextBytesMax;
  };
  if (!value.is_array() || value.size() > kTextsMax) return std::nullopt;
  if (!std::all_of(value.begin(), value.end(), good)) return std::nullopt;
  return value.get<Texts>();
}

/// Returns the number if it is whole; some languages print 2.0 for 2.
std::optional<std::int64_t> whole_number(const json& value) {
  if (value.is_number_unsigned()) {
    const auto number = value.get<std::uint64_t>();
    if (number > static_cast<std::uint64_t>(kCountMax)) return std::nullopt;
    return static_cast<std::int64_t>(number);
  }
  if (value.is_number_integer()) return value.get<std::int64_t>();
  const double number = value.is_number_float() ? value.get<double>() : NAN;
  if (number != std::floor(number) || std::fabs(number) > static_cast<double>(kCountMax)) {
    return std::nullopt;
  }
  return static_cast<std::int64_t>(number);
}

Error unknown(std::string_view name) {
  return {Errc::kUnsupported, "sampling: this engine does not know " + std::string(name)};
}

/// Reads the value of one parameter into the options, by the type of its member.
class OptionReader {
 public:
  OptionReader(const Parameter& parameter, const json& value, std::int32_t vocab,
               SamplingOptions& out)
      : parameter_(parameter), value_(value), vocab_(vocab), out_(out) {}

  Result<void> operator()(float SamplingOptions::*member) {
    const double number = value_.is_number() ? value_.get<double>() : NAN;
    if (!is_valid(parameter_, number)) return refuse(parameter_, value_);
    out_.*member = static_cast<float>(number);
    return {};
  }
  Result<void> operator()(std::int64_t SamplingOptions::*member) {
    const std::optional<std::int64_t> number = whole_number(value_);
    if (!number || !is_valid(parameter_, *number)) return refuse(parameter_, value_);
    out_.*member = *number;
    return {};
  }
  Result<void> operator()(Texts SamplingOptions::*member) {
    std::optional<Texts> texts = read_texts(value_);
    if (!texts) return refuse(parameter_, value_);
    out_.*member = std::move(*texts);
    return {};
  }
  /// Reads the order of the steps. One that is not named is skipped.
  Result<void> operator()(Order SamplingOptions::*member) {
    if (!value_.is_array() || value_.empty()) return refuse(parameter_, value_);
    Order order;
    for (const json& item : value_) {
      const auto step =
          item.is_string() ? find_step(item.get_ref<const std::string&>()) : std::optional<Step>();
      const bool again = step && std::find(order.begin(), order.end(), *step) != order.end();
      if (!step || again) return refuse(parameter_, value_);
      order.push_back(*step);
    }
    out_.*member = std::move(order);
    return {};
  }
  Result<void> operator()(LogitBias SamplingOptions::*member) {
    if (!value_.is_object()) return bad("logit_bias: expected an object of token ids to numbers");
    for (const auto& [name, bias] : value_.items()) {
      HOLDFAST_TRY(const TokenId id, read_id(name));
      if (!bias.is_number()) return bad("logit_bias: expected a number for token " + name);
      if (!is_valid(parameter_, bias.get<double>())) {
        return bad("logit_bias of " + name + " is " + dump(bias) + "; expected " +
                   number_text(parameter_.range.low) + " to " + number_text(parameter_.range.high));
      }
      (out_.*member).emplace_back(id, bias.get<float>());
    }
    return {};
  }
  template <class T>
  Result<void> operator()(T wire::Sampling::*) {
    return unknown(parameter_.name);
  }

 private:
  static std::optional<Step> find_step(std::string_view name) {
    if (name == "typical_p") name = step_name(Step::kTypical);
    const auto at = std::find(kStepNames.begin(), kStepNames.end(), name);
    if (at == kStepNames.end()) return std::nullopt;
    return static_cast<Step>(at - kStepNames.begin());
  }
  Result<TokenId> read_id(const std::string& name) const {
    TokenId id = -1;
    const char* end = name.data() + name.size();
    const auto read = std::from_chars(name.data(), end, id);
    if (read.ec == std::errc() && read.ptr == end && id >= 0 && id < vocab_) return id;
    return bad("logit_bias: token id " + readable(name, kTextBytesMax) + "; expected 0 to " +
               std::to_string(vocab_ - 1));
  }

  const Parameter& parameter_;
  const json& value_;
  std::int32_t vocab_;
  SamplingOptions& out_;
};

Result<void> read_embedding(const json& value, SamplingExtra& extra) {
  const Error wrong = bad(
      "embedding: expected an object with \"pooling\" (mean, cls or last) and \"normalize\" (true "
      "or false), both optional");
  if (!value.is_object()) return wrong;
  EmbeddingOptions options;
  for (const auto& [name, member] : value.items()) {
    if (name == "normalize" && member.is_boolean()) {
      options.normalize = member.get<bool>();
    } else if (name == "pooling" && (member == "mean" || member == "cls" || member == "last")) {
      options.pooling = member.get<std::string>();
    } else {
      return wrong;
    }
  }
  extra.embedding = std::move(options);
  return {};
}

/// Reads {"tokens": 512, "open": true, "marks": ["<think>", "</think>", "</think>"], "anywhere":
/// false}.
Result<void> read_thinking(const json& value, SamplingExtra& extra) {
  const Error wrong =
      bad("thinking: expected an object with \"tokens\" (0 to " + std::to_string(kCountMax) +
          "), \"marks\" (what begins it, what ends it, what is written to end it), and perhaps "
          "\"open\" and \"anywhere\" (true or false)");
  if (!value.is_object()) return wrong;
  ThinkingBudget budget;
  budget.tokens = -1;
  std::vector<std::string> marks;
  for (const auto& [name, member] : value.items()) {
    if (name == "tokens" && member.is_number_integer() && member >= 0 && member <= kCountMax) {
      budget.tokens = member.get<std::int64_t>();
    } else if (name == "marks") {
      marks = read_texts(member).value_or(Texts());
    } else if ((name == "open" || name == "anywhere") && member.is_boolean()) {
      (name == "open" ? budget.open : budget.marks.anywhere) = member.get<bool>();
    } else {
      return wrong;
    }
  }
  if (budget.tokens < 0 || marks.size() != 3) return wrong;
  budget.marks.begin = marks[0];
  budget.marks.close = marks[1];
  budget.marks.force = marks[2];
  extra.thinking = std::move(budget);
  return {};
}

Result<void> read_member(const std::string& name, const json& value, std::int32_t vocab,
                         SamplingExtra& extra) {
  if (name == "embedding") return read_embedding(value, extra);
  if (name == "thinking") return read_thinking(value, extra);
  const Parameter* parameter = find_parameter(name);
  if (parameter == nullptr) return unknown(name);
  return std::visit(OptionReader(*parameter, value, vocab, extra), parameter->member);
}

}  // namespace

Result<SamplingExtra> parse_extra(std::string_view text, std::int32_t vocab) {
  SamplingExtra extra;
  if (text.empty()) return extra;
  const json j = try_parse_json<json>(text);
  if (!j.is_object()) return bad("extra: expected a JSON object");
  for (const auto& [name, value] : j.items()) {
    if (value.is_null() || name == "grammar") continue;  // read by shared/grammar/request.h
    HOLDFAST_CHECKED(read_member(name, value, vocab, extra));
  }
  if (extra.embedding && j.size() > 1) {
    return bad("embedding: no text is made, so nothing else can be asked of the sampler");
  }
  return extra;
}

}  // namespace holdfast::sampling
