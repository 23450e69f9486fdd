#pragma once
// The verb keys.server: the public key of this database's listener for other machines.

#include <string>

#include "control/store/store.h"

namespace holdfast::daemon {

/// Renders {"server_key"}: Z85. kUnsupported where libzmq has no CURVE; errors of the store.
Result<std::string> server_key_document(store::Store& store);

}  // namespace holdfast::daemon
