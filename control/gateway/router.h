#pragma once
// The router: which function answers which request. One table (router.cpp), one file for each group
// of endpoints.

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "control/gateway/access.h"
#include "control/gateway/cors.h"
#include "control/gateway/daemon_metrics.h"
#include "control/gateway/exchange.h"
#include "control/gateway/http_stats.h"
#include "control/gateway/model_outputs.h"
#include "control/gateway/object_store.h"
#include "control/gateway/params.h"
#include "control/gateway/server.h"
#include "control/gateway/tenant_slots.h"
#include "control/gateway/webhook_stats.h"
#include "shared/client/client.h"

namespace holdfast::gateway {

class BatchRunner;
class Blame;
class History;

/// Everything that endpoints work with. Outlives every exchange; read-only after the start.
struct Context {
  client::Client& client;
  std::function<std::string()> new_request_id;
  ParamLimits params;
  std::size_t hold_bytes = 256 * 1024;          // unsent bytes at which a stream is held
  std::size_t resume_bytes = 64 * 1024;         // and at which it is resumed
  std::chrono::milliseconds ready_time{2'000};  // limit for the daemon's answer to /health/ready
  std::chrono::milliseconds live_time{2'000};   // silence of the daemon, then /health/live fails
  std::shared_ptr<ModelOutputs> outputs = std::make_shared<ModelOutputs>();
  client::Client* operating = nullptr;       // at the gateway's endpoint of the daemon
  ObjectStore* object_store = nullptr;       // files, batches, responses
  BatchRunner* batches = nullptr;            // works on batches in this process
  std::shared_ptr<Access> access = nullptr;  // null: no key is needed
  Cors cors = {};                            // pages of other origins that may read answers
  std::shared_ptr<HttpStats> http = std::make_shared<HttpStats>();  // of the server
  std::shared_ptr<DaemonMetrics> daemon_metrics =
      nullptr;                                    // nullptr: only the gateway's own metrics
  std::chrono::milliseconds metrics_time{1'000};  // limit for the daemon's answer to /metrics
  std::chrono::milliseconds console_time{3'000};  // limit for its answer to the console
  History* history = nullptr;                     // the console's plots
  std::shared_ptr<WebhookStats> webhooks = std::make_shared<WebhookStats>();
  Blame* blame = nullptr;  // of what is resumed after deaths; null: nothing is blamed
  // Long texts that are tokenized at once.
  std::shared_ptr<TenantSlots> token_turns = std::make_shared<TenantSlots>(2);
  // Open WebSockets. A handshake never waits for a slot.
  std::shared_ptr<TenantSlots> sockets = std::make_shared<TenantSlots>(512, 1);
  std::chrono::milliseconds socket_time{3'600'000};  // longest life of one
  // Bytes of responses that all WebSockets remember.
  std::shared_ptr<std::atomic<std::size_t>> remembered_bytes =
      std::make_shared<std::atomic<std::size_t>>(0);
  // Chunks of files that are stored at once. Each upload may wait: the number of uploads is
  // bounded.
  std::shared_ptr<TenantSlots> upload_chunk_slots = std::make_shared<TenantSlots>(2, SIZE_MAX);
};

/// The parts of the path that matched {…} in the route, percent-decoded.
using Captures = std::vector<std::string>;
using Endpoint = void (*)(Context&, ExchangePtr, const Captures&);

/// One row of the router's table.
struct Route {
  std::string_view method;
  std::string_view pattern;  // "/v1/requests/{}/stream"; a last {*} takes the rest with its slashes
  Endpoint endpoint;
};

/// Returns every route.
std::span<const Route> routes();

/// Returns nullopt if the path does not match the pattern (or is badly encoded).
std::optional<Captures> match_path(std::string_view pattern, std::string_view path);

/// Returns the whole gateway as a server's handler. It answers 404 and 405 (with Allow) itself;
/// HEAD counts as GET.
Server::Handler make_handler(Context& context);

/// Returns the gate that decides who is let in before the body of a request is read: callers with a
/// valid key, and everybody where no key is needed. `context` must be set when the server runs.
Gate make_gate(Context* const& context);

}  // namespace holdfast::gateway
