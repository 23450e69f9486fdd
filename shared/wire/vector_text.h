#pragma once
// Carries the vector of an embedding: it is stored and sent as the `extra` of one token
// (kVectorToken), so that all guarantees for tokens hold for it.

#include <string>
#include <string_view>
#include <vector>

#include "shared/wire/messages.h"

namespace holdfast::wire {

/// Returns {"embedding":"…"}: base64 of little-endian float32.
std::string vector_text(const std::vector<float>& vector);
/// Returns an empty vector for a text that has none.
std::vector<float> read_vector(std::string_view extra);

}  // namespace holdfast::wire
