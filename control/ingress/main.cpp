// holdfast-ingress: turns prompts into token ids and reads model files for the daemon, so that no
// parser inside the daemon meets what users send.

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "control/ingress/helper.h"
#include "control/ingress/inspect.h"
#include "control/ingress/reader_spawner.h"
#include "control/ingress/real_paths.h"
#include "shared/base/crash_point.h"
#include "shared/base/log.h"
#include "shared/base/open_files.h"
#include "shared/base/standard_files.h"
#include "shared/base/version.h"
#include "shared/huggingface/stamp.h"
#include "shared/sandbox/report.h"
#include "shared/sandbox/rights.h"
#include "shared/text/regex_split.h"
#include "shared/wire/frame.h"

namespace {

holdfast::ingress::Helper* running_helper = nullptr;  // for the signal handler

void on_stop_signal(int) {
  if (running_helper != nullptr) running_helper->request_stop();
}

constexpr std::size_t kModelFilesMax = 1200;  // most files of a model's folder

/// Looks up where the model's files lie, opens them, confines the process and reads them. Where the
/// kernel has Landlock, no other file can be opened in between either.
holdfast::wire::Inspected read_confined(const std::string& path, const std::string& roots) {
  const std::vector<std::string> names = holdfast::ingress::names_of_files(path);
  holdfast::ingress::limit_this_process(path, std::min(names.size(), kModelFilesMax));
  const auto real = holdfast::ingress::real_paths_below(path, roots);
  if (!real) return holdfast::ingress::refused_file(real.error());
  const int abi = holdfast::sandbox::landlock_abi();
  holdfast::sandbox::FileRights rights;
  rights.read = real.value();
  if (abi > 0) holdfast::sandbox::restrict_with_landlock(rights, {}, abi);
  const auto preopened = holdfast::preopen_files(names, kModelFilesMax);
  if (!preopened) return holdfast::ingress::refused_file(preopened.error());
  holdfast::huggingface::prepare_hashing();
  holdfast::text::interpret_patterns();
  holdfast::sandbox::confine(holdfast::sandbox::header_reader_policy());
  return holdfast::ingress::inspect_file(path);
}

int inspect(const std::string& path, const std::string& roots) {
  const std::string frame = holdfast::wire::encode(read_confined(path, roots));
  const bool written = std::fwrite(frame.data(), 1, frame.size(), stdout) == frame.size();
  return written && std::fflush(stdout) == 0 ? 0 : 1;
}

int serve(const std::string& endpoint, const std::string& run_dir) {
  const rlimit no_core{0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  holdfast::ingress::HelperOptions options;
  options.endpoint = endpoint;
  options.program = std::filesystem::read_symlink("/proc/self/exe").string();
  const auto spawner = holdfast::ingress::ReaderSpawner::start(options.program);
  if (!spawner.has_value()) {
    holdfast::log::error("ingress ends", {{"reason", spawner.error().what}});
    return 1;
  }
  options.spawner = spawner.value().get();
  holdfast::text::interpret_patterns();
  holdfast::sandbox::confine_and_report(holdfast::sandbox::helper_policy(), run_dir);
  holdfast::ingress::Helper helper(options);
  running_helper = &helper;
  std::signal(SIGTERM, on_stop_signal);
  std::signal(SIGINT, on_stop_signal);
  std::signal(SIGPIPE, SIG_IGN);
  const auto end = helper.run();
  // A PREPARE that does not end cannot be joined, and nothing here needs a destructor.
  if (end.has_value()) _exit(end.value() == holdfast::ingress::Helper::End::kOverdue ? 75 : 0);
  holdfast::log::error("ingress ends", {{"reason", end.error().what}});
  _exit(1);
}

}  // namespace

int main(int argc, char** argv) {
  holdfast::open_standard_files();
  if (holdfast::printed_version(argc, argv, "holdfast-ingress")) return 0;
  const std::string flag = argc == 3 || argc == 4 ? argv[1] : "";
  if (flag == "--inspect") return inspect(argv[2], argc == 4 ? argv[3] : "");
  holdfast::arm_crash_points("ingress");  // not in the child that inspects: it promises nothing
  holdfast::log::init("holdfast-ingress", isatty(STDERR_FILENO) == 0);
  if (flag == "--state") {
    const std::string run_dir = std::filesystem::absolute(argv[2]).string() + "/run";
    return serve("ipc://" + run_dir + "/ingress.sock", run_dir);
  }
  if (flag == "--endpoint") return serve(argv[2], "");
  std::fputs("usage: holdfast-ingress --state DIR | --endpoint E | --inspect PATH [ROOTS]\n",
             stderr);
  return 2;
}
