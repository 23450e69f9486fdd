#include "shared/base/process_view.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string_view>
#include <tuple>
#include <utility>

namespace holdfast {
namespace {

constexpr int kStartTimeField = 22;  // of /proc/PID/stat, counted from 1
constexpr int kStateField = 3;
constexpr std::string_view kMessageThread = "ZMQbg/IO";  // as libzmq names them

OwnedFd open_file(const std::string& path) {
  return OwnedFd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
}

/// Reads a file of /proc again from its beginning; empty: its process has been reaped.
std::string read_again(int fd) {
  std::array<char, 1024> bytes;
  const ssize_t n = fd < 0 ? -1 : pread(fd, bytes.data(), bytes.size(), 0);
  return n <= 0 ? std::string() : std::string(bytes.data(), static_cast<std::size_t>(n));
}

/// Returns a field of a stat line, from the state on. The name before it may hold any bytes.
std::string_view field(std::string_view stat, int number) {
  std::size_t at = stat.rfind(')');
  for (int i = kStateField; at != std::string_view::npos; ++i) {
    const std::size_t begin = stat.find_first_not_of(' ', at + 1);
    if (begin == std::string_view::npos) break;
    const std::size_t end = std::min(stat.find_first_of(" \n", begin), stat.size());
    if (i == number) return stat.substr(begin, end - begin);
    at = end;
  }
  return {};
}

char state_of(const std::string& stat) {
  const std::string_view state = field(stat, kStateField);
  return state.empty() ? 'X' : state[0];
}

std::int64_t start_ticks_of(const std::string& stat) {
  const std::string text(field(stat, kStartTimeField));
  return text.empty() ? 0 : std::strtoll(text.c_str(), nullptr, 10);
}

/// Returns the time on a processor and the time spent waiting for one, in nanoseconds.
std::pair<std::int64_t, std::int64_t> run_times(int schedstat_fd) {
  long long on_cpu = 0;
  long long delayed = 0;
  const std::string text = read_again(schedstat_fd);
  if (std::sscanf(text.c_str(), "%lld %lld", &on_cpu, &delayed) != 2) return {0, 0};
  return {on_cpu, delayed};
}

}  // namespace

OwnedFd::OwnedFd(OwnedFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

OwnedFd& OwnedFd::operator=(OwnedFd&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

OwnedFd::~OwnedFd() {
  if (fd_ >= 0) close(fd_);
}

ProcessView::ProcessView(pid_t pid, OwnedFd exit, OwnedFd stat)
    : pid_(pid), exit_fd_(std::move(exit)), stat_fd_(std::move(stat)) {}

std::optional<ProcessView> ProcessView::open(pid_t pid, std::int64_t started_ticks) {
  if (pid <= 0) return std::nullopt;
  OwnedFd stat = open_file("/proc/" + std::to_string(pid) + "/stat");
  OwnedFd exit(static_cast<int>(syscall(SYS_pidfd_open, pid, 0U)));
  // Read after both were opened: the file belongs to one process for good, and as that was not
  // reaped yet, no other process has had the pid before.
  const std::string line = read_again(stat.get());
  if (line.empty()) return std::nullopt;
  if (started_ticks != 0 && start_ticks_of(line) != started_ticks) return std::nullopt;
  return ProcessView(pid, std::move(exit), std::move(stat));
}

ProcessView::State ProcessView::state() const {
  switch (state_of(read_again(stat_fd_.get()))) {
    case 'T':
    case 't':
      return State::kStopped;
    case 'Z':
    case 'X':
      return State::kEnded;
    default:
      return State::kAlive;
  }
}

void ProcessView::find_threads() {
  const std::string tasks = "/proc/" + std::to_string(pid_) + "/task";
  const std::unique_ptr<DIR, int (*)(DIR*)> dir(opendir(tasks.c_str()), closedir);
  if (dir == nullptr) return;
  while (const dirent* entry = readdir(dir.get())) {
    const std::string task = tasks + "/" + entry->d_name;
    const bool main_thread = entry->d_name == std::to_string(pid_);
    if (!main_thread) {
      const OwnedFd comm = open_file(task + "/comm");
      if (read_again(comm.get()).rfind(kMessageThread, 0) != 0) continue;
    }
    Thread thread;
    thread.stat = open_file(task + "/stat");
    thread.schedstat = open_file(task + "/schedstat");
    threads_.push_back(std::move(thread));
  }
}

void ProcessView::begin_count(std::int64_t now_us) {
  if (threads_.empty()) find_threads();
  for (Thread& thread : threads_) {
    std::tie(thread.on_cpu_ns, thread.delayed_ns) = run_times(thread.schedstat.get());
  }
  counted_to_us_ = now_us;
}

std::int64_t ProcessView::held_up_us(std::int64_t now_us) {
  const std::int64_t elapsed_us = std::max<std::int64_t>(now_us - counted_to_us_, 0);
  counted_to_us_ = now_us;
  std::int64_t held_ns = 0;
  for (Thread& thread : threads_) held_ns += held_up_ns(thread, elapsed_us * 1000);
  return std::min(held_ns / 1000, elapsed_us);
}

std::int64_t ProcessView::held_up_ns(Thread& thread, std::int64_t elapsed_ns) {
  const auto [on_cpu, delayed] = run_times(thread.schedstat.get());
  const std::int64_t on_cpu_ns = on_cpu - std::exchange(thread.on_cpu_ns, on_cpu);
  const std::int64_t delayed_ns = delayed - std::exchange(thread.delayed_ns, delayed);
  switch (state_of(read_again(thread.stat.get()))) {
    case 'R':
      // The kernel counts a delay when it is over; a delay that lasts shows as time that did not
      // run.
      return std::max(delayed_ns, elapsed_ns - on_cpu_ns);
    case 'D':
      return elapsed_ns;  // waits for a disk or memory, and nobody can end that
    default:
      return delayed_ns;
  }
}

std::int64_t own_start_ticks() {
  const OwnedFd stat = open_file("/proc/self/stat");
  return start_ticks_of(read_again(stat.get()));
}

}  // namespace holdfast
