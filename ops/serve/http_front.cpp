#include "ops/serve/http_front.h"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

namespace holdfast::cli {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> gateway_flags(const Call& call) {
  std::vector<std::string> flags;
  std::error_code failed;
  for (const char* name : {"tls-cert", "tls-key"}) {
    if (!call.has(name)) continue;
    flags.insert(flags.end(),
                 {std::string("--") + name, fs::absolute(call.text(name), failed).string()});
  }
  for (const std::string& origin : call.list("cors-origin")) {
    flags.insert(flags.end(), {"--cors-origin", origin});
  }
  return flags;
}

/// Lets the gateway itself say on stderr what is wrong, before anything is started.
Result<void> check_gateway(const std::vector<std::string>& flags, const std::string& folder) {
  if (flags.empty()) return {};
  std::vector<std::string> argv = {folder + "/holdfast-gateway", "--check"};
  argv.insert(argv.end(), flags.begin(), flags.end());
  std::vector<char*> raw;
  for (std::string& argument : argv) raw.push_back(argument.data());
  raw.push_back(nullptr);
  pid_t pid = 0;
  const int rc = posix_spawn(&pid, raw[0], nullptr, nullptr, raw.data(), environ);
  if (rc != 0) return Error{Errc::kIo, "run " + argv[0] + ": " + std::strerror(rc)};
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
  if (status == 0) return {};
  return Error{Errc::kUsage, "the gateway does not take its options, as it said"};
}

}  // namespace

Result<HttpFront> open_http_front(const Call& call, const std::string& folder) {
  HttpFront front;
  std::vector<std::string> addresses = call.list("http");
  if (addresses == std::vector<std::string>{"none"}) return front;
  front.flags = gateway_flags(call);
  HOLDFAST_CHECKED(check_gateway(front.flags, folder));
  if (addresses.empty()) {
    HOLDFAST_TRY(front.listeners, inherited_listeners());
    if (front.listeners.empty()) addresses = {"127.0.0.1:8080"};
  }
  for (const std::string& address : addresses) {
    if (address == "none") {
      return Error{Errc::kUsage, "--http none: stands alone, without other addresses"};
    }
    HOLDFAST_TRY(Listener listener, listen_http(address));
    front.listeners.push_back(std::move(listener));
  }
  if (!call.has("tls-cert")) return front;
  for (Listener& one : front.listeners) one.url.replace(0, std::strlen("http"), "https");
  return front;
}

void hand_down(const HttpFront& front, ChildSpec& gateway) {
  gateway.argv.insert(gateway.argv.end(), front.flags.begin(), front.flags.end());
  std::string descriptors;
  for (const Listener& listener : front.listeners) {
    descriptors += (descriptors.empty() ? "" : ",") + std::to_string(listener.fd);
    gateway.inherited_fds.push_back(listener.fd);
  }
  gateway.env = {"HOLDFAST_HTTP_FD=" + descriptors};
}

}  // namespace holdfast::cli
