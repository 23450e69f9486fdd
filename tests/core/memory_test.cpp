// Goal: memory is reserved once. Whatever loads are asked for together, fail, lose their workers or
// go, what the loads of a machine hold is never more than may be reserved, and a load never takes
// what the machine needs itself.
// Method: random histories of hosts with 1 to 4 workers, models of 135M to 13B; the test counts
// what each living process really holds. Then the rules one by one.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <set>
#include <utility>

#include "tests/core/bench_machine.h"

namespace holdfast::core::memory_test {
namespace {

constexpr std::int64_t kMiB = 1 << 20;
constexpr std::int64_t kGiB = 1 << 30;
constexpr std::int64_t kOrphanMs = 30'000;  // a worker without a daemon ends after that

/// One load as a process holds it.
struct Held {
  std::string model_sha;
  std::int64_t reserved = 0;
  std::int64_t used = 0;
  std::string state = "loading";
  bool to_unload = false;
};

struct Process {
  std::string key;
  int life = 0;
  std::int64_t pid = 0;
  PeerId peer = 0;  // 0: not connected
  std::size_t host = 0;
  bool alive = false;
  std::int64_t away_since_us = 0;
  std::map<std::string, Held> held;
  std::string incarnation() const { return key + "-" + std::to_string(life); }
};

struct Host {
  std::int64_t total = 0;
  std::int64_t others = 0;  // used by other programs
};

/// One random history.
class History {
 public:
  explicit History(std::uint64_t seed) : random_(seed), bench_(draw_config()) {
    bench_.boot();
    bench_.step(IngressUp{Bench::kHelper});
    for (std::int64_t h = between(1, 3); h > 0; --h) {
      hosts_.push_back({between(2, 64) * kGiB, 0});
      hosts_.back().others = hosts_.back().total / 100 * between(0, 60);
      for (std::int64_t w = between(1, 4); w > 0; --w) {
        Process p;
        p.key = "w" + std::to_string(processes_.size());
        p.host = hosts_.size() - 1;
        processes_.push_back(p);
      }
    }
    for (std::int64_t m = between(1, 6); m > 0; --m) add_model();
    for (Process& p : processes_) start(p);
  }

  void run(int steps) {
    for (int i = 0; i < steps && !testing::Test::HasFailure(); ++i) act();
  }
  std::int64_t loads_received() const { return loads_received_; }
  std::int64_t percent() const { return bench_.machine.config().models_memory_percent; }

 private:
  Config draw_config() {
    Config c;
    c.models_memory_percent = between(2, 90);
    c.models_loads_at_once = between(1, 8);
    c.models_dwell_ms = between(0, 2000);
    c.models_replicas = between(0, 3);
    c.models_load_tries = between(1, 5);
    c.models_load_timeout_ms = between(500, 60'000);
    c.breaker_failures = 1000;
    return c;
  }
  std::int64_t between(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random_);
  }
  bool one_in(std::int64_t n) { return between(1, n) == 1; }

  void add_model() {
    const std::string name = "m" + std::to_string(models_++);
    OpAddModel add;
    add.peer = Bench::kOperator;
    add.name = add.path = name;
    add.load = true;
    step(add);
    InspectedEvent event;
    event.peer = Bench::kHelper;
    event.inspected.job = last_inspect_;
    event.inspected.ok = true;
    event.inspected.model_sha = "sha-" + name;
    event.row.context = 4096;
    event.row.slots = 4;
    event.row.pages = 256;
    event.row.vocab = 1000;
    // Log-uniform from a 135M model to one of 13B.
    const double size = std::exp(std::uniform_real_distribution<double>(
        std::log(143.0 * kMiB), std::log(13.9 * kGiB))(random_));
    event.row.weights_bytes = static_cast<std::int64_t>(size);
    event.row.kv_bytes = between(1, 4096) * kMiB;
    event.row.scratch_bytes = between(10, 200) * kMiB;
    step(event);
  }

  // ---- the machine and what it says

  void step(Event event) {
    bench_.step(std::move(event));
    read();
    audit();
  }

