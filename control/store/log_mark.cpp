#include "control/store/log_mark.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "control/store/store.h"

namespace holdfast::store {
namespace {

constexpr std::size_t kIdentityBytes = 32;
constexpr std::int64_t kPlaceBytes = 4096;  // no sector of a disk is larger
constexpr char kMagic[9] = "HFMARK01";

struct Place {
  char magic[8];
  char database[kIdentityBytes];
  std::uint64_t inode;
  std::int64_t synced;
  std::int64_t epoch;
  std::uint64_t crc;  // of all before it
};
static_assert(sizeof(Place) == 72);

std::uint32_t crc_of(const Place& place) {
  return crc32c({reinterpret_cast<const char*>(&place), offsetof(Place, crc)});
}

std::optional<Place> read_place(DiskFile& file, int place) {
  const std::string bytes = file.read(place * kPlaceBytes, sizeof(Place));
  Place read{};
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
  mark.file_ = disk.open_file(log_mark_path(state_dir), 2 * kPlaceBytes);
  if (!mark.file_) return mark;
  for (const int place : {0, 1}) {
    const std::optional<Place> read = read_place(*mark.file_, place);
    if (!read || read->inode != mark.inode_) continue;
    const bool ours = std::memcmp(read->database, mark.database_.data(), kIdentityBytes) == 0;
    std::optional<Claim>& claim = ours ? mark.claim_ : mark.of_another_;
    if (claim && claim->synced > read->synced) continue;
    claim = Claim{read->synced, read->epoch};
    if (ours) mark.next_place_ = 1 - place;
  }
  if (mark.claim_) mark.of_another_.reset();
  return mark;
}

void LogMark::write(const Claim& claim) {
  if (!file_) return;
  Place place{};
  std::memcpy(place.magic, kMagic, 8);
  std::memcpy(place.database, database_.data(), kIdentityBytes);
  place.inode = inode_;
  place.synced = claim.synced;
  place.epoch = claim.epoch;
  place.crc = crc_of(place);
  const std::string_view bytes(reinterpret_cast<const char*>(&place), sizeof place);
  if (!file_->write(next_place_ * kPlaceBytes, bytes)) return;  // it lags, and claims less
  claim_ = claim;
  next_place_ = 1 - next_place_;
  unsynced_ = true;
  // What was said of the other one must not come back when this place is torn.
  if (std::exchange(of_another_, std::nullopt)) write(claim);
}

void LogMark::sync() {
  if (!unsynced_) return;
  unsynced_ = false;
  file_->sync();
}

}  // namespace holdfast::store
