#include "ops/node/model_link.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include "ops/node/client_sources.h"
#include "ops/node/model_fetch.h"
#include "shared/base/json_text.h"
#include "shared/model_index/chunks.h"

namespace holdfast::cli {

using nlohmann::json;
using namespace std::chrono_literals;

namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr auto kCallTimeout = 30s;
constexpr auto kAgainSoon = 1s;    // after a failure that may be over by itself
constexpr auto kAgainLater = 10s;  // after one that somebody must mend
constexpr int kGivers = 2;         // threads that give ranges
constexpr std::size_t kLacksMax = 1'000;
constexpr std::size_t kHashDigits = 64;

bool is_hash(const std::string& text) {
  return text.size() == kHashDigits &&
         text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

bool is_transient(Errc code) {
  return code == Errc::kUnreachable || code == Errc::kTimeout || code == Errc::kCancelled ||
         code == Errc::kRateLimited || code == Errc::kNotFound;
}

json progress_json(const FetchProgress& progress) {
  return {{"sha", progress.sha},
          {"name", progress.name},
          {"state", progress.state},
          {"source", progress.source},
          {"done_bytes", progress.done_bytes},
          {"bytes", progress.bytes},
          {"error_code", progress.error_code},
          {"error", progress.error}};
}

}  // namespace

struct ModelLink::Shared {
  ModelLinkOptions options;
  std::unique_ptr<client::Client> client;  // thread-safe
  std::unique_ptr<ClientSources> sources;

  /// A model that this node lacks.
  struct Lacked {
    std::shared_ptr<ModelFetch> fetch;  // of the fetching thread
    FetchProgress progress;
    SteadyClock::time_point again;  // no try before
    std::string arrived;            // its path; the daemon does not have it in a report yet
  };
  mutable std::mutex mutex;  // guards all below
  std::condition_variable changed;
  std::map<std::string, Lacked> lacked;  // by hash
  std::vector<std::string> order;        // the hashes, as the daemon wants them
  std::vector<model_index::Entry> arrived;
  std::map<std::string, std::string> paths;  // of models that were given, by hash
  std::int64_t rate_bytes_s = 0;
  bool gives = false;
  bool stop = false;
  std::vector<std::thread> threads;

