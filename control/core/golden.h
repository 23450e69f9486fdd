#pragma once
// `models verify`: what was found of a model's file, and what the model once answered.

#include <string>
#include <string_view>
#include <vector>

#include "control/core/events.h"

namespace holdfast::core {

/// Where the answer of a model file in a numerics class is kept: flag "golden/" + this.
std::string golden_key(const std::string& model_sha, const std::string& numerics_class);
/// "1 2 3".
std::string golden_text(const std::vector<TokenId>& ids);

/// A file as it was found, as the subject of the answer to models.verify, and back. Numbers of the
/// envelope are those that a registration would compute now.
struct FoundFile {
  std::string model;
  std::string sha;
  std::int64_t size = 0;
  std::int64_t mtime_ns = 0;
  std::int64_t weights_bytes = 0, kv_bytes = 0, scratch_bytes = 0;
};
std::string verified_key(const InspectedEvent& event);
FoundFile read_verified_key(std::string_view key);

}  // namespace holdfast::core
