// holdfast-gateway: an HTTP server in front of the daemon, which it reaches through the SDK. It
// stores nothing itself, so it may be killed at any time.

#include <sys/stat.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <ctime>
#include <nlohmann/json.hpp>
#include <thread>

#include "control/gateway/common/blame.h"
#include "control/gateway/console_api/history.h"
#include "control/gateway/dialects.h"
#include "control/gateway/http/memory_bound.h"
#include "control/gateway/http/options.h"
#include "control/gateway/http/server.h"
#include "control/gateway/objects/batch_runner.h"
#include "control/gateway/ollama/blob_link.h"
#include "control/gateway/router.h"
#include "control/gateway/webhooks/webhook_sender.h"
#include "shared/base/crash_point.h"
#include "shared/base/exit_status.h"
#include "shared/base/json_text.h"
#include "shared/base/log.h"
#include "shared/base/standard_files.h"
#include "shared/base/version.h"
#include "shared/client/client.h"
#include "shared/client/key_watch.h"
#include "shared/pull/blob.h"
#include "shared/sandbox/report.h"
#include "shared/sandbox/rights.h"

namespace holdfast::gateway {
namespace {

constexpr std::int64_t kReservedFiles = 96;  // links to the daemon, threads, the log
constexpr std::int64_t kConnectionsLeast = 16;
constexpr std::chrono::milliseconds kMetricsWait{1'000};  // while the daemon is down or stuck
constexpr timespec kLookAtKey{0, 100'000'000};

int fail(const Error& error) {
  std::fprintf(stderr, "holdfast-gateway: %s\n", error.what.c_str());
  return error.code == Errc::kUsage ? 2 : 1;
}

void announce(const Options& options, const std::string& address) {
  const char* scheme = options.tls == nullptr ? "http" : "https";
  if (options.http_fds.empty()) {
    std::printf("listening %s://%s\n", scheme, address.c_str());
    std::fflush(stdout);
  }
  log::info("gateway serves", {{scheme, address},
                               {"state", options.state},
                               {"daemon", options.join.empty() ? "here" : options.join}});
  if (options.cors.any()) {
    log::warn("--cors-origin *: every web page may read answers, without a key all of them");
  }
}

/// Bounds connections by the files that this process may open: connections beyond the bound are
/// refused with an answer, where a failed accept would leave them waiting.
Result<void> bound_connections(ServerLimits& limits) {
  const std::int64_t files =
      raise_open_files(limits.connections + limits.strangers + kReservedFiles);
  const std::int64_t available = files - kReservedFiles;
  if (available >= limits.connections + limits.strangers) return {};
  if (available < kConnectionsLeast) {
    return Error{Errc::kUsage, "this process may open " + std::to_string(files) +
                                   " files at once, expected at least " +
                                   std::to_string(kReservedFiles + kConnectionsLeast) +
                                   ": ulimit -n 16384"};
  }
  limits.strangers = static_cast<int>(std::min<std::int64_t>(limits.strangers, available / 4));
  limits.connections = static_cast<int>(available - limits.strangers);
  log::warn("few files may be open at once: fewer connections, expected ulimit -n 16384",
            {{"files", files}, {"connections", limits.connections}});
  return {};
}

/// Makes the directory of this gateway's notes where no daemon does. Without it gateways serve too,
/// and their deaths are blamed on nothing.
void make_notes_folder(const Options& options) {
  if (options.join.empty()) return;
  mkdir(options.state.c_str(), 0700);
  mkdir((options.state + "/run").c_str(), 0700);
}

/// Enters the sandbox. The listener exists already; threads do not yet.
void confine(const Options& options) {
  const std::string run = options.state + "/run";
  sandbox::confine_and_report(sandbox::gateway_policy(options.tls_files, run + "/touched"), run);
}

/// Connections to the daemon. There is one each for clients' requests, their objects, the keys, the
/// metrics, and the work without a waiting client, so that what breaks one leaves the others alone.
struct Links {
  std::unique_ptr<client::Client> requests, objects, keys, metrics, work, work_objects;
};

/// The daemon's addresses: for requests, and for what gateways ask beside them. On another machine
/// its listener is both.
struct DaemonAddresses {
  std::string requests, verbs;
  client::Options options;  // with the key
};

DaemonAddresses addresses_of(const Options& options) {
  if (!options.join.empty()) {
    return {options.join, options.join, client::options_with_key(options.key)};
  }
  const std::string run = "ipc://" + options.state + "/run/";
  return {run + "clients.sock", run + "gateway.sock", {}};
}

Result<Links> open_links(const Options& options) {
  const DaemonAddresses daemon = addresses_of(options);
  client::Options patient = daemon.options;
  patient.timeout = options.daemon_wait;
  patient.watch_daemon = true;
  client::Options quick = daemon.options;
  quick.timeout = kMetricsWait;
  Links links;
  HOLDFAST_TRY(links.requests, client::Client::connect(daemon.requests, patient));
  HOLDFAST_TRY(links.objects, client::Client::connect(daemon.verbs, patient));
  HOLDFAST_TRY(links.keys, client::Client::connect(daemon.verbs, patient));
  HOLDFAST_TRY(links.metrics, client::Client::connect(daemon.verbs, quick));
  HOLDFAST_TRY(links.work, client::Client::connect(daemon.requests, patient));
  HOLDFAST_TRY(links.work_objects, client::Client::connect(daemon.verbs, patient));
  return links;
}

/// The watch of a daemon on another machine; null where it is on this one.
Result<std::unique_ptr<client::KeyWatch>> watch_key(const Options& options) {
  if (options.join.empty()) return std::unique_ptr<client::KeyWatch>();
  return client::KeyWatch::start(options.join, options.key);
}

/// Blocks the signals for all threads; one thread takes them by sigwait.
sigset_t block_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  return signals;
}

/// The contexts of the endpoints (serving) and of batches and webhooks (working).
struct Contexts {
  Contexts(const Links& links, const Options& options, Server& server,
           std::shared_ptr<PeerUsers> users)
      : objects(*links.objects),
        keys(*links.keys),
        work_objects(*links.work_objects),
        blame(work_objects, options.state + "/run/touched"),
        serving{*links.requests, client::new_request_id, {}},
        working{*links.work, client::new_request_id, {}} {
    serving.forms = working.forms = &answer_forms();
    serving.params.body_bytes = options.limits.parse.body_bytes;
    serving.operating = links.objects.get();
    serving.object_store = &objects;
    const auto addresses = server.addresses();
    const bool loopback = std::ranges::all_of(addresses, [](const std::string& address) {
      return address.starts_with("127.") || address.starts_with("[::1]");
    });
    serving.access = std::make_shared<Access>(keys, loopback, std::move(users));
    serving.access->start();
    serving.cors = options.cors;
    serving.http = server.stats();
    serving.daemon_metrics = std::make_shared<DaemonMetrics>(*links.metrics);
    serving.metrics_time = kMetricsWait;
    serving.token_turns = std::make_shared<TenantSlots>(std::max(options.threads, 2));
    working.params = serving.params;
    working.operating = links.work_objects.get();
    working.object_store = &work_objects;
    working.webhooks = serving.webhooks;
    working.blame = &blame;
  }