  bool is_lacked(const std::string& sha) const {
    const std::lock_guard lock(mutex);
    return !stop && lacked.contains(sha);
  }
  void take_lacks(const std::vector<std::string>& hashes);
  std::shared_ptr<ModelFetch> begin_fetch(const std::string& sha);
  std::optional<std::string> wait_for_work();
  void end_fetch(const std::string& sha, const Result<std::string>& path);
  void note(const FetchProgress& progress);
  void say(const std::string& text) const {
    if (!options.quiet) std::fprintf(stderr, "holdfast: %s\n", text.c_str());
  }
  void fetch_models();
  bool wait_to_give();
  void give_models();
  Result<client::OpAnswer> carry_out(const json& job);
  Result<std::string> path_of(const std::string& sha);
  Result<std::string> content_for(const json& job, std::string& document);
};

void ModelLink::Shared::take_lacks(const std::vector<std::string>& hashes) {
  const std::lock_guard lock(mutex);
  std::erase_if(lacked, [&](const auto& entry) {
    return std::ranges::find(hashes, entry.first) == hashes.end();
  });
  order = hashes;
  for (const std::string& sha : hashes) {
    Lacked& entry = lacked[sha];
    entry.progress.sha = sha;
    if (entry.progress.state.empty()) entry.progress.state = "waiting";
    // Somebody may have removed it at once.
    if (!entry.arrived.empty() && access(entry.arrived.c_str(), F_OK) != 0) entry.arrived.clear();
  }
  changed.notify_all();
}

/// Waits until a model is due. nullopt: the link ends.
std::optional<std::string> ModelLink::Shared::wait_for_work() {
  std::unique_lock lock(mutex);
  for (;;) {
    if (stop) return std::nullopt;
    auto until = SteadyClock::now() + 1h;
    for (const std::string& sha : order) {
      const Lacked& entry = lacked.at(sha);
      if (!entry.arrived.empty()) continue;
      if (entry.again <= SteadyClock::now()) return sha;
      until = std::min(until, entry.again);
    }
    changed.wait_until(lock, until);
  }
}

void ModelLink::Shared::note(const FetchProgress& progress) {
  const std::lock_guard lock(mutex);
  const auto entry = lacked.find(progress.sha);
  if (entry == lacked.end()) return;
  const bool failed = progress.error != entry->second.progress.error && !progress.error.empty();
  if (failed) say(progress.error);
  entry->second.progress = progress;
}

std::shared_ptr<ModelFetch> ModelLink::Shared::begin_fetch(const std::string& sha) {
  const std::lock_guard lock(mutex);
  const auto entry = lacked.find(sha);
  if (entry == lacked.end()) return nullptr;
  if (entry->second.fetch == nullptr) {
    FetchOptions fetch;
    fetch.root = options.root;
    fetch.sha = sha;
    fetch.rate_bytes_s = [this] {
      const std::lock_guard guard(mutex);
      return rate_bytes_s;
    };
    fetch.stopping = [this, sha] { return !is_lacked(sha); };
    fetch.on_progress = [this](const FetchProgress& progress) { note(progress); };
    entry->second.fetch = std::make_shared<ModelFetch>(*sources, std::move(fetch));
    say("fetching the model with SHA-256 " + sha);
  }
  return entry->second.fetch;
}

void ModelLink::Shared::end_fetch(const std::string& sha, const Result<std::string>& path) {
  const auto stamp = path ? huggingface::stamp_of(*path) : Result<huggingface::Stamp>(path.error());
  {
    const std::lock_guard lock(mutex);
    const auto entry = lacked.find(sha);
    if (stamp) {
      say("fetched " + *path);
      arrived.push_back({sha, *path, *stamp});
    }
    if (entry == lacked.end()) return;
    FetchProgress& progress = entry->second.progress;
    if (stamp) {
      entry->second.arrived = *path;
      progress.state = "arrived";
      progress.error.clear();
      progress.error_code.clear();
    } else {
      const Error& error = stamp.error();
      if (progress.error != error.what) say(error.what + "; trying again");
      progress.state = "failed";
      progress.error_code = errc_name(error.code);
      progress.error = error.what;
      entry->second.again =
          SteadyClock::now() + (is_transient(error.code) ? kAgainSoon : kAgainLater);
    }
  }
  if (stamp && options.on_arrival) options.on_arrival();
}

void ModelLink::Shared::fetch_models() {
  while (const auto sha = wait_for_work()) {
    const auto fetch = begin_fetch(*sha);
    if (fetch != nullptr) end_fetch(*sha, fetch->run());
  }
}

/// Waits until another node may need this one. False: the link ends.
bool ModelLink::Shared::wait_to_give() {
  std::unique_lock lock(mutex);
  changed.wait(lock, [this] { return stop || gives; });
  return !stop;
}

Result<std::string> ModelLink::Shared::path_of(const std::string& sha) {
  const std::lock_guard lock(mutex);
  if (const auto found = paths.find(sha); found != paths.end()) return found->second;
  const auto entry = model_index::find(model_index::read(options.index_file), sha);
  if (!entry) return Error{Errc::kNotFound, "no file here has the SHA-256 " + sha};
  return paths[sha] = entry->path;
}

/// The content that a job of the daemon wants.
Result<std::string> ModelLink::Shared::content_for(const json& job, std::string& document) {
  const auto sha = job.at("sha").get<std::string>();
  HOLDFAST_TRY(const std::string path, path_of(sha));
  if (job.at("kind") == "range") {
    auto content = model_index::read_range(path, job.at("file").get<std::int64_t>(),
                                           job.at("offset").get<std::int64_t>(),
                                           job.at("bytes").get<std::int64_t>());
    if (!content) {
      const std::lock_guard lock(mutex);
      paths.erase(sha);  // it may be elsewhere by now
    }
    return content;
  }
  HOLDFAST_TRY(const model_index::ChunkList list,
               model_index::make_chunk_list(path, [this](std::int64_t) {
                 const std::lock_guard lock(mutex);
                 return !stop;
               }));
  model_index::ChunkListText text = model_index::to_text(list);
  document = std::move(text.document);
  return std::move(text.hashes);
}

/// Does a job and reports it. The answer may have the next one.
Result<client::OpAnswer> ModelLink::Shared::carry_out(const json& job) {
  json args = {{"job", job.at("job")}};
  std::string document;
  auto content = content_for(job, document);
  if (!content) {
    args["error_code"] = errc_name(content.error().code);
    args["error"] = content.error().what;
  }
  if (!document.empty()) args["list"] = document;
  return call_with_bytes(*client, "node.supply", args.dump(),
                         content ? std::move(content).value() : std::string());
}

void ModelLink::Shared::give_models() {
  while (wait_to_give()) {
    auto answer = call_with_bytes(*client, "node.offer", "{}");
    try {
      while (answer) {
        const json job = try_parse_json<json>(answer->text);
        if (!job.is_object() || !job.contains("job")) break;
        answer = carry_out(job);
      }
    } catch (const json::exception&) {
      answer = Error{Errc::kInvalidRequest, "a job of another form"};
    }
    if (answer) continue;
    std::unique_lock lock(mutex);
    changed.wait_for(lock, kAgainSoon, [this] { return stop; });
  }
}

Result<std::unique_ptr<ModelLink>> ModelLink::start(ModelLinkOptions options) {
  auto shared = std::make_shared<Shared>();
  client::Options with_key = client::options_with_key(options.key);
  with_key.timeout = kCallTimeout;
  HOLDFAST_TRY(shared->client, client::Client::connect(options.endpoint, with_key));
  shared->sources = std::make_unique<ClientSources>(*shared->client);
  shared->options = std::move(options);
  return std::unique_ptr<ModelLink>(new ModelLink(std::move(shared)));
}

ModelLink::ModelLink(std::shared_ptr<Shared> shared) : shared_(std::move(shared)) {
  Shared* const s = shared_.get();
  s->threads.emplace_back([s] { s->fetch_models(); });
  for (int i = 0; i < kGivers; ++i) s->threads.emplace_back([s] { s->give_models(); });
}

ModelLink::~ModelLink() {
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->stop = true;
  }
  shared_->changed.notify_all();
  for (std::thread& thread : shared_->threads) thread.join();
}

