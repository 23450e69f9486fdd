#pragma once
// Which paths and ports each program needs, one function a program.

#include <string>
#include <vector>

#include "shared/sandbox/confine.h"

namespace holdfast::sandbox {

/// Reads the descriptors that are open and nothing else.
Wish header_reader_wish();

/// Starts `program` with header readers, which look for their file themselves.
Wish reader_spawner_wish(const std::string& program);

/// No paths at all: what helpers need comes through their socket.
Wish helper_wish();

/// Reads what looking names up and checking certificates takes, and the directories of `files`
/// (its own certificate and key, which may be replaced). Writes in `notes` alone, which is made if
/// it is not there: what it has in hand, for whoever must know what it died over. Connects anywhere
/// (webhooks), binds nothing: the listener is there already.
Wish gateway_wish(const std::vector<std::string>& files, const std::string& notes);

/// Reads below `roots` ("DIR:DIR…", empty: anywhere), in `run_dir` and what the kernel says of the
/// machine. Writes one file: the list of what this user's workers load on this host.
Wish worker_wish(const std::string& roots, const std::string& run_dir);

/// The same with the devices' nodes, their libraries, the caches of compiled kernels (ours is below
/// `cache_dir`) and a linker as child.
Wish device_worker_wish(const std::string& roots, const std::string& run_dir,
                        const std::string& cache_dir);

/// Reads and writes anywhere that its user may, as backups go where operators say; executes
/// nothing, reaches no device and no port.
Wish daemon_wish();

}  // namespace holdfast::sandbox
