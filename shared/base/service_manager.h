#pragma once
// Tells a service manager (systemd, or another one that sets NOTIFY_SOCKET): ready, alive,
// stopping. The protocol of sd_notify(3), without its library.

#include <cstdint>
#include <string>

namespace holdfast {

/// A connection to the service manager. Not thread-safe; never blocks.
class ServiceManager {
 public:
  /// Takes NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID out of the environment, so that no child
  /// speaks for us. Without them every method does nothing.
  ServiceManager();
  ~ServiceManager();
  ServiceManager(const ServiceManager&) = delete;
  ServiceManager& operator=(const ServiceManager&) = delete;

  /// Returns the longest time between two calls of alive() that the manager accepts; 0: no
  /// watchdog.
  std::int64_t watchdog_ms() const { return watchdog_ms_; }
  void ready(const std::string& status);
  /// Notifies the manager when a third of the watchdog's time is over. Called often.
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
