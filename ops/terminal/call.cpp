#include "ops/terminal/call.h"

#include <cstdlib>

#include "shared/base/check.h"

namespace holdfast::cli {

const std::vector<std::string>& Call::find(std::string_view name) const {
  const auto it = values.find(name);
  CHECK_MSG(it != values.end(), "a verb reads a flag that its row in verbs.cpp does not declare");
  return it->second;
}

std::string Call::text(std::string_view name, std::string_view fallback) const {
  const auto& given = find(name);
  return given.empty() ? std::string(fallback) : given.back();
}

std::int64_t Call::integer(std::string_view name, std::int64_t fallback) const {
  const auto& given = find(name);
  return given.empty() ? fallback : std::strtoll(given.back().c_str(), nullptr, 10);
}

double Call::real(std::string_view name, double fallback) const {
  const auto& given = find(name);
  return given.empty() ? fallback : std::strtod(given.back().c_str(), nullptr);
}

}  // namespace holdfast::cli
