#pragma once
// Decides which peers may use which socket. The kernel tells a peer's user and process. The
// programs that read what strangers send (gateway, helpers, workers) are confined, cannot change
// their names and may use their own sockets alone. Every other process of the same user, or of
// root, is the CLI, the supervisor or a client.

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "control/endpoints/router_endpoint.h"
#include "shared/wire/socket.h"

namespace holdfast::daemon {

/// The program of a connected process, by the name that the kernel tells.
enum class PeerProgram : std::uint8_t { kOther, kWorker, kHelper, kGateway, kFetcher, kElsewhere };

/// Tells the program by the kernel's name of the process; kElsewhere for a process that cannot be
/// seen from here (another namespace, or it has ended).
PeerProgram program_of(std::int64_t pid);

/// Returns an empty text if the peer may use the socket, else the reason, a sentence without its
/// subject ("belongs to user 1000, …").
std::string reason_to_refuse(Role role, const wire::PeerCredentials& peer, PeerProgram program,
                             uid_t daemon_uid);

/// Returns true for the verbs that a gateway sends on behalf of clients and of the console.
/// Backups, deaths of workers and the daemon's own end are not among them.
bool is_gateway_verb(std::string_view verb);

}  // namespace holdfast::daemon