  ObjectStore objects, keys, work_objects;
  Blame blame;
  Context serving, working;
};

/// Returns the configured time for running answers; `otherwise` without a daemon.
std::chrono::milliseconds drain_time(client::Client& daemon, std::chrono::milliseconds otherwise) {
  const auto answer =
      daemon.op(client::AllTenants::local(), "config.get", R"({"name":"drain.limit_ms"})");
  const auto* text = std::get_if<std::string>(&answer);
  const auto knob = text == nullptr ? nlohmann::json() : try_parse_json<nlohmann::json>(*text);
  if (!knob.is_object() || !knob.contains("effective") || !knob["effective"].is_number_integer()) {
    return otherwise;
  }
  return std::chrono::milliseconds(knob["effective"].get<std::int64_t>());
}

/// Waits for a signal, or until the daemon elsewhere refuses the key. Returns the exit status.
int wait_for_end(const sigset_t& signals, const client::KeyWatch* watch) {
  for (;;) {
    const int signal = watch == nullptr ? sigwaitinfo(&signals, nullptr)
                                        : sigtimedwait(&signals, nullptr, &kLookAtKey);
    if (signal > 0) {
      log::info("stopping", {{"signal", signal}});
      return 0;
    }
    if (watch == nullptr) continue;
    const client::KeyWatch::State state = watch->state();
    if (state.phase != client::KeyWatch::Phase::kRefused) continue;
    log::error("the daemon does not accept this gateway's key", {{"why", state.why}});
    return exit_status::kKeyRefused;
  }
}

int serve(const Options& options, const sigset_t& signals) {
  // The handler runs only within run(), when the contexts exist. They and the server outlive the
  // clients, whose streams hold connections, which belong to the server.
  std::unique_ptr<Contexts> contexts;
  Context* serving = nullptr;  // in `contexts`, once they exist
  ProbeAnswer probe;
  auto server = Server::listen(
      options.http_fds.empty() ? -1 : options.http_fds.front(), options.http, options.limits,
      [&contexts](const ExchangePtr& exchange) { make_handler(contexts->serving)(exchange); },
      options.tls, make_gate(serving));
  if (!server) return fail(server.error());
  for (std::size_t i = 1; i < options.http_fds.size(); ++i) {
    if (const auto taken = (*server)->take(options.http_fds[i]); !taken) return fail(taken.error());
  }
  auto users = std::make_shared<PeerUsers>();  // opens its socket before the sandbox forbids it
  make_notes_folder(options);
  confine(options);
  auto links = open_links(options);
  if (!links) return fail(links.error());
  auto watch = watch_key(options);
  if (!watch) return fail(watch.error());
  contexts = std::make_unique<Contexts>(*links, options, **server, std::move(users));
  serving = &contexts->serving;
  // Its calls hold connections, which belong to the server.
  BlobLink blobs(options.state + "/run/" + pull::kBlobSocket);
  if (options.join.empty()) serving->blobs = &blobs;  // the store is on the daemon's machine
  auto history = std::make_unique<History>(contexts->serving.daemon_metrics);
  contexts->serving.history = history.get();
  auto batches = std::make_unique<BatchRunner>(contexts->working);
  contexts->serving.batches = batches.get();
  auto webhooks = std::make_unique<WebhookSender>(contexts->working);

  (*server)->answer_probes(probe);
  announce(options, (*server)->address());
  int status = 0;
  std::thread stopper([&] {
    status = wait_for_end(signals, watch->get());
    (*server)->stop(status == exit_status::kKeyRefused
                        ? std::chrono::milliseconds(0)
                        : drain_time(*links->metrics, options.limits.drain_time));
  });
  (*server)->run(options.threads);
  stopper.join();
  webhooks.reset();
  batches.reset();
  history.reset();
  return status;
}

int run(int argc, char** argv) {
  int exit_code = -1;
  auto options = read_options(argc, argv, &exit_code);
  if (!options) return fail(options.error());
  if (exit_code >= 0) return exit_code;
  if (options->check) return 0;
  if (const auto bound = bound_connections(options->limits); !bound) return fail(bound.error());
  crash_point(CrashPoint::kGatewayStartBegin);
  if (const auto bound = bound_memory(options->memory_bytes); !bound) return fail(bound.error());
  return serve(*options, block_signals());
}

}  // namespace
}  // namespace holdfast::gateway

int main(int argc, char** argv) {
  holdfast::open_standard_files();
  if (holdfast::printed_version(argc, argv, "holdfast-gateway")) return 0;
  holdfast::arm_crash_points("gateway");
  holdfast::log::init("holdfast-gateway", true);
  return holdfast::gateway::run(argc, argv);
}