  void read() {
    for (const Outgoing& out : bench_.sent) {
      if (const auto* d = std::get_if<SendDispatch>(&out))
        dispatched_.push_back({d->to, d->dispatch});
      const auto* sent = std::get_if<SendMessage>(&out);
      if (sent == nullptr) continue;
      if (const auto* inspect = std::get_if<wire::Inspect>(&sent->message)) {
        last_inspect_ = inspect->job;
      }
      Process* process = of_peer(sent->to);
      if (process == nullptr) continue;  // into a connection that is lost
      if (const auto* load = std::get_if<wire::Load>(&sent->message)) took_load(*process, *load);
      if (const auto* unload = std::get_if<wire::Unload>(&sent->message)) {
        const auto held = process->held.find(unload->load_id);
        if (held != process->held.end()) held->second.to_unload = true;
      }
    }
    bench_.sent.clear();
  }

  void took_load(Process& process, const wire::Load& load) {
    ++loads_received_;
    process.held[load.load_id] = {load.model_sha, load.bytes, 0, "loading", false};
    // At the moment of the decision, with everything that was decided before.
    const Host& host = hosts_[process.host];
    std::int64_t left = host.total - host.others;
    for (const Process& p : processes_) {
      if (p.host != process.host || !p.alive) continue;
      for (const auto& [id, held] : p.held) {
        left -= held.state == "ready" ? held.used : held.reserved;
      }
    }
    EXPECT_GE(left, host.total / 100 * 5) << load.load_id << " on " << process.key;
  }

  /// Compares reserved with reservable memory, by the test's own count and by the machine's rows.
  void audit() {
    for (std::size_t h = 0; h < hosts_.size(); ++h) {
      std::int64_t held = 0;
      std::int64_t rows = 0;
      std::set<std::string> keys;
      for (const Process& p : processes_) {
        if (p.host != h) continue;
        keys.insert(p.key);
        if (!p.alive) continue;
        for (const auto& [id, load] : p.held) held += load.reserved;
      }
      for (const auto& [id, load] : bench_.machine.loads().all()) {
        if (keys.count(load.row.worker_key) > 0) rows += load.row.bytes;
      }
      const std::int64_t most = hosts_[h].total / 100 * percent();
      EXPECT_LE(held, most) << "held on host " << h;
      EXPECT_LE(rows, most) << "reserved on host " << h;
    }
  }

  // ---- processes

  Process* of_peer(PeerId peer) {
    for (Process& p : processes_) {
      if (p.alive && p.peer == peer && peer != 0) return &p;
    }
    return nullptr;
  }

  std::vector<MemoryPool> pools_of(std::size_t h) const {
    std::int64_t available = hosts_[h].total - hosts_[h].others;
    for (const Process& p : processes_) {
      if (p.host != h || !p.alive) continue;
      for (const auto& [id, held] : p.held) available -= held.used;
    }
    return {{"boot-" + std::to_string(h), hosts_[h].total, std::max<std::int64_t>(available, 0)}};
  }
  wire::MemoryReport memory_of(const Process& p) const {
    wire::MemoryReport report;
    report.pools = pools_of(p.host);
    report.total = report.pools[0].total;
    report.free = report.pools[0].available;
    report.at_us = bench_.now.mono_us;
    return report;
  }

  void start(Process& p) {
    p.alive = true;
    p.held.clear();
    ++p.life;
    p.pid = ++last_pid_;
    connect(p);
  }
  void connect(Process& p) {
    p.peer = ++last_peer_;
    wire::Hello hello;
    hello.worker_key = p.key;
    hello.incarnation = p.incarnation();
    hello.pid = p.pid;
    hello.host = "host-" + std::to_string(p.host);
    hello.device = one_in(3) ? "opencl:0" : "cpu";  // a processor under another name
    hello.memory = memory_of(p);
    for (const auto& [id, held] : p.held) hello.models.push_back(report(id, held, p));
    step(FromWorker{p.peer, hello});
  }
  void die(Process& p) {
    const PeerId peer = p.peer;
    p.alive = false;
    p.peer = 0;
    p.held.clear();
    WorkerExit exit;
    exit.pid = p.pid;
    exit.signal = one_in(2) ? 9 : 11;
    exit.oom = one_in(4);
    const bool told = !one_in(4);
    const bool first = one_in(2);
    if (told && first) step(exit);
    if (peer != 0) step(PeerGone{peer});
    if (told && !first) step(exit);
  }
  void lose_connection(Process& p) {
    const PeerId peer = std::exchange(p.peer, 0);
    p.away_since_us = bench_.now.mono_us;
    if (peer != 0) step(PeerGone{peer});
  }

