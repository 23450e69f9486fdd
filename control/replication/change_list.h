#pragma once
// Changes of the database's two files as bytes: what the primary ships to its standby. Each change
// is a head of 14 bytes (what, file, offset, length; little endian) and the bytes written.

#include <cstdint>
#include <string>
#include <string_view>

#include "shared/base/result.h"

namespace holdfast::replication {

/// The files of a database: control.db and its log, control.db-wal.
enum class DatabaseFile : std::uint8_t { kMain, kLog };

/// Appends a change to a list.
void append_write(std::string& list, DatabaseFile file, std::int64_t at, std::string_view bytes);
void append_truncate(std::string& list, DatabaseFile file, std::int64_t size);

/// One change, as read from a list.
struct Change {
  bool truncates = false;
  DatabaseFile file = DatabaseFile::kMain;
  std::int64_t at = 0;     // offset, or the new size
  std::string_view bytes;  // of the list
};

/// Reads a list from its front. Bounded: it never looks beyond the list.
class ChangeReader {
 public:
  explicit ChangeReader(std::string_view list) : rest_(list) {}
  bool at_end() const { return rest_.empty(); }
  /// Returns the next change. kFileInvalid: the list is no list of changes.
  Result<Change> next();

 private:
  std::string_view rest_;
};

}  // namespace holdfast::replication
