#pragma once
// One process of this host seen from outside: it has ended, is stopped, or was delayed. Held by
// descriptors, so that another process with a reused pid is never taken for it. Not thread-safe.

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace holdfast {

/// A descriptor that closes itself.
class OwnedFd {
 public:
  explicit OwnedFd(int fd = -1) : fd_(fd) {}
  OwnedFd(OwnedFd&& other) noexcept;
  OwnedFd& operator=(OwnedFd&& other) noexcept;
  ~OwnedFd();
  /// Returns the descriptor, which stays owned here; -1: there is none.
  int get() const { return fd_; }

 private:
  int fd_;
};

/// A process, held by descriptors. Not thread-safe.
class ProcessView {
 public:
  enum class State : std::uint8_t {
    kAlive,
    kStopped,  // by a signal or a debugger
    kEnded,
  };

  /// Opens a process. `started_ticks` is its start time as it reports it itself; 0 is not compared.
  /// nullopt: there is no such process here (it is in another container or on another host, or it
  /// has ended).
  static std::optional<ProcessView> open(pid_t pid, std::int64_t started_ticks = 0);

  /// Returns a descriptor that is readable once the process has ended; -1 where the kernel has
  /// none.
  int exit_fd() const { return exit_fd_.get(); }
  /// Returns the state. Costs one read of /proc.
  State state() const;

  /// Begins to count the process's delays.
  void begin_count(std::int64_t now_us);
  /// Returns the time since the last call of this or begin_count() in which the threads that answer
  /// for the process (its main thread, and those of libzmq that carry its messages) waited for a
  /// processor, a disk or memory; at most the time between the calls. 0 where the kernel does not
  /// say.
  std::int64_t held_up_us(std::int64_t now_us);

 private:
  struct Thread {
    OwnedFd stat, schedstat;
    std::int64_t on_cpu_ns = 0, delayed_ns = 0;
  };
  ProcessView(pid_t pid, OwnedFd exit, OwnedFd stat);
  void find_threads();
  static std::int64_t held_up_ns(Thread& thread, std::int64_t elapsed_ns);

  pid_t pid_;
  OwnedFd exit_fd_, stat_fd_;
  std::vector<Thread> threads_;
  std::int64_t counted_to_us_ = 0;
};

/// Returns the start time of the calling process, as ProcessView::open compares it; 0 without
/// /proc.
std::int64_t own_start_ticks();

}  // namespace holdfast