  wire::LoadedModel report(const std::string& id, const Held& held, const Process& p) const {
    wire::LoadedModel model;
    model.load_id = id;
    model.model_sha = held.model_sha;
    model.state = held.state;
    model.numerics_class = "c";
    model.slots = 4;
    model.pages_total = 256;
    model.context = 4096;
    model.memory = memory_of(p);
    model.memory.weights = held.reserved;
    return model;
  }

  // ---- what happens

  void act() {
    switch (between(0, 11)) {
      case 0:
      case 1:
      case 2:
      case 3:
        return work_on_a_load();
      case 4: {
        const char* verbs[] = {"models.load", "models.unload", "models.pin", "models.unpin"};
        return step(OpModel{Bench::kOperator, 1, verbs[between(0, 3)], any_model()});
      }
      case 5: {
        wire::Submit submit = bench_.submission("r" + std::to_string(++requests_), 1);
        submit.model = any_model();
        SubmitEvent event;
        event.peer = Bench::kClient;
        event.submit = submit;
        return step(event);
      }
      case 6:
        return finish_requests();
      case 7:
        return pass_time(between(1, 3000));
      case 8:
        return disturb(processes_[static_cast<std::size_t>(between(0, last(processes_)))]);
      case 9: {
        // Other programs come and go, and that is seen before the next decision.
        const auto h = static_cast<std::size_t>(between(0, last(hosts_)));
        hosts_[h].others = hosts_[h].total / 100 * between(0, 60);
        return tell_level(h);
      }
      case 10:
        return tell_level(static_cast<std::size_t>(between(0, last(hosts_))));
      default:
        for (Process& p : processes_) {
          if (!p.alive && one_in(2)) return start(p);
          if (p.alive && p.peer == 0) return connect(p);
        }
    }
  }
  template <class T>
  static std::int64_t last(const T& list) {
    return static_cast<std::int64_t>(list.size()) - 1;
  }
  std::string any_model() { return "m" + std::to_string(between(0, models_ - 1)); }

  void tell_level(std::size_t h) {
    step(MemoryLevel{"host-" + std::to_string(h), pools_of(h), bench_.now.mono_us});
  }

  void disturb(Process& p) {
    if (!p.alive) return;
    if (one_in(3)) return lose_connection(p);
    die(p);
    if (one_in(2)) start(p);
  }

  void pass_time(std::int64_t ms) {
    answer_unloads();
    for (Process& p : processes_) {
      if (p.alive && p.peer == 0 &&
          bench_.now.mono_us + ms * 1000 - p.away_since_us > kOrphanMs * 1000) {
        die(p);
      }
    }
    bench_.now.mono_us += ms * 1000;
    bench_.now.wall_ms += ms;
    step(Timer{});
  }

  /// Obeys unloads, sooner or later, and before what a worker holds is forgotten.
  void answer_unloads() {
    for (Process& p : processes_) {
      if (!p.alive || p.peer == 0 || !one_in(3)) continue;
      for (const auto& [id, held] : std::map<std::string, Held>(p.held)) {
        if (!held.to_unload) continue;
        Held gone = held;
        gone.state = "unloaded";
        p.held.erase(id);
        step(FromWorker{p.peer, wire::StateReport{report(id, gone, p)}});
      }
    }
  }

  void work_on_a_load() {
    std::vector<std::pair<Process*, std::string>> open;
    for (Process& p : processes_) {
      for (const auto& [id, held] : p.held) {
        if (p.alive && (held.state != "ready" || held.to_unload)) open.emplace_back(&p, id);
      }
    }
    if (open.empty()) return;
    const auto [p, id] = open[static_cast<std::size_t>(between(0, last(open)))];
    Held& held = p->held.at(id);
    wire::StateReport told;
    if (held.to_unload || one_in(8)) {
      Held gone = held;
      gone.state = held.to_unload ? "unloaded" : "failed";
      p->held.erase(id);
      told.model = report(id, gone, *p);
      told.model.reason = "memory_exhausted: said the test";
    } else if (one_in(2)) {
      held.used = held.reserved / 100 * between(0, 100);
      told.model = report(id, held, *p);
    } else {
      held.used = held.reserved / 100 * between(95, 102);
      held.state = "ready";
      told.model = report(id, held, *p);
    }
    if (p->peer != 0) step(FromWorker{p->peer, told});
  }

