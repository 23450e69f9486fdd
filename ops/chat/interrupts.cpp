#include "ops/chat/interrupts.h"

#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>

#include "shared/base/check.h"

namespace holdfast::cli {
namespace {

std::atomic<int> ctrl_c_count{0};
std::atomic<bool> got_sigterm{false};
std::atomic<int> event_fd{-1};
struct sigaction previous_int, previous_term;

extern "C" void note_signal(int signal) {
  const int error = errno;
  if (signal == SIGTERM) {
    got_sigterm = true;
  } else {
    ++ctrl_c_count;
  }
  const std::uint64_t one = 1;
  (void)!write(event_fd, &one, sizeof one);
  errno = error;
}

}  // namespace

Interrupts::Interrupts() {
  CHECK(event_fd < 0);
  event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  CHECK(event_fd >= 0);
  ctrl_c_count = 0;
  got_sigterm = false;
  struct sigaction action {};
  action.sa_handler = note_signal;
  sigaction(SIGINT, &action, &previous_int);
  sigaction(SIGTERM, &action, &previous_term);
}

Interrupts::~Interrupts() {
  sigaction(SIGINT, &previous_int, nullptr);
  sigaction(SIGTERM, &previous_term, nullptr);
  close(event_fd.exchange(-1));
}

int Interrupts::count() const {
  return ctrl_c_count;
}

bool Interrupts::terminated() const {
  return got_sigterm;
}

void Interrupts::clear() {
  ctrl_c_count = 0;
  std::uint64_t drained = 0;
  if (!got_sigterm) (void)!read(event_fd, &drained, sizeof drained);
}

int Interrupts::fd() const {
  return event_fd;
}

}  // namespace holdfast::cli
