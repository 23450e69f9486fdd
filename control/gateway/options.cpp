#include "control/gateway/options.h"

#include <CLI/CLI.hpp>
#include <cstdlib>

#include "control/gateway/tls.h"

namespace holdfast::gateway {

namespace {

void add_memory(CLI::App& app, Options* options) {
  app.add_option("--memory-bytes", options->memory_bytes,
                 "memory of the process; 0: 256 MiB and room for the uploads")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 40));
}

/// What stands on the command line and means more than a number.
struct Texts {
  std::vector<std::string> cors_origins;
  std::string tls_cert, tls_key;
};

void add_texts(CLI::App& app, Texts* texts) {
  app.add_option("--cors-origin", texts->cors_origins,
                 "a web page's origin that may read answers (https://app.example), or * for every "
                 "page; may be repeated")
      ->allow_extra_args(false);
  app.add_option("--tls-cert", texts->tls_cert, "serve HTTPS with this certificate chain (PEM)");
  app.add_option("--tls-key", texts->tls_key, "its key (PEM)");
}

Result<void> read_texts(const Texts& texts, Options* options) {
  HF_TRY(options->cors, Cors::allow(texts.cors_origins));
  if (texts.tls_cert.empty() != texts.tls_key.empty()) {
    return Error{Errc::kUsage, "--tls-cert and --tls-key go together"};
  }
  if (texts.tls_cert.empty()) return {};
  HF_TRY(options->tls, TlsIdentity::load(texts.tls_cert, texts.tls_key));
  options->tls_files = {texts.tls_cert, texts.tls_key};
  return {};
}

}  // namespace

std::int64_t memory_for(const ServerLimits& limits) {
  constexpr std::int64_t kRest = 256 << 20;
  return kRest + 2 * limits.uploads * static_cast<std::int64_t>(limits.parse.upload_bytes);
}

Result<Options> read_options(int argc, char** argv, int* exit_code) {
  *exit_code = -1;
  Options options;
  const char* state = std::getenv("HOLDFAST_STATE");
  options.state = state != nullptr && *state != '\0' ? state : "./holdfast-state";
  if (const char* fd = std::getenv("HOLDFAST_HTTP_FD")) {
    char* end = nullptr;
    const long value = std::strtol(fd, &end, 10);
    if (end == fd || *end != '\0' || value < 0 || value > 1'000'000) {
      return Error{Errc::kUsage, "HOLDFAST_HTTP_FD=" + std::string(fd) + ": not a descriptor"};
    }
    options.http_fd = static_cast<int>(value);
  }
  ServerLimits& limits = options.limits;
  std::int64_t header_ms = limits.header_time.count();
  std::int64_t body_ms = limits.body_time.count();
  std::int64_t idle_ms = limits.idle_time.count();
  std::int64_t stall_ms = limits.stall_time.count();
  std::int64_t drain_ms = limits.drain_time.count();
  std::int64_t wait_ms = options.daemon_wait.count();
  CLI::App app{"The HTTP front of Holdfast: OpenAI's API over the daemon of --state."};
  const CLI::Range milliseconds(std::int64_t{1}, std::int64_t{86'400'000});
  app.add_option("--state", options.state, "state directory")->capture_default_str();
  app.add_option("--http", options.http, "address to listen on, HOST:PORT (port 0 picks one)")
      ->capture_default_str();
  app.add_option("--threads", options.threads, "threads that serve")->check(CLI::Range(1, 64));
  app.add_option("--header-bytes", limits.parse.header_bytes, "longest request head")
      ->check(CLI::Range(256, 1 << 20));
  app.add_option("--body-bytes", limits.parse.body_bytes, "longest request body")
      ->check(CLI::Range(0, 1 << 30));
  app.add_option("--upload-bytes", limits.parse.upload_bytes, "largest file of POST /v1/files")
      ->check(CLI::Range(1, 1 << 30));
  app.add_option("--uploads", limits.uploads, "files taken at once, each is held in memory")
      ->check(CLI::Range(1, 1'000));
  add_memory(app, &options);
  app.add_option("--connections", limits.connections, "connections at once")
      ->check(CLI::Range(1, 1'000'000));
  app.add_option("--connections-per-address", limits.connections_per_address,
                 "connections of one address (0: no limit, e.g. behind a proxy)")
      ->check(CLI::Range(0, 1'000'000));
  app.add_option("--header-ms", header_ms, "time for a request's head")->check(milliseconds);
  app.add_option("--body-ms", body_ms, "time for a request's body")->check(milliseconds);
  app.add_option("--idle-ms", idle_ms, "idle time of a connection")->check(milliseconds);
  app.add_option("--stall-ms", stall_ms, "a client that takes no byte for so long is cut off")
      ->check(milliseconds);
  app.add_option("--drain-ms", drain_ms, "time for running answers at SIGTERM")
      ->check(milliseconds);
  app.add_option("--daemon-wait-ms", wait_ms, "wait for a daemon that is down, then 503")
      ->check(milliseconds);
  Texts texts;
  add_texts(app, &texts);
  app.add_flag("--check", options.check, "say what is wrong with the options, and end");
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp& help) {
    *exit_code = app.exit(help);
    return options;
  } catch (const CLI::ParseError& e) {
    return Error{Errc::kUsage, std::string(e.what()) + " (see --help)"};
  }
  limits.header_time = std::chrono::milliseconds(header_ms);
  limits.body_time = std::chrono::milliseconds(body_ms);
  limits.idle_time = std::chrono::milliseconds(idle_ms);
  limits.stall_time = std::chrono::milliseconds(stall_ms);
  limits.drain_time = std::chrono::milliseconds(drain_ms);
  options.daemon_wait = std::chrono::milliseconds(wait_ms);
  if (options.memory_bytes == 0) options.memory_bytes = memory_for(limits);
  HF_CHECKED(read_texts(texts, &options));
  return options;
}

}  // namespace holdfast::gateway
