// holdfast pull, and what is under way: jobs list, show, cancel, tail.

#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <thread>

#include "ops/cli/verb_functions.h"
#include "ops/serve/daemon.h"
#include "ops/serve/temporary_serve.h"
#include "ops/terminal/interrupt.h"
#include "ops/terminal/output.h"
#include "ops/terminal/progress_view.h"
#include "shared/base/environment.h"

namespace holdfast::cli {
namespace {

using nlohmann::json;

constexpr std::chrono::milliseconds kLook{250};
constexpr double kMib = 1 << 20;

bool has_ended(const std::string& state) {
  return state == "done" || state == "failed" || state == "cancelled";
}

std::string text_of(const json& pull, const char* name) {
  return pull.value(name, std::string());
}

/// The look at a pull as the daemon has it.
ProgressLook look_at(const json& pull) {
  ProgressLook look;
  look.name = text_of(pull, "name");
  look.state = text_of(pull, "state");
  look.done_bytes = pull.value("done_bytes", std::int64_t{0});
  if (look.state != "resolving") look.bytes = pull.value("bytes", std::int64_t{0});
  look.transfers = look.state == "downloading";
  if (look.state == "waiting") look.note = "; tried: " + text_of(pull, "error");
  return look;
}

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
  ProgressView view(call.quiet || call.json);
  while (true) {
    int exit = kExitDone;
    const auto pull = operate(call, "pulls.show", {{"name", name}}, exit);
    if (!pull) return exit;
    if (has_ended(text_of(*pull, "state"))) {
      view.clear();
      return report_end(call, *pull);
    }
    view.show(look_at(*pull));
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
