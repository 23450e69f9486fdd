#pragma once
// Reads of models at nodes, for other nodes. A node has the connection to the daemon and opens no
// port, so it offers itself: its question waits here until there is a job, and is answered with it.

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "control/core/types.h"

namespace holdfast::daemon {

/// A read at a node.
struct RelayJob {
  enum class Kind : std::uint8_t { kRange, kList };
  std::uint64_t id = 0;
  std::string node;  // that has the model
  Kind kind = Kind::kRange;
  std::string sha;
  std::int64_t file = 0, offset = 0, bytes = 0;  // of a range
  std::int64_t deadline_us = 0;
  core::PeerId given_to = 0;  // 0: it waits for an offer
};

/// An answer to an offer: a job, or none in its time.
struct OfferAnswer {
  core::PeerId peer = 0;
  std::uint64_t tag = 0;
  std::string document;  // JSON
};

/// Jobs and offers. Not thread-safe.
class ModelRelay {
 public:
  static constexpr std::int64_t kOfferUs = 5'000'000;  // that an offer waits at most

  void add(RelayJob job) { jobs_[job.id] = std::move(job); }
  void offer(core::PeerId peer, std::uint64_t tag, const std::string& node, std::int64_t now_us);
  /// Takes the job that a node has done; nullopt: it has none of this number.
  std::optional<RelayJob> take(std::uint64_t id, const std::string& node);
  /// Forgets a job that nobody waits for any more.
  void drop(std::uint64_t id) { jobs_.erase(id); }
  /// Returns the answers to offers that are due now.
  std::vector<OfferAnswer> match(std::int64_t now_us);
  /// Returns the jobs that took too long, and forgets them.
  std::vector<RelayJob> take_late(std::int64_t now_us);
  /// Forgets a peer's offers; returns the jobs that it had, and forgets them.
  std::vector<RelayJob> peer_gone(core::PeerId peer);

 private:
  struct Offer {
    core::PeerId peer = 0;
    std::uint64_t tag = 0;
    std::string node;
    std::int64_t until_us = 0;
  };
  RelayJob* next_for(const std::string& node);

  std::deque<Offer> offers_;
  std::map<std::uint64_t, RelayJob> jobs_;
};

}  // namespace holdfast::daemon
