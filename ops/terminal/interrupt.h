#pragma once
// Ctrl-C and SIGTERM as a flag, for verbs that write a file and must not leave half of it.

#include "shared/base/result.h"

namespace holdfast::cli {

/// Makes the first SIGINT or SIGTERM only set a flag while this object exists; a second one ends
/// the process as usual. One at a time (CHECKed).
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;
};

/// kCancelled once a signal came, naming `what`.
Result<void> check_interrupt(const char* what);

}  // namespace holdfast::cli