  void finish_requests() {
    for (auto& [peer, dispatch] : std::exchange(dispatched_, {})) {
      if (of_peer(peer) == nullptr) continue;
      wire::TokenEvent event;
      event.request_id = dispatch.request_id;
      event.choice = dispatch.choice;
      event.fence = dispatch.fence;
      event.ids = {1};
      event.finish = FinishReason::kStop;
      wire::Tokens tokens;
      tokens.events = {event};
      step(FromWorker{peer, tokens});
    }
  }

  std::mt19937_64 random_;
  Bench bench_;
  std::vector<Host> hosts_;
  std::vector<Process> processes_;
  std::vector<std::pair<PeerId, wire::Dispatch>> dispatched_;
  std::int64_t models_ = 0, requests_ = 0, loads_received_ = 0, last_pid_ = 0;
  PeerId last_peer_ = 1000;
  std::uint64_t last_inspect_ = 0;
};

TEST(Memory, Reservations_WithFiveHundredRandomHistories_StayWithinTheLimit) {
  std::int64_t loads = 0;
  for (std::uint64_t seed = 1; seed <= 500; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    History history(seed);
    history.run(300);
    loads += history.loads_received();
    if (HasFailure()) return;
  }
  std::printf("%lld loads\n", static_cast<long long>(loads));
  EXPECT_GT(loads, 5000) << "the histories must do something";
}

// ---- the rules one by one

struct MemoryTest : testing::Test {
  static constexpr PeerId kW1 = 101, kW2 = 102;
  Bench bench;

