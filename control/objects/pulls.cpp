#include "control/objects/pulls.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "control/core/admission.h"
#include "shared/base/json_text.h"
#include "shared/base/url.h"
#include "shared/profile/profile.h"
#include "shared/pull/blob.h"
#include "shared/pull/job.h"
#include "shared/pull/source.h"

namespace holdfast::daemon {
namespace {

using nlohmann::json;
using wire::Refusal;

constexpr std::size_t kModelNameBytesMax = 128;
constexpr std::size_t kNameBytesInError = 80;  // bytes of a name in an error
constexpr std::int64_t kRateMax = std::int64_t{1} << 40;

std::string text_member(const json& args, const char* key) {
  const auto it = args.find(key);
  return it != args.end() && it->is_string() ? it->get<std::string>() : std::string();
}

Refusal refusal_of(const Error& error) {
  return core::refuse(error.code, error.what);
}

bool is_name(const std::string& name) {
  return !name.empty() && name.size() <= kModelNameBytesMax &&
         std::ranges::all_of(name, [](char c) { return c > 0x20 && c < 0x7f; });
}

/// Returns what is wrong with a hub's base URL, or nothing.
std::string wrong_hub(const std::string& hub) {
  if (hub.empty() || hub.starts_with("https://")) return {};
  if (hub.starts_with("http://") && is_loopback_url(hub)) return {};
  return "hub: expected https://HOST (plain http is for this machine alone)";
}

/// Sets a source that is asked over the network.
std::optional<Refusal> set_source(const json& args, pull::PullJob& job) {
  job.hub = text_member(args, "hub");
  if (const std::string wrong = wrong_hub(job.hub); !wrong.empty()) {
    return core::refuse(Errc::kUsage, "pulls.start: " + wrong);
  }
  const auto source = pull::parse_source(text_member(args, "source"), job.hub);
  if (!source) return refusal_of(source.error());
  if (source->kind != pull::SourceKind::kHub) job.hub.clear();
  job.source = pull::to_text(*source);
  return std::nullopt;
}

/// Sets blobs that were sent before as the source, and what the model's name adds to them.
std::optional<Refusal> set_blobs(const json& args, pull::PullJob& job) {
  std::vector<pull::NamedBlob> blobs;
  const json& files = args["files"];
  if (!files.is_object())
    return core::refuse(Errc::kUsage, "pulls.start: files: expected an object");
  for (const auto& [name, digest] : files.items()) {
    const auto digits = pull::digest_digits(digest.is_string() ? digest.get<std::string>() : "");
    if (!digits) {
      return core::refuse(Errc::kInvalidRequest, "files: \"" + name.substr(0, kNameBytesInError) +
                                                     "\": expected sha256: and 64 digits");
    }
    blobs.push_back({name, *digits});
  }
  for (const pull::NamedBlob& blob : blobs) {
    pull::PullFile file;
    file.path = blob.name;
    file.sha256 = blob.digits;
    job.files.push_back(std::move(file));
  }
  const auto model = pull::model_of_blobs(std::move(blobs));
  if (!model) return refusal_of(model.error());
  job.source = model->source;
  if (args.contains("profile") && args["profile"].is_object()) job.profile = args["profile"].dump();
  if (job.profile.size() > profile::kBytesMax) {
    return core::refuse(Errc::kInvalidRequest, "pulls.start: profile: more than " +
                                                   std::to_string(profile::kBytesMax) + " bytes");
  }
  const json context = args.value("context", json());
  if (context.is_number_integer() && context > 0) job.context = context.get<std::int64_t>();
  return std::nullopt;
}

/// The row of a pull that begins.
std::variant<pull::PullJob, Refusal> new_job(const json& args, const std::string& name) {
  pull::PullJob job;
  auto refused = args.contains("files") ? set_blobs(args, job) : set_source(args, job);
  if (refused) return std::move(*refused);
  job.name = name;
  job.untold = true;
  job.load = args.value("load", json()).is_boolean() && args["load"].get<bool>();
  const json rate = args.value("rate_bytes_s", json());
  if (rate.is_null()) return job;
  if (!rate.is_number_integer() || rate < 0 || rate > kRateMax) {
    return core::refuse(Errc::kUsage, "pulls.start: rate_bytes_s: expected 0 (no limit) to " +
                                          std::to_string(kRateMax));
  }
  job.rate_bytes_s = rate.get<std::int64_t>();
  return job;
}

std::variant<PullChange, Refusal> start_pull(const json& args, const std::string& name,
                                             const std::optional<pull::PullJob>& now,
                                             const std::optional<std::string>& model_path) {
  auto made = new_job(args, name);
  if (auto* refusal = std::get_if<Refusal>(&made)) return std::move(*refusal);
  auto& job = std::get<pull::PullJob>(made);
  const bool running = now && !pull::is_ended(now->state);
  const bool same = now && now->source == job.source && now->hub == job.hub;
  if (running && same) return PullChange{{}, false, true};
  if (running) {
    return core::refuse(Errc::kConflict, "model \"" + name + "\" is being pulled from " +
                                             now->source + "; cancel that (holdfast jobs cancel " +
                                             name + ") or take another name (--as)");
  }
  if (model_path && !(now && now->path == *model_path)) {
    return core::refuse(Errc::kConflict, "model \"" + name + "\" exists with the file " +
                                             *model_path +
                                             "; remove it first or take another name (--as)");
  }
  if (same) {
    job.fetched_bytes = 0;
    // Bytes of a failed try are on the disk and are used.
    if (now->state == pull::PullState::kFailed) {
      job.synced_bytes = now->synced_bytes;
      job.boot = now->boot;
    }
  }
  return PullChange{pull::to_json_text(job), true, false};
}

std::variant<PullChange, Refusal> cancel_pull(const std::string& name,
                                              const std::optional<pull::PullJob>& now) {
  if (!now) return core::refuse(Errc::kNotFound, "no pull of a model \"" + name + "\"");
  if (pull::is_ended(now->state)) return PullChange{};
  pull::PullJob job = *now;
  job.state = pull::PullState::kCancelled;
  job.next_ms = 0;
  return PullChange{pull::to_json_text(job), false, false};
}

}  // namespace

bool changes_pulls(std::string_view verb) {
  return verb == "pulls.start" || verb == "pulls.cancel";
}

std::variant<std::string, Refusal> pull_id(const json& args) {
  std::string name = text_member(args, "name");
  if (name.empty()) {
    const auto source = pull::parse_source(text_member(args, "source"), text_member(args, "hub"));
    if (!source) return refusal_of(source.error());
    name = pull::default_name(*source);
  }
  if (is_name(name)) return name;
  return core::refuse(Errc::kUsage, "name: expected 1 to 128 printable characters without spaces");
}

std::variant<PullChange, Refusal> change_pull(std::string_view verb, const json& args,
                                              const std::optional<core::ObjectRow>& now,
                                              const std::optional<std::string>& model_path) {
  std::optional<pull::PullJob> job;
  if (now) {
    auto parsed = pull::parse_pull(now->body);
    if (!parsed) return refusal_of(parsed.error());
    job = std::move(*parsed);
  }
  const auto id = pull_id(args);
  if (const auto* refusal = std::get_if<Refusal>(&id)) return *refusal;
  const std::string& name = std::get<std::string>(id);
  if (verb == "pulls.cancel") return cancel_pull(name, job);
  return start_pull(args, name, job, model_path);
}

json pull_document(const core::ObjectRow& row) {
  json document = json::object();
  if (const auto job = pull::parse_pull(row.body)) {
    document = try_parse_json<json>(pull::public_json_text(*job));
  }
  document["created_ms"] = row.created_ms;
  document["changed_ms"] = row.changed_ms;
  return document;
}

}  // namespace holdfast::daemon
