#include "ops/serve/liveness_probe.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace holdfast::cli {

Result<int> LivenessProbe::prepare() {
  ended();
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0) {
    return Error{Errc::kIo, std::string("socketpair for probes: ") + std::strerror(errno)};
  }
  ours_ = OwnedFd(ends[0]);
  theirs_ = OwnedFd(ends[1]);
  return ends[1];
}

void LivenessProbe::started(pid_t pid) {
  theirs_ = OwnedFd();
  process_ = ProcessView::open(pid);
}

void LivenessProbe::ended() {
  *this = LivenessProbe();
}

bool LivenessProbe::was_answered() {
  char answer = 0;
  bool any = false;
  while (read(ours_.get(), &answer, 1) == 1) any = true;
  return any;
}

void LivenessProbe::look(std::int64_t now_ms, std::int64_t period_ms) {
  if (ours_.get() < 0 || !process_) return;
  const std::int64_t counted_us = std::min(now_ms - looked_ms_, period_ms + period_ms / 4) * 1000;
  looked_ms_ = now_ms;
  if (was_answered()) {
    armed_ = true;
    probe_pending_ = false;
    silent_us_ = 0;
  }
  if (probe_pending_) {
    if (!armed_) return;
    const bool stopped = process_->state() == ProcessView::State::kStopped;
    const std::int64_t held_up_us = process_->held_up_us(now_ms * 1000);
    silent_us_ += stopped ? counted_us : std::max<std::int64_t>(counted_us - held_up_us, 0);
    return;
  }
  process_->begin_count(now_ms * 1000);
  const char probe = 1;
  probe_pending_ = write(ours_.get(), &probe, 1) == 1;
}

}  // namespace holdfast::cli
