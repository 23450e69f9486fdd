#include "control/gateway/http/body_budget.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

namespace holdfast::gateway {

using json = nlohmann::ordered_json;

namespace {

constexpr std::size_t kNumberBytes = 2;  // the shortest number with its separator

struct Amount {
  std::size_t bytes = 0;
  std::size_t values = 0;
};

/// Adds the size of `value`, which is at most as deep as a body.
void add(const json& value, Amount* to) {
  ++to->values;
  if (value.is_string()) {
    to->bytes += value.get_ref<const std::string&>().size() + 3;
  } else if (value.is_object()) {
    to->bytes += 2;
    for (const auto& [name, member] : value.items()) {
      to->bytes += name.size() + 4;
      add(member, to);
    }
  } else if (value.is_array()) {
    to->bytes += 2;
    for (const json& item : value) add(item, to);
  } else {
    to->bytes += kNumberBytes;
  }
}

Amount amount_of(const json& value) {
  Amount amount;
  add(value, &amount);
  return amount;
}

std::size_t sum(std::size_t a, std::size_t b) {
  return a > std::numeric_limits<std::size_t>::max() - b ? std::numeric_limits<std::size_t>::max()
                                                         : a + b;
}

Error over(std::size_t made, const char* what, std::size_t in, std::size_t most) {
  return {Errc::kInvalidRequest, "makes " + std::to_string(made) + " " + what + " of a body of " +
                                     std::to_string(in) + ", at most " + std::to_string(most) +
                                     " are made"};
}

}  // namespace

void BodyBudget::take(const json& body) {
  const Amount amount = amount_of(body);
  bytes_in_ += amount.bytes;
  values_in_ += amount.values;
}

Result<void> BodyBudget::make(std::size_t bytes, std::size_t values) {
  bytes_made_ = sum(bytes_made_, bytes);
  values_made_ = sum(values_made_, values);
  const std::size_t bytes_max = kBytesFree + kBytesGrowth * bytes_in_;
  if (bytes_made_ > bytes_max) return over(bytes_made_, "bytes", bytes_in_, bytes_max);
  const std::size_t values_max = kValuesFree + kValuesGrowth * values_in_;
  if (values_made_ > values_max) return over(values_made_, "values", values_in_, values_max);
  return {};
}

Result<void> BodyBudget::make(const json& value) {
  const Amount amount = amount_of(value);
  return make(amount.bytes, amount.values);
}

Result<json> BodyBudget::open(std::string_view text, int depth) {
  JsonLimits limits = kBodyLimits;
  limits.depth_max -= depth;
  const Result<JsonSize> size = measure_json(text, limits);
  if (!size) {
    JsonLimits any;  // checks whether it is JSON without building anything
    any.depth_max = std::numeric_limits<int>::max();
    if (!is_json(text, any)) return json();
    return Error{Errc::kInvalidRequest, "is JSON that is " + size.error().what + " of the text"};
  }
  // The bytes are charged with the outer text; only the values within it are charged here.
  const std::size_t values = size.value().values;
  values_in_ += std::min(values, text.size());
  HOLDFAST_CHECKED(make(0, values));
  json value = try_parse_json<json>(text, limits);
  if (value.is_discarded()) return json();
  return value;
}

}  // namespace holdfast::gateway
