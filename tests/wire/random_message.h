#pragma once
// Messages of every type with random field values, for the codec tests.

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "shared/wire/messages.h"

namespace holdfast::wire::testing {

using Random = std::mt19937_64;

/// Makes one message of the type with this index in the variant; blobs hold any bytes, texts UTF-8.
Message random_message(std::size_t type, Random& random);
inline constexpr std::size_t kTypes = std::variant_size_v<Message>;

}  // namespace holdfast::wire::testing
