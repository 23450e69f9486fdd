#include "shared/sampling/parameters.h"

#include <charconv>
#include <nlohmann/json.hpp>

#include "shared/base/check.h"
#include "shared/base/readable.h"

namespace holdfast::sampling {
namespace {

constexpr std::size_t kValueBytesMax = 60;

template <class T>
std::string shortest(T number) {
  char text[40];
  const auto end = std::to_chars(text, text + sizeof text, number);
  CHECK(end.ec == std::errc());
  return {text, end.ptr};
}

std::string join(std::span<const std::string_view> names) {
  std::string out;
  for (const std::string_view name : names) {
    if (!out.empty()) out += ", ";
    out += name;
  }
  return out;
}

/// The text of a range, by the type of the member.
struct RangeText {
  const Range& range;

  std::string ends(const char* between) const {
    return number_text(range.low) + between + number_text(range.high);
  }
  template <class S>
  std::string operator()(bool S::*) const {
    return {};
  }
  template <class S>
  std::string operator()(std::uint64_t S::*) const {
    return {};
  }
  template <class S, class T>
  requires(std::is_arithmetic_v<T>) std::string operator()(T S::*) const {
    return ends(range.ends_only ? " or " : " to ");
  }
  std::string operator()(Texts SamplingOptions::*) const {
    return "at most " + number_text(std::int64_t{kTextsMax}) + " texts of 1 to " +
           number_text(std::int64_t{kTextBytesMax}) + " bytes";
  }
  std::string operator()(Order SamplingOptions::*) const {
    return "some of " + join(kStepNames) + ", each once";
  }
  std::string operator()(LogitBias SamplingOptions::*) const {
    return "token ids with numbers from " + ends(" to ");
  }
};

template <class T>
std::string value_text(const T& value) {
  if constexpr (std::is_same_v<T, bool>) {
    return value ? "true" : "false";
  } else if constexpr (std::is_floating_point_v<T>) {
    return number_text(value);
  } else if constexpr (std::is_arithmetic_v<T>) {
    return shortest(value);
  } else if constexpr (std::is_same_v<T, Order>) {
    std::vector<std::string_view> names;
    for (const Step step : value) names.push_back(step_name(step));
    return nlohmann::json(names).dump();
  } else if constexpr (std::is_same_v<T, LogitBias>) {
    return "{}";  // its default
  } else {
    return nlohmann::json(value).dump();
  }
}

/// Returns what is wrong with a member of a request.
template <class T>
std::optional<std::string> check_member(const Parameter& parameter, T value, T fallback) {
  constexpr bool ranged = std::is_same_v<T, float> || std::is_same_v<T, std::int32_t>;
  if constexpr (ranged) {
    if (value != fallback && !is_valid(parameter, value)) {
      return out_of_range(parameter, value_text(value));
    }
  }
  return std::nullopt;
}

}  // namespace

std::string number_text(double number) {
  return shortest(number);
}
std::string number_text(float number) {
  return shortest(number);
}
std::string number_text(std::int64_t number) {
  return shortest(number);
}

std::string range_text(const Parameter& parameter) {
  return std::visit(RangeText{parameter.range}, parameter.member);
}

std::string default_text(const Parameter& parameter) {
  return std::visit(
      [](auto member) { return value_text(typename MemberOf<decltype(member)>::Struct().*member); },
      parameter.member);
}

std::string out_of_range(const Parameter& parameter, std::string_view value) {
  return std::string(parameter.name) + " is " + readable(value, kValueBytesMax) + "; expected " +
         range_text(parameter);
}

std::optional<std::string> check(const wire::Sampling& sampling) {
  static const wire::Sampling defaults;
  std::optional<std::string> wrong;
  for (const Parameter& parameter : kParameters) {
    visit_plain(parameter, [&](auto member) {
      wrong = check_member(parameter, sampling.*member, defaults.*member);
    });
    if (wrong) return wrong;
  }
  return std::nullopt;
}

}  // namespace holdfast::sampling
