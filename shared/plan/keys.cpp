#include "shared/plan/keys.h"

#include <algorithm>
#include <cmath>

namespace holdfast::plan {

Error KeyReader::fail(Errc code, const std::string& what) const {
  return Error{code, "read model " + std::string(file_.name()) + ": " + what};
}

Result<std::int64_t> KeyReader::common_value(const char* suffix,
                                             const std::vector<std::int64_t>& list) const {
  const std::string name = key(suffix);
  if (std::adjacent_find(list.begin(), list.end(), std::not_equal_to<>()) != list.end()) {
    return unsupported("key \"" + name + "\" differs between layers, which is not supported");
  }
  const auto layers = file_.get_i64(key("block_count"));
  const auto n = static_cast<std::int64_t>(list.size());
  if (n > 1 && layers && n != *layers) {
    return invalid("key \"" + name + "\" has " + std::to_string(n) +
                   " entries, expected one for each of " + std::to_string(*layers) + " layers");
  }
  return list.front();
}

Result<std::optional<std::int64_t>> KeyReader::find_int(const char* suffix, Range range) const {
  const std::string name = key(suffix);
  if (!file_.has(name)) return std::optional<std::int64_t>{};
  std::optional<std::int64_t> value = file_.get_i64(name);
  if (const auto list = file_.get_ints(name); list && !list->empty()) {
    HOLDFAST_TRY(value, common_value(suffix, *list));
  }
  if (!value) return invalid("key \"" + name + "\" has another type, expected an integer");
  if (*value < range.least || *value > range.most) {
    return invalid("key \"" + name + "\" is " + std::to_string(*value) + ", expected " +
                   std::to_string(range.least) + " to " + std::to_string(range.most));
  }
  return value;
}

Result<std::vector<std::int64_t>> KeyReader::find_each(const char* suffix, Range range,
                                                       std::int64_t n) const {
  const std::string name = key(suffix);
  const auto list = file_.get_ints(name);
  if (!list || list->size() <= 1) {
    HOLDFAST_TRY(const auto one, find_int(suffix, range));
    return std::vector<std::int64_t>(one ? static_cast<std::size_t>(n) : 0, one.value_or(0));
  }
  if (static_cast<std::int64_t>(list->size()) != n) {
    return invalid("key \"" + name + "\" has " + std::to_string(list->size()) +
                   " entries, expected one for each of " + std::to_string(n) + " layers");
  }
  for (const std::int64_t v : *list) {
    if (v >= range.least && v <= range.most) continue;
    return invalid("key \"" + name + "\" has " + std::to_string(v) + ", expected " +
                   std::to_string(range.least) + " to " + std::to_string(range.most));
  }
  return *list;
}

Result<std::int64_t> KeyReader::need_int(const char* suffix, Range range) const {
  HOLDFAST_TRY(const std::optional<std::int64_t> value, find_int(suffix, range));
  if (!value) return invalid("key \"" + key(suffix) + "\" is missing");
  return *value;
}

Result<double> KeyReader::find_float(const char* suffix, double fallback) const {
  if (!file_.has(key(suffix))) return fallback;
  const auto value = file_.get_f64(key(suffix));
  if (!value || !std::isfinite(*value) || *value < 0) {
    return invalid("key \"" + key(suffix) + "\" is no number of at least 0");
  }
  return *value;
}

Result<bool> KeyReader::find_bool(const char* suffix, bool fallback) const {
  if (!file_.has(key(suffix))) return fallback;
  const auto value = file_.get_bool(key(suffix));
  if (!value)
    return invalid("key \"" + key(suffix) + "\" has another type, expected true or false");
  return *value;
}

}  // namespace holdfast::plan
