#pragma once
// A whole server as users start it: `holdfast serve` on a state directory and a port of its own.

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>

#include "shared/base/result.h"
#include "shared/client/client.h"

namespace holdfast::bench {

/// Options of a server.
struct ServedOptions {
  std::string programs;  // folder of holdfast, holdfastd, …
  std::string model;     // GGUF file, served as "demo"
  std::string dir;       // state directory; made here
  std::string engine;    // fake or model
  std::string engine_options = {};
};

/// A running server. Not thread-safe. All processes that it started end with it.
class Served {
 public:
  /// Returns when it serves. kInternal, with its output, if it does not.
  static Result<std::unique_ptr<Served>> start(const ServedOptions& options);
  ~Served();
  Served(const Served&) = delete;
  Served& operator=(const Served&) = delete;

  int port() const { return port_; }
  /// Sends SIGTERM to all of it, and starts it on the same port.
  Result<void> restart();
  /// A key of this tenant, as `keys create` prints it.
  Result<std::string> make_key(const std::string& tenant) const;
  /// A child's process id by its name ("gateway"); 0 if it has none now.
  pid_t pid_of(const std::string& child) const;
  /// How often the supervisor restarted it; -1 if that is unknown.
  std::int64_t restarts_of(const std::string& child) const;
  Result<std::unique_ptr<client::Client>> connect() const;
  /// One number of the operator's status document, by JSON pointer ("/counters/accepted").
  Result<std::int64_t> status(const std::string& pointer);

 private:
  explicit Served(ServedOptions options) : options_(std::move(options)) {}
  Result<void> begin();
  void end();
  std::string log() const { return options_.dir + ".out"; }

  ServedOptions options_;
  pid_t pid_ = 0;
  int port_ = 0;
  std::unique_ptr<client::Client> operator_;
};

/// The peak memory of the process in MiB; -1 where it has ended.
double peak_mib(pid_t pid);

}  // namespace holdfast::bench
