#pragma once
// What one body may become. It begins with what came in and follows the body through everything
// that reads a part of it again or writes it anew: what that makes in all stays within a multiple
// of what came.

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "shared/base/json_text.h"
#include "shared/base/result.h"

namespace holdfast::gateway {

class BodyBudget {
 public:
  /// Bytes and values made of a body, of all kinds together, a byte or value that came.
  static constexpr std::size_t kBytesGrowth = 16;
  static constexpr std::size_t kValuesGrowth = 8;
  /// Small bodies are rewritten whatever comes of it.
  static constexpr std::size_t kBytesFree = 64 * 1024;
  static constexpr std::size_t kValuesFree = 1'024;

  BodyBudget() = default;
  /// A body came in, or what belongs to it: an earlier turn of its conversation.
  void take(const nlohmann::ordered_json& body);
  bool begun() const { return bytes_in_ > 0; }

  /// Charges what was, or is about to be, made of the body. kInvalidRequest with the numbers.
  Result<void> make(std::size_t bytes, std::size_t values = 0);
  Result<void> make(const nlohmann::ordered_json& value);

  /// JSON in a text of the body that stands `depth` levels deep. Null: the text is not JSON.
  /// kInvalidRequest: what is in it is more than the body may have.
  Result<nlohmann::ordered_json> open(std::string_view text, int depth);

 private:
  std::size_t bytes_in_ = 0;
  std::size_t values_in_ = 0;
  std::size_t bytes_made_ = 0;
  std::size_t values_made_ = 0;
};

}  // namespace holdfast::gateway
