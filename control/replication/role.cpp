#include "control/replication/role.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "control/replication/etcd_record.h"
#include "control/replication/lease_record.h"
#include "control/replication/role_rules.h"
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

/// Asks the record until it answers; nullopt: a stop was requested.
std::optional<RecordAnswer> ask_record(const PairPlan& plan, const std::optional<StandbyNote>& note,
                                       RecordStore& record, const Clock& clock,
                                       const std::atomic<bool>& stop, ProbeAnswer& probe) {
  std::int64_t told_us = -(1LL << 40);
  while (!stop.load()) {
    RecordAnswer answer = claim_role(record, plan.url, note);
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
  HOLDFAST_TRY(const FoundRole found, take_role(plan.state_dir, plan.url, *answer));
  if (!found.is_primary) {
    const Record& now = answer->record;
    return run_as_standby(plan, now.primary, now.term, record, clock, stop, probe);
  }
  return PairRole{true, plan.url, found.term, found.in_step};
}

}  // namespace holdfast::replication