  explicit MemoryTest(Config config = {}) : bench(config) { bench.boot(); }
  wire::Hello hello(const std::string& key, std::vector<MemoryPool> pools,
                    const std::string& incarnation = "i1") {
    wire::Hello h = bench.hello(key, incarnation);
    h.memory.pools = std::move(pools);
    h.memory.at_us = bench.now.mono_us;
    return h;
  }
  void connect(PeerId peer, const std::string& key, std::vector<MemoryPool> pools) {
    bench.step(FromWorker{peer, hello(key, std::move(pools))});
  }
  std::size_t loads_on(PeerId peer) const { return bench.messages<wire::Load>(peer).size(); }
  void level(std::vector<MemoryPool> pools) {
    bench.step(MemoryLevel{"h", std::move(pools), bench.now.mono_us});
  }
  const Model& model(const std::string& name = "m") {
    return bench.machine.registry().models().at(name);
  }
};

// One model takes 65'100 bytes as requested, 17'100 at least.
constexpr std::int64_t kOne = 65'100;

TEST_F(MemoryTest, TwoWorkers_WhenAModelFitsOnce_OneLoadsItAndTheOtherSaysWhy) {
  bench.add_model();
  const std::vector<MemoryPool> pools = {{"boot", 72'400, -1}};
  wire::Hello cpu = hello("w1", pools);
  wire::Hello pocl = hello("w2", pools);
  cpu.device = "cpu";
  pocl.device = "opencl:0";  // the processor under another name, and from another container
  pocl.host = "container";
  bench.step(OpModel{Bench::kOperator, 1, "models.unload", "m"});
  bench.step(FromWorker{kW1, cpu});
  bench.step(FromWorker{kW2, pocl});
  bench.step(OpModel{Bench::kOperator, 1, "models.load", "m"});
  EXPECT_EQ(loads_on(kW1) + loads_on(kW2), 1u);
  EXPECT_EQ(bench.machine.memory().reserved_in("boot"), kOne);
  std::string why;
  for (const DeviceVerdict& v : model().devices) {
    if (v.verdict == Verdict::kNoFreeMemory) why = v.why;
  }
  EXPECT_EQ(why,
            "waits for room: needs 65100 bytes, free 60 in memory that 1 more worker takes from");
}

TEST_F(MemoryTest, ASecondLoad_WhenOneIsInTheSameMemory_ComesWholeOrNotAtAll) {
  bench.add_model();
  connect(kW1, "w1", {{"boot", 108'000, -1}});
  EXPECT_EQ(loads_on(kW1), 1u);
  connect(kW2, "w2", {{"boot", 108'000, -1}});
  EXPECT_EQ(loads_on(kW2), 0u) << "17'100 would fit, but they would be all that is left";
  level({{"boot", 150'000, -1}});
  bench.step(OpModel{Bench::kOperator, 1, "models.load", "m"});
  EXPECT_EQ(loads_on(kW2), 1u);
  EXPECT_EQ(bench.machine.memory().reserved_in("boot"), 2 * kOne);
}

TEST_F(MemoryTest, AGroupWithALimit_WhenTheMachineHasMore_BoundsItsOwnWorkers) {
  bench.add_model();
  connect(kW1, "w1", {{"boot", 1'000'000, -1}, {"boot:7", 20'000, -1}});
  EXPECT_EQ(loads_on(kW1), 1u);
  EXPECT_LE(bench.machine.memory().reserved_in("boot:7"), 18'000);
  connect(kW2, "w2", {{"boot", 1'000'000, -1}});
  EXPECT_EQ(loads_on(kW2), 1u);
  EXPECT_EQ(bench.machine.memory().reserved_in("boot"),
            kOne + bench.machine.memory().reserved_in("boot:7"));
}

TEST_F(MemoryTest, OtherPrograms_WhenTheyUseTheMachine_LeaveLessForLoads) {
  bench.add_model();
  connect(kW1, "w1", {{"boot", 100'000, 20'000}});  // 5'000 must stay
  EXPECT_EQ(loads_on(kW1), 0u) << "17'100 do not fit";
  EXPECT_EQ(model().devices.at(0).verdict, Verdict::kNoFreeMemory);
  level({{"boot", 100'000, 60'000}});
  ASSERT_EQ(loads_on(kW1), 1u);
  EXPECT_LE(bench.messages<wire::Load>(kW1)[0].bytes, 55'000);
}

TEST_F(MemoryTest, LostWorker_UntilItsProcessHasEnded_RetainsItsMemory) {
  bench.add_model();
  connect(kW1, "w1", {{"boot", 72'400, -1}});
  ASSERT_EQ(loads_on(kW1), 1u);
  connect(kW2, "w2", {{"boot", 72'400, -1}});
  bench.step(PeerGone{kW1});  // while it loads
  bench.advance_ms(5000);
  EXPECT_EQ(loads_on(kW2), 0u) << "it may be at it still";
  EXPECT_EQ(bench.machine.memory().reserved_in("boot"), kOne);
  WorkerExit exit;
  exit.pid = bench.hello("w1").pid;
  exit.signal = 9;
  bench.step(exit);
  EXPECT_EQ(loads_on(kW2), 1u);
}

TEST_F(MemoryTest, ALostWorker_WhenNobodyTellsHowItEnded_IsForgottenAfterItsTime) {
  bench.add_model();
  connect(kW1, "w1", {{"boot", 72'400, -1}});
  connect(kW2, "w2", {{"boot", 72'400, -1}});
  bench.step(PeerGone{kW1});
  bench.advance_ms(bench.machine.config().workers_gone_hold_ms - 1);
  EXPECT_EQ(loads_on(kW2), 0u);
  bench.advance_ms(1);
  EXPECT_EQ(loads_on(kW2), 1u);
}

TEST_F(MemoryTest, ALoad_WhenItsWorkerIsLostEachTime_EndsInATypedFailure) {
  bench.add_model();
  bench.submit(bench.submission("r1"));
  WorkerExit exit;
  exit.signal = 9;  // from outside
  int loads = 0;
  for (int life = 0; life < 40 && model().row.state != ModelState::kFailed; ++life) {
    const PeerId peer = 200 + static_cast<PeerId>(life);
    wire::Hello h = hello("w1", {{"boot", 100'000, -1}}, "i" + std::to_string(life));
    h.pid = exit.pid = 7000 + life;
    bench.step(FromWorker{peer, h});
    loads += static_cast<int>(loads_on(peer));
    bench.advance_ms(40'000);
    loads += static_cast<int>(loads_on(peer));
    bench.step(exit);
  }
  EXPECT_EQ(model().row.state, ModelState::kFailed);
  EXPECT_EQ(loads, bench.machine.config().models_load_tries);
  const Request* request = bench.machine.request("r1");
  ASSERT_NE(request, nullptr);
  EXPECT_EQ(request->row.error_code, "model_failed");
  EXPECT_NE(request->row.error.find("worker lost while loading"), std::string::npos);
}

TEST_F(MemoryTest, FailedLoads_WhenTheDaemonStartsAgain_AreStillCounted) {
  bench.add_model();
  connect(kW1, "w1", {{"boot", 100'000, -1}});
  bench.step(PeerGone{kW1});
  EXPECT_EQ(model().failures, 1);
  Bench again;
  again.boot(bench.database(), 2);
  EXPECT_EQ(again.machine.registry().models().at("m").failures, 1);
}

TEST_F(MemoryTest, APressedMachine_WhenModelsAreIdle_UnloadsThoseAndLoadsNothing) {
  bench.add_model(1024, 4, 64, true, "a");
  bench.add_model(1024, 4, 64, true, "b");
  const std::vector<MemoryPool> pools = {{"boot", 1'000'000, 800'000}};
  connect(kW1, "w1", pools);
  bench.make_ready(kW1);
  bench.step(OpModel{Bench::kOperator, 1, "models.pin", "a"});
  const auto ready = [&](const char* name) { return model(name).row.state == ModelState::kReady; };
  while (!ready("a") || !ready("b")) {
    bench.advance_ms(1000);
    bench.make_ready(kW1);
  }
  level({{"boot", 1'000'000, 40'000}});
  ASSERT_EQ(bench.messages<wire::Unload>(kW1).size(), 1u);
  EXPECT_EQ(model("b").row.state, ModelState::kDraining) << "the pinned one goes last";
  bench.unloaded(kW1);
  EXPECT_EQ(bench.machine.core().counters.memory_pressures, 1u);
  bench.add_model(1024, 4, 64, true, "c");
  EXPECT_EQ(loads_on(kW1), 0u) << "nothing is loaded";
  EXPECT_NE(model("c").devices.at(0).why.find("memory is short"), std::string::npos);
  bench.advance_ms(bench.machine.config().memory_evict_pause_ms);
  level({{"boot", 1'000'000, 45'000}});
  ASSERT_EQ(bench.messages<wire::Unload>(kW1).size(), 1u);
  EXPECT_EQ(model("a").row.state, ModelState::kDraining);
  bench.unloaded(kW1);
  level({{"boot", 1'000'000, 55'000}});
  EXPECT_EQ(loads_on(kW1), 0u) << "no room above the bound yet";
  level({{"boot", 1'000'000, 900'000}});
  EXPECT_EQ(loads_on(kW1), 1u);
}

TEST_F(MemoryTest, AMachineThatStalls_WithMemoryAvailable_IsShortToo) {
  bench.add_model();
  MemoryPool pool{"boot", 1'000'000, 900'000};
  pool.stall = 1000;  // 10 % of the time
  connect(kW1, "w1", {pool});
  EXPECT_EQ(loads_on(kW1), 0u);
  pool.stall = 501;
  level({pool});
  EXPECT_EQ(loads_on(kW1), 0u) << "not over yet";
  pool.stall = 500;
  level({pool});
  EXPECT_EQ(loads_on(kW1), 1u);
}

TEST_F(MemoryTest, MemoryReports_WhenTheyCross_UseTheNewest) {
  bench.add_model(1024, 4, 64, false);
  connect(kW1, "w1", {{"boot", 100'000, 90'000}});
  bench.now.mono_us += 1000;
  level({{"boot", 100'000, 50'000}});
  wire::WorkerStats late;
  late.memory.total = 100'000;
  late.memory.pools = {{"boot", 100'000, 90'000}};
  late.memory.at_us = bench.now.mono_us - 500;
  bench.step(FromWorker{kW1, late});
  EXPECT_EQ(bench.machine.memory().pools().at("boot").last.available, 50'000);
}

TEST_F(MemoryTest, SecondWorker_WhenItsLoadsAreDivided_CountsOnEachPart) {
  bench.add_model();
  MemoryPool a{"gpu-a", 72'400, -1};
  connect(kW1, "w1", {a});
  ASSERT_EQ(loads_on(kW1), 1u);
  MemoryPool part = a;
  part.part = true;
  MemoryPool other{"gpu-b", 10'000, -1};
  other.part = true;
  connect(kW2, "w2", {part, other, {"gpu-a+gpu-b", 82'400, -1}});
  EXPECT_EQ(loads_on(kW2), 0u) << "most of both is taken";
}

}  // namespace
}  // namespace holdfast::core::memory_test
