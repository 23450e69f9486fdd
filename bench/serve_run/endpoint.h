#pragma once
// One request to an OpenAI-compatible endpoint on this machine, streamed and timed.

#include <cstdint>
#include <string>
#include <vector>

#include "shared/base/result.h"

namespace holdfast::bench {

/// A server: http://HOST:PORT of a loopback address, and a model's name as its /v1/models lists it.
struct Endpoint {
  std::string name;  // in tables
  int port = 0;
  std::string model;
  std::string key;  // sent as a bearer token; may be empty
};

/// Opens an endpoint with the first model that the server lists. kUsage: not such an address. kIo:
/// no server answers.
Result<Endpoint> open_endpoint(const std::string& name, const std::string& url,
                               const std::string& key);

/// An answer's times and counts.
struct Answered {
  double first_ms = 0;  // to the first text
  double total_ms = 0;
  std::vector<double> gap_ms;  // between texts
  std::int64_t tokens = 0;     // as the server counts them
  std::int64_t prompt_tokens = 0;
};

/// Requests a completion of the given ids, `max_tokens` long (end tokens ignored), on a connection
/// of its own. kIo with the server's answer if it was refused or broke off.
Result<Answered> complete(const Endpoint& endpoint, const std::vector<std::int32_t>& prompt,
                          std::int64_t max_tokens);

}  // namespace holdfast::bench
