#pragma once
// One exchange with a store of the record: JSON over HTTP, bounded in bytes and time.

#include <nlohmann/json_fwd.hpp>

#include "shared/base/result.h"
#include "shared/http_client/http_client.h"

namespace holdfast::replication {

/// Sends the request and reads the answer's JSON into `body` (discarded if it is none). Returns the
/// status. kUnreachable: no whole answer came.
Result<int> exchange_json(http::Request request, nlohmann::json& body);

}  // namespace holdfast::replication
