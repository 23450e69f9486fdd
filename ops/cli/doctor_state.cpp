// Checks of the state directory: modes, file system, free space, sync time, leftovers.

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "control/core/config.h"
#include "control/daemon/config_import.h"
#include "ops/cli/doctor.h"
#include "ops/cli/status_screen.h"
#include "ops/serve/state_dir.h"
#include "ops/terminal/output.h"
#include "shared/base/json_text.h"

namespace holdfast::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr double kSlowSyncMs = 20, kImpossibleSyncMs = 0.02;
constexpr int kSyncs = 9;

std::string octal(mode_t mode) {
  char text[8];
  std::snprintf(text, sizeof text, "%04o", mode & 07777u);
  return text;
}

/// Checks that one path is its owner's alone.
void check_private(Patient& p, const std::string& path, const char* mode) {
  struct stat info {};
  if (lstat(path.c_str(), &info) != 0) return;
  if (info.st_uid != geteuid() && geteuid() != 0) {
    p.fail("owner of " + path, "user " + std::to_string(info.st_uid),
           "user " + std::to_string(geteuid()),
           "run as that user, or chown -R " + std::to_string(geteuid()) + " " + path);
  }
  if ((info.st_mode & 077) != 0) {
    p.fail("mode of " + path, octal(info.st_mode), mode, std::string("chmod ") + mode + " " + path);
  }
}

std::string file_system_name(long type) {
  switch (static_cast<unsigned long>(type)) {
    case 0x6969:
      return "nfs";
    case 0x517B:
    case 0xFF534D42:
    case 0xFE534D42:
      return "smb";
    case 0x01021997:
      return "9p";
    case 0x00C36400:
      return "ceph";
    case 0x6B414653:
    case 0x5346414F:
      return "afs";
    case 0x65735546:
      return "fuse";
    case 0x01021994:
      return "tmpfs";
    case 0x794C7630:
      return "overlay";
    case 0xEF53:
      return "ext4";
    case 0x58465342:
      return "xfs";
    case 0x9123683E:
      return "btrfs";
    case 0x2FC12FC1:
      return "zfs";
  }
  char text[24];
  std::snprintf(text, sizeof text, "type 0x%lx", type);
  return text;
}

/// Milliseconds of a few synced writes, sorted; empty if the directory cannot be written.
std::vector<double> measure_syncs(const std::string& dir) {
  const std::string path = dir + "/doctor-" + std::to_string(getpid()) + ".tmp";
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) return {};
  std::vector<double> times;
  const std::string page(4096, 'x');
  for (int i = 0; i < kSyncs; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    const bool written = write(fd, page.data(), page.size()) == static_cast<ssize_t>(page.size());
    if (!written || fdatasync(fd) != 0) break;
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
    times.push_back(took.count());
  }
  close(fd);
  unlink(path.c_str());
  std::sort(times.begin(), times.end());
  return times;
}

bool lives(pid_t pid) {
  return pid > 0 && (kill(pid, 0) == 0 || errno == EPERM);
}

/// The child's pid; 0 if it is down.
pid_t pid_of_child(const json& child) {
  const json pid = child.value("pid", json());
  return pid.is_number_integer() ? pid.get<pid_t>() : 0;
}

}  // namespace

void check_state_dir(Patient& p) {
  if (!p.exists) {
    p.ok("state directory", p.state + " is not there yet; `holdfast serve` makes it");
    return;
  }
  const std::size_t before = p.findings.size();
  check_private(p, p.state, "0700");
  check_private(p, p.state + "/run", "0700");
  check_private(p, p.state + "/control.db", "0600");
  if (fs::exists(p.state + "/keys")) check_private(p, p.state + "/keys", "0700");
  std::error_code failed;
  for (const auto& entry : fs::directory_iterator(p.state + "/keys", failed)) {
    check_private(p, entry.path().string(), "0600");
  }
  if (access(p.state.c_str(), R_OK | W_OK | X_OK) != 0) {
    p.fail("state directory", p.state + ": " + std::strerror(errno), "readable and writable",
           "run as its owner");
  }
  if (p.findings.size() == before) p.ok("state directory", p.state + " and its keys are private");
}

void check_file_system(Patient& p) {
  constexpr std::pair<const char*, const char*> kVolatile[] = {
      {"tmpfs", "what was accepted is lost with the power; use a disk"},
      {"overlay", "it is lost with the container; mount a volume"},
      {"fuse", "see that it passes fsync on to a disk"},
  };
  struct statfs info {};
  const std::string path = p.exists ? p.state : fs::path(p.state).parent_path().string();
  if (statfs(path.c_str(), &info) != 0) {
    p.fail("file system", path + ": " + std::strerror(errno), "a directory",
           "make " + path + ", or name another with --state");
    return;
  }
  const std::string name = file_system_name(info.f_type);
  for (const char* remote : {"nfs", "smb", "9p", "ceph", "afs"}) {
    if (name != remote) continue;
    p.fail("file system", name, "a local one",
           "move the state directory to a local disk: locks and syncs of a network file system "
           "cannot be relied on");
    return;
  }
  for (const auto& [kind, hint] : kVolatile) {
    if (name == kind) return p.warn("file system", name, "ext4, xfs, btrfs or zfs", hint);
  }
  p.ok("file system", name);
}

