#pragma once
// The state directory and the HTTP socket, which `serve` prepares before the first child starts.

#include <string>
#include <vector>

#include "ops/serve/supervisor.h"
#include "shared/base/result.h"

namespace holdfast::cli {

/// The result of prepare_state_dir(): what it found and made.
struct MadeState {
  std::string path;               // absolute
  bool was_empty = false;         // or missing: its contents came since
  std::vector<std::string> made;  // directories, parents first
};

/// Makes the directory, 0700 with run/ and logs/, where it is not there. kUsage if its path is too
/// long for a Unix socket under it, kIo if it cannot be made or written; then nothing is left of
/// it.
Result<MadeState> prepare_state_dir(const std::string& state_dir);

/// Removes what was made for a start that was refused before it could serve.
void take_back(const MadeState& state);

/// A listening TCP socket.
struct Listener {
  int fd = -1;
  std::string url;  // "http://127.0.0.1:8080", with the port that was really bound
};
/// Listens on HOST:PORT, [IPV6]:PORT, PORT (on 127.0.0.1), *:PORT or :PORT (on every IPv4 address).
/// Port 0 takes a free one. kUsage for anything else, kConflict if the port is taken, kIo
/// otherwise.
Result<Listener> listen_http(const std::string& address);

/// Returns the listening sockets that a service manager handed down (LISTEN_FDS of systemd's socket
/// activation), none if it did not. The environment is cleared, so that no child takes them for its
/// own. kUsage: one of them is no listening TCP socket.
Result<std::vector<Listener>> inherited_listeners();
/// Writes a JSON document to a file through a temporary one and rename: readers see the old or the
/// new one. On a full disk it overwrites the old one, which has room to spare.
Result<void> write_json_file(const std::string& path, std::string text);

/// The contents of STATE/run/supervisor.json: {"pid", "http", "children": [{"role", "name", "pid",
/// "restarts"}]}; "pid" of a child that is down is null. For operators and tests.
std::string supervisor_json(const std::string& http_url, const std::vector<ChildState>& children);

/// The last line that a program wrote to its log beyond `offset`, as text: of a JSON line the event
/// and its fields. Empty if there is none.
std::string last_log_line(const std::string& path, std::int64_t offset);

/// Path of our own executable.
std::string own_program();

/// Folder of the daemon, the workers and the other programs that we start: that of our own
/// executable, or for an installed PREFIX/bin/holdfast PREFIX/libexec/holdfast.
std::string program_folder();

}  // namespace holdfast::cli
