#include "control/store/log_mark.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "control/store/store.h"

namespace holdfast::store {
namespace {

constexpr std::size_t kIdentityBytes = 32;
constexpr std::int64_t kSlotBytes = 4096;  // no sector of a disk is larger
constexpr char kMagic[9] = "HFMARK01";

struct Slot {
  char magic[8];
  char database[kIdentityBytes];
  std::uint64_t inode;
  std::int64_t synced;
  std::int64_t epoch;
  std::uint64_t crc;  // of all before it
};
static_assert(sizeof(Slot) == 72);

std::uint32_t crc_of(const Slot& slot) {
  return crc32c({reinterpret_cast<const char*>(&slot), offsetof(Slot, crc)});
}

std::optional<Slot> read_slot(DiskFile& file, int slot) {
  const std::string bytes = file.read(slot * kSlotBytes, sizeof(Slot));
  Slot read{};
  if (bytes.size() != sizeof read) return std::nullopt;
  std::memcpy(&read, bytes.data(), sizeof read);
  const bool sound = std::memcmp(read.magic, kMagic, 8) == 0 && read.crc == crc_of(read);
  return sound ? std::optional(read) : std::nullopt;
}

}  // namespace

std::string log_mark_path(const std::string& state_dir) {
  return state_dir + "/control.mark";
}

LogMark LogMark::open(Disk& disk, const std::string& state_dir, const std::string& database) {
  LogMark mark;
  mark.database_ = database.substr(0, kIdentityBytes);
  mark.database_.resize(kIdentityBytes, '\0');
  mark.inode_ = disk.inode(state_dir + "/control.db");
  mark.file_ = disk.open_file(log_mark_path(state_dir), 2 * kSlotBytes);
  if (!mark.file_) return mark;
  for (const int slot : {0, 1}) {
    const std::optional<Slot> read = read_slot(*mark.file_, slot);
    if (!read || read->inode != mark.inode_) continue;
    const bool ours = std::memcmp(read->database, mark.database_.data(), kIdentityBytes) == 0;
    std::optional<Claim>& claim = ours ? mark.claim_ : mark.of_another_;
    if (claim && claim->synced > read->synced) continue;
    claim = Claim{read->synced, read->epoch};
    if (ours) mark.next_slot_ = 1 - slot;
  }
  if (mark.claim_) mark.of_another_.reset();
  return mark;
}

void LogMark::write(const Claim& claim) {
  if (!file_) return;
  Slot slot{};
  std::memcpy(slot.magic, kMagic, 8);
  std::memcpy(slot.database, database_.data(), kIdentityBytes);
  slot.inode = inode_;
  slot.synced = claim.synced;
  slot.epoch = claim.epoch;
  slot.crc = crc_of(slot);
  const std::string_view bytes(reinterpret_cast<const char*>(&slot), sizeof slot);
  if (!file_->write(next_slot_ * kSlotBytes, bytes)) return;  // the mark lags, and claims less
  claim_ = claim;
  next_slot_ = 1 - next_slot_;
  unsynced_ = true;
  // A second write covers the slot that tells of the other database, which must not come back when
  // this slot is torn.
  if (std::exchange(of_another_, std::nullopt)) write(claim);
}

void LogMark::sync() {
  if (!unsynced_) return;
  unsynced_ = false;
  file_->sync();
}

}  // namespace holdfast::store
