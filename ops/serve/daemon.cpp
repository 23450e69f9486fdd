#include "ops/serve/daemon.h"

#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string_view>
#include <thread>

#include "ops/serve/offline_change.h"
#include "ops/terminal/output.h"
#include "ops/terminal/width.h"
#include "shared/base/json_text.h"
#include "shared/base/local_socket.h"
#include "shared/base/supervisor_note.h"
#include "shared/client/peer_key.h"
#include "shared/remote/operator.h"

namespace holdfast::cli {
namespace {

using nlohmann::json;
constexpr auto kRestartPatience = std::chrono::milliseconds(1'500);
constexpr auto kAlonePatience = std::chrono::milliseconds(0);
// The lock is taken before the sockets are bound; in between a start reads the database.
constexpr auto kOwnerPatience = std::chrono::seconds(10);

std::string socket_path(const std::string& state_dir, const char* name) {
  std::error_code ignored;
  const auto absolute = std::filesystem::absolute(state_dir, ignored).lexically_normal();
  return (absolute / "run" / name).string();
}

bool listens(const std::string& path) {
  const int fd = connect_locally(path, SOCK_STREAM);
  if (fd < 0) return false;
  close(fd);
  return true;
}

bool is_supervised(const std::string& state_dir) {
  const pid_t pid = read_supervisor_note(state_dir + "/run").pid;
  return pid > 0 && (kill(pid, 0) == 0 || errno == EPERM);
}

Result<std::unique_ptr<client::Client>> connect_to(const Call& call, const std::string& endpoint,
                                                   const client::Options& options) {
  if (call.remote) {
    return Error{Errc::kUsage, "this works by the socket of the server alone, and " +
                                   call.remote->url +
                                   " (HOLDFAST_URL or --url) is asked over "
                                   "HTTP; run it on that machine, or name a state directory "
                                   "with --state DIR"};
  }
  if (!call.listener.empty()) {
    HOLDFAST_TRY(client::Options with_key, client::listener_options(call.listener));
    with_key.timeout = options.timeout;
    return client::Client::connect(call.listener, with_key);
  }
  if (!daemon_listens(call.state_dir)) {
    return Error{Errc::kUnreachable, "no daemon runs on state directory " + call.state_dir +
                                         "; start one with `holdfast serve` or name another with "
                                         "--state"};
  }
  return client::Client::connect(endpoint, options);
}

/// True for verbs that mean something while nothing runs. The rest needs workers or a serving
/// daemon.
bool works_offline(const std::string& verb) {
  constexpr std::string_view kFamilies[] = {
      "requests.", "queue.", "db.", "models.alias", "models.canary", "config.",
  };
  constexpr std::string_view kVerbs[] = {
      "models.remove", "models.unload", "models.pin", "models.unpin", "workers.resume",
  };
  return std::any_of(std::begin(kFamilies), std::end(kFamilies),
                     [&](std::string_view family) { return verb.starts_with(family); }) ||
         std::find(std::begin(kVerbs), std::end(kVerbs), verb) != std::end(kVerbs);
}

client::Answer<std::string> ask_daemon(const Call& call, const std::string& verb,
                                       const std::string& args, const client::Options& options) {
  const auto client = connect_to(call, operator_endpoint(call.state_dir), options);
  if (!client) return client::Failure{client.error().code, client.error().what};
  return client.value()->op(client::AllTenants::local(), verb, args);
}

/// The document, or nullopt after the refusal has been reported.
std::optional<json> read_result(const Call& call, const std::string& verb, const std::string& text,
                                int& exit) {
  json result = try_parse_json<json>(text.empty() ? "{}" : text);
  if (result.is_discarded()) {
    exit = report_error(call, Errc::kInternal, verb + ": the daemon's answer is not JSON");
    return std::nullopt;
  }
  exit = kExitDone;
  return result;
}

/// Runs the verb by the daemon elsewhere.
std::optional<json> operate_elsewhere(const Call& call, const std::string& verb,
                                      const std::string& args, int& exit,
                                      std::chrono::milliseconds timeout) {
  const auto answer = remote::operate(*call.remote, verb, args, timeout);
  if (const auto* result = std::get_if<std::string>(&answer)) {
    return read_result(call, verb, *result, exit);
  }
  exit = report_refusal(call, std::get<client::Failure>(answer));
  return std::nullopt;
}

/// Runs the verb without a daemon. nullopt with `exit` < 0: one has come up meanwhile, ask that.
std::optional<json> operate_alone(const Call& call, const std::string& verb,
                                  const std::string& args, int& exit) {
  if (standby_listens(call.state_dir)) {
    exit = report_error(call, Errc::kConflict,
                        verb +
                            ": this machine is a standby; ask the primary, which `holdfast ha "
                            "status` names");
    return std::nullopt;
  }
  const auto answer = operate_offline(call.state_dir, verb, args);
  if (!answer) {
    exit = report_error(call, answer.error());
    return std::nullopt;
  }
  if (answer->ok) {
    if (!call.quiet) {
      std::fprintf(stderr, "holdfast: no daemon runs; done in the database of %s\n",
                   call.state_dir.c_str());
    }
    return read_result(call, verb, answer->result, exit);
  }
  exit = -1;
  const bool owned = answer->refusal.code == Errc::kConflict && !verb.starts_with("db.");
  if (owned && daemon_listens(call.state_dir, kOwnerPatience)) return std::nullopt;
  exit = report_refusal(call, answer->refusal);
  return std::nullopt;
}

}  // namespace

std::string clients_endpoint(const std::string& state_dir) {
  return "ipc://" + socket_path(state_dir, "clients.sock");
}

std::string operator_endpoint(const std::string& state_dir) {
  return "ipc://" + socket_path(state_dir, "operator.sock");
}

std::string standby_endpoint(const std::string& state_dir) {
  return "ipc://" + socket_path(state_dir, "standby.sock");
}

bool standby_listens(const std::string& state_dir) {
  return listens(socket_path(state_dir, "standby.sock"));
}

bool daemon_listens(const std::string& state_dir, std::chrono::milliseconds patience) {
  const std::string path = socket_path(state_dir, "operator.sock");
  const auto until = std::chrono::steady_clock::now() + patience;
  while (!listens(path)) {
    // A state directory that was never served has no daemon that could come back.
    if (access(path.c_str(), F_OK) != 0 && errno == ENOENT) {
      std::error_code ignored;
      if (!std::filesystem::exists(std::filesystem::path(path).parent_path(), ignored))
        return false;
    }
    if (std::chrono::steady_clock::now() >= until) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return true;
}

bool daemon_listens(const std::string& state_dir) {
  return daemon_listens(state_dir, is_supervised(state_dir) ? kRestartPatience : kAlonePatience);
}

bool daemon_answers(const Call& call) {
  return !call.elsewhere().empty() || daemon_listens(call.state_dir);
}

Result<std::unique_ptr<client::Client>> connect_clients(const Call& call) {
  client::Options options;
  options.timeout = std::chrono::seconds(60);
  return connect_to(call, clients_endpoint(call.state_dir), options);
}

Result<std::unique_ptr<client::Client>> connect_operator(const Call& call,
                                                         std::chrono::milliseconds timeout) {
  client::Options options;
  options.timeout = timeout;
  return connect_to(call, operator_endpoint(call.state_dir), options);
}

std::optional<json> operate(const Call& call, const std::string& verb, const json& args, int& exit,
                            std::chrono::milliseconds timeout) {
  const std::string text = args.dump(-1, ' ', false, json::error_handler_t::replace);
  if (call.remote) return operate_elsewhere(call, verb, text, exit, timeout);
  const bool offline = call.listener.empty() && works_offline(verb) && has_database(call.state_dir);
  client::Options options;
  options.timeout = timeout;
  // A daemon that goes away while it is asked leaves the database to this call, as one that was
  // away before does.
  if (offline) options.patience_without_daemon = kRestartPatience;
  const auto until = std::chrono::steady_clock::now() + timeout;
  for (;;) {
    if (offline && !daemon_listens(call.state_dir)) {
      auto done = operate_alone(call, verb, text, exit);
      if (done || exit >= 0) return done;
    }
    const auto answer = ask_daemon(call, verb, text, options);
    if (const auto* result = std::get_if<std::string>(&answer)) {
      return read_result(call, verb, *result, exit);
    }
    const auto& failure = std::get<client::Failure>(answer);
    const bool again =
        offline && failure.code == Errc::kUnreachable && std::chrono::steady_clock::now() < until;
    if (again) continue;
    exit = report_refusal(call, failure);
    return std::nullopt;
  }
}

void print_document(const Call& call, const json& document, RenderOptions options) {
  std::string text;
  if (call.json) {
    text = document.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
  } else {
    options.colour = use_colour();
    options.width = line_width();
    text = render_human(document, options);
  }
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

void print_change(const Call& call, const json& document, const std::string& line) {
  if (call.json) return print_document(call, document);
  if (!call.quiet) print_lines(line + "\n");
}

std::optional<json> list_objects(const Call& call, const char* kind, int& exit) {
  json list = json::array();
  json args = {{"kind", kind}, {"order", "oldest"}, {"limit", 1000}};
  for (;;) {
    const auto page = operate(call, "objects.list", args, exit);
    if (!page) return std::nullopt;
    for (const json& object : page->at("objects")) list.push_back(object);
    if (page->at("more") != true) return list;
    args["from"] = page->at("objects").back().at("seq");
  }
}

int operate_and_say(const Call& call, const std::string& verb, const json& args,
                    const std::string& line) {
  int exit = kExitDone;
  const auto result = operate(call, verb, args, exit);
  if (result) print_change(call, *result, line);
  return exit;
}

int operate_and_print(const Call& call, const std::string& verb, const json& args,
                      RenderOptions options) {
  int exit = kExitDone;
  const auto result = operate(call, verb, args, exit);
  if (result) print_document(call, *result, std::move(options));
  return exit;
}

}  // namespace holdfast::cli
