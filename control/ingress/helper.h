#pragma once
// The ingress helper's loop: PREPARE and INSPECT jobs of the daemon, each kind on its own thread.
// Each kind is answered in order. schema/protocol.md, "Ingress".

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "control/ingress/grammar_check.h"
#include "control/ingress/prepare.h"
#include "control/ingress/reader_spawner.h"
#include "shared/base/probe.h"
#include "shared/wire/socket.h"

namespace holdfast::ingress {

/// Options of a helper. The bounds protect it from what clients send.
struct HelperOptions {
  std::string endpoint;              // "ipc://STATE/run/ingress.sock"
  std::string program;               // this executable, for the child that inspects
  ReaderSpawner* spawner = nullptr;  // starts that child where this process may not
  PrepareLimits limits;
  std::int64_t job_ms = 10'000;  // longest PREPARE in ms
  std::size_t tokenizers = 8;    // most tokenizers in memory
};

/// The helper's loop and its threads. run() is called once.
class Helper {
 public:
  /// The way run() ended. kOverdue: a job did not end in time and was refused. A thread cannot be
  /// killed, so the process must end and be started again.
  enum class End : std::uint8_t { kStopped, kOverdue };

  explicit Helper(HelperOptions options);
  ~Helper();
  /// Runs until request_stop() or until a job is overdue. kIo if the socket cannot be made; an
  /// absent daemon is waited for.
  Result<End> run();
  /// May be called on any thread and in a signal handler.
  void request_stop();

 private:
  /// A thread that runs tasks in order.
  struct Lane {
    std::thread thread;
    std::deque<std::function<void()>> tasks;
    std::condition_variable wakes;
  };
  void run_lane(Lane& lane);
  void post(Lane& lane, std::function<void()> task);
  void finish(std::uint64_t connection, wire::Message answer);

  Result<void> open();
  void drain_link_events();
  void drain_messages();
  void on_message(wire::Message message);
  void on_prepare(wire::Prepare job);
  void inspect(std::uint64_t connection, const wire::Inspect& job);
  void on_blob(wire::TokenizerBlob blob);
  void start_prepare(wire::Prepare job);
  void send_answers();
  bool refuse_overdue();

  const HelperOptions options_;
  wire::Context context_;
  wire::WakeUp wake_;
  ProbeAnswer probe_;
  std::unique_ptr<wire::Socket> socket_;
  TokenizerCache cache_;
  GrammarCheck grammars_;                                      // for prepare_lane_ alone
  std::map<std::string, std::vector<wire::Prepare>> waiting_;  // for a tokenizer, by model_sha
  std::uint64_t connection_ = 0;  // rises at each link event; older answers are dropped
  bool hello_due_ = false;
  std::atomic<bool> stop_{false};

  std::mutex mutex_;  // guards the members below and the lanes' tasks
  bool ending_ = false;
  std::deque<wire::Message> answers_;
  std::uint64_t running_job_ = 0;
  std::uint64_t running_connection_ = 0;
  std::int64_t running_since_us_ = 0;  // 0: no PREPARE is running
  Lane prepare_lane_, inspect_lane_;
};

}  // namespace holdfast::ingress
