#pragma once
// The profiles of confined processes, one allow list of system calls each.

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace holdfast::sandbox {

/// The processes that confine themselves; each has its own allow list of calls.
enum class Profile : std::uint8_t {
  kHeaderReader,   // one untrusted model file: reads open descriptors, writes its answer
  kReaderSpawner,  // starts header readers for a helper and does nothing else
  kHelper,         // templates, tokenizers, grammars: threads and a unix socket, no files
  kGateway,        // HTTP: accepts on an inherited listener, connects, reads files, has a journal
  kWorker,         // models on processors: threads, a unix socket, opens files to read
  kDeviceWorker,   // models on devices: also libraries, device files, a compiler as child
  kDaemon,         // the database and its sockets
  kFetcher,        // downloads: connects, reads files of the system, writes below one folder
};

inline constexpr Profile kProfiles[] = {
    Profile::kHeaderReader, Profile::kReaderSpawner, Profile::kHelper, Profile::kGateway,
    Profile::kWorker,       Profile::kDeviceWorker,  Profile::kDaemon, Profile::kFetcher,
};

/// Returns "header reader", "gateway", …
std::string_view profile_name(Profile profile);

/// The result of a call that is not on the list.
enum class Refusal : std::uint8_t {
  kKill,   // the process ends by SIGSYS
  kCount,  // EPERM; the tell-tale ones also count and are logged (refusals.h)
  kError,  // EPERM. For processes whose children are other programs, which have no handler
};
/// Returns what a call outside of the profile's list leads to; deadly_calls() kill in every
/// profile.
Refusal refusal_of(Profile profile);

/// Returns the calls that this profile may make with any arguments.
std::vector<std::string_view> calls_of(Profile profile);

/// Returns the calls that end every confined process: neither this code nor a library needs them.
std::span<const std::string_view> deadly_calls();
/// Returns the calls that no honest code makes after the start, but that harm nobody when they
/// fail.
std::span<const std::string_view> telltale_calls();

/// The allowed uses of calls whose arguments matter.
struct Arguments {
  bool exec_memory = false;       // mmap and mprotect with PROT_EXEC
  bool threads = false;           // clone with CLONE_THREAD
  bool processes = false;         // clone without it, and execve
  bool open_read = false;         // open to read
  bool open_write = false;        // open to write or to create
  bool confine = false;           // prctl and seccomp calls by which a child confines itself
  bool devices = false;           // ioctls of GPUs
  bool locks = false;             // fcntl locks
  bool seals = false;             // fcntl seals
  std::span<const int> families;  // of sockets
};
/// Returns the families of sockets of a process that reaches other machines.
std::span<const int> network_families();
/// Returns the profile's allowed uses of such calls.
Arguments arguments_of(Profile profile);

}  // namespace holdfast::sandbox
