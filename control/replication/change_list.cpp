#include "control/replication/change_list.h"

#include <cstring>

namespace holdfast::replication {
namespace {

constexpr std::size_t kHeadBytes = 14;
constexpr std::uint8_t kWrite = 1;
constexpr std::uint8_t kTruncate = 2;
// A database of SQLite has 2^32 pages at most; ours are of 4 KiB.
constexpr std::int64_t kOffsetMax = std::int64_t{1} << 44;

void append(std::string& list, std::uint8_t what, DatabaseFile file, std::int64_t at,
            std::string_view bytes) {
  char head[kHeadBytes];
  head[0] = static_cast<char>(what);
  head[1] = static_cast<char>(file);
  const auto length = static_cast<std::uint32_t>(bytes.size());
  std::memcpy(head + 2, &at, sizeof at);
  std::memcpy(head + 10, &length, sizeof length);
  list.append(head, sizeof head);
  list.append(bytes);
}

}  // namespace

void append_write(std::string& list, DatabaseFile file, std::int64_t at, std::string_view bytes) {
  append(list, kWrite, file, at, bytes);
}

void append_truncate(std::string& list, DatabaseFile file, std::int64_t size) {
  append(list, kTruncate, file, size, {});
}

Result<Change> ChangeReader::next() {
  const auto wrong = [](const char* what) {
    return Error{Errc::kFileInvalid, std::string("changes of the database: ") + what};
  };
  if (rest_.size() < kHeadBytes) return wrong("a head is cut short");
  const auto what = static_cast<std::uint8_t>(rest_[0]);
  const auto file = static_cast<std::uint8_t>(rest_[1]);
  std::uint32_t length = 0;
  Change change;
  std::memcpy(&change.at, rest_.data() + 2, sizeof change.at);
  std::memcpy(&length, rest_.data() + 10, sizeof length);
  rest_.remove_prefix(kHeadBytes);
  if (what != kWrite && what != kTruncate) return wrong("neither a write nor a truncation");
  if (file > static_cast<std::uint8_t>(DatabaseFile::kLog)) return wrong("of no file");
  if (change.at < 0 || change.at > kOffsetMax) return wrong("an offset out of bounds");
  if (length > rest_.size()) return wrong("bytes are cut short");
  if (what == kTruncate && length != 0) return wrong("a truncation with bytes");
  change.truncates = what == kTruncate;
  change.file = static_cast<DatabaseFile>(file);
  change.bytes = rest_.substr(0, length);
  rest_.remove_prefix(length);
  return change;
}

}  // namespace holdfast::replication
