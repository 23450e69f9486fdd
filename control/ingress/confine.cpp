// Landlock: https://docs.kernel.org/userspace-api/landlock.html; seccomp filters:
// https://docs.kernel.org/userspace-api/seccomp_filter.html
#include "control/ingress/confine.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "shared/base/roots.h"
#include "shared/hf/folder.h"

namespace holdfast::ingress {
namespace {

Result<std::string> real_path(const std::string& path) {
  char real[PATH_MAX];
  if (realpath(path.c_str(), real) == nullptr) {
    return Error{Errc::kIo, path + ": " + std::strerror(errno)};
  }
  return std::string(real);
}

/// All that the first version of Landlock knows: a newer kernel knows these too.
constexpr std::uint64_t kAllRights =
    LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_READ_FILE |
    LANDLOCK_ACCESS_FS_READ_DIR | LANDLOCK_ACCESS_FS_REMOVE_DIR | LANDLOCK_ACCESS_FS_REMOVE_FILE |
    LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_MAKE_REG |
    LANDLOCK_ACCESS_FS_MAKE_SOCK | LANDLOCK_ACCESS_FS_MAKE_FIFO | LANDLOCK_ACCESS_FS_MAKE_BLOCK |
    LANDLOCK_ACCESS_FS_MAKE_SYM;

bool allow(int rules, const std::string& path) {
  const int file = open(path.c_str(), O_PATH | O_CLOEXEC);
  struct stat st = {};
  bool done = file >= 0 && fstat(file, &st) == 0;
  if (done) {
    landlock_path_beneath_attr rule = {};
    rule.allowed_access = LANDLOCK_ACCESS_FS_READ_FILE;
    if (S_ISDIR(st.st_mode)) rule.allowed_access |= LANDLOCK_ACCESS_FS_READ_DIR;
    rule.parent_fd = file;
    done = syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) == 0;
  }
  if (file >= 0) close(file);
  return done;
}

bool confine_files(const std::vector<std::string>& paths) {
  landlock_ruleset_attr attributes = {};
  attributes.handled_access_fs = kAllRights;
  const auto rules =
      static_cast<int>(syscall(SYS_landlock_create_ruleset, &attributes, sizeof(attributes), 0));
  if (rules < 0) return false;
  bool done = true;
  for (const std::string& path : paths) done = done && allow(rules, path);
  done = done && syscall(SYS_landlock_restrict_self, rules, 0) == 0;
  close(rules);
  return done;
}

#if defined(__x86_64__)
constexpr std::uint32_t kArchitecture = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr std::uint32_t kArchitecture = AUDIT_ARCH_AARCH64;
#else
constexpr std::uint32_t kArchitecture = 0;
#endif

/// What a reader of files has no use for and one who took it over would want.
constexpr long kForbidden[] = {
    SYS_execve,
    SYS_execveat,
    SYS_clone,
    SYS_clone3,
    SYS_socket,
    SYS_socketpair,
    SYS_connect,
    SYS_bind,
    SYS_listen,
    SYS_accept4,
    SYS_sendto,
    SYS_sendmsg,
    SYS_kill,
    SYS_tkill,
    SYS_ptrace,
    SYS_bpf,
    SYS_mount,
    SYS_umount2,
    SYS_unshare,
    SYS_setns,
    SYS_keyctl,
    SYS_add_key,
    SYS_request_key,
    SYS_process_vm_readv,
    SYS_process_vm_writev,
    SYS_userfaultfd,
    SYS_perf_event_open,
    SYS_io_uring_setup,
    SYS_init_module,
    SYS_finit_module,
    SYS_kexec_load,
#if defined(__x86_64__)
    SYS_fork,
    SYS_vfork,
#endif
};

/// Each forbidden call fails with EPERM, as if the user had no right to it.
bool confine_syscalls() {
  if (kArchitecture == 0) return false;
  const auto refuse = static_cast<std::uint32_t>(SECCOMP_RET_ERRNO | EPERM);
  std::vector<sock_filter> code = {
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, arch)),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kArchitecture, 1, 0),
    BPF_STMT(BPF_RET | BPF_K, refuse),  // calls of another width have other numbers
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
#if defined(__x86_64__)
    BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 0x40000000U, 0, 1),  // x32
    BPF_STMT(BPF_RET | BPF_K, refuse),
#endif
  };
  for (const long number : kForbidden) {
    code.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<std::uint32_t>(number), 0, 1));
    code.push_back(BPF_STMT(BPF_RET | BPF_K, refuse));
  }
  code.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  const sock_fprog program{static_cast<unsigned short>(code.size()), code.data()};
  return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

Result<std::string> real_path_below(const std::string& path, const std::string& roots) {
  HF_TRY(const std::string real, real_path(path));
  if (roots.empty()) return real;
  std::string real_roots;
  for (const std::string& root : split_roots(roots)) {
    const Result<std::string> where = real_path(root);
    if (where) real_roots += (real_roots.empty() ? "" : ":") + where.value();
  }
  if (!real_roots.empty() && allowed_by_roots(real, real_roots)) return real;
  return Error{Errc::kUnauthorized, path + ": leads to " + real +
                                        ", which is not below a directory of models.roots (" +
                                        roots + "); move it there or change models.roots"};
}

}  // namespace

Result<std::vector<std::string>> real_paths_below(const std::string& path,
                                                  const std::string& roots) {
  std::vector<std::string> all(1);
  HF_TRY(all[0], real_path_below(path, roots));
  DIR* folder = opendir(path.c_str());
  if (folder == nullptr) {  // a file, which may have more parts
    HF_TRY(const std::vector<std::string> files, hf::files_of(path));
    for (std::size_t i = 1; i < files.size(); ++i) {
      HF_TRY(std::string real, real_path_below(files[i], roots));
      all.push_back(std::move(real));
    }
    return all;
  }
  std::vector<std::string> links;
  while (const dirent* entry = readdir(folder)) {
    struct stat st = {};
    const bool link =
        fstatat(dirfd(folder), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(st.st_mode);
    if (link) links.push_back(path + "/" + entry->d_name);
  }
  closedir(folder);
  for (const std::string& link : links) {
    HF_TRY(std::string real, real_path_below(link, roots));
    all.push_back(std::move(real));
  }
  return all;
}

Confinement confine_this_process(const std::vector<std::string>& real_paths) {
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);  // both ask for it
  Confinement done;
  done.files = confine_files(real_paths);
  done.syscalls = confine_syscalls();
  return done;
}

}  // namespace holdfast::ingress
