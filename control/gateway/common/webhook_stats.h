#pragma once
// Counters of this gateway's webhooks. Written by its senders, read by /metrics.

#include <atomic>
#include <cstdint>

namespace holdfast::gateway {

/// The counters, since the gateway started. Any thread may read and add.
struct WebhookStats {
  std::atomic<std::uint64_t> delivered{0};
  std::atomic<std::uint64_t> tries_failed{0};  // that are tried again
  std::atomic<std::uint64_t> given_up{0};
  std::atomic<std::int64_t> waiting{0};  // in the database, as they were last listed
};

}  // namespace holdfast::gateway
