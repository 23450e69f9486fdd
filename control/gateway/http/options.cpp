#include "control/gateway/http/options.h"

#include <CLI/CLI.hpp>
#include <cstdlib>

#include "control/gateway/http/tls.h"
#include "shared/base/state_dir.h"

namespace holdfast::gateway {

namespace {

void add_memory(CLI::App& app, Options* options) {
  app.add_option("--memory-bytes", options->memory_bytes,
                 "memory of the process; 0: 256 MiB and room for the uploads")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 40));
}

/// Texts of the command line that need reading.
struct Texts {
  std::vector<std::string> cors_origins;
  std::string tls_cert, tls_key;
  std::string peer_key;
};

void add_texts(CLI::App& app, Texts* texts) {
  app.add_option("--cors-origin", texts->cors_origins,
                 "a web page's origin that may read answers (https://app.example), or * for every "
                 "page; may be repeated")
      ->allow_extra_args(false);
  app.add_option("--tls-cert", texts->tls_cert, "serve HTTPS with this certificate chain (PEM)");
  app.add_option("--tls-key", texts->tls_key, "its key (PEM)");
}

void add_join(CLI::App& app, Options& options, Texts* texts) {
  app.add_option("--join", options.join,
                 "tcp://HOST:PORT of a daemon on another machine (serve --listen)");
  app.add_option("--key", texts->peer_key, "its key file, of `holdfast keys gateway create`");
}

void add_sizes(CLI::App& app, ServerLimits& limits) {
  app.add_option("--header-bytes", limits.parse.header_bytes, "longest request head")
      ->check(CLI::Range(256, 1 << 20));
  app.add_option("--body-bytes", limits.parse.body_bytes, "longest request body")
      ->check(CLI::Range(0, 1 << 30));
  app.add_option("--upload-bytes", limits.parse.upload_bytes, "largest file of POST /v1/files")
      ->check(CLI::Range(1, 1 << 30));
  app.add_option("--blob-bytes", limits.parse.blob_bytes,
                 "largest file of POST /api/blobs, which goes on to the disk while it comes")
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1} << 44));
  app.add_option("--uploads", limits.uploads,
                 "files taken at once, each is held in memory; a tenant has half of them at most")
      ->check(CLI::Range(1, 1'000));
}

void add_connections(CLI::App& app, ServerLimits& limits) {
  app.add_option("--connections", limits.connections, "connections at once, beside strangers")
      ->check(CLI::Range(1, 1'000'000));
  app.add_option("--connections-per-address", limits.connections_per_address,
                 "connections of one address, of IPv6 a network of 64 bits (0: no limit, e.g. "
                 "behind a proxy)")
      ->check(CLI::Range(0, 1'000'000));
  app.add_option("--connections-per-tenant", limits.connections_per_tenant,
                 "connections that have shown keys of one tenant (0: no limit)")
      ->check(CLI::Range(0, 1'000'000));
  app.add_option("--strangers", limits.strangers,
                 "connections that have shown no key, where one is asked for")
      ->check(CLI::Range(1, 1'000'000));
}

void add_times(CLI::App& app, Options& options) {
  const auto add = [&app](const char* flag, std::chrono::milliseconds& time, const char* text) {
    app.add_option_function<std::int64_t>(
           flag, [&time](const std::int64_t& ms) { time = std::chrono::milliseconds(ms); }, text)
        ->check(CLI::Range(std::int64_t{1}, std::int64_t{86'400'000}));
  };
  ServerLimits& limits = options.limits;
  add("--header-ms", limits.header_time, "time for a request's head");
  add("--stranger-header-ms", limits.stranger_header_time, "the same without a key");
  add("--body-ms", limits.body_time, "time for a request's body");
  add("--idle-ms", limits.idle_time, "idle time of a connection");
  add("--stranger-idle-ms", limits.stranger_idle_time, "the same without a key");
  add("--upload-wait-ms", limits.upload_wait, "wait for room for a file, then 503");
  add("--stall-ms", limits.stall_time, "a client that takes no byte for so long is cut off");
  add("--drain-ms", limits.drain_time,
      "time for running answers at SIGTERM, where the daemon does not say its own");
  add("--daemon-wait-ms", options.daemon_wait, "wait for a daemon that is down, then 503");
}

Result<void> read_texts(const Texts& texts, Options* options) {
  HOLDFAST_TRY(options->cors, Cors::allow(texts.cors_origins));
  if (texts.tls_cert.empty() != texts.tls_key.empty()) {
    return Error{Errc::kUsage, "--tls-cert and --tls-key go together"};
  }
  if (texts.tls_cert.empty()) return {};
  HOLDFAST_TRY(options->tls, TlsIdentity::load(texts.tls_cert, texts.tls_key));
  options->tls_files = {texts.tls_cert, texts.tls_key};
  return {};
}

/// Reads the key for a daemon on another machine.
Result<void> read_join(const Texts& texts, Options* options) {
  if (options->join.empty() != texts.peer_key.empty()) {
    return Error{Errc::kUsage, "--join and --key go together"};
  }
  if (options->join.empty()) return {};
  HOLDFAST_CHECKED(client::split_listener_url(options->join, "--join"));
  HOLDFAST_TRY(options->key,
               client::read_key_file_of(texts.peer_key, client::PeerRole::kGateway, "--key"));
  return {};
}

/// Reads "5" or "5,6".
Result<std::vector<int>> read_descriptors(const std::string& text) {
  constexpr long kMost = 1'000'000;
  std::vector<int> fds;
  const char* at = text.c_str();
  for (;;) {
    char* end = nullptr;
    const long value = std::strtol(at, &end, 10);
    if (end == at || (*end != '\0' && *end != ',') || value < 0 || value > kMost) {
      return Error{Errc::kUsage, "HOLDFAST_HTTP_FD=" + text +
                                     ": expected descriptors of listening sockets, as 5 or 5,6"};
    }
    fds.push_back(static_cast<int>(value));
    if (*end == '\0') return fds;
    at = end + 1;
  }
}

}  // namespace

