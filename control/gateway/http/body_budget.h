#pragma once
// A bound on what is made of one body. It starts with the bytes and values that came in and follows
// the body through everything that reads a part of it again or rewrites it: the sum of what that
// makes stays within a multiple of what came.

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "shared/base/json_text.h"
#include "shared/base/result.h"

namespace holdfast::gateway {

/// Counts what came in and what was made of it. Not thread-safe.
class BodyBudget {
 public:
  /// Most bytes and values of all kinds that are made of one byte or value that came in.
  static constexpr std::size_t kBytesGrowth = 16;
  static constexpr std::size_t kValuesGrowth = 8;
  /// Bytes and values that are free, so that small bodies may always be rewritten.
  static constexpr std::size_t kBytesFree = 64 * 1024;
  static constexpr std::size_t kValuesFree = 1'024;

  BodyBudget() = default;
  /// Adds a body that came in, or one that belongs to it: an earlier turn of its conversation.
  void take(const nlohmann::ordered_json& body);
  bool begun() const { return bytes_in_ > 0; }

  /// Charges what was made, or is about to be made, of the body. Fails with kInvalidRequest and the
  /// numbers.
  Result<void> make(std::size_t bytes, std::size_t values = 0);
  Result<void> make(const nlohmann::ordered_json& value);

  /// Parses JSON within a text of the body that stands `depth` levels deep. Returns null if the
  /// text is no JSON, kInvalidRequest if it is more than the body may have.
  Result<nlohmann::ordered_json> open(std::string_view text, int depth);

 private:
  std::size_t bytes_in_ = 0;
  std::size_t values_in_ = 0;
  std::size_t bytes_made_ = 0;
  std::size_t values_made_ = 0;
};

}  // namespace holdfast::gateway
