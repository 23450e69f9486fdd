#include "ops/cli/daemon.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

#include "ops/cli/output.h"

namespace holdfast::cli {
namespace {

using nlohmann::json;
constexpr auto kRestartPatience = std::chrono::milliseconds(1'500);

std::string socket_path(const std::string& state_dir, const char* name) {
  std::error_code ignored;
  const auto absolute = std::filesystem::absolute(state_dir, ignored).lexically_normal();
  return (absolute / "run" / name).string();
}

bool listens(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) return false;
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return false;
  const bool up = connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  close(fd);
  return up;
}

Result<std::unique_ptr<client::Client>> connect_to(const Call& call, const std::string& endpoint,
                                                   std::chrono::milliseconds timeout) {
  if (!daemon_listens(call.state_dir, kRestartPatience)) {
    return Error{Errc::kUnreachable, "no daemon runs on state directory " + call.state_dir +
                                         "; start one with `holdfast serve` or name another with "
                                         "--state"};
  }
  client::Options options;
  options.timeout = timeout;
  return client::Client::connect(endpoint, options);
}

}  // namespace

std::string clients_endpoint(const std::string& state_dir) {
  return "ipc://" + socket_path(state_dir, "clients.sock");
}

std::string operator_endpoint(const std::string& state_dir) {
  return "ipc://" + socket_path(state_dir, "operator.sock");
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

Result<std::unique_ptr<client::Client>> connect_clients(const Call& call) {
  return connect_to(call, clients_endpoint(call.state_dir), std::chrono::seconds(60));
}

Result<std::unique_ptr<client::Client>> connect_operator(const Call& call,
                                                         std::chrono::milliseconds timeout) {
  return connect_to(call, operator_endpoint(call.state_dir), timeout);
}

std::optional<json> operate(const Call& call, const std::string& verb, const json& args, int& exit,
                            std::chrono::milliseconds timeout) {
  auto client = connect_operator(call, timeout);
  if (!client) {
    exit = report_error(call, client.error());
    return std::nullopt;
  }
  const auto answer =
      client.value()->op(verb, args.dump(-1, ' ', false, json::error_handler_t::replace));
  if (const auto* failure = std::get_if<client::Failure>(&answer)) {
    exit = report_refusal(call, *failure);
    return std::nullopt;
  }
  const std::string& text = std::get<std::string>(answer);
  json result = json::parse(text.empty() ? "{}" : text, nullptr, false);
  if (result.is_discarded()) {
    exit = report_error(call, Errc::kInternal, verb + ": the daemon's answer is not JSON");
    return std::nullopt;
  }
  exit = kExitDone;
  return result;
}

void print_document(const Call& call, const json& document, RenderOptions options) {
  std::string text;
  if (call.json) {
    text = document.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
  } else {
    options.colour = use_colour();
    text = render_human(document, options);
  }
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

int operate_and_print(const Call& call, const std::string& verb, const json& args,
                      RenderOptions options) {
  int exit = kExitDone;
  const auto result = operate(call, verb, args, exit);
  if (result) print_document(call, *result, std::move(options));
  return exit;
}

}  // namespace holdfast::cli
