// holdfast-ingress: turns prompts into token ids and reads model files for the daemon, so that what
// users send never meets a parser inside it.

#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "control/ingress/confine.h"
#include "control/ingress/helper.h"
#include "control/ingress/inspect.h"
#include "shared/base/crash_point.h"
#include "shared/base/log.h"
#include "shared/base/version.h"
#include "shared/wire/frame.h"

namespace hf = holdfast;

namespace {

hf::ingress::Helper* running_helper = nullptr;  // for the signal handler

void on_stop_signal(int) {
  if (running_helper != nullptr) running_helper->request_stop();
}

/// Looks where the file is, then at nothing else any more.
hf::wire::Inspected read_confined(const std::string& path, const std::string& roots) {
  hf::ingress::limit_this_process(path);
  const auto real = hf::ingress::real_paths_below(path, roots);
  if (!real) return hf::ingress::refused_file(real.error());
  hf::ingress::confine_this_process(real.value());
  return hf::ingress::inspect_file(path);
}

int inspect(const std::string& path, const std::string& roots) {
  const std::string frame = hf::wire::encode(read_confined(path, roots));
  const bool written = std::fwrite(frame.data(), 1, frame.size(), stdout) == frame.size();
  return written && std::fflush(stdout) == 0 ? 0 : 1;
}

int serve(const std::string& endpoint) {
  const rlimit no_core{0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  hf::ingress::HelperOptions options;
  options.endpoint = endpoint;
  options.program = std::filesystem::read_symlink("/proc/self/exe").string();
  hf::ingress::Helper helper(options);
  running_helper = &helper;
  std::signal(SIGTERM, on_stop_signal);
  std::signal(SIGINT, on_stop_signal);
  std::signal(SIGPIPE, SIG_IGN);
  const auto end = helper.run();
  // A PREPARE that does not end cannot be joined, and nothing here needs a destructor.
  if (end.has_value()) _exit(end.value() == hf::ingress::Helper::End::kOverdue ? 75 : 0);
  hf::log::error("ingress ends", {{"reason", end.error().what}});
  _exit(1);
}

}  // namespace

int main(int argc, char** argv) {
  if (hf::printed_version(argc, argv, "holdfast-ingress")) return 0;
  const std::string flag = argc == 3 || argc == 4 ? argv[1] : "";
  if (flag == "--inspect") return inspect(argv[2], argc == 4 ? argv[3] : "");
  hf::arm_crash_points("ingress");  // not in the child that inspects: it is nobody's promise
  hf::log::init("holdfast-ingress", isatty(STDERR_FILENO) == 0);
  if (flag == "--state") {
    return serve("ipc://" + std::filesystem::absolute(argv[2]).string() + "/run/ingress.sock");
  }
  if (flag == "--endpoint") return serve(argv[2]);
  std::fputs("usage: holdfast-ingress --state DIR | --endpoint E | --inspect PATH [ROOTS]\n",
             stderr);
  return 2;
}
