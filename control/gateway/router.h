#pragma once
// Which function answers which request. One table (router.cpp), one file for each group of
// endpoints.

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
#include "control/gateway/keeper.h"
#include "control/gateway/model_outputs.h"
#include "control/gateway/params.h"
#include "control/gateway/server.h"
#include "control/gateway/tenant_slots.h"
#include "control/gateway/webhook_stats.h"
#include "shared/client/client.h"

namespace holdfast::gateway {

class BatchRunner;
class Blame;
class History;

/// What endpoints work with. Outlives every exchange; read-only after the start.
struct Context {
  client::Client& client;
  std::function<std::string()> new_request_id;
  ParamLimits params;
  std::size_t hold_bytes = 256 * 1024;          // unsent bytes at which a stream is held
  std::size_t resume_bytes = 64 * 1024;         // and at which it goes on
  std::chrono::milliseconds ready_time{2'000};  // for the daemon to answer /health/ready
  std::chrono::milliseconds live_time{2'000};  // of the daemon's silence, then /health/live says so
  std::shared_ptr<ModelOutputs> outputs = std::make_shared<ModelOutputs>();
  client::Client* operating = nullptr;       // at the gateway endpoint
  Keeper* keeper = nullptr;                  // of files and batches
  BatchRunner* batches = nullptr;            // who works on them here
  std::shared_ptr<Access> access = nullptr;  // null: nobody is asked for a key
  Cors cors = {};                            // which pages of other places may read answers
  std::shared_ptr<HttpStats> http = std::make_shared<HttpStats>();  // the server's
  std::shared_ptr<DaemonMetrics> daemon_metrics =
      nullptr;                                    // nullptr: only the gateway's own are there
  std::chrono::milliseconds metrics_time{1'000};  // for the daemon to answer /metrics
  std::chrono::milliseconds console_time{3'000};  // for the daemon to answer the console
  History* history = nullptr;                     // the console's plots
  std::shared_ptr<WebhookStats> webhooks = std::make_shared<WebhookStats>();
  Blame* blame = nullptr;  // for deaths over what is taken up again; null: nothing is blamed
  // Long texts whose tokens are asked for, at once.
  std::shared_ptr<TenantSlots> token_turns = std::make_shared<TenantSlots>(2);
  // WebSockets, at once. Nobody waits for one.
  std::shared_ptr<TenantSlots> sockets = std::make_shared<TenantSlots>(512, 1);
  std::chrono::milliseconds socket_time{3'600'000};  // of one of them
  // What all of them remember of their responses.
  std::shared_ptr<std::atomic<std::size_t>> remembered_bytes =
      std::make_shared<std::atomic<std::size_t>>(0);
  // Pieces of files on their way into the database, at once. Uploads are few: each may wait.
  std::shared_ptr<TenantSlots> piece_turns = std::make_shared<TenantSlots>(2, SIZE_MAX);
};

/// The parts of the path that stood for {…} in the route, percent-decoded.
using Captures = std::vector<std::string>;
using Endpoint = void (*)(Context&, ExchangePtr, const Captures&);

struct Route {
  std::string_view method;
  std::string_view pattern;  // "/v1/requests/{}/stream"; a last {*} takes the rest with its slashes
  Endpoint endpoint;
};

/// Every route there is.
std::span<const Route> routes();

/// nullopt if the path does not fit the pattern (or is badly encoded).
std::optional<Captures> match_path(std::string_view pattern, std::string_view path);

/// The whole gateway as a server's handler. 404 and 405 (with Allow) are answered here; HEAD is
/// GET.
Server::Handler make_handler(Context& context);

/// Decides who is let in before the body of a request is read: whoever shows a good key, and
/// everybody where none is asked for. `context` is there by when the server runs.
Gate make_gate(Context* const& context);

}  // namespace holdfast::gateway
