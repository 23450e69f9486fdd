// holdfast-ingress: turns prompts into token ids and reads model files for the daemon, so that what
// users send never meets a parser inside it.

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
#include "shared/hf/stamp.h"
#include "shared/sandbox/report.h"
#include "shared/sandbox/rights.h"
#include "shared/text/regex_split.h"
#include "shared/wire/frame.h"

namespace hf = holdfast;

namespace {

hf::ingress::Helper* running_helper = nullptr;  // for the signal handler

void on_stop_signal(int) {
  if (running_helper != nullptr) running_helper->request_stop();
}

constexpr std::size_t kModelFilesMax = 1200;  // of a folder

/// Looks where the file is and opens it, then nothing any more. Where the kernel has Landlock no
/// other file can be opened in between either.
hf::wire::Inspected read_confined(const std::string& path, const std::string& roots) {
  const std::vector<std::string> names = hf::ingress::names_of_files(path);
  hf::ingress::limit_this_process(path, std::min(names.size(), kModelFilesMax));
  const auto real = hf::ingress::real_paths_below(path, roots);
  if (!real) return hf::ingress::refused_file(real.error());
  const int abi = hf::sandbox::landlock_abi();
  hf::sandbox::FileRights rights;
  rights.read = real.value();
  if (abi > 0) hf::sandbox::restrict_with_landlock(rights, {}, abi);
  const auto kept = hf::keep_open_files(names, kModelFilesMax);
  if (!kept) return hf::ingress::refused_file(kept.error());
  hf::hf::prepare_hashing();
  hf::text::interpret_patterns();
  hf::sandbox::confine(hf::sandbox::header_reader_wish());
  return hf::ingress::inspect_file(path);
}

int inspect(const std::string& path, const std::string& roots) {
  const std::string frame = hf::wire::encode(read_confined(path, roots));
  const bool written = std::fwrite(frame.data(), 1, frame.size(), stdout) == frame.size();
  return written && std::fflush(stdout) == 0 ? 0 : 1;
}

int serve(const std::string& endpoint, const std::string& run_dir) {
  const rlimit no_core{0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  hf::ingress::HelperOptions options;
  options.endpoint = endpoint;
  options.program = std::filesystem::read_symlink("/proc/self/exe").string();
  const auto spawner = hf::ingress::ReaderSpawner::start(options.program);
  if (!spawner.has_value()) {
    hf::log::error("ingress ends", {{"reason", spawner.error().what}});
    return 1;
  }
  options.spawner = spawner.value().get();
  hf::text::interpret_patterns();
  hf::sandbox::confine_and_report(hf::sandbox::helper_wish(), run_dir);
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
  holdfast::open_standard_files();
  if (hf::printed_version(argc, argv, "holdfast-ingress")) return 0;
  const std::string flag = argc == 3 || argc == 4 ? argv[1] : "";
  if (flag == "--inspect") return inspect(argv[2], argc == 4 ? argv[3] : "");
  hf::arm_crash_points("ingress");  // not in the child that inspects: it is nobody's promise
  hf::log::init("holdfast-ingress", isatty(STDERR_FILENO) == 0);
  if (flag == "--state") {
    const std::string run_dir = std::filesystem::absolute(argv[2]).string() + "/run";
    return serve("ipc://" + run_dir + "/ingress.sock", run_dir);
  }
  if (flag == "--endpoint") return serve(argv[2], "");
  std::fputs("usage: holdfast-ingress --state DIR | --endpoint E | --inspect PATH [ROOTS]\n",
             stderr);
  return 2;
}
