#include "shared/base/json_fields.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "shared/base/readable.h"

namespace holdfast {

using json = nlohmann::ordered_json;

namespace {

constexpr std::size_t kMessageBytesMax = 1'000;

const json* member(const json& object, std::string_view name) {
  const auto found = object.find(std::string(name));
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

}  // namespace

std::string json_kind(const json& value) {
  return value.type_name();
}

Fields::Fields(const json& object, std::string prefix)
    : object_(object), prefix_(std::move(prefix)) {}

void Fields::open(std::string_view name) {
  const json* inner = member(object_, name);
  if (inner == nullptr || !inner->is_object()) return;
  recognised_.emplace(name);
  opened_ = inner;
  opened_name_ = name;
  for (const auto& [one, value] : inner->items()) {
    const json* other = member(object_, one);
    if (other == nullptr || other == inner || value.is_null() || *other == value) continue;
    fail(opened_name_ + "." + one, "and '" + one + "' differ; send one of them");
  }
}

const json* Fields::take(std::string_view name) {
  recognised_.emplace(name);
  const json* found = member(object_, name);
  return found == nullptr && opened_ != nullptr ? member(*opened_, name) : found;
}

bool Fields::has(std::string_view name) const {
  return member(object_, name) != nullptr ||
         (opened_ != nullptr && member(*opened_, name) != nullptr);
}

void Fields::fail(std::string_view name, const std::string& message) {
  if (error_) return;
  const std::string full = prefix_ + std::string(name);
  // The message may quote the body and is stored with a batch, so it is cut.
  error_ = FieldError{"'" + full + "' " + readable(message, kMessageBytesMax), full};
}

bool Fields::check(std::string_view name, const Result<void>& result) {
  if (!result) fail(name, result.error().what);
  return result.has_value();
}

bool Fields::boolean(std::string_view name, bool* out) {
  const json* value = take(name);
  if (value == nullptr) return false;
  if (!value->is_boolean()) {
    fail(name, "must be true or false, it is a " + json_kind(*value));
    return false;
  }
  *out = value->get<bool>();
  return true;
}

namespace {

/// True for a floating-point number that stands for an integer: some languages print 16.0 for 16.
bool is_whole(double d) {
  return d == std::floor(d) && std::abs(d) < 9e15;
}

/// The value of a whole number; nullopt if it is too large.
std::optional<std::int64_t> int64_of(const json& number) {
  if (number.is_number_float()) return static_cast<std::int64_t>(number.get<double>());
  if (!number.is_number_unsigned()) return number.get<std::int64_t>();
  const auto big = number.get<std::uint64_t>();
  if (big > static_cast<std::uint64_t>(INT64_MAX)) return std::nullopt;
  return static_cast<std::int64_t>(big);
}

}  // namespace

bool Fields::integer(std::string_view name, std::int64_t low, std::int64_t high,
                     std::int64_t* out) {
  const json* value = take(name);
  if (value == nullptr) return false;
  if (!value->is_number()) {
    fail(name, "must be an integer, it is a " + json_kind(*value));
    return false;
  }
  if (value->is_number_float() && !is_whole(value->get<double>())) {
    fail(name, "must be an integer");
    return false;
  }
  const auto read = int64_of(*value);
  if (!read || *read < low || *read > high) {
    fail(name, "must be between " + std::to_string(low) + " and " + std::to_string(high) +
                   ", it is " + value->dump());
    return false;
  }
  *out = *read;
  return true;
}

bool Fields::number(std::string_view name, double low, double high, float* out) {
  const json* value = take(name);
  if (value == nullptr) return false;
  if (!value->is_number()) {
    fail(name, "must be a number, it is a " + json_kind(*value));
    return false;
  }
  const double d = value->get<double>();
  if (!(d >= low && d <= high)) {
    fail(name, "must be between " + json(low).dump() + " and " + json(high).dump() + ", it is " +
                   value->dump());
    return false;
  }
  *out = static_cast<float>(d);
  return true;
}

bool Fields::text(std::string_view name, std::string* out) {
  const json* value = take(name);
  if (value == nullptr) return false;
  if (!value->is_string()) {
    fail(name, "must be a string, it is a " + json_kind(*value));
    return false;
  }
  *out = value->get_ref<const std::string&>();
  return true;
}

std::vector<std::string> Fields::unknown() const {
  std::vector<std::string> out;
  for (const auto& [name, value] : object_.items()) {
    if (!recognised_.contains(name)) out.push_back(prefix_ + name);
  }
  if (opened_ == nullptr) return out;
  for (const auto& [name, value] : opened_->items()) {
    if (!recognised_.contains(name)) out.push_back(prefix_ + opened_name_ + "." + name);
  }
  return out;
}

}  // namespace holdfast
