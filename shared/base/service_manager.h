#pragma once
// Tells a service manager (systemd, or whoever sets NOTIFY_SOCKET): ready, alive, stopping.
// The protocol of sd_notify(3), without its library.

#include <cstdint>
#include <string>

namespace holdfast {

class ServiceManager {
 public:
  /// Takes NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID out of the environment, so that no child
  /// speaks for us. Without them everything here does nothing.
  ServiceManager();
  ~ServiceManager();
  ServiceManager(const ServiceManager&) = delete;
  ServiceManager& operator=(const ServiceManager&) = delete;

  /// Longest time between two calls of alive() that it puts up with; 0: nobody waits for it.
  std::int64_t watchdog_ms() const { return watchdog_ms_; }
  void ready(const std::string& status);
  /// Call it often; it tells when a third of the watchdog's time is over.
  void alive(std::int64_t now_ms);
  void stopping();

 private:
  void tell(const std::string& text);

  int fd_ = -1;
  std::string address_;
  std::int64_t watchdog_ms_ = 0;
  std::int64_t told_ms_ = 0;
};

}  // namespace holdfast
