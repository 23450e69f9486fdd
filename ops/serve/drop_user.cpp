#include "ops/serve/drop_user.h"

#include <grp.h>
#include <linux/capability.h>
#include <pwd.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace holdfast::cli {
namespace {

/// Empties the bounding set: the capabilities that a program with file capabilities could gain.
void drop_bounding_set() {
  for (int capability = 0; capability <= CAP_LAST_CAP + 8; ++capability) {
    prctl(PR_CAPBSET_DROP, capability, 0, 0, 0);
  }
  prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
}

}  // namespace

/// Takes the ids of the user for good. Returns what went wrong, or nothing.
static std::string take_ids(const std::string& name, uid_t uid, gid_t gid) {
  // The user's own groups: devices (render, video) are reached through them.
  if (initgroups(name.c_str(), gid) != 0) return std::string("groups: ") + std::strerror(errno);
  if (setresgid(gid, gid, gid) != 0) return std::string("group: ") + std::strerror(errno);
  if (setresuid(uid, uid, uid) != 0) return std::string("user: ") + std::strerror(errno);
  if (setuid(0) == 0 || seteuid(0) == 0 || getuid() != uid || getegid() != gid) {
    return "root could be taken back; nothing was started";
  }
  return {};
}

Result<void> become_user(const std::string& name) {
  const auto failed = [&](const std::string& why) {
    return Error{Errc::kUsage, "--user " + name + ": " + why};
  };
  errno = 0;
  const passwd* user = getpwnam(name.c_str());
  if (user == nullptr) {
    return failed(errno != 0 ? std::strerror(errno) : "there is no such user on this machine");
  }
  if (geteuid() != 0) {
    if (user->pw_uid == geteuid() && getuid() == geteuid()) return {};
    return failed("only root can become another user; expected a start as root or as that user");
  }
  const uid_t uid = user->pw_uid;
  const gid_t gid = user->pw_gid;
  if (uid == 0) return failed("is root; expected a user without its rights");
  setenv("HOME", user->pw_dir, 1);
  setenv("USER", name.c_str(), 1);
  setenv("LOGNAME", name.c_str(), 1);
  drop_bounding_set();
  const std::string wrong = take_ids(name, uid, gid);
  if (!wrong.empty()) return failed(wrong);
  return {};
}

std::string root_warning() {
  if (geteuid() != 0) return {};
  return "runs as root: whoever takes one of its processes over has this machine's files; start it "
         "as a user of its own, or with --user NAME";
}

}  // namespace holdfast::cli
