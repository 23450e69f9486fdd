#include "control/replication/role_rules.h"

#include "control/replication/copy_receiver.h"
#include "shared/base/check.h"

namespace holdfast::replication {
namespace {

constexpr int kTermBits = 20;  // an epoch has the term above them

bool has_database(const std::string& state_dir, StateFiles& files) {
  return files.exists(state_dir + "/control.db");
}

/// A machine that never was of the pair must not lose its database to it.
Error database_of_its_own(const std::string& state_dir, const Record& record) {
  return {Errc::kConflict, "start: the record has " + record.primary + " as the primary, and " +
                               state_dir +
                               " has a database that never was of this pair; move it away to "
                               "have this machine be the standby, or name another record"};
}

Error no_database(const std::string& state_dir, const Record& record) {
  return {Errc::kCorrupt, "start: the record has this machine (" + record.primary +
                              ") as the primary of term " + std::to_string(record.term) + ", but " +
                              state_dir +
                              " has not its database; its standby takes over if it is in step"};
}

/// Ends what a standby began that had the record changed and then was killed: its copy is the
/// primary's database. kCorrupt if it is not whole, or was not synced before the machine's last
/// start.
Result<void> end_takeover(const std::string& state_dir, const StandbyNote& note,
                          const Record& record, StateFiles& files) {
  CopyReceiver copy(state_dir, files);
  if (!copy.note().complete || record.term != note.term + 1) return no_database(state_dir, record);
  return copy.promote(record.term);
}

}  // namespace

std::int64_t epoch_of_term(std::uint64_t term) {
  return static_cast<std::int64_t>(term << kTermBits);
}

std::uint64_t term_of_epoch(std::uint64_t epoch) {
  return epoch >> kTermBits;
}

RecordAnswer claim_role(RecordStore& record, const std::string& url,
                        const std::optional<StandbyNote>& note) {
  if (!note || !note->is_standby) return claim_record(record, url, note ? note->term : 0);
  const auto now = record.read();
  if (!now) return {RecordAnswer::Outcome::kUnreachable, {}, now.error().what};
  if (now->version != 0) return claim_record(record, url, note->term);
  return {RecordAnswer::Outcome::kUnreachable,
          {},
          "there is no record yet; start " + note->primary + " first, which has the database"};
}

Result<FoundRole> take_role(const std::string& state_dir, const std::string& url,
                            const RecordAnswer& answer, StateFiles& files) {
  CHECK(answer.outcome != RecordAnswer::Outcome::kUnreachable);
  const Record& now = answer.record;
  const auto note = read_standby_note(state_dir, files);
  if (answer.outcome == RecordAnswer::Outcome::kOther) {
    if (!note && has_database(state_dir, files)) return database_of_its_own(state_dir, now);
    return FoundRole{false, now.term, {}};
  }
  if (note && note->is_standby) HOLDFAST_CHECKED(end_takeover(state_dir, *note, now, files));
  // Only the first start of a record's first machine makes a database.
  const bool first = now.term <= 1 && now.in_step.empty();
  if (!first && !has_database(state_dir, files)) return no_database(state_dir, now);
  // By this note the machine may be the standby later, and give up the database that it has now.
  StandbyNote mine;
  mine.primary = url;
  mine.term = now.term;
  HOLDFAST_CHECKED(write_standby_note(state_dir, mine, files));
  return FoundRole{true, now.term, now.in_step};
}

}  // namespace holdfast::replication
