#pragma once
// Asks the daemon for its metrics, once for all callers that want them at the same time: however
// many scrape, the daemon has one question at a time.

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "shared/client/client.h"

namespace holdfast::gateway {

/// Shares one question among its callers. Thread-safe. `client` must be connected to the operator
/// endpoint; its time limit bounds every wait here.
class DaemonMetrics : public std::enable_shared_from_this<DaemonMetrics> {
 public:
  explicit DaemonMetrics(client::Client& client) : client_(client) {}

  using Document = std::shared_ptr<const std::string>;  // nullptr: the daemon did not answer
  /// Calls `done` on a thread of the client, where it must return quickly.
  void ask(std::function<void(Document)> done);

 private:
  void answer(const client::Answer<std::string>& answer);

  client::Client& client_;
  std::mutex mutex_;
  std::vector<std::function<void(Document)>> waiting_;
};

}  // namespace holdfast::gateway
