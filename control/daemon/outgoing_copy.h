#pragma once
// The verbs by which an operator elsewhere takes a backup (schema/protocol.md): db.copy makes a
// complete copy on this machine's disk, db.copy_range reads it, db.copy_end removes it. The copy
// has a hash and does not change, so a reader whose link was cut goes on where it was. One copy at
// a time, as each takes the disk space of the database.

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "control/core/types.h"
#include "control/daemon/outgoing_file.h"
#include "control/store/backup.h"
#include "control/store/store.h"
#include "shared/wire/messages.h"

namespace holdfast::daemon {

/// The surroundings of OutgoingCopy.
struct OutgoingCopyOptions {
  std::string state_dir;
  std::int64_t range_bytes_max = 0;  // of one answer
  std::function<void()> wake;        // step() is due; called on another thread
  std::function<void(core::PeerId, const wire::Message&)> send;
};

/// The copy of the database that is being read. Belongs to the daemon's thread.
class OutgoingCopy {
 public:
  static constexpr std::int64_t kIdleUs = 600'000'000;    // without a question: it is removed
  static constexpr std::int64_t kReplaceUs = 30'000'000;  // and another reader may have one
  static constexpr std::size_t kRangesMax = 16;           // being read

  /// The store must outlive it.
  OutgoingCopy(OutgoingCopyOptions options, store::Store& store)
      : options_(std::move(options)), store_(store) {}

  static bool knows(const std::string& verb);
  /// Answers a verb: at once, or when the range is read. `free_min`: bytes of the disk that a copy
  /// must leave free.
  void ask(core::PeerId peer, const wire::Op& op, std::int64_t free_min, std::int64_t now_us);
  /// Copies the next pages, sends what was read, removes a copy that nobody reads.
  void step(std::int64_t now_us);
  /// True while step() is due at once.
  bool is_copying() const { return backup_ != nullptr; }

 private:
  struct Question {
    core::PeerId peer = 0;
    const wire::Op& op;
    std::string id;  // of the copy
    std::int64_t offset = 0, bytes = 0;
    std::int64_t free_min = 0, now_us = 0;
  };
  void copy(const Question& question);
  void range(const Question& question);
  Result<void> begin(const Question& question);
  Result<void> check_space(std::int64_t free_min) const;
  void tell(const Question& question);
  void copy_pages();
  void send_ranges();
  void drop();
  void refuse(core::PeerId peer, std::uint64_t tag, const Error& error);

  const OutgoingCopyOptions options_;
  store::Store& store_;
  std::string id_;  // as its reader named it; empty: there is none
  std::int64_t questioned_us_ = 0;
  std::unique_ptr<store::Backup> backup_;  // while it is copied
  std::unique_ptr<OutgoingFile> file_;     // then
  std::optional<Error> failure_;           // of the copying
  std::int64_t pages_ = 0;
  std::size_t pending_ = 0;  // ranges being read
};

}  // namespace holdfast::daemon
