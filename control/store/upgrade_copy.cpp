#include "control/store/upgrade_copy.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "control/store/backup.h"

namespace holdfast::store {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "control.schema-";
constexpr std::string_view kEnd = ".db";
constexpr std::int64_t kMarginBytes = std::int64_t{16} << 20;  // for what else is written meanwhile

/// "20261128T044500Z": sorts as the times do.
std::string time_text(std::int64_t wall_ms) {
  const std::time_t seconds = static_cast<std::time_t>(wall_ms / 1000);
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  char text[32];
  (void)std::strftime(text, sizeof text, "%Y%m%dT%H%M%SZ", &parts);
  return text;
}

/// The time in a copy's name; empty if it is no copy's.
std::string time_of(const std::string& name) {
  if (!name.starts_with(kPrefix) || !name.ends_with(kEnd)) return {};
  const std::size_t dot = name.find('.', kPrefix.size());
  if (dot == std::string::npos || dot + 1 + kEnd.size() >= name.size()) return {};
  return name.substr(dot + 1, name.size() - dot - 1 - kEnd.size());
}

/// user_version as it stands in the header of a SQLite file; nullopt: it is none.
std::optional<std::int64_t> schema_of(const std::string& path) {
  std::array<char, 64> header{};
  std::ifstream file(path, std::ios::binary);
  file.read(header.data(), header.size());
  const std::string_view magic(header.data(), 15);
  if (file.gcount() != static_cast<std::streamsize>(header.size()) || magic != "SQLite format 3") {
    return std::nullopt;
  }
  constexpr std::size_t kUserVersionAt = 60;  // four bytes, the highest first
  std::uint32_t version = 0;
  for (std::size_t i = 0; i < 4; ++i) {
    version = version << 8 | static_cast<unsigned char>(header[kUserVersionAt + i]);
  }
  return version;
}

/// Refuses where the copy or the migration would run out of space.
Result<void> check_space(Disk& disk, sqlite3* db, const std::string& state_dir,
                         const std::string& path) {
  HOLDFAST_TRY(const std::int64_t pages, query_int(db, "PRAGMA page_count"));
  HOLDFAST_TRY(const std::int64_t page_bytes, query_int(db, "PRAGMA page_size"));
  const std::int64_t copy = pages * page_bytes;
  const std::int64_t needed = 2 * copy + kMarginBytes;
  const std::int64_t free = disk.free_bytes(state_dir);
  const std::int64_t growth = disk.growth_allowed(path);
  if (free >= needed && growth >= copy) return {};
  const bool limited = growth < copy;
  return Error{Errc::kDiskFull,
               "upgrade " + state_dir + "/control.db: a copy of it (" + std::to_string(copy) +
                   " bytes) and the new schema need " + std::to_string(needed) + " bytes, " +
                   (limited ? "a file of this process may have " + std::to_string(growth)
                            : std::to_string(free) + " are free in " + state_dir) +
                   "; nothing was changed: free some space, or go on with the older program"};
}

/// A name that no file has.
std::string free_name(const std::string& start) {
  std::string path = start + std::string(kEnd);
  for (int i = 2; access(path.c_str(), F_OK) == 0; ++i) {
    path = start + "-" + std::to_string(i) + std::string(kEnd);
  }
  return path;
}

}  // namespace

Result<UpgradeCopy> copy_before_upgrade(Disk& disk, sqlite3* db, const std::string& state_dir) {
  UpgradeCopy copy;
  HOLDFAST_TRY(copy.schema, query_int(db, "PRAGMA user_version"));
  copy.path = free_name(state_dir + "/" + std::string(kPrefix) + std::to_string(copy.schema) + "." +
                        time_text(disk.wall_ms()));
  HOLDFAST_CHECKED(check_space(disk, db, state_dir, copy.path));
  HOLDFAST_TRY(const std::unique_ptr<Backup> backup, Backup::begin(db, state_dir, copy.path));
  for (bool whole = false; !whole;) {
    HOLDFAST_TRY(whole, backup->step());
  }
  return copy;
}

std::vector<UpgradeCopy> upgrade_copies(const std::string& state_dir) {
  std::vector<std::pair<std::string, UpgradeCopy>> found;  // by the time in their names
  std::error_code failed;
  for (const auto& entry : fs::directory_iterator(state_dir, failed)) {
    std::string time = time_of(entry.path().filename().string());
    if (time.empty()) continue;
    const std::string path = entry.path().string();
    const std::optional<std::int64_t> schema = schema_of(path);
    if (schema) found.emplace_back(std::move(time), UpgradeCopy{path, *schema});
  }
  std::ranges::sort(found, std::greater<>(), [](const auto& item) { return item.first; });
  std::vector<UpgradeCopy> copies;
  copies.reserve(found.size());
  for (auto& [time, copy] : found) copies.push_back(std::move(copy));
  return copies;
}

void remove_old_copies(const std::string& state_dir) {
  const std::vector<UpgradeCopy> copies = upgrade_copies(state_dir);
  for (std::size_t i = kUpgradeCopies; i < copies.size(); ++i) unlink(copies[i].path.c_str());
}

Error newer_schema(const std::string& state_dir, std::int64_t found, std::int64_t newest) {
  const std::string what = "open " + state_dir + "/control.db: made by a newer program (schema " +
                           std::to_string(found) + ", this one knows " + std::to_string(newest) +
                           "); use that program, or go back: ";
  const std::vector<UpgradeCopy> copies = upgrade_copies(state_dir);
  const auto fits =
      std::ranges::find_if(copies, [&](const UpgradeCopy& copy) { return copy.schema <= newest; });
  if (fits == copies.end()) {
    return {Errc::kVersionNewer, what + "no copy of schema " + std::to_string(newest) +
                                     " or older lies beside it, `holdfast --state " + state_dir +
                                     " db restore FILE` takes a backup of yours"};
  }
  return {Errc::kVersionNewer, what + "`holdfast --state " + state_dir + " db restore " +
                                   fits->path + "` puts back the copy of schema " +
                                   std::to_string(fits->schema) +
                                   " that the upgrade made; what was accepted since is not in it"};
}

}  // namespace holdfast::store
