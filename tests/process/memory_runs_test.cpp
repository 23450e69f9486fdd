// Goal: random workers, bounds and models, loaded together while workers are killed, never reserve
// more than is allowed and never take the machine's last memory, and every request of the test
// ends: a model is ready or has failed with a type and a reason, a generation has succeeded or
// failed with one. The kernel kills no process for want of memory, and no worker dies but by our
// hand. Method: each seed is a run with real workers, mostly in a control group with a limit, so
// that memory is scarce; reservations and the machine's memory are checked all the time. Needs
// HOLDFAST_TEST_FULL=1, two gigabytes of disk, and 8 more for the one run with a 13B model, which
// is made and deleted there.
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <random>

#include "shared/base/host_memory.h"
#include "tests/process/memory_watch.h"

namespace holdfast::process::memory_runs_test {
namespace {

using nlohmann::json;
using SteadyClock = std::chrono::steady_clock;
namespace fs = std::filesystem;

constexpr unsigned kRuns = 20;
constexpr std::int64_t kMib = 1 << 20;
constexpr auto kPatience = std::chrono::minutes(30);  // 13B on a machine that others use

struct Shape {
  const char *name, *type, *label;
};
constexpr Shape kSmall[] = {{"smollm2-135m", "Q8_0", "135M"},
                            {"smollm2-135m", "Q8_0", "135M"},
                            {"qwen2.5-0.5b", "Q4_0", "0.5B"},
                            {"qwen2.5-1.5b", "Q4_0", "1.5B"}};
constexpr Shape kLarge[] = {{"llama2-13b", "Q4_K_M", "13B"}, {"mistral-7b", "Q4_K_M", "7B"}};
constexpr std::int64_t kLargeGroupMib[] = {9400, 6000};  // limit of the group for each

std::string make_model(const std::string& path, const Shape& shape) {
  const Ended made =
      run_program({"holdfast", "synth", shape.name, path, "--type", shape.type}, 3600);
  EXPECT_EQ(made.code, 0) << made.err;
  return path;
}

/// A model of the shape, made at its first use, for all runs of this program.
const std::string& small_model(const Shape& shape) {
  static const TempDir dir;
  static std::map<std::string, std::string> made;
  std::string& path = made[shape.name];
  if (path.empty()) path = make_model(dir.path() + "/" + shape.name + ".gguf", shape);
  return path;
}

/// The name of the error of the first choice that has one.
std::string failure_of(const wire::RequestInfo& info) {
  for (const wire::ChoiceInfo& choice : info.choices) {
    if (!choice.error_code.empty()) return choice.error_code;
  }
  return "";
}

struct Model {
  std::string name, path, label;
  int context = 0, slots = 0;
};

/// The setup that one seed makes.
struct Plan {
  unsigned seed = 0;
  int workers = 1;
  std::int64_t percent = 90;
  std::int64_t limit = 0;  // of the group; 0: none
  std::vector<Model> models;
  int kills = 0;
};

/// The largest shape that disk and free memory allow; null: none.
const Shape* large_shape(std::int64_t* limit) {
  const std::int64_t available = host_memory_pools().at(0).available;
  const auto disk = static_cast<std::int64_t>(fs::space(fs::temp_directory_path()).available);
  const char* most = std::getenv("HOLDFAST_TEST_LARGEST");
  for (std::size_t i = 0; i < std::size(kLarge); ++i) {
    if (most != nullptr && i == 0 && std::string(most) != kLarge[i].label) continue;
    *limit = kLargeGroupMib[i] * kMib;
    if (available > *limit + *limit / 4 && disk > *limit + *limit / 4) return &kLarge[i];
  }
  return nullptr;
}

Plan make_plan(unsigned seed, const TempDir& dir) {
  std::mt19937 random(seed);
  const auto between = [&](std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(random()) % (high - low + 1);
  };
  Plan plan;
  plan.seed = seed;
  plan.workers = static_cast<int>(between(1, 4));
  plan.percent = between(2, 90);
  plan.kills = static_cast<int>(between(1, 4));
  const std::int64_t total = host_memory_pools().at(0).total;
  const bool grouped = total / 100 * plan.percent > 3072 * kMib || between(0, 1) == 1;
  if (grouped) plan.limit = between(600, 3072) * kMib;
  const std::int64_t count = between(1, 4);
  for (std::int64_t i = 0; i < count; ++i) {
    const Shape& shape = kSmall[between(0, std::size(kSmall) - 1)];
    plan.models.push_back({"m" + std::to_string(i), small_model(shape), shape.label,
                           256 << between(0, 3), static_cast<int>(between(1, 4))});
  }
  if (seed != kRuns) return plan;
  std::int64_t limit = 0;
  if (const Shape* shape = large_shape(&limit)) {
    plan.limit = limit;
    plan.percent = 90;
    plan.workers = std::max(plan.workers, 2);
    plan.models.push_back(
        {"large", make_model(dir.path() + "/large.gguf", *shape), shape->label, 256, 1});
  }
  return plan;
}

/// Requests that are followed to their end, whatever it is. Handlers run on the client's thread.
class Requests {
 public:
  explicit Requests(const TestServer& server) {
    client::Options options;
    options.timeout = kPatience;  // a later answer is a failure
    client_ =
        client::Client::connect("ipc://" + server.state() + "/run/clients.sock", options).value();
  }
  void submit(const std::string& model, unsigned seed) {
    wire::Submit submit = make_submit("one two", 4, seed);
    submit.model = model;
    {
      const std::lock_guard lock(mutex_);
      ++open_;
    }
    client_->submit_async(client::Principal::local(), std::move(submit),
                          [this](client::Answer<wire::Accepted> answer) {
                            if (const auto* no = std::get_if<client::Failure>(&answer)) {
                              return ended(std::string(errc_name(no->code)));
                            }
                            follow(std::get<wire::Accepted>(answer).info.request_id);
                          });
  }
  std::int64_t open() const {
    const std::lock_guard lock(mutex_);
    return open_;
  }
  /// Counts of ends: "succeeded" or the name of the error.
  std::map<std::string, int> ends() const {
    const std::lock_guard lock(mutex_);
    return ends_;
  }

