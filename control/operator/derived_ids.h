#pragma once
// Ids that stand for an Idempotency-Key: the same for the same tenant and key, and nobody else can
// compute them. The operator verb ids.derive (schema/protocol.md).

#include <cstdint>
#include <string>
#include <string_view>

#include "control/store/store.h"

namespace holdfast::daemon {

/// Ways to derive an id. kPublic: by a hash that anybody can compute, of databases without a
/// secret; what has such an id retains it.
enum class IdVersion : std::uint8_t { kPublic = 1, kSecret = 2 };

/// Returns the prefix and 26 hex digits. `secret`: of the database, 32 bytes; not used for kPublic.
std::string derived_id(IdVersion version, std::string_view secret, std::string_view tenant,
                       std::string_view prefix, std::string_view key);

/// The document of ids.derive {"kind", "prefix", "key"} for a tenant: {"id", "version"}. The public
/// id where this tenant has an object or a request of that name, else the secret one.
Result<std::string> derive_document(const std::string& args, const std::string& tenant,
                                    store::Store& store);

}  // namespace holdfast::daemon
