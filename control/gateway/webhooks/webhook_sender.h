#pragma once
// Sends webhooks. Every gateway has a sender; a lease on each delivery keeps them apart, and a
// delivery whose sender died is sent again when its lease is over.

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "control/gateway/common/context.h"
#include "control/gateway/common/webhooks.h"
#include "control/gateway/webhooks/webhook_post.h"

namespace holdfast::gateway {

/// Bounds and times of one gateway's deliveries.
struct WebhookSenderOptions {
  int threads = 2;                         // deliveries at once
  std::int64_t look_ms = 1'000;            // interval of looking for new ones
  std::int64_t look_at_all_ms = 5'000;     // interval of looking for all that are due again
  std::int64_t lease_ms = 10'000;          // longer than an attempt takes
  std::int64_t done_ttl_ms = 604'800'000;  // of ended deliveries, for `webhooks deliveries`
};

/// Threads that deliver what is due.
class WebhookSender {
 public:
  /// Starts at once. `context` must outlive it.
  explicit WebhookSender(Context& context, WebhookSenderOptions options = {});
  /// Stops after the attempts that are being made.
  ~WebhookSender();
  WebhookSender(const WebhookSender&) = delete;

 private:
  void run(int number);
  bool wait();
  bool stopping();
  void watch_responses();
  void look_at(const StoredObject& watch);
  void watch_pulls();
  void look_at_pull(const StoredObject& row);
  void deliver_due(bool all);
  void deliver(const StoredObject& due, const std::vector<WebhookTarget>& targets);
  bool put_due(const StoredObject& due, const nlohmann::ordered_json& body);
  void note_answer(const StoredObject& leased, nlohmann::ordered_json body,
                   const WebhookAnswer& answer);
  void end(const StoredObject& due, nlohmann::ordered_json body, const char* state);

  Context& context_;
  const WebhookSenderOptions options_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

/// Returns the pause after the `attempts`th failed attempt; nullopt: no more follow.
std::optional<std::int64_t> webhook_pause_ms(std::int64_t attempts);

}  // namespace holdfast::gateway
