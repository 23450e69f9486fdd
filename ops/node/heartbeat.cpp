#include "ops/node/heartbeat.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <cstdio>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "shared/base/clock.h"
#include "shared/base/process_view.h"
#include "shared/wire/udp.h"

namespace holdfast::cli {

struct HeartbeatShared {
  explicit HeartbeatShared(std::vector<wire::UdpSocket> open) : sockets(std::move(open)) {}
  const std::vector<wire::UdpSocket> sockets;  // of the thread
  std::mutex mutex;                            // guards all below
  std::condition_variable changed;
  std::optional<wire::LivenessSession> session;
  std::vector<pid_t> pids;
  bool stop = false;
  std::thread thread;
};

namespace {

constexpr int kRealTimePriority = 1;
constexpr std::uint64_t kSliceNs = 100'000;          // the least that the kernel takes
constexpr std::int64_t kHeldUpEveryUs = 50'000;      // delays of a process are read so often
constexpr std::int64_t kThreadsEveryUs = 1'000'000;  // and its threads looked up anew

/// The argument of sched_setattr(2), as of its first version.
struct SchedulingAttributes {
  std::uint32_t size = sizeof(SchedulingAttributes);
  std::uint32_t policy = SCHED_OTHER;
  std::uint64_t flags = 0;
  std::int32_t nice = 0;
  std::uint32_t priority = 0;
  std::uint64_t runtime_ns = 0, deadline_ns = 0, period_ns = 0;
};

/// Asks the kernel to run this thread soon when its time has come, beside whatever computes here:
/// as a real-time thread where that is allowed, else with a short slice, which Linux 6.12 prefers
/// at a wake-up. It runs for some ten microseconds each time.
void ask_to_run_soon() {
  prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
  sched_param priority{};
  priority.sched_priority = kRealTimePriority;
  if (sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &priority) == 0) return;
  SchedulingAttributes slice;
  slice.nice = getpriority(PRIO_PROCESS, 0);
  slice.runtime_ns = kSliceNs;
  (void)syscall(SYS_sched_setattr, 0, &slice, 0U);
}

/// The time for which this thread has waited for a processor.
class OwnDelay {
 public:
  OwnDelay() : file_(open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC)) { (void)step_us(); }
  /// Returns the time since the last call; 0 where the kernel does not say.
  std::int64_t step_us() {
    std::array<char, 128> text{};
    if (file_.get() < 0 || pread(file_.get(), text.data(), text.size() - 1, 0) <= 0) return 0;
    long long on_cpu_ns = 0;
    long long waited_ns = 0;
    if (std::sscanf(text.data(), "%lld %lld", &on_cpu_ns, &waited_ns) != 2) return 0;
    const std::int64_t step_ns = waited_ns - std::exchange(waited_ns_, waited_ns);
    return std::max<std::int64_t>(step_ns / 1000, 0);
  }

 private:
  OwnedFd file_;
  std::int64_t waited_ns_ = 0;
};

/// A worker's process, looked at again and again.
struct WorkerProcess {
  std::optional<ProcessView> view;
  std::int64_t stopped_since_us = 0;  // 0: it is not stopped
  std::int64_t held_up_us = 0;
  std::int64_t counted_us = 0;
  std::int64_t opened_us = 0;
};

/// Counts the delays of a process; libzmq's threads may have come since.
void count_delays(WorkerProcess& process, pid_t pid, std::int64_t now_us) {
  if (process.view && now_us - process.counted_us >= kHeldUpEveryUs) {
    process.held_up_us += process.view->held_up_us(now_us);
    process.counted_us = now_us;
  }
  if (process.view && now_us - process.opened_us < kThreadsEveryUs) return;
  process.view = ProcessView::open(pid);
  process.opened_us = process.counted_us = now_us;
  if (process.view) process.view->begin_count(now_us);
}

wire::WorkerFact fact_of(WorkerProcess& process, pid_t pid, std::int64_t now_us) {
  using State = wire::WorkerFact::State;
  wire::WorkerFact fact;
  fact.pid = static_cast<std::uint32_t>(pid);
  fact.state = State::kEnded;
  count_delays(process, pid, now_us);
  if (!process.view) return fact;
  const ProcessView::State state = process.view->state();
  const bool stopped = state == ProcessView::State::kStopped;
  if (!stopped) process.stopped_since_us = 0;
  if (stopped && process.stopped_since_us == 0) process.stopped_since_us = now_us;
  if (state != ProcessView::State::kEnded) fact.state = stopped ? State::kStopped : State::kAlive;
  const std::int64_t stopped_us = stopped ? now_us - process.stopped_since_us : 0;
  fact.stopped_ms = static_cast<std::uint32_t>(std::min<std::int64_t>(stopped_us / 1000, 1 << 30));
  fact.held_up_us = static_cast<std::uint64_t>(process.held_up_us);
  return fact;
}

