#include "ops/node/node_link.h"

#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <deque>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "ops/node/machine_facts.h"
#include "ops/node/model_link.h"
#include "shared/base/bytes.h"
#include "shared/base/check.h"
#include "shared/base/json_text.h"
#include "shared/base/version.h"
#include "shared/model_index/model_index.h"

namespace holdfast::cli {

using nlohmann::json;
using namespace std::chrono_literals;

namespace {

constexpr auto kReportEvery = 1s;
constexpr auto kAgainAfter = 200ms;
constexpr auto kCallTimeout = 3s;
constexpr auto kScanEvery = 10s;
// The daemon may not have noticed yet that this machine was away.
constexpr auto kConflictPatience = 10s;

std::string host_name() {
  char name[256] = {};
  return gethostname(name, sizeof(name) - 1) == 0 ? name : "";
}

std::string new_incarnation() {
  std::byte bytes[16];
  CHECK(getrandom(bytes, sizeof(bytes), 0) == static_cast<ssize_t>(sizeof(bytes)));
  return to_hex(bytes);
}

/// True for an answer that another try may change: nobody answered.
bool is_transient(const client::Failure& failure) {
  return failure.code == Errc::kUnreachable || failure.code == Errc::kTimeout ||
         failure.code == Errc::kCancelled;
}

std::optional<client::Failure> failure_of(const client::Answer<std::string>& answer) {
  const auto* failure = std::get_if<client::Failure>(&answer);
  return failure == nullptr ? std::nullopt : std::optional(*failure);
}

/// Returns the session of datagrams that the answer to a report names; nullopt: the daemon takes
/// none.
std::optional<wire::LivenessSession> session_in(const client::Answer<std::string>& answer) {
  const auto* text = std::get_if<std::string>(&answer);
  const json document = text == nullptr ? json() : try_parse_json<json>(*text);
  const auto told = document.is_object() ? document.find("datagrams") : document.end();
  if (told == document.end() || !told->is_object()) return std::nullopt;
  const auto id = told->find("session");
  const auto key = told->find("key");
  if (id == told->end() || !id->is_number_unsigned()) return std::nullopt;
  if (key == told->end() || !key->is_string()) return std::nullopt;
  const auto parsed = wire::parse_liveness_key(key->get<std::string>());
  if (!parsed) return std::nullopt;
  return wire::LivenessSession{id->get<std::uint64_t>(), *parsed};
}

/// True for an answer by which the daemon does not have this node's files.
bool lacks_files(const std::string& answer) {
  const json document = try_parse_json<json>(answer);
  return document.is_object() && document.contains("models") && document["models"].is_null();
}

}  // namespace

struct NodeLink::Shared {
  NodeLinkOptions options;
  std::string incarnation = new_incarnation();
  std::unique_ptr<client::Client> client;  // thread-safe
  std::unique_ptr<ModelLink> models_link;  // thread-safe; nullptr without a root

  mutable std::mutex mutex;  // guards all below
  std::condition_variable changed;
  State state;
  std::deque<WorkerEnd> exits;
  std::vector<std::string> models;  // hashes
  std::uint64_t looks = 0;          // that changed `models`; 0: not looked yet
  std::uint64_t looks_told = 0;     // of these, the last that the daemon has been told
  std::optional<std::chrono::steady_clock::time_point> conflict_since;
  json facts;               // of the machine and its link; null: not measured yet
  bool look_again = false;  // a model was fetched
  bool leaving = false;
  bool stop = false;
  std::vector<std::thread> threads;

