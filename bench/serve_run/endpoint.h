#pragma once
// One request to an OpenAI-compatible endpoint on this machine, streamed and timed.

#include <cstdint>
#include <string>
#include <vector>

#include "shared/base/result.h"

namespace holdfast::bench {

/// http://HOST:PORT of a loopback address; a model's name as its /v1/models says it.
struct Endpoint {
  std::string name;  // in tables
  int port = 0;
  std::string model;
  std::string key;  // sent as a bearer token; may be empty
};

/// kUsage: not such an address. kIo: nobody answers. Takes the first model that is listed.
Result<Endpoint> open_endpoint(const std::string& name, const std::string& url,
                               const std::string& key);

struct Answered {
  double first_ms = 0;  // to the first text
  double total_ms = 0;
  std::vector<double> gap_ms;  // between texts
  std::int64_t tokens = 0;     // as the server counts them
  std::int64_t prompt_tokens = 0;
};

/// A completion of the given ids, `max_tokens` long (end tokens ignored), on a connection of its
/// own. kIo with the server's answer if it was refused or broke off.
Result<Answered> complete(const Endpoint& endpoint, const std::vector<std::int32_t>& prompt,
                          std::int64_t max_tokens);

}  // namespace holdfast::bench
