#pragma once
// The standby's end of replication: a process that has no database open, but writes what the
// primary ships into files of its own, which are those of the primary up to some message. To take
// over is to open them as any database after a crash.

#include <atomic>
#include <cstdint>
#include <string>

#include "control/replication/follower.h"
#include "control/replication/record.h"
#include "shared/base/clock.h"
#include "shared/base/probe.h"
#include "shared/client/peer_key.h"
#include "shared/wire/socket.h"

namespace holdfast::replication {

/// Settings of a standby.
struct StandbyOptions {
  std::string state_dir;
  std::string url;         // of this machine's listener, once it is the primary
  std::string primary;     // where the primary is; with a record: where it was at the start
  std::uint64_t term = 0;  // the highest that it has met
  client::PeerKeyFile key;
  RecordStore* record = nullptr;      // nullptr: it never takes over by itself
  std::int64_t silence_us = 800'000;  // of the primary, before it takes over
};

/// Runs until this machine is to be the primary or `stop` is set (looked at every 100 ms at least).
/// Answers `ha.status` and `ha.promote` at STATE/run/standby.sock. kIo: its
/// own disk fails. kUsage: its key is refused.
Result<StandbyEnd> run_standby(StandbyOptions options, const Clock& clock,
                               const std::atomic<bool>& stop, ProbeAnswer& probe);

}  // namespace holdfast::replication
