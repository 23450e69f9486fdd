#include "control/fetch/pull_rows.h"

#include <nlohmann/json.hpp>

#include "shared/base/clock.h"
#include "shared/base/json_text.h"

namespace holdfast::fetch {

using nlohmann::json;

namespace {

constexpr std::int64_t kPageMax = 1'000;
constexpr std::int64_t kEndedStaysMs = std::int64_t{30} * 86'400'000;

Error not_understood(const std::string& verb) {
  return {Errc::kInternal, verb + ": the daemon's answer is no document"};
}

Result<PullRow> row_of(const json& object) {
  PullRow row;
  if (!object.is_object() || !object.contains("body")) return not_understood("objects.get");
  HOLDFAST_TRY(row.job, pull::parse_pull(object["body"].dump()));
  row.version = object.value("version", std::int64_t{0});
  row.id = object.value("id", std::string());
  return row;
}

}  // namespace

Result<std::string> PullRows::call(const std::string& verb, const std::string& args) {
  auto answer = client_.op(client::AllTenants::local(), verb, args);
  if (const auto* failure = std::get_if<client::Failure>(&answer)) {
    return Error{failure->code, failure->message};
  }
  return std::get<std::string>(std::move(answer));
}

Result<std::vector<PullRow>> PullRows::open_pulls() {
  std::vector<PullRow> open;
  std::int64_t from = 0;
  for (bool more = true; more;) {
    const json args = {
        {"kind", pull::kPullKind}, {"order", "oldest"}, {"from", from}, {"limit", kPageMax}};
    HOLDFAST_TRY(const std::string text, call("objects.list", args.dump()));
    const auto page = try_parse_json<json>(text);
    if (!page.is_object() || !page.contains("objects")) return not_understood("objects.list");
    more = page.value("more", false) && !page["objects"].empty();
    for (const json& object : page["objects"]) {
      from = object.value("seq", from);
      auto row = row_of(object);
      // A row that cannot be read is left for people to see.
      if (row && !pull::is_ended(row->job.state)) open.push_back(std::move(*row));
    }
  }
  return open;
}

Result<void> PullRows::save(PullRow& row) {
  json args = {{"kind", pull::kPullKind},
               {"id", row.id},
               {"version", row.version},
               {"body", try_parse_json<json>(pull::to_json_text(row.job))}};
  if (pull::is_ended(row.job.state)) {
    args["expires_ms"] = system_clock().wall_ms() + kEndedStaysMs;
  }
  HOLDFAST_TRY(const std::string text, call("objects.put", args.dump()));
  const auto answer = try_parse_json<json>(text);
  if (!answer.is_object()) return not_understood("objects.put");
  row.version = answer.value("version", row.version + 1);
  return {};
}

Result<void> PullRows::reload(PullRow& row) {
  const json args = {{"kind", pull::kPullKind}, {"id", row.id}};
  HOLDFAST_TRY(const std::string text, call("objects.get", args.dump()));
  const auto answer = try_parse_json<json>(text);
  if (!answer.is_object()) return not_understood("objects.get");
  if (answer.value("found", false) == false) {
    return Error{Errc::kNotFound, "pull " + row.id + " is gone"};
  }
  HOLDFAST_TRY(row, row_of(answer["object"]));
  return {};
}

Result<void> PullRows::add_model(const pull::PullJob& job) {
  json args = {{"name", job.name}, {"path", job.path}};
  if (job.load) args["load"] = true;
  if (job.context > 0) args["context"] = job.context;
  if (!job.profile.empty()) args["profile"] = try_parse_json<json>(job.profile);
  HOLDFAST_TRY(const std::string text, call("models.add", args.dump()));
  (void)text;
  return {};
}

}  // namespace holdfast::fetch
