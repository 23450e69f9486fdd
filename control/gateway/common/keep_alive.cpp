#include "control/gateway/common/keep_alive.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string_view>

namespace holdfast::gateway {
namespace {

struct Unit {
  std::string_view name;
  double ms;
};
// A unit that begins like another one stands before it.
constexpr Unit kUnits[] = {{"ns", 1e-6}, {"us", 1e-3}, {"µs", 1e-3},    {"μs", 1e-3},
                           {"ms", 1},    {"s", 1000},  {"m", 60'000.0}, {"h", 3'600'000.0}};

/// Takes a number without a sign off the front.
std::optional<double> take_number(std::string_view& text) {
  if (text.empty() || (text[0] != '.' && (text[0] < '0' || text[0] > '9'))) return std::nullopt;
  double value = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed);
  if (error != std::errc()) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return value;
}

std::optional<double> take_unit(std::string_view& text) {
  const auto* unit = std::find_if(std::begin(kUnits), std::end(kUnits),
                                  [&](const Unit& one) { return text.starts_with(one.name); });
  if (unit == std::end(kUnits)) return std::nullopt;
  text.remove_prefix(unit->name.size());
  return unit->ms;
}

/// Returns the sum of the parts of a duration; a number without a unit is seconds.
std::optional<double> parse_duration(std::string_view text) {
  double sum = 0;
  do {
    const auto number = take_number(text);
    if (!number) return std::nullopt;
    if (text.empty() && sum == 0) return *number * 1000;
    const auto unit = take_unit(text);
    if (!unit) return std::nullopt;
    sum += *number * *unit;
  } while (!text.empty());
  return sum;
}

std::int64_t bounded(double ms) {
  if (ms < 0) return -1;
  return static_cast<std::int64_t>(std::min(ms, static_cast<double>(kKeepAliveMsMax)));
}

}  // namespace

std::optional<std::int64_t> parse_keep_alive(const nlohmann::ordered_json& value) {
  if (value.is_number()) {
    const double seconds = value.get<double>();
    if (!std::isfinite(seconds)) return std::nullopt;
    return bounded(seconds * 1000);
  }
  if (!value.is_string()) return std::nullopt;
  std::string_view text = value.get_ref<const std::string&>();
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  const auto ms = parse_duration(text);
  if (!ms) return std::nullopt;
  return negative && *ms > 0 ? -1 : bounded(*ms);
}

}  // namespace holdfast::gateway
