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

/// Base64 with padding, as RFC 4648 section 4 has it.
std::string to_base64(std::string_view bytes);

}  // namespace holdfast::wire
