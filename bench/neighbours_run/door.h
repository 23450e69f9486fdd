#pragma once
// The two ways in: HTTP through the gateway with a key of each tenant, and the SDK on the daemon's
// own socket.

#include <memory>
#include <string>
#include <vector>

#include "bench/neighbours_run/http.h"
#include "bench/neighbours_run/served.h"

namespace holdfast::bench {

/// What tenant a has in the house at once.
struct Crowding {
  int requests = 1;
  int prompts = 1;  // of each
  int n = 1;        // choices of each prompt
};

/// Tenant a and tenant b at one door. All requests of a tenant are alike, so that their texts are.
class Door {
 public:
  virtual ~Door() = default;
  /// One request of b, to its end: the wait for its first token, in ms. kInternal where it fails or
  /// says something else than before.
  virtual Result<double> wait_of_b() = 0;
  /// One request of a, to its end. From one thread at a time, also beside wait_of_b().
  virtual Result<void> one_of_a() = 0;
  /// Sends this of a and does not wait for it.
  virtual Result<void> begin(const Crowding& crowding) = 0;
  /// Waits for all of it. kInternal if something was lost or is not as it should be.
  virtual Result<void> end() = 0;
};

std::unique_ptr<Door> http_door(int port, const std::string& key_of_a, const std::string& key_of_b);
Result<std::unique_ptr<Door>> sdk_door(const Served& served);

}  // namespace holdfast::bench
