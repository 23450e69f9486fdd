#pragma once
// A JSON object, read field by field. Every fault names its parameter, and fields that were never
// read can be listed. ordered_json, because templates print tools as they were sent.

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "shared/base/result.h"

namespace holdfast {

/// A fault in a request's fields, naming the parameter.
struct FieldError {
  std::string message;
  std::string param;
};

/// Reads the members of one object. The first error is remembered; later reads do no harm. `null`
/// counts as absent. A reader that returns bool returns true if the member was there and valid. Not
/// thread-safe.
class Fields {
 public:
  /// Refers to `object`, which must outlive this. `prefix` stands before the names in errors:
  /// "stream_options.".
  explicit Fields(const nlohmann::ordered_json& object, std::string prefix = {});

  /// Makes members of the object of that name count as members of this one: some programs send
  /// there what belongs at the top level. A member that is in both must have the same value in
  /// both.
  void open(std::string_view name);

  /// Returns the member, nullptr if it is absent or null, and marks the name as known.
  const nlohmann::ordered_json* take(std::string_view name);
  /// Returns true if the member is there and not null. The name does not count as known by that.
  bool has(std::string_view name) const;
  bool boolean(std::string_view name, bool* out);
  bool integer(std::string_view name, std::int64_t low, std::int64_t high, std::int64_t* out);
  bool number(std::string_view name, double low, double high, float* out);
  bool text(std::string_view name, std::string* out);

  void fail(std::string_view name, const std::string& message);
  /// Fails with the result's error, if it has one. Returns true if it has none.
  bool check(std::string_view name, const Result<void>& result);
  const std::optional<FieldError>& error() const { return error_; }
  /// Returns the names of members that were never taken.
  std::vector<std::string> unknown() const;

 private:
  const nlohmann::ordered_json& object_;
  const nlohmann::ordered_json* opened_ = nullptr;
  std::string opened_name_;
  std::string prefix_;
  std::set<std::string, std::less<>> recognised_;
  std::optional<FieldError> error_;
};

/// Returns "string", "number", … in JSON's words.
std::string json_kind(const nlohmann::ordered_json& value);

}  // namespace holdfast
