// Checks of the installation: our programs, libraries, the kernel's features, the processor.

#include <sqlite3.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zmq.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "ops/cli/doctor.h"
#include "shared/base/json_text.h"
#include "shared/base/version.h"
#include "worker/backend/cpu/family.h"

namespace holdfast::cli {
namespace {

using nlohmann::json;

constexpr int kSqliteAtLeast = 3'038'000;  // STRICT tables, RETURNING, -wal in read-only

/// The first line that `program --version` prints; empty if it does not end with 0.
std::string version_of(const std::string& program) {
  const std::string command = "'" + program + "' --version 2>/dev/null </dev/null";
  FILE* pipe = popen(command.c_str(), "re");
  if (pipe == nullptr) return {};
  char line[256] = "";
  if (std::fgets(line, sizeof line, pipe) == nullptr) line[0] = '\0';
  const int status = pclose(pipe);
  std::string text = line;
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? text : std::string();
}

/// Words of the "flags" line of the first processor, with blanks around.
std::string cpu_flags(const Patient& p) {
  const std::string text = read_below(p, "/proc/cpuinfo");
  const std::size_t at = text.find("\nflags");
  if (at == std::string::npos) return {};
  const std::size_t colon = text.find(':', at);
  return text.substr(colon + 1, text.find('\n', colon) - colon - 1) + " ";
}

}  // namespace

void check_programs(Patient& p) {
  const std::size_t before = p.findings.size();
  for (const char* name : {"holdfastd", "holdfast-worker", "holdfast-ingress", "holdfast-gateway",
                           "holdfast-fetcher"}) {
    const std::string path = p.programs + "/" + name;
    const std::string expected = std::string(name) + " " + kVersion;
    if (access(path.c_str(), X_OK) != 0) {
      p.fail(name, path + " cannot be executed",
             "a program beside holdfast, or in ../libexec/holdfast",
             "install all programs of one version into one folder");
      continue;
    }
    const std::string found = version_of(path);
    if (found == expected) continue;
    p.fail(name, found.empty() ? "its --version fails" : found, expected,
           "install all programs of one version into " + p.programs);
  }
  if (p.findings.size() == before) {
    p.ok("programs", std::string("all are version ") + kVersion + " in " + p.programs);
  }
}

void check_libraries(Patient& p) {
  int major = 0, minor = 0, patch = 0;
  zmq_version(&major, &minor, &patch);
  const std::string zmq = "version " + std::to_string(major) + "." + std::to_string(minor) + "." +
                          std::to_string(patch) + (zmq_has("curve") != 0 ? " with CURVE" : "");
  if (major * 100 + minor < 403) {
    p.fail("libzmq", zmq, "4.3 or newer", "install libzmq5 of Debian 12 or newer");
  } else if (zmq_has("curve") == 0) {
    p.warn("libzmq", zmq + " without CURVE", "one with CURVE",
           "workers on other machines cannot connect with keys: install a libzmq with libsodium");
  } else {
    p.ok("libzmq", zmq);
  }
  const std::string sqlite = std::string("version ") + sqlite3_libversion();
  if (sqlite3_libversion_number() < kSqliteAtLeast) {
    p.fail("sqlite", sqlite, "3.38 or newer", "install libsqlite3-0 of Debian 12 or newer");
  } else if (sqlite3_threadsafe() == 0) {
    p.fail("sqlite", sqlite + " without threads", "a thread-safe one", "install Debian's");
  } else {
    p.ok("sqlite", sqlite);
  }
}

void check_processor(Patient& p) {
  const std::vector<std::string> families = cpu::runnable_families();
  const std::string flags = cpu_flags(p);
  std::string extra;
  const auto amx = cpu::select_family("amx");
  if (flags.find(" amx_tile ") != std::string::npos && !amx) {
    extra = "; its AMX is not used: " + amx.error().what;
  }
  const std::string found = "kernels " + families.front() + extra;
  if (families.front() == "scalar") {
    p.warn("processor", found, "AVX2 with FMA and F16C",
           "it works, but ten times slower: use another machine, or pass the host's processor "
           "through to the guest");
    return;
  }
  const json status = try_parse_json<json>(p.status);
  for (const json& worker : status.is_object() ? status.value("workers", json()) : json()) {
    const std::string used = worker.value("kernels", "");
    const bool supported = std::find(families.begin(), families.end(), used) != families.end();
    if (!supported || used == families.front() || worker.value("device", "") != "cpu") continue;
    p.warn("processor", "worker " + worker.value("key", "") + " uses " + used, families.front(),
           "serve without --kernels, if nothing needs that family's exact text");
    return;
  }
  p.ok("processor", found);
}

}  // namespace holdfast::cli
