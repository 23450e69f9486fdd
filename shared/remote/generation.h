#pragma once
// A request's text over HTTP, as server-sent events. A stream that is cut goes on behind the last
// event that came (Last-Event-ID), until the request ends.

#include <functional>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "shared/remote/operator.h"

namespace holdfast::remote {

/// The source of a stream: a request that is made by a POST, or one that there is.
struct StreamSource {
  std::string path;        // "/v1/completions"; empty: the request is there
  std::string body;        // with "stream": true
  std::string request_id;  // of a request that there is
};

/// A request that has ended, and its output.
struct Generated {
  std::string request_id;
  std::string request;                 // JSON: GET /v1/requests/ID after the end
  std::string document;                // JSON: the whole answer of a request that has no stream
  std::map<int, std::string> choices;  // their texts
};

/// Streams to the end of the request and then reads how it ended. `on_text` gets the text of each
/// choice as it comes, each part once. Where the connection is lost, or the gateway is stopped or
/// does not answer, it comes back with the same Idempotency-Key and its Last-Event-ID, for ten
/// minutes without an answer at most: kUnreachable then has the id with which to go on. Before the
/// first answer a server that is not there is kUnreachable at once. Once `interrupted` is true the
/// request is cancelled, and the stream ends by that. Blocks.
client::Answer<Generated> generate(const Address& address, const StreamSource& source,
                                   const std::function<void(int, std::string_view)>& on_text,
                                   const std::function<bool()>& interrupted);

/// Asks a question of the API (GET with an empty body, else POST), which may be asked twice: it is
/// repeated for some seconds where a gateway is being started again. The document, or the refusal.
client::Answer<nlohmann::json> ask(const Address& address, const std::string& path,
                                   const std::string& body = {});

}  // namespace holdfast::remote
