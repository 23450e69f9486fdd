#pragma once
// The context of every endpoint: the links to the daemon, the stores, and the limits of the
// gateway.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "control/gateway/common/access.h"
#include "control/gateway/common/daemon_metrics.h"
#include "control/gateway/common/model_outputs.h"
#include "control/gateway/common/object_store.h"
#include "control/gateway/common/params.h"
#include "control/gateway/common/webhook_stats.h"
#include "control/gateway/http/cors.h"
#include "control/gateway/http/exchange.h"
#include "control/gateway/http/http_stats.h"
#include "control/gateway/http/tenant_slots.h"
#include "shared/client/client.h"

namespace holdfast::gateway {

class AnswerForms;
class BatchRunner;
class Blame;
class BlobLink;
class History;

/// Everything that endpoints work with. Outlives every exchange; read-only after the start.
struct Context {
  client::Client& client;
  std::function<std::string()> new_request_id;
  ParamLimits params;
  const AnswerForms* forms = nullptr;           // how each API shows an answer; never null
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
  BlobLink* blobs = nullptr;  // files of models that are sent here; null: none are taken
  Blame* blame = nullptr;     // of what is resumed after deaths; null: nothing is blamed
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
using Endpoint = void (*)(Context&, const ExchangePtr&, const Captures&);

}  // namespace holdfast::gateway
