#pragma once
// Paths and ports of each program, one function a program.

#include <string>
#include <vector>

#include "shared/sandbox/confine.h"

namespace holdfast::sandbox {

/// Returns the header reader's policy: it reads open descriptors and nothing else.
Policy header_reader_policy();

/// Returns the policy of a process that starts `program` with header readers, which look for their
/// file themselves.
Policy reader_spawner_policy(const std::string& program);

/// Returns a policy without paths: helpers receive everything through their socket.
Policy helper_policy();

/// Returns the gateway's policy. It reads the files for name lookups and certificate checks, and
/// the directories of `files` (its own certificate and key, which may be replaced). Writes below
/// `notes` alone, which is created if missing: the items in work, to blame one when it dies.
/// Connects anywhere (webhooks), binds nothing: it inherits its listener.
Policy gateway_policy(const std::vector<std::string>& files, const std::string& notes);

/// Returns a CPU worker's policy. It reads below `roots` ("DIR:DIR…", empty: anywhere), in
/// `run_dir` and the kernel's description of the machine. Writes one file: the list of what this
/// user's workers load on this host.
Policy worker_policy(const std::string& roots, const std::string& run_dir);

/// Returns a device worker's policy: the same rights, and the devices' nodes, their libraries, the
/// caches of compiled kernels (ours is below `cache_dir`) and a linker as child.
Policy device_worker_policy(const std::string& roots, const std::string& run_dir,
                            const std::string& cache_dir);

/// Returns the fetcher's policy. It reads the files for name lookups and certificate checks and
/// `run_dir` (where models may lie), writes below `models` alone and connects anywhere.
Policy fetcher_policy(const std::string& models, const std::string& run_dir);

/// Returns the daemon's policy. It reads and writes anywhere that its user may, as operators choose
/// where backups go; executes nothing, reaches no device and no port. `listens`: it has a listener
/// for other machines, and may bind a port.
Policy daemon_policy(bool listens = false);

/// Lets a worker connect to a daemon on another machine.
Policy connecting(Policy policy);

}  // namespace holdfast::sandbox
