#pragma once
// Tells targets what ended. Every gateway has one; a lease on each delivery keeps them apart, and a
// delivery whose sender died is sent again when that is over.

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "control/gateway/router.h"
#include "control/gateway/webhooks.h"

namespace holdfast::gateway {

struct WebhookSenderOptions {
  int threads = 2;                          // deliveries at once
  std::int64_t look_ms = 1'000;             // for new ones
  std::int64_t look_at_all_ms = 5'000;      // for those that are due again
  std::int64_t lease_ms = 10'000;           // longer than a try takes
  std::int64_t keep_done_ms = 604'800'000;  // what ended, for `webhooks deliveries`
};

class WebhookSender {
 public:
  /// `context` must outlive it. Begins at once.
  explicit WebhookSender(Context& context, WebhookSenderOptions options = {});
  /// Stops after the tries that are being made.
  ~WebhookSender();
  WebhookSender(const WebhookSender&) = delete;

 private:
  void run(int number);
  bool wait();
  bool stopping();
  void watch_responses();
  void look_at(const Kept& watch);
  void deliver_due(bool all);
  void deliver(const Kept& due, const std::vector<WebhookTarget>& targets);
  bool put_due(const Kept& due, const nlohmann::ordered_json& body);
  void end(const Kept& due, nlohmann::ordered_json body, const char* state);

  Context& context_;
  const WebhookSenderOptions options_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

/// When the try after the `attempts`th failed one is due; nullopt: it is given up.
std::optional<std::int64_t> webhook_pause_ms(std::int64_t attempts);

}  // namespace holdfast::gateway
