#pragma once
// Landlock by the version that the kernel has: https://docs.kernel.org/userspace-api/landlock.html

#include <string>
#include <vector>

namespace holdfast::sandbox {

/// Paths, each a file or a directory with all that is in it; one that is not there is passed over.
struct FileRights {
  std::vector<std::string> read;     // and list
  std::vector<std::string> write;    // also read, make, remove
  std::vector<std::string> execute;  // also read
  std::vector<std::string> devices;  // read, write, control
};

/// What beside files is refused.
struct NetRights {
  bool bind_tcp = false;
  bool connect_tcp = false;
};

/// The newest version whose rights are known here.
inline constexpr int kLandlockNewest = 7;

/// The kernel's version, at most `most`; 0 = it has none. HOLDFAST_TEST_LANDLOCK_ABI=N makes the
/// kernel look like one with version N at most.
int landlock_abi(int most = kLandlockNewest);

/// For this thread and those that it starts: nothing but these rights, and no signal or abstract
/// socket that leads out. Asks for every right and scope that version `abi` knows. False if the
/// kernel refused (then nothing has changed). Needs no_new_privs.
bool restrict_with_landlock(const FileRights& files, const NetRights& net, int abi);

}  // namespace holdfast::sandbox
