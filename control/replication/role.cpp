#include "control/replication/role.h"

#include <unistd.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "control/replication/copy_receiver.h"
#include "control/replication/etcd_record.h"
#include "control/replication/lease_record.h"
#include "control/replication/standby.h"
#include "control/replication/standby_note.h"
#include "control/store/disk.h"
#include "shared/base/check.h"
#include "shared/base/log.h"
#include "shared/client/peer_key.h"

namespace holdfast::replication {
namespace {

constexpr int kAgainMs = 250;
constexpr std::int64_t kTellUs = 10'000'000;

bool is_lease(const PairPlan& plan) {
  return plan.record.starts_with("k8s://");
}

bool has_database(const std::string& state_dir) {
  return access((state_dir + "/control.db").c_str(), F_OK) == 0;
}

/// Asks who is the primary. A machine with a copy of another's database makes no record: its
/// primary is to do that.
RecordAnswer claim(const PairPlan& plan, const std::optional<StandbyNote>& note,
                   RecordStore& record) {
  if (!note || !note->is_standby) return claim_record(record, plan.url, note ? note->term : 0);
  const auto now = record.read();
  if (!now) return {RecordAnswer::Outcome::kUnreachable, {}, now.error().what};
  if (now->version != 0) return claim_record(record, plan.url, note->term);
  return {RecordAnswer::Outcome::kUnreachable,
          {},
          "there is no record yet; start " + note->primary + " first, which has the database"};
}

/// Asks the record until it answers; nullopt: a stop was requested.
std::optional<RecordAnswer> ask_record(const PairPlan& plan, const std::optional<StandbyNote>& note,
                                       RecordStore& record, const Clock& clock,
                                       const std::atomic<bool>& stop, ProbeAnswer& probe) {
  std::int64_t told_us = -(1LL << 40);
  while (!stop.load()) {
    RecordAnswer answer = claim(plan, note, record);
    if (answer.outcome != RecordAnswer::Outcome::kUnreachable) return answer;
    if (clock.monotonic_us() - told_us > kTellUs) {
      told_us = clock.monotonic_us();
      log::warn("waiting for the record of the primary", {{"why", answer.why}});
    }
    probe.answer();
    store::real_disk().pause_ms(kAgainMs);
  }
  return std::nullopt;
}

Result<PairRole> run_as_standby(const PairPlan& plan, const std::string& primary,
                                std::uint64_t term, RecordStore* record, const Clock& clock,
                                const std::atomic<bool>& stop, ProbeAnswer& probe) {
  if (plan.key_file.empty()) {
    return Error{Errc::kUsage,
                 "start: this machine is the standby of " + primary +
                     " and needs its key: --standby-key FILE, made on the primary by `holdfast "
                     "keys client create NAME --role standby --out FILE`"};
  }
  StandbyOptions options;
  options.state_dir = plan.state_dir;
  options.url = plan.url;
  options.primary = primary;
  options.term = term;
  options.record = record;
  HOLDFAST_TRY(options.key, client::read_key_file_of(plan.key_file, client::PeerRole::kStandby,
                                                     "--standby-key"));
  HOLDFAST_TRY(const StandbyEnd end, run_standby(std::move(options), clock, stop, probe));
  return PairRole{end.promoted, plan.url, end.term, {}};
}

/// The role where no record says it: by the note, and by the command line for a machine that never
/// was the primary.
Result<PairRole> find_by_note(const PairPlan& plan, const std::optional<StandbyNote>& note,
                              const Clock& clock, const std::atomic<bool>& stop,
                              ProbeAnswer& probe) {
  const bool promoted =
      note && !note->is_standby && (plan.primary.empty() || note->primary == plan.primary);
  const bool follows = !plan.primary.empty() || (note && note->is_standby);
  const std::uint64_t term = note ? note->term : 0;
  if (promoted || !follows) return PairRole{true, plan.url, promoted ? term : 0, {}};
  const std::string primary = plan.primary.empty() ? note->primary : plan.primary;
  return run_as_standby(plan, primary, term, nullptr, clock, stop, probe);
}

/// A machine that never was of the pair must not lose its database to it.
Error database_of_its_own(const PairPlan& plan, const Record& record) {
  return {Errc::kConflict, "start: the record has " + record.primary + " as the primary, and " +
                               plan.state_dir +
                               " has a database that never was of this pair; move it away to "
                               "have this machine be the standby, or name another record"};
}

/// True if this machine may not serve although the record has it: its database is gone.
bool lacks_database(const PairPlan& plan, const Record& record) {
  const bool first = record.term <= 1 && record.in_step.empty();
  return !first && !has_database(plan.state_dir);
}

Error no_database(const PairPlan& plan, const Record& record) {
  return {Errc::kCorrupt, "start: the record has this machine (" + plan.url +
                              ") as the primary of term " + std::to_string(record.term) + ", but " +
                              plan.state_dir +
                              " has not its database; its standby takes over if it is in step"};
}

/// Ends what a standby began that had the record changed and then was killed: its copy is the
/// primary's database. kCorrupt if it is not whole, or was not synced before the machine's last
/// start.
Result<void> end_takeover(const PairPlan& plan, const StandbyNote& note, const Record& record) {
  CopyReceiver copy(plan.state_dir);
  if (!copy.note().complete || record.term != note.term + 1) return no_database(plan, record);
  return copy.promote(record.term);
}

}  // namespace

Result<void> check_plan(const PairPlan& plan) {
  if (!plan.is_pair()) return {};
  if (plan.url.empty()) {
    return Error{Errc::kUsage,
                 "a pair needs --listen tcp://HOST:PORT, where workers and clients find this "
                 "machine once it is the primary"};
  }
  HOLDFAST_CHECKED(client::split_listener_url(plan.url, "--advertise"));
  if (!plan.record.empty() && !plan.primary.empty()) {
    return Error{Errc::kUsage,
                 "--standby-of does not go with --record, which says who is the primary"};
  }
  if (is_lease(plan)) {
    HOLDFAST_CHECKED(parse_lease_address(plan.record));
  } else if (!plan.record.empty()) {
    HOLDFAST_CHECKED(parse_etcd_address(plan.record));
  }
  if (plan.primary.empty()) return {};
  HOLDFAST_CHECKED(client::split_listener_url(plan.primary, "--standby-of"));
  if (plan.primary != plan.url) return {};
  return Error{Errc::kUsage, "--standby-of " + plan.primary + ": is this machine itself"};
}

std::unique_ptr<RecordStore> open_record(const PairPlan& plan) {
  if (is_lease(plan)) {
    auto lease = parse_lease_address(plan.record);
    CHECK(lease.has_value());
    return lease_record(std::move(lease).value());
  }
  auto address = parse_etcd_address(plan.record);
  CHECK(address.has_value());
  return etcd_record(std::move(address).value());
}

Result<PairRole> find_role(const PairPlan& plan, RecordStore* record, const Clock& clock,
                           const std::atomic<bool>& stop, ProbeAnswer& probe) {
  const auto note = read_standby_note(plan.state_dir);
  if (record == nullptr) return find_by_note(plan, note, clock, stop, probe);
  const auto answer = ask_record(plan, note, *record, clock, stop, probe);
  if (!answer) return PairRole{};
  const Record& now = answer->record;
  if (answer->outcome == RecordAnswer::Outcome::kOther) {
    if (!note && has_database(plan.state_dir)) return database_of_its_own(plan, now);
    return run_as_standby(plan, now.primary, now.term, record, clock, stop, probe);
  }
  if (note && note->is_standby) HOLDFAST_CHECKED(end_takeover(plan, *note, now));
  if (lacks_database(plan, now)) return no_database(plan, now);
  // By this note the machine may be the standby later, and give up the database that it has now.
  StandbyNote mine;
  mine.primary = plan.url;
  mine.term = now.term;
  HOLDFAST_CHECKED(write_standby_note(plan.state_dir, mine));
  return PairRole{true, plan.url, now.term, now.in_step};
}

}  // namespace holdfast::replication
