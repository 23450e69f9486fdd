#include "control/store/group_count.h"

#include "control/store/select.h"
#include "shared/base/crash_point.h"

namespace holdfast::store {
namespace {

constexpr Columns kLogMarkColumns{"database", "synced", "checksum"};

}  // namespace

Result<void> GroupCount::prepare() {
  return count_synced_.prepare(connection_.get(), "log_mark");
}

Result<void> GroupCount::compare(Disk& disk, const std::string& state_dir) {
  CheckedSelect<kLogMarkColumns> select;
  HOLDFAST_CHECKED(select.prepare(connection_.get(), "log_mark", ""));
  auto row = select.rows();
  HOLDFAST_TRY(const bool there, row.step());
  if (!there || !row.is_sound()) {
    return Error{Errc::kCorrupt, "log_mark: its row is damaged; see db check, restore a backup"};
  }
  synced_ = row.integer("synced");
  if (!row.is_null("checksum")) {
    const ColumnSeeds seeds(static_cast<std::uint64_t>(name_hash("synced")));
    mark_others_ = row.uint64("checksum") ^ seeds.part(synced_);
  }
  mark_ = LogMark::open(disk, state_dir, row.text("database"));
  if (const auto& another = mark_.of_another()) {
    epoch_ = another->epoch;
    found_loss_ = LogLoss{another->synced, 0, 0};
  }
  // A new database is all in its log. From here on the file itself holds its identity.
  if (!mark_.claim()) return checkpoint(SQLITE_CHECKPOINT_PASSIVE);
  epoch_ = mark_.claim()->epoch;
  if (mark_.claim()->synced <= synced_) return {};
  found_loss_ = LogLoss{mark_.claim()->synced, synced_, 0};
  synced_ = mark_.claim()->synced;  // the count goes on where it was
  return {};
}

Result<void> GroupCount::checkpoint(int mode) {
  HOLDFAST_TRY(const bool moved, connection_.checkpoint(mode));
  if (!moved) return {};
  mark_.sync();
  crash_point(CrashPoint::kDaemonCheckpointAfter);
  return {};
}

void GroupCount::note_epoch(std::int64_t epoch) {
  epoch_ = epoch;
  found_loss_.reset();
  note_synced();
}

}  // namespace holdfast::store
