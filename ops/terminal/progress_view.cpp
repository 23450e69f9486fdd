#include "ops/terminal/progress_view.h"

#include <unistd.h>

#include <cstdio>
#include <utility>

#include "ops/terminal/output.h"

namespace holdfast::cli {

double ProgressView::bytes_s(std::int64_t done) {
  const auto now = std::chrono::steady_clock::now();
  const double seconds = std::chrono::duration<double>(now - at_).count();
  if (at_.time_since_epoch().count() == 0 || done < before_) {
    at_ = now;
    before_ = done;
  } else if (seconds >= 1) {
    const double fresh = static_cast<double>(done - before_) / seconds;
    speed_ = speed_ == 0 ? fresh : 0.6 * speed_ + 0.4 * fresh;
    at_ = now;
    before_ = done;
  }
  return speed_;
}

std::string ProgressView::line_of(const ProgressLook& look) {
  std::string line = look.state;
  if (look.bytes > 0) {
    line += " " + std::to_string(100 * look.done_bytes / look.bytes) + " % of " +
            human_bytes(static_cast<double>(look.bytes));
  }
  const double rate = bytes_s(look.done_bytes);
  if (look.transfers && rate > 0) {
    const double left = static_cast<double>(look.bytes - look.done_bytes) / rate;
    line += ", " + human_bytes(rate) + "/s, " + std::to_string(static_cast<std::int64_t>(left)) +
            " s left";
  }
  return line + look.note;
}

void ProgressView::show(const ProgressLook& look) {
  if (quiet_) return;
  const std::string line = line_of(look);
  if (isatty(STDERR_FILENO) == 1) {
    std::fprintf(stderr, "\r\033[K%s: %.*s", look.name.c_str(), 90, line.c_str());
    drawn_ = true;
  } else if (look.state != state_) {
    std::fprintf(stderr, "holdfast: %s: %s\n", look.name.c_str(), line.c_str());
  }
  state_ = look.state;
}

void ProgressView::clear() {
  if (std::exchange(drawn_, false)) std::fprintf(stderr, "\r\033[K");
}

}  // namespace holdfast::cli