  /// Waits; true if the link ends.
  bool pause(std::chrono::milliseconds time) {
    std::unique_lock lock(mutex);
    return changed.wait_for(lock, time, [this] { return stop; });
  }
  /// `told`: the look that the daemon has been told of once it has answered.
  json report_args(std::uint64_t& told) {
    const std::lock_guard lock(mutex);
    json args = {{"incarnation", incarnation},
                 {"host", host_name()},
                 {"version", kVersion},
                 {"leaving", leaving}};
    told = looks;
    if (looks != looks_told) args["models"] = models;
    if (models_link != nullptr) models_link->add_progress(args);
    if (!facts.is_null()) args["facts"] = facts;
    return args;
  }
  client::Answer<std::string> ask(const std::string& verb, const json& args) const {
    return client->op(client::AllTenants::local(), verb,
                      args.dump(-1, ' ', false, json::error_handler_t::replace));
  }
  std::optional<client::Failure> call(const std::string& verb, const json& args) const {
    return failure_of(ask(verb, args));
  }
  bool pause_looking();
  void start_models_link();
  bool is_final(const client::Failure& failure);
  void note_answer(const std::optional<client::Failure>& failure, std::uint64_t told);
  void report();
  void send_exits();
  void look_for_models();
  void measure();
};

/// True for an answer that another try will not change.
bool NodeLink::Shared::is_final(const client::Failure& failure) {
  if (is_transient(failure)) return false;
  const auto now = std::chrono::steady_clock::now();
  if (failure.code != Errc::kConflict) return true;
  if (!conflict_since) conflict_since = now;
  return now - *conflict_since > kConflictPatience;
}

void NodeLink::Shared::note_answer(const std::optional<client::Failure>& failure,
                                   std::uint64_t told) {
  const std::lock_guard lock(mutex);
  state.answered = !failure;
  // A daemon that was away may have forgotten which files are here.
  looks_told = failure ? 0 : told;
  if (!failure) {
    conflict_since.reset();
    state.phase = Phase::kJoined;
    state.why.clear();
  } else {
    state.why = failure->message;
    if (is_final(*failure)) state.phase = Phase::kRefused;
  }
  changed.notify_all();
}

void NodeLink::Shared::report() {
  for (;;) {
    std::uint64_t told = 0;
    const json args = report_args(told);
    const auto answer = ask("node.report", args);
    const auto failure = failure_of(answer);
    // A daemon that was started anew meanwhile does not have the files that the last one was told.
    note_answer(failure, !failure && lacks_files(std::get<std::string>(answer)) ? 0 : told);
    if (const auto session = session_in(answer)) options.on_session(*session);
    if (!failure && models_link != nullptr) models_link->follow(std::get<std::string>(answer));
    if (pause(failure ? kAgainAfter : std::chrono::milliseconds(kReportEvery))) return;
  }
}

void NodeLink::Shared::send_exits() {
  for (;;) {
    WorkerEnd end;
    {
      std::unique_lock lock(mutex);
      changed.wait(lock, [this] { return stop || !exits.empty(); });
      if (stop) return;
      end = exits.front();
    }
    const auto failure = call("node.exit", worker_end_json(end));
    if (failure && is_transient(*failure)) {
      if (pause(kAgainAfter)) return;
      continue;
    }
    const std::lock_guard lock(mutex);
    exits.pop_front();
  }
}

void NodeLink::Shared::look_for_models() {
  std::vector<model_index::Entry> entries = model_index::read(options.index_file);
  do {
    if (models_link != nullptr) {
      for (auto& entry : models_link->take_arrived()) entries.push_back(std::move(entry));
    }
    std::vector<model_index::Entry> found =
        model_index::scan(options.roots, entries, [this](const std::string& path) {
          const std::lock_guard lock(mutex);
          state.reading = path;
        });
    std::vector<std::string> hashes;
    for (const auto& entry : found) hashes.push_back(entry.sha);
    std::sort(hashes.begin(), hashes.end());
    hashes.erase(std::unique(hashes.begin(), hashes.end()), hashes.end());
    // Workers read the file before the daemon sends one of them a load by it.
    const auto written = model_index::write(options.index_file, found);
    if (!written) std::fprintf(stderr, "holdfast: %s\n", written.error().what.c_str());
    entries = std::move(found);
    const std::lock_guard lock(mutex);
    state.reading.clear();
    if (looks > 0 && models == hashes) continue;
    models = std::move(hashes);
    ++looks;
  } while (!pause_looking());
}

/// Waits for the time of the next look at the roots; true if the link ends.
bool NodeLink::Shared::pause_looking() {
  std::unique_lock lock(mutex);
  changed.wait_for(lock, kScanEvery, [this] { return stop || look_again; });
  look_again = false;
  return stop;
}

/// Measures the machine and, once the daemon answers, the link.
void NodeLink::Shared::measure() {
  const std::int64_t memory_bytes_s = measure_memory_rate(options.threads);
  {
    std::unique_lock lock(mutex);
    changed.wait(lock, [this] { return stop || state.phase == Phase::kJoined; });
    if (stop) return;
  }
  const LinkFacts link = measure_link(*client);
  const std::lock_guard lock(mutex);
  facts = {{"domain", options.domain},
           {"round_trip_us", link.round_trip_us},
           {"link_bytes_s", link.bytes_s},
           {"memory_bytes_s", memory_bytes_s}};
}

void NodeLink::Shared::start_models_link() {
  if (options.roots.empty()) return;
  ModelLinkOptions link{options.endpoint,      options.key,   options.index_file,
                        options.roots.front(), options.quiet, {}};
  link.on_arrival = [this] {
    const std::lock_guard lock(mutex);
    look_again = true;
    changed.notify_all();
  };
  auto started = ModelLink::start(std::move(link));
  if (started) {
    models_link = std::move(started).value();
  } else {
    std::fprintf(stderr, "holdfast: models are not fetched: %s\n", started.error().what.c_str());
  }
}

NodeLink::NodeLink(NodeLinkOptions options) : shared_(std::make_shared<Shared>()) {
  shared_->options = std::move(options);
  client::Options with_key = client::options_with_key(shared_->options.key);
  with_key.timeout = kCallTimeout;
  auto client = client::Client::connect(shared_->options.endpoint, with_key);
  if (!client) {
    shared_->state.phase = Phase::kRefused;
    shared_->state.why = client.error().what;
    return;
  }
  shared_->client = std::move(client).value();
  shared_->start_models_link();
  shared_->threads.emplace_back([shared = shared_] { shared->report(); });
  shared_->threads.emplace_back([shared = shared_] { shared->send_exits(); });
  shared_->threads.emplace_back([shared = shared_] { shared->look_for_models(); });
  shared_->threads.emplace_back([shared = shared_] { shared->measure(); });
}

NodeLink::~NodeLink() {
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->stop = true;
  }
  shared_->changed.notify_all();
  for (std::thread& thread : shared_->threads) thread.join();
  shared_->models_link.reset();  // its threads call into what goes
}

NodeLink::State NodeLink::state() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->state;
}

void NodeLink::worker_exited(WorkerEnd end) {
  const std::lock_guard lock(shared_->mutex);
  shared_->exits.push_back(std::move(end));
  shared_->changed.notify_all();
}

void NodeLink::leave() {
  const std::lock_guard lock(shared_->mutex);
  shared_->leaving = true;
}

void NodeLink::farewell(std::int64_t limit_ms) {
  if (shared_->client == nullptr) return;
  auto done = std::make_shared<std::pair<std::mutex, std::condition_variable>>();
  auto answered = std::make_shared<bool>(false);
  shared_->client->op_async(client::AllTenants::local(), "node.bye",
                            json{{"incarnation", shared_->incarnation},
                                 {"host", host_name()},
                                 {"version", kVersion},
                                 {"leaving", true}}
                                .dump(),
                            [done, answered](const client::Answer<std::string>&) {
                              const std::lock_guard lock(done->first);
                              *answered = true;
                              done->second.notify_all();
                            });
  std::unique_lock lock(done->first);
  done->second.wait_for(lock, std::chrono::milliseconds(limit_ms), [&] { return *answered; });
}

}  // namespace holdfast::cli
