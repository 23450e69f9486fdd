#pragma once
// Golden answers for `models verify`: what a model answered first, and its file as it was found.

#include <string>
#include <string_view>
#include <vector>

#include "control/core/events.h"

namespace holdfast::core {

/// Key of a golden answer, for a model file in a numerics class; it is stored as flag "golden/" +
/// key.
std::string golden_key(const std::string& model_sha, const std::string& numerics_class);
/// Token ids as text: "1 2 3".
std::string golden_text(const std::vector<TokenId>& ids);
/// The first difference of two such texts: "token 3 is 17 and was 12".
std::string first_difference(const std::string& before, const std::string& now);

/// A file as it was found. verified_key() writes it as the subject of the answer to models.verify,
/// read_verified_key() reads that. Numbers of the envelope are those that a registration computes.
struct FoundFile {
  std::string model;
  std::string sha;
  std::int64_t size = 0;
  std::int64_t mtime_ns = 0;
  std::int64_t weights_bytes = 0, kv_bytes = 0, scratch_bytes = 0;
};

/// Returns the name under which the answer of a verified file is stored, and reads it back.
std::string verified_key(const InspectedEvent& event);
FoundFile read_verified_key(std::string_view key);

}  // namespace holdfast::core
