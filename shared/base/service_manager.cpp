#include "shared/base/service_manager.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>

namespace holdfast {
namespace {

std::string take_variable(const char* name) {
  const char* text = std::getenv(name);
  std::string value = text == nullptr ? "" : text;
  unsetenv(name);
  return value;
}

}  // namespace

ServiceManager::ServiceManager() : address_(take_variable("NOTIFY_SOCKET")) {
  const std::string watchdog = take_variable("WATCHDOG_USEC");
  const std::string pid = take_variable("WATCHDOG_PID");
  if (address_.empty() || address_.size() >= sizeof(sockaddr_un::sun_path)) return;
  fd_ = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  const bool ours = pid.empty() || std::atoll(pid.c_str()) == getpid();
  if (ours && !watchdog.empty()) {
    watchdog_ms_ = std::max<std::int64_t>(std::atoll(watchdog.c_str()) / 1000, 0);
  }
}

ServiceManager::~ServiceManager() {
  if (fd_ >= 0) close(fd_);
}

/// Sends one datagram. A manager that does not read now gets the next one.
void ServiceManager::tell(const std::string& text) {
  if (fd_ < 0) return;
  sockaddr_un to{};
  to.sun_family = AF_UNIX;
  std::memcpy(to.sun_path, address_.data(), address_.size());
  if (to.sun_path[0] == '@') to.sun_path[0] = '\0';  // an abstract name
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + address_.size());
  sendto(fd_, text.data(), text.size(), MSG_NOSIGNAL, reinterpret_cast<const sockaddr*>(&to), size);
}

void ServiceManager::ready(const std::string& status) {
  tell("READY=1\nSTATUS=" + status);
}

void ServiceManager::alive(std::int64_t now_ms) {
  if (watchdog_ms_ == 0 || now_ms - told_ms_ < watchdog_ms_ / 3) return;
  told_ms_ = now_ms;
  tell("WATCHDOG=1");
}

void ServiceManager::stopping() {
  tell("STOPPING=1");
}

}  // namespace holdfast
