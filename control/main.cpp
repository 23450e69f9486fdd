// holdfastd: the control plane.

#include <signal.h>
#include <sodium.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "control/link/daemon.h"
#include "shared/base/crash_point.h"
#include "shared/base/log.h"

namespace {

using holdfast::Errc;
using holdfast::Error;
using holdfast::Result;

holdfast::link::Daemon* g_daemon = nullptr;

void on_signal(int) {
  if (g_daemon != nullptr) g_daemon->request_stop();
}

constexpr const char* kUsage =
    "usage: holdfastd --state DIR [--config NAME=VALUE]…\n"
    "The control plane of Holdfast. `holdfast config list` names the knobs.\n";

Result<holdfast::link::DaemonOptions> read_arguments(int argc, char** argv) {
  holdfast::link::DaemonOptions options;
  const char* state = std::getenv("HOLDFAST_STATE");
  options.state_dir = state != nullptr ? state : "./holdfast-state";
  for (int i = 1; i < argc; ++i) {
    const std::string_view name = argv[i];
    if (name != "--state" && name != "--config") {
      return Error{Errc::kUsage, "unknown argument \"" + std::string(name) + "\""};
    }
    if (i + 1 == argc) return Error{Errc::kUsage, std::string(name) + ": expected a value"};
    const char* value = argv[++i];
    if (name == "--state") {
      options.state_dir = value;
    } else {
      HF_CHECKED(holdfast::core::set_knob(options.config, value));
    }
  }
  return options;
}

/// sysexits.h: usage 64, software 70 (database damaged), I/O 74, temporary 75 (another owner).
int exit_code(Errc code) {
  switch (code) {
    case Errc::kUsage:
      return 64;
    case Errc::kCorrupt:
    case Errc::kVersionNewer:
      return 70;
    case Errc::kConflict:
      return 75;
    default:
      return 74;
  }
}

int fail(const Error& error) {
  holdfast::log::error("holdfastd ends",
                       {{"code", holdfast::errc_name(error.code)}, {"why", error.what}});
  std::fprintf(stderr, "holdfastd: %s\n", error.what.c_str());
  return exit_code(error.code);
}

}  // namespace

int main(int argc, char** argv) {
  holdfast::arm_crash_points("daemon");
  for (int i = 1; i < argc; ++i) {
    if (std::string_view(argv[i]) == "--help") {
      std::fputs(kUsage, stdout);
      return 0;
    }
  }
  umask(077);  // prompts and answers are nobody else's business
  holdfast::log::init("holdfastd", isatty(STDERR_FILENO) == 0);
  if (sodium_init() < 0) return fail({Errc::kInternal, "start: libsodium does not start"});
  auto options = read_arguments(argc, argv);
  if (!options) {
    std::fputs(kUsage, stderr);
    return fail(options.error());
  }
  auto daemon = holdfast::link::Daemon::start(std::move(options).value(), holdfast::system_clock());
  if (!daemon) return fail(daemon.error());
  g_daemon = daemon->get();
  struct sigaction action {};
  action.sa_handler = on_signal;
  sigaction(SIGTERM, &action, nullptr);
  sigaction(SIGINT, &action, nullptr);
  signal(SIGPIPE, SIG_IGN);
  const Result<void> ended = (*daemon)->run();
  // After a failed sync nothing may run any more, destructors that write included.
  if (!ended) _exit(fail(ended.error()));
  return 0;
}
