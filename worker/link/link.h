#pragma once
// The worker's side of the conversation with the daemon: one I/O thread (the caller of run()), one
// DEALER. schema/protocol.md, "Worker".

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "shared/base/probe.h"
#include "shared/wire/socket.h"
#include "worker/link/compute.h"
#include "worker/link/host.h"
#include "worker/link/work_table.h"

namespace holdfast::worker {

/// Options of a worker. Times in milliseconds.
struct LinkOptions {
  std::string endpoint;  // "ipc://STATE/run/workers.sock"
  std::string worker_key;
  std::string only_class;  // the classes whose bound requests are all that it takes; empty: no such
  std::string device = "cpu";
  std::int64_t device_memory_bytes = 0;         // 0 = what the machine has
  std::vector<DeviceMemoryOf> device_memories;  // where those bytes are
  std::string kernels;                          // family in use, for HELLO
  std::string engine = "model";
  std::int32_t threads = 1;
  std::size_t ring_tokens = 4096;          // unacknowledged tokens of one choice
  std::int64_t orphan_ms = 30'000;         // without a daemon and idle for so long: end
  std::int64_t drain_ms = 10'000;          // from SIGTERM until unfinished work is handed back
  std::int64_t step_watchdog_ms = 10'000;  // no operation of a step ends for so long: stuck, end
  std::shared_ptr<StepJournal> journal;    // of steps; nullptr = none
  std::string weight_cache_path;           // socket of the weight cache server; empty = none
  int heartbeat_timeout_ms = 0;  // silence of the daemon that ends a connection; 0 = none does
  // Keys of a connection to another machine (Z85); empty on ipc.
  std::string server_key, public_key, secret_key;
};

/// The link to the daemon, and the worker's work table and compute threads.
class Link {
 public:
  Link(LinkOptions options, EngineFactory factory);
  ~Link();
  /// Runs until request_stop() has been obeyed or the orphan limit is over. kIo if the socket
  /// cannot be made; otherwise it never fails: it waits for a daemon that is not there.
  Result<void> run();
  /// Asks run() to drain, hand back what is left, and end. Any thread, also a signal handler.
  void request_stop();

 private:
  enum class Phase : std::uint8_t { kAlone, kGreeting, kWelcome };

  Result<void> open();
  void drain_link_events(std::int64_t now_us);
  void drain_messages(std::int64_t now_us);
  void on_order(const wire::Message& message, std::int64_t now_us);
  void on_ack(const wire::Ack& ack);
  void on_adopt(const wire::Adopt& adopt);
  void on_message(const wire::Message& message, std::int64_t now_us);
  void forget_connection();
  void on_welcome(const wire::Welcome& welcome, std::int64_t now_us);
  void on_load(const wire::Load& load);
  void on_unload(const wire::Unload& unload);
  void on_dispatch(const wire::Dispatch& dispatch, std::int64_t now_us);
  bool is_stale(const wire::Fence& fence);
  void on_compute_event(ComputeEvent& event);
  void send_hello(std::int64_t now_us);
  void flush();
  void flush_tokens();
  void flush_returned();
  void flush_states();
  void on_tick(std::int64_t now_us);
  void send_stats();
  void watch_step(std::int64_t now_us);
  bool is_over(std::int64_t now_us);
  bool send(const wire::Message& message);
  wire::MemoryReport memory() const;

  const LinkOptions options_;
  const std::string incarnation_;
  wire::Context context_;
  wire::WakeUp wake_;
  ProbeAnswer probe_;
  std::unique_ptr<wire::Socket> socket_;
  WorkTable table_;
  std::map<std::string, wire::LoadedModel> loads_;
  std::map<std::string, wire::LoadedModel> states_unsent_;  // newest only, by load
  std::vector<wire::Returned> returned_unsent_;
  Phase phase_ = Phase::kAlone;
  std::uint64_t last_epoch_ = 0;
  bool was_welcome_ = false;
  bool daemon_drains_us_ = false;
  bool drained_sent_ = false;
  bool drain_announced_ = false;
  std::int64_t hello_us_ = 0;
  std::int64_t alone_since_us_ = 0;
  std::int64_t stats_us_ = 0;
  std::uint64_t last_progress_ = 0;
  std::int64_t progress_us_ = 0;  // when last_progress_ changed
  std::int64_t watched_us_ = 0;
  std::int64_t stop_since_us_ = 0;
  std::int64_t returned_us_ = 0;
  std::atomic<bool> stop_{false};
  std::unique_ptr<Compute> compute_;  // declared last: its threads end before the rest goes
};

}  // namespace holdfast::worker
