#pragma once
// The real processes of a deployment on a state directory of their own, started one by one without
// a supervisor, so that a bench can kill and restart each at any moment.

#include <sys/types.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "shared/base/result.h"
#include "shared/client/client.h"

namespace holdfast::bench {

/// Starts a program that dies with this process, its output appended to a file. kIo.
Result<pid_t> spawn(const std::vector<std::string>& args, const std::string& log_path);
/// Sends SIGKILL and waits for the end.
void kill_and_reap(pid_t pid);

/// Options of a cluster.
struct ClusterOptions {
  std::string programs;                    // folder of holdfastd, …
  std::string model;                       // GGUF file whose tokenizer the fake engine's model has
  std::string dir;                         // state directory; made here
  std::vector<std::string> daemon_config;  // "name=value"
  std::vector<std::string> daemon_flags = {};  // beside them
  std::string engine = "fake";  // of workers and models: "fake" or "model", the real one
};

/// Processes on one state directory. Not thread-safe. All that it started end with it.
class LocalCluster {
 public:
  explicit LocalCluster(ClusterOptions options);
  ~LocalCluster();
  LocalCluster(const LocalCluster&) = delete;
  LocalCluster& operator=(const LocalCluster&) = delete;

  /// Starts the daemon and one ingress helper; returns when they answer.
  Result<void> start();
  Result<void> start_daemon();  // returns after the spawn
  Result<void> wait_daemon(std::int64_t patience_ms = 60'000);
  void kill_daemon();
  pid_t daemon() const { return daemon_; }
  Result<void> restart_ingress();  // by SIGKILL

  /// Starts it on a free port of the loopback address; returns when it listens.
  Result<void> start_gateway(const std::vector<std::string>& flags = {});
  pid_t gateway() const { return gateway_; }
  int http_port() const { return http_port_; }

  /// Registers the model "bench" with these options of the fake engine (JSON; the real one has none
  /// of them), and loads it.
  Result<void> add_model(const std::string& engine_options, int slots, int context = 4096);
  Result<void> start_worker(const std::string& key, const std::vector<std::string>& flags = {},
                            const std::string& engine = "");  // empty: the cluster's
  pid_t worker(const std::string& key) const;
  void kill_worker(const std::string& key);
  /// Names its processes that ended without a kill by this object, and how they ended.
  std::vector<std::string> unexpected_deaths() const;
  /// Waits until this many loads of the model are ready on connected workers.
  Result<void> wait_ready(int workers, std::int64_t patience_ms = 60'000);

  Result<std::unique_ptr<client::Client>> connect() const;
  Result<std::string> op(const std::string& verb, const std::string& args = "{}");
  /// One number of the operator's status document, by JSON pointer ("/counters/accepted").
  Result<double> status(const std::string& pointer);
  const std::string& dir() const { return options_.dir; }
  std::string clients_endpoint() const;
  /// The end of a process's log, for a report of a failure.
  std::string log_tail(const std::string& name) const;

 private:
  std::string program(const std::string& name) const { return options_.programs + "/" + name; }
  std::string log(const std::string& name) const { return options_.dir + "/" + name + ".out"; }
  ClusterOptions options_;
  pid_t daemon_ = 0;
  pid_t ingress_ = 0;
  pid_t gateway_ = 0;
  int http_port_ = 0;
  std::map<std::string, pid_t> workers_;
  std::unique_ptr<client::Client> operator_;
};

/// Numbers from the database, read as a script reads them: the first column of a SELECT's rows.
Result<std::vector<double>> query_numbers(const std::string& state_dir, const std::string& sql);

}  // namespace holdfast::bench
