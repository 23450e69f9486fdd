#pragma once
// A JSON body, read field by field: whatever is wrong is said with the parameter's name, and fields
// that nobody asked for can be named. ordered_json, because templates print tools as they were
// sent.

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "control/gateway/errors.h"
#include "shared/base/json_text.h"

namespace holdfast::gateway {

/// Parses a JSON object. False: `error` says where and why (not UTF-8, not JSON, beyond the limits,
/// not an object).
bool parse_json_object(std::string_view text, nlohmann::ordered_json* out, FieldError* error,
                       const JsonLimits& limits = kBodyLimits);

/// Reads the members of one object. The first error stays; later reads do nothing harmful. `null`
/// is as good as absent. A reader that returns bool says whether the member was there and right.
class Fields {
 public:
  /// `object` is kept by reference. `prefix` stands before the names in errors: "stream_options.".
  explicit Fields(const nlohmann::ordered_json& object, std::string prefix = {});

  /// Members of the object of that name count as members of this one: some programs send so what
  /// their library should have put beside the rest. One that is there twice must be the same.
  void open(std::string_view name);

  /// The member, nullptr if absent or null. Marks the name as known.
  const nlohmann::ordered_json* take(std::string_view name);
  bool boolean(std::string_view name, bool* out);
  bool integer(std::string_view name, std::int64_t low, std::int64_t high, std::int64_t* out);
  bool number(std::string_view name, double low, double high, float* out);
  bool text(std::string_view name, std::string* out);

  void fail(std::string_view name, const std::string& message);
  /// Fails with the reason where there is one. True if there is none.
  bool check(std::string_view name, const Result<void>& result);
  const std::optional<FieldError>& error() const { return error_; }
  /// Members that were never taken.
  std::vector<std::string> unknown() const;

 private:
  const nlohmann::ordered_json& object_;
  const nlohmann::ordered_json* opened_ = nullptr;
  std::string opened_name_;
  std::string prefix_;
  std::set<std::string, std::less<>> known_;
  std::optional<FieldError> error_;
};

/// "string", "number", … in JSON's words.
std::string json_kind(const nlohmann::ordered_json& value);

/// Appends `text` (valid UTF-8) as a JSON string with its quotes.
void append_json_string(std::string& out, std::string_view text);

}  // namespace holdfast::gateway
