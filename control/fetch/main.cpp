// holdfast-fetcher: downloads models for the daemon, whose rows say which. What it reads from
// strangers goes to files below one folder and to JSON that says where they are; it may do nothing
// else. Killed at any time it goes on where it was.

#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string>

#include "control/fetch/blob_server.h"
#include "control/fetch/fetcher.h"
#include "shared/base/crash_point.h"
#include "shared/base/log.h"
#include "shared/base/standard_files.h"
#include "shared/base/version.h"
#include "shared/sandbox/report.h"
#include "shared/sandbox/rights.h"

namespace {

namespace fs = std::filesystem;

holdfast::fetch::Fetcher* running_fetcher = nullptr;  // for the signal handler

void on_stop_signal(int) {
  if (running_fetcher != nullptr) running_fetcher->request_stop();
}

/// Waits until no other process downloads into the folder. False if it cannot be locked.
bool lock_folder(const std::string& folder) {
  const int fd = open((folder + "/.lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return false;
  while (flock(fd, LOCK_EX) != 0) {
    if (errno != EINTR) return false;
  }
  return true;  // for as long as this process lives
}

int serve(const std::string& state) {
  const std::string models = state + "/models";
  std::error_code failed;
  fs::create_directories(models, failed);
  fs::permissions(models, fs::perms::owner_all, failed);
  if (!lock_folder(models)) {
    holdfast::log::error("the fetcher ends",
                         {{"folder", models}, {"why", std::string(std::strerror(errno))}});
    return 1;
  }
  const std::string run = state + "/run";
  holdfast::fetch::BlobStore blobs(models, run);
  blobs.clean_up();
  auto server = holdfast::fetch::BlobServer::open(run, blobs);
  if (!server) {
    holdfast::log::error("the fetcher ends", {{"why", server.error().what}});
    return 1;
  }
  holdfast::sandbox::confine_and_report(holdfast::sandbox::fetcher_policy(models, run), run);
  holdfast::fetch::FetcherOptions options;
  options.endpoint = "ipc://" + run + "/gateway.sock";
  options.models_dir = models;
  options.run_dir = run;
  options.blobs = &blobs;
  (*server)->start();
  holdfast::fetch::Fetcher fetcher(std::move(options));
  running_fetcher = &fetcher;
  std::signal(SIGTERM, on_stop_signal);
  std::signal(SIGINT, on_stop_signal);
  std::signal(SIGPIPE, SIG_IGN);
  const auto end = fetcher.run();
  running_fetcher = nullptr;
  if (end) return 0;
  holdfast::log::error("the fetcher ends", {{"why", end.error().what}});
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  holdfast::open_standard_files();
  if (holdfast::printed_version(argc, argv, "holdfast-fetcher")) return 0;
  holdfast::arm_crash_points("fetcher");
  holdfast::log::init("holdfast-fetcher", isatty(STDERR_FILENO) == 0);
  if (argc == 3 && std::string(argv[1]) == "--state") {
    return serve(fs::absolute(argv[2]).string());
  }
  std::fputs("usage: holdfast-fetcher --state DIR\n", stderr);
  return 2;
}
