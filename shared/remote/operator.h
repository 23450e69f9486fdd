#pragma once
// Operator verbs over the gateway's console API, POST /console/api/VERB (docs/use/console.md).

#include <chrono>
#include <string>

#include "shared/client/client.h"
#include "shared/remote/http.h"

namespace holdfast::remote {

/// Sends an operator verb with its arguments, a JSON object. The daemon's document, or the typed
/// refusal. A question is asked again for some seconds where a gateway or the daemon is being
/// started again; a change is sent once. Blocks.
client::Answer<std::string> operate(const Address& address, const std::string& verb,
                                    const std::string& args, std::chrono::milliseconds timeout);

/// The refusal that an answer other than 2xx has; kUnreachable if that is not of a gateway.
/// `role`: whose key the path takes ("an operator's key"), for 401 and 403.
client::Failure refusal_of(const Address& address, const HttpReply& reply, const std::string& role);

/// The failure of an exchange that has no answer.
client::Failure failure_of(const Error& error);

}  // namespace holdfast::remote