/// The thread's own state.
class Beats {
 public:
  explicit Beats(HeartbeatShared& shared) : shared_(shared) {}
  void run() {
    ask_to_run_soon();
    while (wait_for_session()) {
      beat();
      sleep_to_next();
    }
  }

 private:
  bool wait_for_session();
  void beat();
  void sleep_to_next();
  void receive();
  void receive_from(const wire::UdpSocket& socket);
  std::vector<wire::WorkerFact> facts(std::int64_t now_us);

  HeartbeatShared& shared_;
  OwnDelay delay_;
  wire::LivenessSession session_;
  wire::NodeDatagram datagram_;
  std::vector<pid_t> pids_;
  std::map<pid_t, WorkerProcess> processes_;
  std::size_t turn_ = 0;  // index of the first worker of the next datagram
  std::int64_t next_us_ = 0;
};

/// Takes over what was set meanwhile. False: the thread ends.
bool Beats::wait_for_session() {
  std::unique_lock lock(shared_.mutex);
  shared_.changed.wait(lock, [this] { return shared_.stop || shared_.session; });
  if (shared_.stop) return false;
  if (session_.id != shared_.session->id) {
    session_ = *shared_.session;
    datagram_ = {};
    datagram_.session = session_.id;
  }
  if (pids_ != shared_.pids) {
    pids_ = shared_.pids;
    std::erase_if(processes_, [this](const auto& item) {
      return std::find(pids_.begin(), pids_.end(), item.first) == pids_.end();
    });
  }
  return true;
}

void Beats::beat() {
  receive();
  datagram_.workers = facts(system_clock().monotonic_us());
  datagram_.run_delay_us =
      static_cast<std::uint32_t>(std::min<std::int64_t>(delay_.step_us(), 1 << 30));
  ++datagram_.counter;
  const std::string sealed = wire::seal(datagram_, session_.key);
  for (const wire::UdpSocket& socket : shared_.sockets) (void)socket.send(sealed);
}

/// Notes the newest of the daemon's datagrams. Others are somebody else's, or late.
void Beats::receive() {
  for (const wire::UdpSocket& socket : shared_.sockets) receive_from(socket);
}

void Beats::receive_from(const wire::UdpSocket& socket) {
  constexpr int kMost = 64;  // of a beat
  for (int i = 0; i < kMost; ++i) {
    const auto bytes = socket.receive();
    if (!bytes) return;
    const auto datagram = wire::open_daemon_datagram(*bytes, session_.key);
    if (!datagram || datagram->session != session_.id) continue;
    datagram_.last_received = std::max(datagram_.last_received, datagram->counter);
  }
}

/// Returns the facts of as many workers as a datagram has space for, in turn.
std::vector<wire::WorkerFact> Beats::facts(std::int64_t now_us) {
  std::vector<wire::WorkerFact> facts;
  const std::size_t count = std::min(pids_.size(), wire::kDatagramWorkersMax);
  for (std::size_t i = 0; i < count; ++i) {
    const pid_t pid = pids_[(turn_ + i) % pids_.size()];
    facts.push_back(fact_of(processes_[pid], pid, now_us));
  }
  if (!pids_.empty()) turn_ = (turn_ + count) % pids_.size();
  return facts;
}

/// Sleeps until the next beat; beats that are over are left out.
void Beats::sleep_to_next() {
  const std::int64_t now_us = system_clock().monotonic_us();
  next_us_ += wire::kLivenessEveryUs;
  if (next_us_ <= now_us) next_us_ = now_us + wire::kLivenessEveryUs;
  const timespec until{next_us_ / 1'000'000, next_us_ % 1'000'000 * 1000};
  clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr);
}

}  // namespace

Heartbeat::Heartbeat(std::unique_ptr<HeartbeatShared> shared) : shared_(std::move(shared)) {
  shared_->thread = std::thread([raw = shared_.get()] { Beats(*raw).run(); });
}

Result<std::unique_ptr<Heartbeat>> Heartbeat::start(const std::vector<std::string>& endpoints) {
  std::vector<wire::UdpSocket> sockets;
  for (const std::string& endpoint : endpoints) {
    HOLDFAST_TRY(wire::UdpSocket socket, wire::UdpSocket::open_to(endpoint));
    sockets.push_back(std::move(socket));
  }
  return std::unique_ptr<Heartbeat>(
      new Heartbeat(std::make_unique<HeartbeatShared>(std::move(sockets))));
}

Heartbeat::~Heartbeat() {
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->stop = true;
  }
  shared_->changed.notify_all();
  shared_->thread.join();
}

void Heartbeat::set_session(const wire::LivenessSession& session) {
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->session = session;
  }
  shared_->changed.notify_all();
}

void Heartbeat::set_workers(std::vector<pid_t> pids) {
  const std::lock_guard lock(shared_->mutex);
  shared_->pids = std::move(pids);
}

}  // namespace holdfast::cli
