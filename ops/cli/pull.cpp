// holdfast pull, and what is under way: jobs list, show, cancel, tail.

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <thread>

#include "ops/cli/verb_functions.h"
#include "ops/serve/daemon.h"
#include "ops/serve/temporary_serve.h"
#include "ops/terminal/interrupt.h"
#include "ops/terminal/output.h"
#include "shared/base/environment.h"

namespace holdfast::cli {
namespace {

using nlohmann::json;

constexpr std::chrono::milliseconds kLook{250};
constexpr double kMib = 1 << 20;

bool on_terminal() {
  return isatty(STDERR_FILENO) == 1;
}

bool has_ended(const std::string& state) {
  return state == "done" || state == "failed" || state == "cancelled";
}

std::string text_of(const json& pull, const char* name) {
  return pull.value(name, std::string());
}

/// The speed between two looks, smoothed.
class Speed {
 public:
  double bytes_s(std::int64_t done) {
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

 private:
  std::chrono::steady_clock::time_point at_{};
  std::int64_t before_ = 0;
  double speed_ = 0;
};

/// "downloading 37 % of 138.1 MiB, 8.1 MiB/s, 11 s left"
std::string progress_line(const json& pull, Speed& speed) {
  std::string line = text_of(pull, "state");
  const std::int64_t bytes = pull.value("bytes", std::int64_t{0});
  const std::int64_t done = pull.value("done_bytes", std::int64_t{0});
  if (bytes > 0 && line != "resolving") {
    line += " " + std::to_string(100 * done / bytes) + " % of " +
            human_bytes(static_cast<double>(bytes));
  }
  const double rate = speed.bytes_s(done);
  if (text_of(pull, "state") == "downloading" && rate > 0) {
    const auto left = static_cast<std::int64_t>(static_cast<double>(bytes - done) / rate);
    line += ", " + human_bytes(rate) + "/s, " + std::to_string(left) + " s left";
  }
  if (text_of(pull, "state") == "waiting") line += "; tried: " + text_of(pull, "error");
  return line;
}

/// Shows how far a pull is: one line that changes on a terminal, else a line a state.
class ProgressView {
 public:
  explicit ProgressView(const Call& call) : quiet_(call.quiet || call.json) {}
  ~ProgressView() { clear(); }

  void show(const json& pull) {
    if (quiet_) return;
    const std::string line = progress_line(pull, speed_);
    const std::string state = text_of(pull, "state");
    if (on_terminal()) {
      std::fprintf(stderr, "\r\033[K%s: %.*s", text_of(pull, "name").c_str(), 90, line.c_str());
      drawn_ = true;
    } else if (state != state_) {
      std::fprintf(stderr, "holdfast: %s: %s\n", text_of(pull, "name").c_str(), line.c_str());
    }
    state_ = state;
  }
  void clear() {
    if (std::exchange(drawn_, false)) std::fprintf(stderr, "\r\033[K");
  }

 private:
  bool quiet_;
  bool drawn_ = false;
  std::string state_;
  Speed speed_;
};

/// Reports how a pull ended. Returns the exit code.
int report_end(const Call& call, const json& pull) {
  const std::string name = text_of(pull, "name");
  const std::string state = text_of(pull, "state");
  if (state == "done") {
    std::string line = name + ": pulled, " +
                       human_bytes(static_cast<double>(pull.value("bytes", std::int64_t{0}))) +
                       "; holdfast run " + name + " \"…\"";
    if (const std::string note = text_of(pull, "note"); !note.empty()) line += "\n" + note;
    print_change(call, pull, line);
    return kExitDone;
  }
  if (state == "cancelled") {
    return report_error(call, Errc::kCancelled, "the pull of " + name + " was cancelled");
  }
  return report_error(call, errc_from_name(text_of(pull, "error_code")),
                      "pull " + name + ": " + text_of(pull, "error"));
}

/// Follows a pull until its end, or until the caller is interrupted: it goes on then.
int follow_pull(const Call& call, const std::string& name) {
  const InterruptGuard guard;
  ProgressView view(call);
  while (true) {
    int exit = kExitDone;
    const auto pull = operate(call, "pulls.show", {{"name", name}}, exit);
    if (!pull) return exit;
    if (has_ended(text_of(*pull, "state"))) {
      view.clear();
      return report_end(call, *pull);
    }
    view.show(*pull);
    if (!check_interrupt("pull")) {
      view.clear();
      return report_error(call, Errc::kCancelled,
                          "no longer watching: the pull of " + name +
                              " goes on (holdfast jobs tail " + name + "; holdfast jobs cancel " +
                              name + " ends it)");
    }
    std::this_thread::sleep_for(kLook);
  }
}

RenderOptions list_options() {
  RenderOptions options;
  options.columns = {"name", "state", "bytes", "done_bytes", "changed_ms", "source", "error"};
  options.nested["pulls"] = options.columns;
  options.when_empty = "no pulls; begin one with `holdfast pull hf.co/ORG/REPO:QUANT`";
  return options;
}

/// Starts a pull with the daemon of `call`, and follows it.
int start_pull(const Call& call) {
  json args = {{"source", call.text("SOURCE")}};
  if (call.has("as")) args["name"] = call.text("as");
  if (call.has("load")) args["load"] = true;
  if (call.has("limit-rate")) {
    args["rate_bytes_s"] = static_cast<std::int64_t>(call.real("limit-rate") * kMib);
  }
  if (const std::string hub = environment("HF_ENDPOINT"); !hub.empty()) args["hub"] = hub;
  int exit = kExitDone;
  const auto started = operate(call, "pulls.start", args, exit);
  if (!started) return exit;
  const std::string name = text_of(*started, "name");
  if (call.has("no-wait")) {
    print_change(call, *started, name + ": being pulled (holdfast jobs tail " + name + ")");
    return kExitDone;
  }
  return follow_pull(call, name);
}

}  // namespace

int pull_model(const Call& call) {
  if (call.has("limit-rate") && call.real("limit-rate") <= 0) {
    return report_error(call, Errc::kUsage, "--limit-rate: expected MiB a second above 0");
  }
  if (daemon_answers(call)) return start_pull(call);
  if (call.has("no-wait")) {
    return report_error(call, Errc::kUnreachable,
                        "no daemon runs on " + call.state_dir +
                            ", which --no-wait leaves the work to: start one (holdfast serve)");
  }
  const auto serve = TemporaryServe::start_in(call.state_dir);
  if (!serve) return report_error(call, serve.error());
  return start_pull(call);
}

int jobs_list(const Call& call) {
  return operate_and_print(call, "pulls.list", json::object(), list_options());
}

int jobs_show(const Call& call) {
  return operate_and_print(call, "pulls.show", {{"name", call.text("NAME")}});
}

int jobs_cancel(const Call& call) {
  int exit = kExitDone;
  const auto pull = operate(call, "pulls.cancel", {{"name", call.text("NAME")}}, exit);
  if (!pull) return exit;
  const std::string state = text_of(*pull, "state");
  print_change(call, *pull,
               call.text("NAME") + ": " + (state == "cancelled" ? "" : "had ended: ") + state);
  return kExitDone;
}

int jobs_tail(const Call& call) {
  return follow_pull(call, call.text("NAME"));
}

}  // namespace holdfast::cli
