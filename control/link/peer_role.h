#pragma once
// Who may come in by which socket. The kernel says who a peer's user and process are; the programs
// that read what strangers send (gateway, helpers, workers) are confined, cannot change their names
// and are let in by their own sockets alone. Everything else of the same user, or of root, is the
// CLI, the supervisor or a client.

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "control/link/door.h"
#include "shared/wire/socket.h"

namespace holdfast::link {

enum class PeerProgram : std::uint8_t { kOther, kWorker, kHelper, kGateway, kElsewhere };

/// By the kernel's name of the process; kElsewhere for one that cannot be seen from here (another
/// namespace, or it has ended).
PeerProgram program_of(std::int64_t pid);

/// Empty: may come in. Else why not, in a sentence without its subject ("belongs to user 1000, …").
std::string reason_to_refuse(Role door, const wire::PeerCredentials& peer, PeerProgram program,
                             uid_t own);

/// What the gateway asks for on behalf of clients and of the console. Backups, deaths of workers
/// and the daemon's own end are not among it.
bool is_gateway_verb(std::string_view verb);

}  // namespace holdfast::link