std::int64_t memory_for(const ServerLimits& limits) {
  constexpr std::int64_t kRest = 256 << 20;
  return kRest + 2 * limits.uploads * static_cast<std::int64_t>(limits.parse.upload_bytes);
}

Result<Options> read_options(int argc, char** argv, int* exit_code) {
  *exit_code = -1;
  Options options;
  options.state = default_state_dir();
  if (const char* fds = std::getenv("HOLDFAST_HTTP_FD")) {
    HOLDFAST_TRY(options.http_fds, read_descriptors(fds));
  }
  CLI::App app{"The HTTP front of Holdfast: OpenAI's API over the daemon of --state."};
  app.add_option("--state", options.state, "state directory")->capture_default_str();
  app.add_option("--http", options.http, "address to listen on, HOST:PORT (port 0 picks one)")
      ->capture_default_str();
  app.add_option("--threads", options.threads, "threads that serve")->check(CLI::Range(1, 64));
  add_sizes(app, options.limits);
  add_memory(app, &options);
  add_connections(app, options.limits);
  add_times(app, options);
  Texts texts;
  add_texts(app, &texts);
  add_join(app, options, &texts);
  app.add_flag("--check", options.check, "say what is wrong with the options, and end");
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp& help) {
    *exit_code = app.exit(help);
    return options;
  } catch (const CLI::ParseError& e) {
    return Error{Errc::kUsage, std::string(e.what()) + " (see --help)"};
  }
  if (options.memory_bytes == 0) options.memory_bytes = memory_for(options.limits);
  HOLDFAST_CHECKED(read_texts(texts, &options));
  HOLDFAST_CHECKED(read_join(texts, &options));
  return options;
}

}  // namespace holdfast::gateway
