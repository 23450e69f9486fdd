#pragma once
// The record that says who is the primary: {term, primary, in_step}, changed by compare-and-swap
// alone, in etcd. Three changes exist: the primary adds its standby once that has everything,
// removes it when it is lost, and the standby that is in the record makes itself the primary of the
// next term. Whoever comes second finds the record changed: no clock is needed for safety.

#include <cstdint>
#include <optional>
#include <string>

#include "shared/base/result.h"

namespace holdfast::replication {

/// The content of the record.
struct Record {
  std::uint64_t term = 0;
  std::string primary;  // the URL of its listener
  std::string in_step;  // of the standby that has everything; empty: there is none
  bool operator==(const Record&) const = default;
};
/// The record as JSON.
std::string record_text(const Record& record);
/// nullopt: the text is no record.
std::optional<Record> parse_record(std::string_view text);

/// The store of the record. Calls block, for a second or two at most.
class RecordStore {
 public:
  virtual ~RecordStore() = default;
  struct Versioned {
    Record record;
    std::int64_t version = 0;  // 0: there is no record yet
  };
  /// kUnreachable; kFileInvalid if something else stands there.
  virtual Result<Versioned> read() = 0;
  /// Writes the record if it still has that version, and gives it another one, also if it says the
  /// same. Returns false if it has another one. kUnreachable: it may have been written, or may be
  /// later.
  virtual Result<bool> write(const Record& record, std::int64_t version) = 0;
};

/// The outcome of a change.
struct RecordAnswer {
  enum class Outcome : std::uint8_t {
    kDone,
    kOther,        // the record is another one: somebody else is the primary, of a later term
    kUnreachable,  // unknown, to be tried again
  };
  Outcome outcome = Outcome::kUnreachable;
  Record record;    // as it is now
  std::string why;  // kUnreachable
};

/// Makes `url` the primary of a record that does not exist yet, or finds that it is the primary.
RecordAnswer claim_record(RecordStore& store, const std::string& url, std::uint64_t term);
/// The primary `url` of that term sets the standby in step; empty: none.
RecordAnswer set_in_step(RecordStore& store, const std::string& url, std::uint64_t term,
                         const std::string& standby);
/// The standby `url` takes over from the primary of that term. kOther also if it is not in step.
RecordAnswer take_over(RecordStore& store, const std::string& url, std::uint64_t term);

}  // namespace holdfast::replication
