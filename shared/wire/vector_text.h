#pragma once
// The vector of an embedding on its way: it is stored and sent as the `extra` of one token
// (kVectorToken), so that everything that holds for tokens holds for it.

#include <string>
#include <string_view>
#include <vector>

#include "shared/wire/messages.h"

namespace holdfast::wire {

/// {"embedding":"…"}: base64 of little-endian float32.
std::string vector_text(const std::vector<float>& vector);
/// Empty for a text that is no vector.
std::vector<float> read_vector(std::string_view extra);

}  // namespace holdfast::wire
