#include "tests/process/chaos_clients.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <thread>

#include "shared/base/check.h"
#include "tests/process/http_stream.h"

namespace holdfast::process {
namespace {

using nlohmann::json;

/// True for errors after which a careful client repeats: they say nothing about the request itself.
bool is_passing(Errc code) {
  static const std::set<Errc> codes = {Errc::kUnreachable, Errc::kTimeout,     Errc::kDraining,
                                       Errc::kQueueFull,   Errc::kRateLimited, Errc::kStorageFull};
  return codes.count(code) > 0;
}

std::string body_of(const Spec& spec, bool stream) {
  return json{{"model", "demo"},    {"prompt", spec.prompt}, {"max_tokens", spec.tokens},
              {"temperature", 1.0}, {"seed", spec.seed},     {"ignore_eos", true},
              {"stream", stream}}
      .dump();
}

/// True when the request was accepted; false when the run is over before that.
bool submit_until_accepted(client::Client& client, const wire::Submit& submit, const World& world,
                           ClientLog& log) {
  for (;;) {
    const auto answer = client.submit(client::Principal::local(), submit);
    if (std::holds_alternative<wire::Accepted>(answer)) return true;
    const auto& failure = std::get<client::Failure>(answer);
    if (!is_passing(failure.code)) {
      log.wrong(submit.request_id,
                "refused: " + std::string(errc_name(failure.code)) + ": " + failure.message);
      return false;
    }
    if (world.stop->load()) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

void one_request(client::Client& client, const World& world, std::mt19937_64& random,
                 ClientLog& log) {
  const std::size_t number = random() % world.specs->size();
  const Spec& spec = (*world.specs)[number];
  wire::Submit submit = spec.submit();
  submit.request_id = client::new_request_id();
  const std::string& id = submit.request_id;
  const bool cancels = static_cast<int>(random() % 100) < world.cancel_percent;
  const auto cancel_at =
      static_cast<std::int64_t>(random() % static_cast<std::size_t>(spec.tokens_of_all()));
  log.tried(id, number);
  if (!submit_until_accepted(client, submit, world, log)) return;
  log.acked(id, number);
  ChoiceIds ids;
  bool cancel_sent = false;
  const auto ended =
      client.stream(client::AllTenants::local(), id, {}, [&](const wire::Event& event) {
        const std::string wrong = ids.add(event);
        if (!wrong.empty()) log.wrong(id, wrong);
        if (!cancels || cancel_sent || ids.count() < cancel_at) return;
        cancel_sent = true;
        log.cancels(id);
        (void)client.cancel(client::AllTenants::local(),
                            id);  // the end tells whether it came in time
      });
  if (const auto* failure = std::get_if<client::Failure>(&ended)) {
    log.wrong(id, "stream: " + std::string(errc_name(failure->code)) + ": " + failure->message);
    return;
  }
  const auto& info = std::get<wire::RequestInfo>(ended);
  if (const std::string wrong = ids.difference(spec); !wrong.empty()) log.wrong(id, wrong);
  const bool whole =
      info.state == wire::RequestState::kSucceeded && ids.count() == spec.tokens_of_all();
  const bool cut = info.state == wire::RequestState::kCancelled && cancel_sent;
  if (!whole && !cut) {
    log.wrong(id, "ended as " + std::string(wire::state_name(info.state)) + " after " +
                      std::to_string(ids.count()) + " of " + std::to_string(spec.tokens_of_all()) +
                      " tokens");
  }
  log.ended(id, std::string(wire::state_name(info.state)), ids.count());
}

std::atomic<bool> g_stop{false};

}  // namespace

wire::Submit Spec::submit() const {
  wire::Submit submit = make_submit(prompt, tokens, seed);
  submit.n = n;
  return submit;
}

std::string ChoiceIds::add(const wire::Event& event) {
  const auto choice = static_cast<std::size_t>(event.choice);
  if (ids_.size() <= choice) ids_.resize(choice + 1);
  std::vector<wire::TokenId>& ids = ids_[choice];
  const auto next = static_cast<std::int64_t>(ids.size());
  ids.insert(ids.end(), event.ids.begin(), event.ids.end());
  if (event.start == next) return "";
  return "an event of choice " + std::to_string(choice) + " starts at " +
         std::to_string(event.start) + ", expected " + std::to_string(next);
}

std::int64_t ChoiceIds::count() const {
  std::int64_t sum = 0;
  for (const auto& ids : ids_) sum += static_cast<std::int64_t>(ids.size());
  return sum;
}

std::string ChoiceIds::difference(const Spec& spec) const {
  for (std::size_t c = 0; c < ids_.size(); ++c) {
    for (std::size_t i = 0; i < ids_[c].size(); ++i) {
      const bool same =
          c < spec.ids.size() && i < spec.ids[c].size() && spec.ids[c][i] == ids_[c][i];
      if (!same)
        return "token " + std::to_string(i) + " of choice " + std::to_string(c) + " differs";
    }
  }
  return "";
}

std::vector<Spec> make_specs(int count, std::int64_t tokens_min, std::int64_t tokens_max) {
  std::vector<Spec> specs;
  for (int i = 0; i < count; ++i) {
    Spec spec;
    spec.prompt = "Act " + std::to_string(i) + ", scene " + std::to_string(i * i) + ". Enter";
    spec.tokens = tokens_min + (tokens_max - tokens_min) * i / std::max(count - 1, 1);
    spec.seed = static_cast<std::uint64_t>(1'000 + i);
    spec.n = i % 4 == 3 ? 2 : 1;
    specs.push_back(std::move(spec));
  }
  return specs;
}

bool fill_references(const TestServer& server, std::vector<Spec>& specs, ClientLog& log,
                     std::string* why) {
  const auto client = server.client();
  for (std::size_t i = 0; i < specs.size(); ++i) {
    Spec& spec = specs[i];
    wire::Submit submit = spec.submit();
    submit.request_id = client::new_request_id();
    log.tried(submit.request_id, i);
    ChoiceIds ids;
    const auto accepted = client->submit(client::Principal::local(), submit);
    const auto ended = client->stream(client::AllTenants::local(), submit.request_id, {},
                                      [&](const wire::Event& event) { *why += ids.add(event); });
    if (!std::holds_alternative<wire::RequestInfo>(ended) || ids.count() != spec.tokens_of_all()) {
      *why += "the reference run of spec " + std::to_string(i) + " failed";
    }
    spec.ids = ids.ids();
    if (spec.n == 1) {
      const std::string key = client::new_request_id();
      log.keyed(key, i);
      const SseResult http =
          stream_sse(server.url(), "/v1/completions", body_of(spec, true), key, Resume::kPost);
      *why += http.failure;
      if (http.index != spec.tokens) *why += "the reference run over HTTP ended early";
      spec.http_text = http.text;
    }
    if (!why->empty()) return false;
  }
  return true;
}

bool save_specs(const std::vector<Spec>& specs, const std::string& path) {
  json list = json::array();
  for (const Spec& spec : specs) {
    list.push_back({spec.prompt, spec.tokens, spec.seed, spec.n, spec.ids, spec.http_text});
  }
  std::ofstream file(path);
  file << list.dump();
  return file.good();
}

std::vector<Spec> load_specs(const std::string& path) {
  std::vector<Spec> specs;
  for (const json& item : json::parse(read_file(path))) {
    specs.push_back({item[0], item[1], item[2], item[3], item[4], item[5]});
  }
  return specs;
}

ClientLog::ClientLog(const std::string& path) : path_(path) {
  fd_ = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  CHECK(fd_ >= 0);
}

ClientLog::~ClientLog() {
  close(fd_);
}

void ClientLog::line(const char* what, const std::string& id, const std::string& rest) {
  std::string text = std::string(what) + " " + id + " " + rest;
  for (char& c : text) {
    if (c == '\n') c = ' ';
  }
  text += "\n";
  CHECK(write(fd_, text.data(), text.size()) == static_cast<ssize_t>(text.size()));
}

void ClientLog::acked(const std::string& id, std::size_t spec) {
  line("ack", id, std::to_string(spec));
  acked_.fetch_add(1);
}

void ClientLog::ended(const std::string& id, const std::string& state, std::int64_t tokens) {
  line("end", id, state + " " + std::to_string(tokens));
  ended_.fetch_add(1);
}

void run_sdk_client(const World& world, std::uint64_t seed, ClientLog& log) {
  std::mt19937_64 random(seed);
  client::Options options;
  options.timeout = std::chrono::seconds(60);
  const auto client = client::Client::connect(world.endpoint, options).value();
  while (!world.stop->load()) one_request(*client, world, random, log);
}

void run_http_client(const World& world, std::uint64_t seed, ClientLog& log) {
  std::mt19937_64 random(seed);
  while (!world.stop->load()) {
    const std::size_t number = random() % world.specs->size();
    const Spec& spec = (*world.specs)[number];
    if (spec.n != 1) continue;  // these are for the SDK
    const std::string key = "key-" + client::new_request_id();
    const auto resume = static_cast<Resume>(random() % 3);
    log.keyed(key, number);
    std::string id;
    const SseResult result = stream_sse(
        world.url, "/v1/completions", body_of(spec, true), key, resume,
        [&](const SseResult& so_far) {
          if (!id.empty()) return;
          id = so_far.request_id;
          log.acked(id, number);
        },
        true);
    if (id.empty()) id = key;
    if (!result.failure.empty()) log.wrong(id, "http: " + result.failure);
    const bool whole = result.text == spec.http_text && result.index == spec.tokens;
    if (!whole) log.wrong(id, "http: the text differs after " + std::to_string(result.index));
    log.ended(id, "succeeded", result.index);
  }
}

int client_main(const std::vector<std::string>& args) {
  CHECK(args.size() == 5);
  signal(SIGTERM, [](int) { g_stop.store(true); });
  const std::vector<Spec> specs = load_specs(args[1]);
  ClientLog log(args[2]);
  World world;
  world.endpoint = args[0];
  world.specs = &specs;
  world.stop = &g_stop;
  std::vector<std::thread> threads;
  for (int i = 0; i < std::stoi(args[4]); ++i) {
    const std::uint64_t seed = std::stoull(args[3]) * 64 + static_cast<std::uint64_t>(i);
    threads.emplace_back([&world, &log, seed] { run_sdk_client(world, seed, log); });
  }
  for (std::thread& thread : threads) thread.join();
  return 0;
}

}  // namespace holdfast::process
