// holdfast-gateway: HTTP in front, the SDK behind. Keeps nothing: it may be killed at any time.

#include <csignal>
#include <cstdio>
#include <thread>

#include "control/gateway/batch_runner.h"
#include "control/gateway/history.h"
#include "control/gateway/options.h"
#include "control/gateway/router.h"
#include "control/gateway/server.h"
#include "control/gateway/webhook_sender.h"
#include "shared/base/crash_point.h"
#include "shared/base/log.h"
#include "shared/base/version.h"
#include "shared/client/client.h"

namespace holdfast::gateway {
namespace {

constexpr std::chrono::milliseconds kMetricsWait{1'000};  // for a daemon that is down or stuck

int fail(const Error& error) {
  std::fprintf(stderr, "holdfast-gateway: %s\n", error.what.c_str());
  return error.code == Errc::kUsage ? 2 : 1;
}

void announce(const Options& options, const std::string& address) {
  const char* scheme = options.tls == nullptr ? "http" : "https";
  if (options.http_fd < 0) {
    std::printf("listening %s://%s\n", scheme, address.c_str());
    std::fflush(stdout);
  }
  log::info("gateway serves", {{scheme, address}, {"state", options.state}});
  if (options.cors.any()) {
    log::warn("--cors-origin *: every web page may read answers, without a key all of them");
  }
}

int run(int argc, char** argv) {
  int exit_code = -1;
  auto options = read_options(argc, argv, &exit_code);
  if (!options) return fail(options.error());
  if (exit_code >= 0) return exit_code;
  if (options->check) return 0;
  crash_point(CrashPoint::kGatewayStartBegin);

  // Signals are taken by sigwait in one thread; all others are born with them blocked.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::signal(SIGPIPE, SIG_IGN);

  // The handler is called only from run(), by when the context is there. The server outlives the
  // client: streams of the client hold connections, and those belong to the server.
  std::unique_ptr<Context> context;
  auto server = Server::listen(
      options->http_fd, options->http, options->limits,
      [&context](const ExchangePtr& exchange) { make_handler (*context)(exchange); }, options->tls);
  if (!server) return fail(server.error());
  client::Options client_options;
  client_options.timeout = options->daemon_wait;
  auto client =
      client::Client::connect("ipc://" + options->state + "/run/clients.sock", client_options);
  if (!client) return fail(client.error());
  auto operating =
      client::Client::connect("ipc://" + options->state + "/run/operator.sock", client_options);
  if (!operating) return fail(operating.error());
  client::Options metrics_options;
  metrics_options.timeout = kMetricsWait;
  auto metrics_client =
      client::Client::connect("ipc://" + options->state + "/run/operator.sock", metrics_options);
  if (!metrics_client) return fail(metrics_client.error());
  Keeper keeper(**operating);
  context.reset(new Context{**client, client::new_request_id, {}});
  context->operating = operating->get();
  context->keeper = &keeper;
  const std::string address = (*server)->address();
  const bool loopback = address.starts_with("127.") || address.starts_with("[::1]");
  context->access = std::make_shared<Access>(keeper, loopback);
  context->access->start();
  context->cors = options->cors;
  context->http = (*server)->stats();
  context->daemon_metrics = std::make_shared<DaemonMetrics>(**metrics_client);
  context->metrics_time = kMetricsWait;
  auto history = std::make_unique<History>(context->daemon_metrics);
  context->history = history.get();
  auto batches = std::make_unique<BatchRunner>(*context);
  context->batches = batches.get();
  auto webhooks = std::make_unique<WebhookSender>(*context);

  announce(*options, address);
  std::thread stopper([&signals, &server] {
    int signal = 0;
    sigwait(&signals, &signal);
    log::info("stopping", {{"signal", signal}});
    (*server)->stop();
  });
  (*server)->run(options->threads);
  stopper.join();
  webhooks.reset();
  batches.reset();
  history.reset();
  return 0;
}

}  // namespace
}  // namespace holdfast::gateway

int main(int argc, char** argv) {
  if (holdfast::printed_version(argc, argv, "holdfast-gateway")) return 0;
  holdfast::arm_crash_points("gateway");
  holdfast::log::init("holdfast-gateway", true);
  return holdfast::gateway::run(argc, argv);
}
