#include "control/endpoints/peer_role.h"

#include <algorithm>
#include <fstream>
#include <iterator>

namespace holdfast::daemon {
namespace {

// The kernel stores 15 bytes of a name.
constexpr std::string_view kWorkerName = "holdfast-worker";
constexpr std::string_view kHelperName = "holdfast-ingres";
constexpr std::string_view kGatewayName = "holdfast-gatewa";
constexpr std::string_view kFetcherName = "holdfast-fetche";

constexpr std::string_view kGatewayVerbs[] = {
    "config.diff",
    "config.explain",
    "config.get",
    "config.history",
    "config.list",
    "config.rollback",
    "config.set",
    "config.unset",
    "db.stats",
    "ids.derive",
    "metrics",
    "models.add",
    "models.alias",
    "models.alias_history",
    "models.alias_remove",
    "models.aliases",
    "models.canary",
    "models.canary_promote",
    "models.canary_rollback",
    "models.detokenize",
    "models.keep_alive",
    "models.list",
    "models.load",
    "models.pin",
    "models.remove",
    "models.show",
    "models.tokenize",
    "models.unload",
    "models.unpin",
    "models.verify",
    "nodes.drain",
    "nodes.list",
    "nodes.resume",
    "nodes.show",
    "objects.delete",
    "objects.get",
    "objects.list",
    "objects.put",
    "pulls.cancel",
    "pulls.list",
    "pulls.show",
    "pulls.start",
    "queue.pause",
    "queue.resume",
    "queue.stats",
    "requests.cancel",
    "requests.list",
    "requests.move",
    "requests.requeue",
    "requests.show",
    "status",
    "workers.drain",
    "workers.list",
    "workers.resume",
};
static_assert(std::ranges::is_sorted(kGatewayVerbs));

std::string_view name_of(PeerProgram program) {
  switch (program) {
    case PeerProgram::kWorker:
      return "a worker";
    case PeerProgram::kHelper:
      return "a helper";
    case PeerProgram::kGateway:
      return "a gateway";
    case PeerProgram::kFetcher:
      return "a fetcher";
    case PeerProgram::kElsewhere:
      return "a process that cannot be seen from here";
    case PeerProgram::kOther:
      break;
  }
  return "a program";
}

bool may_enter(Role role, PeerProgram program) {
  switch (role) {
    case Role::kWorker:
      return program == PeerProgram::kWorker || program == PeerProgram::kOther ||
             program == PeerProgram::kElsewhere;
    case Role::kIngress:
      return program == PeerProgram::kHelper || program == PeerProgram::kOther ||
             program == PeerProgram::kElsewhere;
    case Role::kClient:
      return program != PeerProgram::kWorker && program != PeerProgram::kHelper &&
             program != PeerProgram::kFetcher;
    case Role::kGateway:
      return program != PeerProgram::kWorker && program != PeerProgram::kHelper;
    case Role::kOperator:
      return program == PeerProgram::kOther;
    case Role::kElsewhere:
      return false;  // its peers are known by their keys, never by a process of this machine
  }
  return false;
}

}  // namespace

PeerProgram program_of(std::int64_t pid) {
  if (pid <= 0) return PeerProgram::kElsewhere;
  std::ifstream file("/proc/" + std::to_string(pid) + "/comm");
  std::string name;
  if (!std::getline(file, name)) return PeerProgram::kElsewhere;
  if (name == kWorkerName) return PeerProgram::kWorker;
  if (name == kHelperName) return PeerProgram::kHelper;
  if (name == kFetcherName) return PeerProgram::kFetcher;
  return name == kGatewayName ? PeerProgram::kGateway : PeerProgram::kOther;
}

std::string reason_to_refuse(Role role, const wire::PeerCredentials& peer, PeerProgram program,
                             uid_t daemon_uid) {
  if (!peer.identified) return "does not say who it is; expected a unix socket";
  if (peer.uid != 0 && peer.uid != static_cast<std::int64_t>(daemon_uid)) {
    return "belongs to user " + std::to_string(peer.uid) + "; expected user " +
           std::to_string(daemon_uid) + ", as whom the daemon runs, or root";
  }
  if (may_enter(role, program)) return {};
  return "is " + std::string(name_of(program)) + ", which has no business at this socket";
}

bool is_gateway_verb(std::string_view verb) {
  return std::ranges::binary_search(kGatewayVerbs, verb);
}

}  // namespace holdfast::daemon
