#pragma once
// Operator verbs: JSON arguments in, JSON documents out (schema/protocol.md, "Operator verbs").

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "control/core/machine.h"
#include "control/store/store.h"
#include "shared/base/histogram.h"
#include "shared/base/supervisor_note.h"
#include "shared/wire/liveness.h"

namespace holdfast::daemon {

/// Facts of the process that status shows next to the machine's.
struct ProcessFacts {
  std::string state_dir;
  std::int64_t pid = 0;
  std::int64_t started_us = 0;
  std::int64_t now_us = 0;
  std::uint64_t commits = 0;
  std::uint64_t full_commits = 0;
  Histogram commit_us;  // of groups that wrote something
  std::uint64_t malformed = 0;
  std::uint64_t datagrams_refused = 0;  // of nodes
  /// The session of the node that a report is answered to; nullopt: there are no datagrams.
  std::optional<wire::LivenessSession> liveness_session;
  std::vector<SupervisedChild> children;  // as the supervisor's note says
  /// The pair of this daemon and its standby; nullopt: it has none, and no record.
  struct Pair {
    std::string state;  // "alone", "copying", "in_step", "missing"
    std::string standby;
    std::uint64_t term = 0;
    std::int64_t unconfirmed = 0;  // messages
    std::int64_t shipped_bytes = 0;
  };
  std::optional<Pair> pair;
};

/// A document to be rendered after the commit of the group.
struct Deferred {
  std::string verb;
  std::string args;
};
/// The action of a verb: an event for the machine, a document, or a refusal.
using OpAction = std::variant<core::Event, Deferred, wire::Refusal>;
/// Returns the refusal of a verb that is not for tenants (Op::tenant), which may only ask for their
/// own objects and about a model's vocabulary.
std::optional<wire::Refusal> refuse_tenant(const wire::Op& op);
/// Reads a verb's arguments. Unknown verbs and bad arguments are refusals.
OpAction read_op(core::PeerId peer, const wire::Op& op);
/// Reads a verb of a node's supervisor: node.report, node.bye, node.exit. `node`: the name that its
/// key gives it.
OpAction read_node_op(core::PeerId peer, const wire::Op& op, const std::string& node);

/// Renders the document of a read-only verb, or of a committed change (`key_or_args` names its
/// subject). `tenant`: the caller; empty: an operator. kUsage, kNotFound and errors of the store.
Result<std::string> render_op(const std::string& verb, const std::string& key_or_args,
                              core::Machine& machine, store::Store& store,
                              const ProcessFacts& facts, const std::string& tenant = {});

}  // namespace holdfast::daemon
