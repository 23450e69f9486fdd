#include "shared/gguf/read_guard.h"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <mutex>

namespace holdfast::gguf {
namespace {

struct Range {
  std::atomic<std::uintptr_t> begin{0};
  std::atomic<std::uintptr_t> end{0};  // 0: free
};

std::array<Range, 4096> ranges;
std::atomic<int> guards{0};
std::atomic<std::uint64_t> loss_count{0};
std::uintptr_t page_bytes = 4096;

/// Returns the end of the mapping that contains this address; 0: no registered one.
std::uintptr_t end_of(std::uintptr_t address) {
  for (const Range& range : ranges) {
    const std::uintptr_t end = range.end.load(std::memory_order_acquire);
    if (end != 0 && address < end && address >= range.begin.load(std::memory_order_relaxed)) {
      return end;
    }
  }
  return 0;
}

/// Replaces the rest of the mapping by zeros. Async-signal-safe. Pages after the end of a file are
/// all gone, so the rest is replaced at once.
void on_bus_error(int, siginfo_t* info, void*) {
  const auto address = reinterpret_cast<std::uintptr_t>(info->si_addr);
  const std::uintptr_t end = guards.load() > 0 ? end_of(address) : 0;
  const std::uintptr_t page = address / page_bytes * page_bytes;
  if (end != 0) {
    loss_count.fetch_add(1);
    void* zeros = mmap(reinterpret_cast<void*>(page), end - page, PROT_READ,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
    if (zeros != MAP_FAILED) return;
  }
  signal(SIGBUS, SIG_DFL);  // another address: the read is repeated and ends the process
}

void install_handler() {
  static std::once_flag once;
  std::call_once(once, [] {
    page_bytes = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
    struct sigaction action {};
    action.sa_sigaction = on_bus_error;
    action.sa_flags = SA_SIGINFO | SA_RESTART;
    sigemptyset(&action.sa_mask);
    sigaction(SIGBUS, &action, nullptr);
  });
}

std::mutex& ranges_mutex() {
  static std::mutex mutex;
  return mutex;
}

}  // namespace

ReadGuard::ReadGuard() : before_(losses()) {
  install_handler();
  guards.fetch_add(1);
}

ReadGuard::~ReadGuard() {
  guards.fetch_sub(1);
}

bool ReadGuard::lost() const {
  return losses() != before_;
}

std::uint64_t ReadGuard::losses() {
  return loss_count.load();
}

void guard_mapping(const void* at, std::size_t bytes) {
  const std::lock_guard lock(ranges_mutex());
  const auto begin = reinterpret_cast<std::uintptr_t>(at);
  for (Range& range : ranges) {
    if (range.end.load() != 0) continue;
    range.begin.store(begin, std::memory_order_relaxed);
    range.end.store(begin + bytes, std::memory_order_release);
    return;
  }
}

void forget_mapping(const void* at) {
  const std::lock_guard lock(ranges_mutex());
  for (Range& range : ranges) {
    if (range.begin.load() != reinterpret_cast<std::uintptr_t>(at)) continue;
    range.end.store(0, std::memory_order_release);
    range.begin.store(0, std::memory_order_relaxed);
  }
}

}  // namespace holdfast::gguf
