#pragma once
// Landlock in the version of the kernel: https://docs.kernel.org/userspace-api/landlock.html

#include <string>
#include <vector>

namespace holdfast::sandbox {

/// Allowed paths, each a file or a directory with all its content; missing ones are skipped.
struct FileRights {
  std::vector<std::string> read;     // and list
  std::vector<std::string> write;    // also read, make, remove
  std::vector<std::string> execute;  // also read
  std::vector<std::string> devices;  // read, write, control
};

/// Restrictions besides files.
struct NetRights {
  bool bind_tcp = false;
  bool connect_tcp = false;
};

/// The newest version whose rights this code knows.
inline constexpr int kLandlockNewest = 7;

/// Returns the kernel's version, at most `most`; 0 = it has none. HOLDFAST_TEST_LANDLOCK_ABI=N
/// limits it to N for tests.
int landlock_abi(int most = kLandlockNewest);

/// Restricts this thread and those that it starts to these rights, with no signal or abstract
/// socket to other processes. Handles every right and scope of version `abi`. False if the kernel
/// refused (then nothing has changed). Needs no_new_privs.
bool restrict_with_landlock(const FileRights& files, const NetRights& net, int abi);

}  // namespace holdfast::sandbox