void check_disk_space(Patient& p) {
  struct statvfs info {};
  const std::string path = p.exists ? p.state : fs::path(p.state).parent_path().string();
  if (statvfs(path.c_str(), &info) != 0) return;  // check_file_system reports it
  const double free = static_cast<double>(info.f_bavail) * static_cast<double>(info.f_frsize);
  const core::Config standard;
  const auto bound =
      static_cast<double>(knob_value(p, "storage.min_free_bytes", standard.storage_min_free_bytes));
  const std::string found = human_bytes(free) + " free";
  if (free < bound) {
    p.fail("disk space", found, human_bytes(bound) + " (storage.min_free_bytes)",
           "free some space: no request is accepted below the bound");
  } else if (free < 4 * bound) {
    p.warn("disk space", found, "four times " + human_bytes(bound) + " (storage.min_free_bytes)",
           "free some space soon");
  } else {
    p.ok("disk space", found);
  }
  if (info.f_files > 0 && info.f_favail < 1000) {
    p.fail("disk inodes", std::to_string(info.f_favail) + " free", "at least 1000",
           "delete small files");
  }
}

void check_sync_time(Patient& p) {
  if (!p.exists) return;
  const std::vector<double> times = measure_syncs(p.state);
  if (times.size() < kSyncs) {
    p.fail("sync time", std::string("writing failed: ") + std::strerror(errno),
           "a directory that takes writes", "look at the disk and at the owner of " + p.state);
    return;
  }
  const double median = times[times.size() / 2];
  const std::string found = "median " + human_duration(median) + " of " + std::to_string(kSyncs) +
                            " synced writes, longest " + human_duration(times.back());
  if (median > kSlowSyncMs) {
    p.warn("sync time", found, "less than 20 ms",
           "each group of accepted requests waits so long: use a faster disk");
  } else if (median < kImpossibleSyncMs) {
    p.warn("sync time", found, "at least 20 us",
           "no disk is so fast: something answers before the data is safe (tmpfs, a cache without "
           "power protection, a hypervisor that ignores flushes)");
  } else {
    p.ok("sync time", found);
  }
}

void check_supervisor(Patient& p) {
  const std::string path = p.state + "/run/supervisor.json";
  const std::string text = [&] {
    Patient here = p;
    here.root.clear();
    return read_below(here, path);
  }();
  if (text.empty()) {
    p.ok("supervisor", p.served ? "none: the daemon was started by something else" : "none runs");
    return;
  }
  const json document = try_parse_json<json>(text);
  const pid_t pid = document.is_object() ? document.value("pid", 0) : 0;
  if (!lives(pid)) {
    p.warn("supervisor", path + " names process " + std::to_string(pid) + ", which does not run",
           "a file of a living one", "it was killed; start `holdfast serve`, which writes it anew");
    return;
  }
  p.ok("supervisor", "process " + std::to_string(pid));
  for (const json& child : document.value("children", json::array())) {
    if (lives(pid_of_child(child))) continue;
    p.warn("supervisor", child.value("name", "") + " does not run", "all children alive",
           "see " + p.state + "/logs/" + child.value("name", "") + ".log");
  }
}

void check_http_port(Patient& p) {
  if (p.served) return;  // it holds the port itself
  if (p.http == "none") return;
  const auto listener = listen_http(p.http);
  if (!listener) {
    p.fail("HTTP port", listener.error().what, "a free port",
           "end the other program, or serve with --http HOST:PORT");
    return;
  }
  close(listener->fd);
  p.ok("HTTP port", p.http + " is free");
}

/// Checks the configuration of the next start: a key that is unknown (by now) would stop it.
void check_config(Patient& p) {
  const std::size_t before = p.findings.size();
  const std::string file = p.state + "/holdfast.conf";
  if (access(file.c_str(), F_OK) == 0) {
    const auto import = daemon::import_file(file);
    if (!import) {
      p.fail("config file", import.error().what, "knobs as `holdfast config list` shows them",
             "correct or delete the line: the next start ends with it");
    }
  }
  const auto environment = daemon::import_environment(environ);
  if (!environment) {
    p.fail("environment", environment.error().what, "names of knobs", "unset the variable");
  }
  if (p.findings.size() == before) p.ok("config", "the next start can read it");
}

}  // namespace holdfast::cli
