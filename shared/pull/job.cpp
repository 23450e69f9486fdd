#include "shared/pull/job.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <nlohmann/json.hpp>

#include "shared/base/json_text.h"

namespace holdfast::pull {
namespace {

using nlohmann::ordered_json;

constexpr std::array<std::string_view, 9> kStateNames = {"queued",    "resolving",   "downloading",
                                                         "verifying", "registering", "waiting",
                                                         "done",      "failed",      "cancelled"};

struct TextMember {
  const char* name;
  std::string PullJob::*member;
};
constexpr TextMember kTexts[] = {
    {"source", &PullJob::source},         {"name", &PullJob::name},   {"hub", &PullJob::hub},
    {"folder", &PullJob::folder},         {"path", &PullJob::path},   {"boot", &PullJob::boot},
    {"error_code", &PullJob::error_code}, {"error", &PullJob::error}, {"note", &PullJob::note},
    {"profile", &PullJob::profile},
};

struct NumberMember {
  const char* name;
  std::int64_t PullJob::*member;
};
constexpr NumberMember kNumbers[] = {
    {"rate_bytes_s", &PullJob::rate_bytes_s},
    {"bytes", &PullJob::bytes},
    {"done_bytes", &PullJob::done_bytes},
    {"synced_bytes", &PullJob::synced_bytes},
    {"fetched_bytes", &PullJob::fetched_bytes},
    {"tries", &PullJob::tries},
    {"next_ms", &PullJob::next_ms},
    {"context", &PullJob::context},
};

ordered_json file_json(const PullFile& file, bool with_url) {
  ordered_json j = {{"path", file.path}};
  if (with_url) j["url"] = file.url;
  j["bytes"] = file.bytes;
  if (!file.sha256.empty()) j["sha256"] = file.sha256;
  if (!file.git_sha1.empty()) j["git_sha1"] = file.git_sha1;
  if (with_url && !file.etag.empty()) j["etag"] = file.etag;
  j["done"] = file.done;
  return j;
}

PullFile file_of(const ordered_json& j) {
  PullFile file;
  file.path = j.value("path", std::string());
  file.url = j.value("url", std::string());
  file.bytes = j.value("bytes", std::int64_t{-1});
  file.sha256 = j.value("sha256", std::string());
  file.git_sha1 = j.value("git_sha1", std::string());
  file.etag = j.value("etag", std::string());
  file.done = j.value("done", false);
  return file;
}

ordered_json job_json(const PullJob& job, bool with_urls) {
  ordered_json j = {{"state", pull_state_name(job.state)}, {"load", job.load}};
  for (const TextMember& text : kTexts) {
    const std::string& value = job.*text.member;
    if (with_urls || !value.empty()) j[text.name] = value;
  }
  for (const NumberMember& number : kNumbers) j[number.name] = job.*number.member;
  ordered_json files = ordered_json::array();
  for (const PullFile& file : job.files) files.push_back(file_json(file, with_urls));
  j["files"] = std::move(files);
  if (job.untold) j["untold"] = true;
  return j;
}

}  // namespace

std::string_view pull_state_name(PullState state) {
  return kStateNames.at(static_cast<std::size_t>(state));
}

bool is_ended(PullState state) {
  return state >= PullState::kDone;
}

std::string to_json_text(const PullJob& job) {
  return job_json(job, true).dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

std::string public_json_text(const PullJob& job) {
  ordered_json j = job_json(job, false);
  for (const char* inner : {"boot", "folder", "synced_bytes", "profile", "context", "untold"})
    j.erase(inner);
  return j.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

Result<PullJob> parse_pull(std::string_view text) {
  const auto j = try_parse_json<ordered_json>(text);
  const Error corrupt{Errc::kCorrupt, "a pull's row is not what was written"};
  if (!j.is_object()) return corrupt;
  PullJob job;
  try {
    for (const TextMember& member : kTexts)
      job.*member.member = j.value(member.name, std::string());
    for (const NumberMember& number : kNumbers) {
      job.*number.member = j.value(number.name, std::int64_t{0});
    }
    job.load = j.value("load", false);
    job.untold = j.value("untold", false);
    const auto* state = std::ranges::find(kStateNames, j.value("state", std::string()));
    if (state == kStateNames.end()) return corrupt;
    job.state = static_cast<PullState>(std::distance(kStateNames.begin(), state));
    for (const ordered_json& file : j.value("files", ordered_json::array())) {
      job.files.push_back(file_of(file));
    }
  } catch (const ordered_json::exception&) {
    return corrupt;
  }
  return job;
}

}  // namespace holdfast::pull
