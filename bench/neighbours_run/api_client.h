#pragma once
// The two APIs: HTTP through the gateway with a key of each tenant, and the SDK on the daemon's own
// socket.

#include <memory>
#include <string>
#include <vector>

#include "bench/neighbours_run/http.h"
#include "bench/neighbours_run/served.h"

namespace holdfast::bench {

/// The requests that tenant a has in flight at once.
struct Crowding {
  int requests = 1;
  int prompts = 1;  // of each request
  int n = 1;        // choices of each prompt
};

/// Tenant a and tenant b at one API. All requests of a tenant are alike, so that their texts are.
class ApiClient {
 public:
  virtual ~ApiClient() = default;
  /// Runs one request of b to its end: the wait for its first token, in ms. kInternal where it
  /// fails or gives another text than before.
  virtual Result<double> wait_of_b() = 0;
  /// Runs one request of a to its end. From one thread at a time, also concurrently with
  /// wait_of_b().
  virtual Result<void> one_of_a() = 0;
  /// Sends these requests of a without waiting for them.
  virtual Result<void> begin(const Crowding& crowding) = 0;
  /// Waits for all of them. kInternal if one was lost or has a wrong answer.
  virtual Result<void> end() = 0;
};

std::unique_ptr<ApiClient> make_http_api_client(int port, const std::string& key_of_a,
                                                const std::string& key_of_b);
Result<std::unique_ptr<ApiClient>> make_sdk_api_client(const Served& served);

}  // namespace holdfast::bench
