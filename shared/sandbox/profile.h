#pragma once
// The kinds of process that give up rights, one allow list of system calls each.

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace holdfast::sandbox {

enum class Profile : std::uint8_t {
  kHeaderReader,   // one untrusted model file: reads descriptors that are open, writes its answer
  kReaderSpawner,  // starts header readers for a helper and does nothing else
  kHelper,         // templates, tokenizers, grammars: threads and a unix socket, no files
  kGateway,        // HTTP: accepts on what it was given, connects, reads files, keeps notes
  kWorker,         // models on processors: threads, a unix socket, opens files to read
  kDeviceWorker,   // models on devices: also libraries, device files, a compiler as child
  kDaemon,         // the database and its sockets
};

inline constexpr Profile kProfiles[] = {
    Profile::kHeaderReader, Profile::kReaderSpawner, Profile::kHelper, Profile::kGateway,
    Profile::kWorker,       Profile::kDeviceWorker,  Profile::kDaemon,
};

/// "header reader", "gateway", …
std::string_view profile_name(Profile profile);

/// What becomes of a call that is not on the list.
enum class Refusal : std::uint8_t {
  kKill,   // the process ends by SIGSYS
  kCount,  // EPERM; the tell-tale ones also count and are logged (refusals.h)
  kError,  // EPERM. For processes whose children are other programs, which have no handler
};
Refusal refusal_of(Profile profile);

/// Names of calls that this kind may make with any arguments.
std::vector<std::string_view> calls_of(Profile profile);

/// Calls that end every confined process: nothing here or in a library needs them.
std::span<const std::string_view> deadly_calls();
/// Calls that nothing honest makes after the start, but that harm nobody when they fail.
std::span<const std::string_view> telltale_calls();

/// How far a call whose arguments matter is allowed.
struct Arguments {
  bool exec_memory = false;       // mmap and mprotect with PROT_EXEC
  bool threads = false;           // clone with CLONE_THREAD
  bool processes = false;         // clone without it, and execve
  bool open_read = false;         // open to read
  bool open_write = false;        // open to write or to make
  bool confine = false;           // prctl and seccomp calls with which a child confines itself
  bool devices = false;           // ioctls of GPUs
  bool locks = false;             // fcntl locks
  bool seals = false;             // fcntl seals
  std::span<const int> families;  // of sockets
};
Arguments arguments_of(Profile profile);

}  // namespace holdfast::sandbox
