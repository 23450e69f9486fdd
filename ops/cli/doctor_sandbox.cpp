// Checks of the confinement of our processes: what the kernel offers, and what is in force in each
// running one, as the kernel and the process say.

#include <sys/prctl.h>
#include <unistd.h>
#include <fstream>

#include <nlohmann/json.hpp>

#include "ops/cli/doctor.h"
#include "ops/serve/drop_user.h"
#include "shared/base/json_text.h"
#include "shared/sandbox/report.h"

namespace holdfast::cli {
namespace {

using nlohmann::json;

constexpr int kLandlockWhole = 6;  // the first version with scopes

struct Child {
  std::string name;
  std::int64_t pid = 0;
};

std::vector<Child> children_of(const Patient& p) {
  const std::string path = p.state + "/run/supervisor.json";
  std::vector<Child> out;
  std::ifstream file(path);
  const json document = try_parse_json<json>(std::string(std::istreambuf_iterator<char>(file), {}));
  if (!document.is_object() || !document.contains("children")) return out;
  for (const json& row : document["children"]) {
    // A child that is down has no pid.
    if (!row.is_object() || !row.contains("pid") || !row["pid"].is_number_integer()) continue;
    Child child{row.value("name", ""), row["pid"].get<std::int64_t>()};
    if (child.pid > 0) out.push_back(std::move(child));
  }
  return out;
}

/// A field of /proc/PID/status, blanks trimmed; empty if it is not there.
std::string status_field(const std::string& status, const std::string& name) {
  const std::size_t at = status.find("\n" + name + ":");
  if (at == std::string::npos) return {};
  const std::size_t begin = status.find_first_not_of(" \t", at + name.size() + 2);
  return status.substr(begin, status.find('\n', begin) - begin);
}

std::string describe(const sandbox::Reported& r) {
  sandbox::Confinement c;
  c.calls = r.calls;
  c.relaxed = r.relaxed;
  c.landlock_abi = r.landlock_abi;
  return r.profile + ": " + sandbox::describe(c);
}

/// Describes what one process lacks; empty if nothing.
std::string missing_of(const Patient& p, const Child& child, std::string* in_force) {
  const std::string status = read_below(p, "/proc/" + std::to_string(child.pid) + "/status");
  if (status.empty()) return "cannot be looked at (" + std::to_string(child.pid) + ")";
  const auto report = sandbox::read_report(p.state + "/run", child.pid);
  *in_force = report ? describe(*report) : "it says nothing";
  if (status_field(status, "NoNewPrivs") != "1") return "may gain privileges (NoNewPrivs 0)";
  if (status_field(status, "Seccomp") != "2") return "may make every system call (Seccomp 0)";
  if (!report || !report->calls) return "did not confine itself";
  if (report->landlock_abi == 0) return "reaches every file of its user (no Landlock)";
  return {};
}

void check_kernel(Patient& p) {
  if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) < 0) {
    p.fail("sandbox", "the kernel has no no_new_privs", "Linux 3.5 or newer",
           "processes would keep rights that they do not need: use a newer kernel");
    return;
  }
  const bool filters = !read_below({p.call, {}, {}, {}, false, false, {}, {}, {}},
                                   "/proc/sys/kernel/seccomp/actions_avail")
                            .empty();
  const int abi = sandbox::landlock_abi();
  const std::string found = std::string("the kernel has ") +
                            (filters ? "filters of system calls" : "no filters of system calls") +
                            " and " + (abi > 0 ? "Landlock " + std::to_string(abi) : "no Landlock");
  if (!filters) {
    p.warn("sandbox", found, "seccomp filters",
           "nothing stops a process that was taken over: use a kernel with CONFIG_SECCOMP_FILTER");
  } else if (abi == 0) {
    p.warn("sandbox", found, "Landlock",
           "system calls are restricted, the paths that they name are not: add landlock to the "
           "kernel's lsm= parameter");
  } else {
    p.ok("sandbox", found + (abi < kLandlockWhole ? ", without scopes for signals and sockets, "
                                                    "which the lists of calls stand in for"
                                                  : ""));
  }
}

}  // namespace

/// Reports what is in force for each running process, never what could be.
void check_sandbox(Patient& p) {
  check_kernel(p);
  std::string all;
  for (const Child& child : children_of(p)) {
    std::string in_force;
    const std::string missing = missing_of(p, child, &in_force);
    if (!missing.empty()) {
      p.warn("sandbox of " + child.name, missing + (in_force.empty() ? "" : "; " + in_force),
             "system calls by list, Landlock and no new privileges",
             "look into STATE/logs for \"confined\", and at what the kernel has, above");
      continue;
    }
    all += (all.empty() ? "" : "; ") + child.name + " is confined as " + in_force;
  }
  if (!all.empty()) p.ok("sandbox in force", all);
}

/// Checks the user of the running processes, else of this process, which would start them.
void check_user(Patient& p) {
  bool root = geteuid() == 0 && !p.served;
  for (const Child& child : children_of(p)) {
    const std::string status = read_below(p, "/proc/" + std::to_string(child.pid) + "/status");
    root = root || status_field(status, "Uid").starts_with("0\t");
  }
  if (root) {
    p.warn("user", p.served ? "the processes run as root" : "this is root", "a user of its own",
           "whoever takes a process over has this machine's files: serve with --user NAME, or "
           "start it as that user");
  } else {
    p.ok("user", "not root");
  }
}

}  // namespace holdfast::cli
