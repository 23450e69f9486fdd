#include "shared/sandbox/refusals.h"

#include <seccomp.h>
#include <signal.h>
#include <ucontext.h>
#include <unistd.h>

#include <atomic>
#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "shared/sandbox/profile.h"

namespace holdfast::sandbox {
namespace {

constexpr int kNumbersMax = 512;
constexpr std::size_t kNameMax = 32;
constexpr int kSeccomp = 1;  // SYS_SECCOMP, si_code of a call that a filter trapped

struct Calls {
  char program[kNameMax] = "holdfast";
  char names[kNumbersMax][kNameMax] = {};
  std::atomic<std::uint64_t> counts[kNumbersMax] = {};
  std::atomic<std::uint64_t> sum{0};
};
Calls g_calls;

void copy_name(char (&to)[kNameMax], std::string_view from) {
  const std::size_t size = std::min(from.size(), kNameMax - 1);
  std::memcpy(to, from.data(), size);
  to[size] = '\0';
}

/// Logs a refusal from the signal handler: no locks, no memory, one write.
void log_refusal(int number, std::uint64_t count) {
  char line[256];
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  const char* name = g_calls.names[number][0] != '\0' ? g_calls.names[number] : "?";
  const int size = std::snprintf(
      line, sizeof line,
      "{\"time_s\":%lld,\"level\":\"warn\",\"program\":\"%s\",\"event\":\"system call refused\","
      "\"call\":\"%s\",\"number\":\"%d\",\"times\":\"%llu\"}\n",
      static_cast<long long>(now.tv_sec), g_calls.program, name, number,
      static_cast<unsigned long long>(count));
  if (size > 0) [[maybe_unused]]
    const ssize_t n = write(STDERR_FILENO, line, size);
}

void on_trap(int, siginfo_t* info, void* context) {
  const int saved = errno;
  if (info->si_code != kSeccomp) {  // sent by a process: handled as if there were no handler
    signal(SIGSYS, SIG_DFL);
    raise(SIGSYS);
    return;
  }
  auto* machine = static_cast<ucontext_t*>(context);
#if defined(__x86_64__)
  machine->uc_mcontext.gregs[REG_RAX] = -EPERM;
#elif defined(__aarch64__)
  machine->uc_mcontext.regs[0] = static_cast<unsigned long long>(-EPERM);
#endif
  g_calls.sum.fetch_add(1, std::memory_order_relaxed);
  const int number = info->si_syscall;
  if (number >= 0 && number < kNumbersMax) {
    const std::uint64_t count = g_calls.counts[number].fetch_add(1) + 1;
    if (std::has_single_bit(count)) log_refusal(number, count);
  }
  errno = saved;
}

}  // namespace

void count_refusals(std::string_view program) {
  copy_name(g_calls.program, program);
  const auto remember = [](std::string_view name) {
    const int number = seccomp_syscall_resolve_name(std::string(name).c_str());
    if (number >= 0 && number < kNumbersMax) copy_name(g_calls.names[number], name);
  };
  for (const std::string_view name : telltale_calls()) remember(name);
  for (const char* name : {"mmap", "mprotect", "clone", "openat", "socket", "kill", "tgkill",
                           "prlimit64", "fcntl", "ioctl", "prctl"}) {
    remember(name);
  }
  struct sigaction action {};
  action.sa_sigaction = on_trap;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  sigaction(SIGSYS, &action, nullptr);
}

std::uint64_t refused_calls() {
  return g_calls.sum.load(std::memory_order_relaxed);
}

}  // namespace holdfast::sandbox
