#include "shared/client/key_watch.h"

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "shared/base/json_text.h"

namespace holdfast::client {
namespace {

using namespace std::chrono_literals;

constexpr auto kEvery = 400ms;
constexpr auto kPatience = 2s;
constexpr const char* kVerb = "config.get";
constexpr const char* kArgs = R"({"name": "drain.limit_ms"})";

/// The number of the daemon's answer; -1 if it has none.
std::int64_t drain_limit_in(const std::string& answer) {
  const auto knob = try_parse_json<nlohmann::json>(answer);
  if (!knob.is_object()) return -1;
  const auto effective = knob.find("effective");
  const bool is_number = effective != knob.end() && effective->is_number_integer();
  return is_number ? effective->get<std::int64_t>() : -1;
}

}  // namespace

struct KeyWatch::Shared {
  std::unique_ptr<Client> client;

  mutable std::mutex mutex;  // guards all below
  std::condition_variable changed;
  State state;
  bool stop = false;
  std::thread thread;

  void run();
  void note(const Answer<std::string>& answer);
};

void KeyWatch::Shared::note(const Answer<std::string>& answer) {
  const std::lock_guard lock(mutex);
  const auto* failure = std::get_if<Failure>(&answer);
  state.answered = failure == nullptr;
  if (failure != nullptr) {
    state.why = failure->message;
    if (failure->code == Errc::kUnauthorized) state.phase = Phase::kRefused;
    return;
  }
  state.phase = Phase::kJoined;
  state.why.clear();
  state.drain_ms = drain_limit_in(std::get<std::string>(answer));
}

void KeyWatch::Shared::run() {
  for (;;) {
    note(client->op(AllTenants::local(), kVerb, kArgs));
    std::unique_lock lock(mutex);
    const auto is_over = [this] { return stop || state.phase == Phase::kRefused; };
    if (changed.wait_for(lock, kEvery, is_over)) return;
  }
}

KeyWatch::KeyWatch(std::unique_ptr<Shared> shared) : shared_(std::move(shared)) {}

Result<std::unique_ptr<KeyWatch>> KeyWatch::start(const std::string& endpoint,
                                                  const PeerKeyFile& key) {
  Options options = options_with_key(key);
  options.timeout = kPatience;
  auto shared = std::make_unique<Shared>();
  HOLDFAST_TRY(shared->client, Client::connect(endpoint, options));
  shared->thread = std::thread([raw = shared.get()] { raw->run(); });
  return std::unique_ptr<KeyWatch>(new KeyWatch(std::move(shared)));
}

KeyWatch::~KeyWatch() {
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->stop = true;
  }
  shared_->changed.notify_all();
  shared_->thread.join();
}

KeyWatch::State KeyWatch::state() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->state;
}

}  // namespace holdfast::client
