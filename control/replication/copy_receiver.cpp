#include "control/replication/copy_receiver.h"

#include <algorithm>
#include <utility>

#include "shared/base/log.h"

namespace holdfast::replication {

CopyReceiver::CopyReceiver(std::string state_dir, StateFiles& files)
    : state_dir_(std::move(state_dir)), disk_(files), files_(state_dir_, files) {
  const auto note = read_standby_note(state_dir_, disk_);
  const std::string boot = disk_.boot_id();
  if (note && note->is_standby) {
    note_ = *note;
    if (note_.boot != boot) note_.complete = note_.in_step = false;
  }
  note_.is_standby = true;
  note_.boot = boot;
}

Result<void> CopyReceiver::write_note() {
  return write_standby_note(state_dir_, note_, disk_);
}

Result<CopyReceiver::Taken> CopyReceiver::take(const wire::Ship& ship) {
  if (ship.kind == wire::ShipKind::kBegin) {
    HOLDFAST_CHECKED(files_.begin());
    copying_ = true;
  } else if (!files_.is_open() || ship.number != number_ + 1) {
    return Taken::kGap;
  }
  number_ = ship.number;
  if (const auto applied = files_.apply(ship.changes); !applied) {
    if (applied.error().code != Errc::kFileInvalid) return applied.error();
    log::error("changes of the primary", {{"why", applied.error().what}});
    files_.close();
    return Taken::kGap;
  }
  if (ship.kind == wire::ShipKind::kComplete && copying_) HOLDFAST_CHECKED(complete(ship));
  if (ship.sync) HOLDFAST_CHECKED(files_.sync());
  if (!copying_ && (note_.in_step != ship.in_step || note_.term != ship.term)) {
    note_.in_step = ship.in_step;
    note_.term = ship.term;
    HOLDFAST_CHECKED(write_note());
  }
  const bool follows = ship.kind == wire::ShipKind::kTakeOver && note_.complete && !copying_;
  return follows ? Taken::kTakeOver : Taken::kWritten;
}

Result<void> CopyReceiver::complete(const wire::Ship& ship) {
  // A crash between the files' renames must not leave a copy that counts as whole.
  if (std::exchange(note_.complete, false)) HOLDFAST_CHECKED(write_note());
  HOLDFAST_CHECKED(files_.complete());
  copying_ = false;
  note_.complete = true;
  note_.in_step = ship.in_step;
  note_.term = ship.term;
  log::info("this standby has the database", {{"term", ship.term}});
  return write_note();
}

void CopyReceiver::follow(const std::string& primary, std::uint64_t term) {
  if (note_.primary != primary) note_.complete = note_.in_step = false;
  note_.primary = primary;
  note_.term = std::max(note_.term, term);
}

Result<void> CopyReceiver::promote(std::uint64_t term) {
  // Bytes that the primary had synced may be in this machine's memory alone.
  for (const char* name : {"/control.db-wal", "/control.db"}) {
    const std::string path = state_dir_ + name;
    // A database that was opened and closed since has no log.
    if (disk_.exists(path)) HOLDFAST_CHECKED(disk_.sync_file(path));
  }
  note_.is_standby = false;
  note_.term = term;
  return write_note();
}

}  // namespace holdfast::replication
