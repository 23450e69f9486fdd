#pragma once
// The verbs by which nodes fetch models (schema/protocol.md): node.chunks and node.range read one
// of a registered model by its hash, from this machine or from a node that has it; node.offer and
// node.supply are how a node gives. A peer names no path. What is under way to a peer is bounded:
// each range comes with a receipt, and only a returned receipt makes space for another one.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "control/core/machine.h"
#include "control/daemon/model_reads.h"
#include "control/daemon/model_relay.h"
#include "shared/wire/messages.h"

namespace holdfast::daemon {

/// The surroundings of ModelFiles.
struct ModelFilesOptions {
  std::string cache_dir;             // of lists of chunks
  std::int64_t range_bytes_max = 0;  // of one answer
  std::function<void()> wake;        // deliver() is due; called on other threads
  std::function<void(core::PeerId, const wire::Message&)> send;
};

/// Models for nodes that lack them. Belongs to the daemon's thread.
class ModelFiles {
 public:
  static constexpr std::size_t kRangesOfPeerMax = 16;  // read, or sent and not yet receipted
  static constexpr std::size_t kRangesMax = 256;       // being read, of all peers

  explicit ModelFiles(ModelFilesOptions options);

  static bool knows(const std::string& verb);
  /// Answers a verb of a node: at once, or when it is read.
  void ask(core::PeerId peer, const wire::Op& op, const std::string& node,
           const core::Machine& machine, std::int64_t now_us);
  /// Sends what has been read, and refuses what took too long.
  void deliver(std::int64_t now_us);
  void peer_gone(core::PeerId peer);

 private:
  /// This machine's knowledge of a registered model.
  struct Local {
    bool in_work = false;  // its list is being made
    bool here = false;
    std::int64_t looked_us = 0;
    LocalModel model;
    std::optional<model_index::ChunkList> list;
  };
  /// A list that a node makes of a model, as this machine has none.
  struct Remote {
    bool in_work = false;
    std::int64_t looked_us = 0;
    std::optional<model_index::ChunkList> list;
  };
  /// A range that a peer waits for.
  struct Pending {
    core::PeerId peer = 0;
    std::uint64_t tag = 0;
    std::string node;  // the source; empty: this machine
    std::int64_t bytes = 0;
    std::string sha;
  };
  /// A peer that reads ranges.
  struct Reader {
    std::size_t pending = 0;
    std::map<std::string, std::int64_t> receipts;  // of answers under way, and when they were sent
  };
  struct Question {
    core::PeerId peer = 0;
    std::uint64_t tag = 0;
    std::string node;  // that asks
    std::int64_t now_us = 0;
    const core::Machine& machine;
    const nlohmann::json& args;
    const core::Model* model = nullptr;
    std::string text(const char* name) const;
    std::int64_t integer(const char* name) const;
  };
  void chunks(const Question& question);
  bool ask_for_list(const Question& question, const std::string& source);
  void chunks_of_nodes(const Question& question, const std::vector<std::string>& sources);
  void answer_list(const Question& question, const model_index::ChunkList& list, bool verified,
                   const std::string& list_source, const std::vector<std::string>& sources);
  void answer_not_ready(const Question& question, const std::string& list_source,
                        std::int64_t hashed_bytes);
  Local& look_at_local(const Question& question);
  void range(const Question& question);
  void probe(const Question& question);
  std::string wrong_range(const Question& question) const;
  const model_index::ChunkList* list_of(const std::string& sha) const;
  bool take_space(const Question& question);
  void supply(const Question& question, const wire::Op& op);
  void take_remote_list(const RelayJob& job, const Question& question, const std::string& hashes);
  void end_range(std::uint64_t id, Result<std::string> content, std::int64_t now_us);
  void fail_job(const RelayJob& job, const std::string& why, std::int64_t now_us);
  void match_offers(std::int64_t now_us);
  void refuse(core::PeerId peer, std::uint64_t tag, Errc code, std::string why);

  ModelFilesOptions options_;
  ModelRelay relay_;
  std::map<std::string, Local> locals_;                            // by hash
  std::map<std::pair<std::string, std::string>, Remote> remotes_;  // by hash and node
  std::map<std::uint64_t, Pending> pending_;
  std::map<core::PeerId, Reader> readers_;
  std::map<core::PeerId, int> probes_;  // that were answered
  std::uint64_t last_id_ = 0;
  ModelReads reads_;  // ends first: its threads wake the daemon
};

}  // namespace holdfast::daemon
