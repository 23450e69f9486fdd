#include "control/replication/record.h"

#include <nlohmann/json.hpp>

#include "shared/base/json_text.h"

namespace holdfast::replication {
namespace {

using Outcome = RecordAnswer::Outcome;

RecordAnswer unreachable(const Error& error) {
  return {Outcome::kUnreachable, {}, error.what};
}

/// Changes the record by `change`, which returns false if it may not be. Tries again when somebody
/// else wrote in between.
template <class Change>
RecordAnswer change_record(RecordStore& store, const Change& change) {
  for (int tries = 0; tries < 8; ++tries) {
    const auto now = store.read();
    if (!now) return unreachable(now.error());
    Record next = now->record;
    if (!change(next, now->version)) return {Outcome::kOther, now->record, {}};
    // Written also if it says so already: a write of an earlier call, or of an earlier process, may
    // be on its way still, and finds another version then.
    const auto written = store.write(next, now->version);
    if (!written) return unreachable(written.error());
    if (*written) return {Outcome::kDone, next, {}};
  }
  return unreachable({Errc::kUnreachable, "the record of the primary changes all the time"});
}

}  // namespace

std::string record_text(const Record& record) {
  return nlohmann::json{
      {"term", record.term}, {"primary", record.primary}, {"in_step", record.in_step}}
      .dump();
}

std::optional<Record> parse_record(std::string_view text) {
  const auto json = try_parse_json<nlohmann::json>(text);
  if (!json.is_object()) return std::nullopt;
  const auto term = json.find("term");
  const auto primary = json.find("primary");
  const auto in_step = json.find("in_step");
  if (term == json.end() || !term->is_number_unsigned()) return std::nullopt;
  if (primary == json.end() || !primary->is_string()) return std::nullopt;
  if (in_step == json.end() || !in_step->is_string()) return std::nullopt;
  return Record{term->get<std::uint64_t>(), primary->get<std::string>(),
                in_step->get<std::string>()};
}

RecordAnswer claim_record(RecordStore& store, const std::string& url, std::uint64_t term) {
  return change_record(store, [&](Record& record, std::int64_t version) {
    if (version == 0) record = {std::max<std::uint64_t>(term, 1), url, {}};
    return record.primary == url;
  });
}

RecordAnswer set_in_step(RecordStore& store, const std::string& url, std::uint64_t term,
                         const std::string& standby) {
  return change_record(store, [&](Record& record, std::int64_t version) {
    if (version == 0 || record.primary != url || record.term != term) return false;
    record.in_step = standby;
    return true;
  });
}

RecordAnswer take_over(RecordStore& store, const std::string& url, std::uint64_t term) {
  return change_record(store, [&](Record& record, std::int64_t version) {
    // An answer that was lost: the record has the change already.
    if (version != 0 && record.primary == url && record.term == term + 1) return true;
    if (version == 0 || record.term != term || record.in_step != url) return false;
    record = {term + 1, url, {}};
    return true;
  });
}

}  // namespace holdfast::replication
