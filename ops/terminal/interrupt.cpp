#include "ops/terminal/interrupt.h"

#include <signal.h>

#include <string>

namespace holdfast::cli {
namespace {

volatile sig_atomic_t interrupted = 0;
bool guarded = false;
struct sigaction old_int, old_term;

extern "C" void note_interrupt(int) {
  interrupted = 1;
}

}  // namespace

InterruptGuard::InterruptGuard() {
  CHECK(!guarded);
  guarded = true;
  interrupted = 0;
  struct sigaction action {};
  action.sa_handler = note_interrupt;
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigaction(SIGINT, &action, &old_int);
  sigaction(SIGTERM, &action, &old_term);
}

InterruptGuard::~InterruptGuard() {
  sigaction(SIGINT, &old_int, nullptr);
  sigaction(SIGTERM, &old_term, nullptr);
  guarded = false;
}

Result<void> check_interrupt(const char* what) {
  if (interrupted == 0) return {};
  return Error{Errc::kCancelled, std::string(what) + ": interrupted; nothing was written"};
}

}  // namespace holdfast::cli