 private:
  void follow(const std::string& id) {
    client::StreamHandler handler;
    handler.on_fin = [this](const wire::RequestInfo& info) {
      const bool good = info.state == wire::RequestState::kSucceeded;
      ended(good ? "succeeded" : failure_of(info));
    };
    handler.on_failure = [this](const client::Failure& no) {
      ended("stream: " + std::string(errc_name(no.code)));
    };
    client_->open_stream(client::AllTenants::local(), id, {}, std::move(handler));
  }
  void ended(const std::string& how) {
    const std::lock_guard lock(mutex_);
    --open_;
    ++ends_[how];
  }
  mutable std::mutex mutex_;
  std::int64_t open_ = 0;
  std::map<std::string, int> ends_;
  std::unique_ptr<client::Client> client_;  // its thread ends before the rest goes
};

/// Registers all models, then requests all loads at once.
void load_all(const TestServer& server, const Plan& plan) {
  client::Options options;
  options.timeout = std::chrono::minutes(30);  // a large file is hashed when it is added
  const auto patient =
      client::Client::connect("ipc://" + server.state() + "/run/operator.sock", options).value();
  for (const Model& model : plan.models) {
    const json added = ask(*patient, "models.add",
                           {{"name", model.name},
                            {"path", model.path},
                            {"context", model.context},
                            {"slots", model.slots}});
    ASSERT_FALSE(added.empty()) << model.name;
  }
  for (const Model& model : plan.models) {
    (void)ask(*patient, "models.load", {{"name", model.name}});
  }
}

/// Kills workers at random times and checks memory all the time, until every request has ended and
/// every model is ready, failed or unloaded. Returns the number of kills.
int kill_and_watch(const TestServer& server, const Plan& plan, Requests& requests,
                   MemoryWatch& watch) {
  std::mt19937 random(plan.seed + 1000);
  int kills = 0;
  for (; kills < plan.kills; ++kills) {
    watch.look_for(static_cast<int>(random() % 4000));
    EXPECT_TRUE(server.kill_child("worker-" +
                                  std::to_string(random() % static_cast<unsigned>(plan.workers))));
  }
  const auto until = SteadyClock::now() + kPatience;
  std::string unsettled;
  do {
    watch.look_for(100);
    unsettled.clear();
    const json models = ask(watch.daemon(), "models.list");
    for (const json& model : models.value("models", json::array())) {
      const std::string state = model.value("state", "");
      const bool settled = state == "ready" || state == "failed" || state == "unloaded";
      if (!settled) unsettled += model.dump() + "\n";
    }
  } while ((requests.open() > 0 || !unsettled.empty()) && SteadyClock::now() < until);
  EXPECT_EQ(requests.open(), 0) << "they never end\n" << unsettled << server.errors();
  EXPECT_EQ(unsettled, "") << "models that never settle\n" << server.errors();
  return kills;
}

/// The states of all models; every failed one must have a reason with a type.
std::string states_of(MemoryWatch& watch) {
  std::map<std::string, int> states;
  const json models = ask(watch.daemon(), "models.list");
  for (const json& model : models.value("models", json::array())) {
    ++states[model.value("state", "?")];
    if (model.value("state", "") != "failed") continue;
    const std::string why = model.value("reason", "");
    EXPECT_NE(why, "") << model;
    std::printf("  %s: %s\n", model.value("name", "?").c_str(), why.substr(0, 300).c_str());
  }
  std::string text;
  for (const auto& [state, count] : states) text += " " + std::to_string(count) + " " + state;
  return text;
}

std::string text_of(const std::map<std::string, int>& ends) {
  std::string text;
  for (const auto& [how, count] : ends) text += " " + std::to_string(count) + " " + how;
  return text;
}

class MemoryRuns : public ::testing::TestWithParam<unsigned> {};

TEST_P(MemoryRuns, MemoryReservation_UnderRandomLoadsAndKills_StaysInItsBound) {
  if (std::getenv("HOLDFAST_TEST_FULL") == nullptr) {
    GTEST_SKIP() << "takes minutes and gigabytes: HOLDFAST_TEST_FULL=1 runs it";
  }
  const TempDir dir;
  const Plan plan = make_plan(GetParam(), dir);
  LimitedGroup group(plan.limit);
  if (plan.limit != 0 && (!group.made() || !group.enter())) {
    GTEST_SKIP() << "no control group with a memory limit can be made here";
  }
  TestServer server(dir.path() + "/state");
  const bool started = server.start({"--workers", std::to_string(plan.workers), "--threads", "1"});
  std::int64_t reservable = INT64_MAX;
  for (const MemoryPool& pool : host_memory_pools()) {
    if (pool.total > 0) reservable = std::min(reservable, pool.total / 100 * plan.percent);
  }
  group.leave();
  ASSERT_TRUE(started) << server.errors();
  ASSERT_EQ(
      server.cli({"config", "set", "models.memory_percent=" + std::to_string(plan.percent)}).code,
      0);
  MemoryWatch watch(server, reservable);
  const auto begin = SteadyClock::now();
  load_all(server, plan);
  Requests requests(server);
  for (unsigned round = 0; round < 3; ++round) {
    for (const Model& model : plan.models) requests.submit(model.name, round);
  }
  const int kills = kill_and_watch(server, plan, requests, watch);
  std::int64_t deaths = 0;
  for (int i = 0; i < plan.workers; ++i)
    deaths += server.restarts_of("worker-" + std::to_string(i));
  EXPECT_LE(deaths, kills) << "a worker died by another hand" << server.errors();
  EXPECT_GE(watch.least_available(), 5);
  EXPECT_LE(group.killed(), 0) << "for want of memory";
  const std::string states = states_of(watch);
  const std::map<std::string, int> ends = requests.ends();
  EXPECT_EQ(ends.count(""), 0u) << "a failure without a type";
  EXPECT_EQ(ends.count("timeout"), 0u) << "a submission that nobody answered";
  std::string labels;
  for (const Model& model : plan.models) labels += (labels.empty() ? "" : "+") + model.label;
  std::printf(
      "seed %u: %d workers, %lld %%, group %lld MiB, %s: reserved at most %.1f of %.1f MiB (%.3f), "
      "available at least %.1f %%, %d kills, requests:%s, models:%s, %.0f s\n",
      plan.seed, plan.workers, static_cast<long long>(plan.percent),
      static_cast<long long>(plan.limit / kMib), labels.c_str(),
      static_cast<double>(watch.most()) / kMib, static_cast<double>(reservable) / kMib,
      static_cast<double>(watch.most()) / static_cast<double>(reservable), watch.least_available(),
      kills, text_of(ends).c_str(), states.c_str(),
      std::chrono::duration<double>(SteadyClock::now() - begin).count());
  std::fflush(stdout);
  EXPECT_EQ(server.stop(), 0);
}

INSTANTIATE_TEST_SUITE_P(Seeds, MemoryRuns, ::testing::Range(1u, kRuns + 1));

}  // namespace
}  // namespace holdfast::process::memory_runs_test