void ModelLink::add_progress(json& args) const {
  const std::lock_guard lock(shared_->mutex);
  json list = json::array();
  for (const std::string& sha : shared_->order) {
    list.push_back(progress_json(shared_->lacked.at(sha).progress));
  }
  args["fetches"] = std::move(list);
}

void ModelLink::follow(const std::string& answer) {
  const json document = try_parse_json<json>(answer);
  if (!document.is_object()) return;
  std::vector<std::string> hashes;
  const auto lacks = document.find("lacks");
  if (lacks != document.end() && lacks->is_array()) {
    for (const json& item : *lacks) {
      const bool good = item.is_string() && is_hash(item.get_ref<const std::string&>());
      if (good && hashes.size() < kLacksMax) hashes.push_back(item.get<std::string>());
    }
  }
  {
    const std::lock_guard lock(shared_->mutex);
    const auto rate = document.find("fetch_bytes_s");
    const bool limited = rate != document.end() && rate->is_number_integer();
    shared_->rate_bytes_s = limited ? rate->get<std::int64_t>() : 0;
    const auto gives = document.find("gives");
    shared_->gives = gives != document.end() && gives->is_boolean() && gives->get<bool>();
  }
  shared_->take_lacks(hashes);
}

std::vector<model_index::Entry> ModelLink::take_arrived() {
  const std::lock_guard lock(shared_->mutex);
  return std::exchange(shared_->arrived, {});
}

}  // namespace holdfast::cli
