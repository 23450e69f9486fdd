// Goal: every knob does what its line says: a changed value is in effect and changes what the
// daemon does, by that much.
// Method: for each knob two values, set by an operator in a running machine (or found at its start,
// for those that need one), and what is then seen from outside. A knob without a row here or in
// tests/process/knobs_test fails.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <set>
#include <sstream>

#include "tests/core/bench_machine.h"
#include "tests/core/knobs_of_the_shell.h"

namespace holdfast::core::knob_effects_test {
namespace {

constexpr PeerId kW1 = 101;
constexpr PeerId kOperator = Bench::kOperator;

using Change = std::function<void(wire::Submit&)>;

/// A machine with one knob changed, one model and, when asked for, one worker of four slots.
struct Rig {
  Bench bench;
  int made = 0;

  Rig(const std::string& knob, std::int64_t value) {
    const NamedKnob named = *find_knob(knob);
    if (named.knob().restart) {
      Config base;
      named.set(base, value);
      bench.machine = Machine(base);
    }
    bench.boot();
    if (!named.knob().restart) set(knob, value);
    EXPECT_EQ(named.get(bench.machine.config()), value) << knob;
    bench.add_model(1024, 4, 64, true, "m");
  }
  void set(const std::string& knob, std::int64_t value) {
    bench.step(OpConfig{kOperator, 1, "config.set", "ann", {{knob, std::to_string(value)}}, {}});
  }
  void worker(PeerId peer = kW1, const std::string& key = "w1") { bench.connect_worker(peer, key); }
  bool submit(const Change& change = [](wire::Submit&) {}) {
    wire::Submit s = bench.submission("r" + std::to_string(++made));
    change(s);
    bench.submit(std::move(s));
    return !bench.messages<wire::Accepted>().empty();
  }
  std::int64_t accepted(
      int tries, const Change& change = [](wire::Submit&) {}) {
    std::int64_t count = 0;
    for (int i = 0; i < tries; ++i) count += submit(change);
    return count;
  }
  std::int64_t running() { return bench.machine.lifecycle().running_choices(); }
  /// Milliseconds until `observe` returns true, going from deadline to deadline; -1: never.
  std::int64_t until(const std::function<bool()>& observe) {
    const std::int64_t begin = bench.now.mono_us;
    for (int i = 0; i < 1000; ++i) {
      if (observe()) return (bench.now.mono_us - begin) / 1000;
      const auto next = bench.machine.next_deadline_us();
      if (!next) return -1;
      const std::int64_t step = std::max<std::int64_t>(*next - bench.now.mono_us, 0);
      bench.advance_ms((step + 999) / 1000);
    }
    return -1;
  }
  bool ended(const std::string& id) { return wire::is_terminal(bench.state(id)); }
  std::string load_id() { return bench.machine.loads().all().begin()->first; }
  void report(const std::string& state, std::int64_t taken = 0) {
    wire::StateReport r;
    r.model.load_id = load_id();
    r.model.model_sha = "sha-m";
    r.model.state = state;
    r.model.numerics_class = "class-a";
    r.model.slots = 4;
    r.model.pages_total = 64;
    r.model.memory.taken = taken;
    bench.step(FromWorker{kW1, r});
  }
  void fail(const wire::Dispatch& d) { bench.fail(kW1, d); }
};

using Observer = std::function<std::int64_t(Rig&)>;
struct Row {
  const char* knob;
  std::int64_t value_a, observed_a, value_b, observed_b;
  Observer observe;
};

// ---- what is let in

std::int64_t five_without_worker(Rig& rig) {
  return rig.accepted(5);
}
std::int64_t five_with_worker(Rig& rig) {
  rig.worker();
  rig.accepted(5);
  return rig.running();
}
std::int64_t five_with_300k(Rig& rig) {
  return rig.accepted(5, [](wire::Submit& s) { s.meta = std::string(300 << 10, 'x'); });
}
std::int64_t five_texts(Rig& rig) {
  for (int i = 0; i < 5; ++i) rig.bench.submit(rig.bench.text_submission("t" + std::to_string(i)));
  return rig.bench.machine.jobs().size();
}
/// The largest of 1 to 200 that is let in, when `change` asks for so much.
std::int64_t largest(Rig& rig, const std::function<void(wire::Submit&, std::int64_t)>& change) {
  std::int64_t best = 0;
  for (std::int64_t n = 1; n <= 200; ++n) {
    if (rig.submit([&](wire::Submit& s) { change(s, n); })) best = n;
  }
  return best;
}
std::int64_t largest_prompts(Rig& rig) {
  return largest(rig, [](wire::Submit& s, std::int64_t n) {
    s.prompts.resize(static_cast<std::size_t>(n), s.prompts[0]);
  });
}
std::int64_t largest_n(Rig& rig) {
  return largest(rig, [](wire::Submit& s, std::int64_t n) { s.n = static_cast<std::int32_t>(n); });
}
std::int64_t largest_meta(Rig& rig) {
  return largest(rig, [](wire::Submit& s, std::int64_t n) {
    s.meta = std::string(static_cast<std::size_t>(n), 'x');
  });
}
std::int64_t largest_prompt(Rig& rig) {
  return largest(rig, [](wire::Submit& s, std::int64_t n) {
    s.prompts[0].ids = std::vector<TokenId>(static_cast<std::size_t>(n), 5);
  });
}
std::int64_t largest_output(Rig& rig) {
  return largest(rig, [](wire::Submit& s, std::int64_t n) { s.max_tokens = n; });
}
std::int64_t largest_bytes(Rig& rig) {  // besides the 16 of the prompt
  return 16 + largest_meta(rig);
}
std::int64_t largest_scores(Rig& rig) {  // 4 tokens of prompt, n times
  const auto score = [](wire::Submit& s, std::int64_t n) {
    s.n = static_cast<std::int32_t>(n);
    s.sampling.prompt_logprobs = 1;
  };
  return 4 * 20 * largest(rig, score);
}

// ---- streams and memory of what has ended

std::int64_t retained_after_five(Rig& rig) {
  for (int i = 0; i < 5; ++i) rig.submit([](wire::Submit& s) { s.max_tokens = 0; });
  rig.bench.machine.committed();
  std::int64_t retained = 0;
  for (int i = 1; i <= 5; ++i) retained += rig.bench.machine.knows_id("r" + std::to_string(i));
  return retained;
}
wire::Dispatch streamed(Rig& rig, std::int64_t window) {
  rig.worker();
  rig.submit([](wire::Submit& s) { s.max_tokens = 100; });
  const wire::Dispatch d = rig.bench.dispatch();
  rig.bench.step(FromClient{Bench::kClient, wire::Attach{70, "r1", {}, {}, {}, window}});
  rig.bench.tokens(kW1, d, 0, std::vector<TokenId>(60, 9));
  return d;
}
std::int64_t longest_event(Rig& rig) {
  streamed(rig, 1000);
  std::int64_t longest = 0;
  for (const SendEvent& e : rig.bench.events()) longest = std::max(longest, e.until - e.start);
  return longest;
}
std::int64_t sent_of_sixty(Rig& rig) {
  streamed(rig, 1000);
  return rig.bench.events().back().until;
}
std::int64_t pause_of_a_full_socket(Rig& rig) {
  streamed(rig, 1000);
  rig.bench.step(SendFailed{Bench::kClient, 70, "r1", 0, 10});
  return rig.until([&] { return !rig.bench.events().empty(); });
}

// ---- time

std::int64_t adoption_takes(Rig& rig) {
  rig.worker();
  rig.submit();
  Config base = rig.bench.machine.config();
  const Boot boot = rig.bench.database();
  Rig again("queue.max_requests", 1000);
  again.bench = Bench(base);
  again.bench.boot(boot, 2);
  return again.until([&] { return again.bench.state("r1") == RequestState::kQueued; });
}
std::int64_t lost_worker_load_timeout(Rig& rig) {
  rig.worker();
  rig.bench.step(PeerGone{kW1});
  return rig.until([&] { return rig.bench.machine.loads().all().empty(); });
}
/// Milliseconds of silence, of silence of its own, of being stopped, until `over`.
template <class Over>
std::int64_t unwell_until(Rig& rig, std::int64_t WorkerHealth::*what, const Over& over) {
  rig.worker();
  WorkerHealth health{kW1, WorkerHealth::Process::kAlive, 0, 0, 0};
  if (what == &WorkerHealth::stopped_us) health.process = WorkerHealth::Process::kStopped;
  for (std::int64_t ms = 0; ms <= 100'000; ms += 10) {
    health.*what = ms * 1000;
    rig.bench.step(health);
    if (over()) return ms;
  }
  return -1;
}
std::int64_t silent_worker_is_trusted(Rig& rig) {
  return unwell_until(rig, &WorkerHealth::silent_us,
                      [&] { return rig.bench.machine.fleet().workers().at(kW1).suspect; });
}
std::int64_t hung_worker_timeout(Rig& rig) {
  return unwell_until(rig, &WorkerHealth::unexcused_us,
                      [&] { return rig.bench.machine.fleet().workers().empty(); });
}
std::int64_t stopped_worker_timeout(Rig& rig) {
  return unwell_until(rig, &WorkerHealth::stopped_us,
                      [&] { return rig.bench.machine.fleet().workers().empty(); });
}
/// Milliseconds of silence of a node until its worker is suspect, or gone.
std::int64_t silent_node_timeout(Rig& rig, bool lost) {
  NodeReport report;
  report.peer = 201;
  report.name = "n1";
  report.incarnation = "i1";
  rig.bench.step(report);
  rig.worker(kW1, "n1/w");
  const auto& workers = rig.bench.machine.fleet().workers();
  for (std::int64_t ms = 0; ms <= 100'000; ms += 10) {
    rig.bench.step(NodeHealth{"n1", ms * 1000, 0, 0, 0, 0});
    if (workers.empty() || (!lost && workers.at(kW1).suspect)) return ms;
  }
  return -1;
}
std::int64_t suspect_node_timeout(Rig& rig) {
  return silent_node_timeout(rig, false);
}
std::int64_t lost_node_timeout(Rig& rig) {
  return silent_node_timeout(rig, true);
}
std::int64_t orphan_lives(Rig& rig) {
  rig.submit([](wire::Submit& s) { s.on_disconnect = wire::OnDisconnect::kCancel; });
  return rig.until([&] { return rig.ended("r1"); });
}
std::int64_t class_is_waited_for(Rig& rig) {
  rig.worker();
  rig.submit();
  const wire::Dispatch d = rig.bench.dispatch();
  rig.bench.tokens(kW1, d, 0, {1});
  rig.set("workers.reconnect_ms", 0);
  rig.bench.step(PeerGone{kW1});
  return rig.until([&] { return rig.ended("r1"); });
}
std::int64_t prepare_takes(Rig& rig) {
  rig.bench.submit(rig.bench.text_submission("t"));
  return rig.until([&] {
    return !rig.bench.messages<wire::Prepare>().empty() && rig.bench.now.mono_us > 1'000'000;
  });
}
std::int64_t inspect_takes(Rig& rig) {
  OpAddModel add;
  add.peer = kOperator;
  add.name = "other";
  add.path = "/f";
  rig.bench.step(add);
  return rig.until([&] {
    return !rig.bench.messages<wire::Inspect>().empty() && rig.bench.now.mono_us > 1'000'000;
  });
}
std::int64_t helpers_tried(Rig& rig) {
  std::int64_t tries = 0;
  rig.bench.submit(rig.bench.text_submission("t"));
  while (rig.bench.machine.jobs().size() > 0 && tries < 20) {
    tries += static_cast<std::int64_t>(rig.bench.messages<wire::Prepare>().size());
    rig.bench.advance_ms(rig.bench.machine.config().ingress_timeout_ms);
  }
  return tries;
}
std::int64_t returned_worker_rests(Rig& rig) {
  rig.worker();
  rig.submit();
  const wire::Dispatch d = rig.bench.dispatch();
  wire::Returned returned;
  returned.request_id = d.request_id;
  returned.choice = d.choice;
  returned.fence = d.fence;
  rig.bench.step(FromWorker{kW1, returned});
  return rig.until([&] { return !rig.bench.dispatches().empty(); });
}
std::int64_t breaker_opens_after(Rig& rig) {
  rig.worker();
  for (std::int64_t n = 1; n < 50; ++n) {
    rig.submit();
    if (rig.bench.dispatches().empty()) return n - 1;
    rig.fail(rig.bench.dispatch());
  }
  return -1;
}
std::int64_t breaker_pause(Rig& rig) {
  breaker_opens_after(rig);
  return rig.until([&] { return !rig.bench.dispatches().empty(); });
}
std::int64_t longest_breaker_pause(Rig& rig) {
  std::int64_t longest = breaker_pause(rig);
  for (int i = 0; i < 12; ++i) {
    rig.fail(rig.bench.dispatch());
    rig.submit();
    longest = std::max(longest, rig.until([&] { return !rig.bench.dispatches().empty(); }));
  }
  return longest;
}

// ---- deaths

/// Deaths of its worker until `observe` returns true.
std::int64_t deaths_until(Rig& rig, const std::function<bool()>& observe) {
  rig.worker();
  rig.submit();
  PeerId peer = kW1;
  for (std::int64_t deaths = 0; deaths < 60; ++deaths) {
    if (observe()) return deaths;
    rig.bench.step(WorkerExit{rig.bench.hello("w1").pid, 0, 11, false});
    rig.worker(++peer);
    rig.until([&] {
      return !rig.bench.dispatches().empty() || rig.bench.state("r1") == RequestState::kQuarantined;
    });
  }
  return -1;
}
std::int64_t deaths_until_alone(Rig& rig) {
  rig.set("blame.quarantine_after", 50);
  return deaths_until(rig, [&] { return rig.bench.machine.loads().all().begin()->second.alone; });
}
std::int64_t deaths_until_quarantine(Rig& rig) {
  return deaths_until(rig, [&] { return rig.bench.state("r1") == RequestState::kQuarantined; });
}

// ---- models

std::int64_t loads_tried(Rig& rig) {
  rig.bench.step(FromWorker{kW1, rig.bench.hello("w1")});
  std::int64_t tries = 0;
  while (rig.bench.machine.registry().models().at("m").row.state != ModelState::kFailed &&
         tries < 30) {
    rig.until([&] { return !rig.bench.machine.loads().all().empty(); });
    ++tries;
    rig.report("failed");
  }
  return tries;
}
std::int64_t pause_after(Rig& rig, int failures) {
  rig.set("models.load_tries", 100);
  rig.bench.step(FromWorker{kW1, rig.bench.hello("w1")});
  std::int64_t pause = 0;
  for (int i = 0; i < failures; ++i) {
    rig.report("failed");
    pause = rig.until([&] { return !rig.bench.machine.loads().all().empty(); });
  }
  return pause;
}
std::int64_t first_pause(Rig& rig) {
  return pause_after(rig, 1);
}
std::int64_t tenth_pause(Rig& rig) {
  return pause_after(rig, 10);
}
std::int64_t silent_load_lives(Rig& rig) {
  rig.bench.step(FromWorker{kW1, rig.bench.hello("w1")});
  const std::string first = rig.load_id();
  return rig.until([&] { return rig.bench.machine.loads().all().count(first) == 0; });
}
std::int64_t loads_of_five_at_once(Rig& rig) {
  for (const char* name : {"a", "b", "c", "d"}) rig.bench.add_model(1024, 4, 64, true, name);
  rig.bench.step(FromWorker{kW1, rig.bench.hello("w1")});
  return static_cast<std::int64_t>(rig.bench.messages<wire::Load>().size());
}
std::int64_t idle_model_stays(Rig& rig) {
  wire::Hello hello = rig.bench.hello("w1");
  hello.memory.total = hello.memory.free = 72'400;
  rig.bench.step(FromWorker{kW1, hello});
  rig.bench.make_ready(kW1);
  rig.bench.add_model(1024, 4, 64, true, "other");
  return rig.until([&] { return !rig.bench.messages<wire::Unload>().empty(); });
}
std::int64_t unused_model_stays(Rig& rig) {
  rig.worker();
  return rig.until([&] { return !rig.bench.messages<wire::Unload>().empty(); });
}
std::int64_t model_stays_as_a_client_says(Rig& rig) {
  rig.worker();
  rig.submit([](wire::Submit& s) { s.keep_alive_ms = 6000; });
  rig.bench.tokens(kW1, rig.bench.dispatch(kW1), 0, {1}, FinishReason::kStop);
  return rig.until([&] { return !rig.bench.messages<wire::Unload>().empty(); });
}
std::int64_t ten_percent_more_is_told(Rig& rig) {
  rig.bench.add_model(1024, 4, 64, true, "large", 1'000'000'000);
  rig.bench.step(OpModel{kOperator, 1, "models.unload", "m"});
  rig.bench.step(FromWorker{kW1, rig.bench.hello("w1")});
  rig.report("ready", 1'100'000'000);
  return static_cast<std::int64_t>(rig.bench.machine.core().counters.envelope_drifts);
}
std::int64_t loads_on_three_workers(Rig& rig) {
  for (PeerId w = 0; w < 3; ++w) rig.worker(kW1 + w, "w" + std::to_string(w));
  return static_cast<std::int64_t>(rig.bench.machine.loads().all().size());
}
std::int64_t models_that_a_node_fetches(Rig& rig) {
  NodeReport report;
  report.peer = 200;
  report.name = "n1";
  report.incarnation = "i1";
  report.models.emplace();
  report.fetches.emplace();
  rig.bench.step(report);
  wire::Hello hello = rig.bench.hello("n1/w");
  hello.engine = "model";
  rig.bench.step(FromWorker{kW1, hello});
  return static_cast<std::int64_t>(rig.bench.machine.nodes().all().at("n1").lacks.size());
}
std::int64_t unfit_model_waits(Rig& rig) {
  wire::Hello hello = rig.bench.hello("w1");
  hello.memory.total = 1000;
  rig.bench.step(FromWorker{kW1, hello});
  return rig.until([&] {
    return rig.bench.machine.registry().models().at("m").row.state == ModelState::kFailed;
  });
}
std::int64_t pages_of_the_load(Rig& rig) {  // of a device with 65,100 bytes, which is all of it
  wire::Hello hello = rig.bench.hello("w1");
  hello.memory.total = 65'100;
  rig.bench.step(FromWorker{kW1, hello});
  return rig.bench.messages<wire::Load>().at(0).pages;
}

wire::Hello hello_with(Rig& rig, MemoryPool pool) {
  wire::Hello hello = rig.bench.hello("w1");
  hello.memory.pools = {std::move(pool)};
  return hello;
}
std::int64_t pages_of_what_is_available(Rig& rig) {
  rig.bench.step(FromWorker{kW1, hello_with(rig, {"boot", 100'000, 50'000})});
  return rig.bench.messages<wire::Load>().at(0).pages;
}
std::int64_t loads_while_a_fifth_is_stalled(Rig& rig) {
  MemoryPool pool{"boot", 1'000'000, 900'000};
  pool.stall = 2000;
  rig.bench.step(FromWorker{kW1, hello_with(rig, pool)});
  return static_cast<std::int64_t>(rig.bench.messages<wire::Load>().size());
}
std::int64_t between_two_evictions(Rig& rig) {
  rig.bench.step(FromWorker{kW1, hello_with(rig, {"boot", 1'000'000, 900'000})});
  rig.bench.make_ready(kW1);
  rig.bench.add_model(1024, 4, 64, true, "other");
  rig.bench.make_ready(kW1);
  std::int64_t first = -1;
  for (std::int64_t ms = 0; ms < 60'000; ms += 100) {
    rig.bench.step(MemoryLevel{"h", {{"boot", 1'000'000, 10'000}}, rig.bench.now.mono_us});
    if (!rig.bench.messages<wire::Unload>().empty()) {
      if (first >= 0) return ms - first;
      first = ms;
      rig.bench.unloaded(kW1);
    }
    rig.bench.advance_ms(100);
  }
  return -1;
}
std::int64_t lost_load_is_counted(Rig& rig) {
  rig.bench.step(FromWorker{kW1, hello_with(rig, {"boot", 100'000, -1})});
  rig.bench.step(PeerGone{kW1});
  return rig.until([&] { return rig.bench.machine.memory().reserved_in("boot") == 0; });
}

// ---- what goes

std::int64_t swept(Rig& rig, std::int64_t age_hours, std::int64_t used) {
  rig.submit([](wire::Submit& s) { s.max_tokens = 0; });
  rig.bench.step(Sweep{{{1, rig.bench.now.wall_ms - age_hours * 3'600'000}}, used});
  return static_cast<std::int64_t>(rig.bench.written<DeleteRequest>().size());
}
std::int64_t swept_after_ten_hours(Rig& rig) {
  rig.set("retention.key_hours", 0);
  return swept(rig, 10, 0);
}
std::int64_t swept_when_crowded(Rig& rig) {
  return swept(rig, 10, 1LL << 40);
}
std::int64_t swept_with_two_mib(Rig& rig) {
  rig.set("retention.key_hours", 0);
  return swept(rig, 10, 2 << 20);
}

/// Choices of another tenant that run while the first one has all slots.
std::int64_t second_tenant_running_when_full(Rig& rig) {
  rig.worker();
  rig.accepted(5);
  rig.submit([](wire::Submit& s) { s.tenant = "u"; });
  return rig.bench.machine.lifecycle().requests().usage().tenant("u").running;
}
std::int64_t share_of_ten(Rig& rig) {
  rig.bench.step(OpPause{kOperator, 1, true});
  for (int i = 0; i < 20; ++i) {
    rig.submit([](wire::Submit& s) { s.tenant = "t"; });
    rig.submit([](wire::Submit& s) { s.tenant = "u"; });
  }
  rig.bench.step(OpPause{kOperator, 1, false});
  rig.bench.step(FromWorker{kW1, rig.bench.hello("w1")});
  rig.bench.make_ready(kW1, "class-a", 10);
  std::int64_t of_t = 0;
  for (const wire::Dispatch& d : rig.bench.dispatches()) {
    of_t += rig.bench.machine.request(d.request_id)->row.tenant == "t";
  }
  return of_t;
}

/// An alias of model m; `next` may take its place, or be its canary.
void make_alias(Rig& rig) {
  rig.worker();
  rig.bench.add_model(1024, 4, 64, false, "next");
  OpAlias op;
  op.name = "chat";
  op.targets = {{"m", 1}};
  rig.bench.step(op);
}
std::int64_t alias_waits(Rig& rig) {
  make_alias(rig);
  OpAlias op;
  op.name = "chat";
  op.targets = {{"next", 1}};
  op.when_ready = true;
  rig.bench.step(op);
  return rig.until(
      [&] { return rig.bench.machine.aliases().all().at("chat").row.pending.empty(); });
}
const Canary& begin_canary(Rig& rig) {
  make_alias(rig);
  OpCanary op;
  op.name = "chat";
  op.model = "next";
  op.settings = nothing_said();
  op.settings.percent = 99;
  rig.bench.step(op);
  rig.bench.make_ready(kW1);
  return *rig.bench.machine.aliases().all().at("chat").canary;
}
std::int64_t window_lasts(Rig& rig) {
  const Canary& canary = begin_canary(rig);
  rig.submit([](wire::Submit& s) { s.model = "chat"; });
  return rig.until([&] { return canary.row.windows > 0; });
}
/// Largest x that raises no suspicion of a canary with these settings.
using Spoil = std::function<void(SideEvidence&, SideEvidence&, std::int64_t)>;
std::function<std::int64_t(Rig&)> tolerated(const Spoil& spoil) {
  return [spoil](Rig& rig) {
    const CanarySettings settings = begin_canary(rig).row.settings;
    for (std::int64_t x = 1; x < 5000; ++x) {
      SideEvidence canary, stable;
      canary.accepted = canary.ended = canary.ttft_count = canary.itl_count = 100;
      stable = canary;
      spoil(canary, stable, x);
      if (judge_window(settings, canary, stable, false, 0).suspect) return x - 1;
    }
    return std::int64_t{-1};
  };
}
constexpr auto kFailures = [](auto& c, auto&, auto x) { c.failed = x; };
constexpr auto kOneInFiveFails = [](auto& c, auto&, auto x) {
  c.ended = x, c.failed = (x + 4) / 5;
};
constexpr auto kAllFail = [](auto& c, auto&, auto x) { c.ended = c.failed = x; };
constexpr auto kRefusals = [](auto& c, auto&, auto x) { c.refused = x, c.accepted -= x; };
constexpr auto kQueue = [](auto& c, auto&, auto x) { c.queue_percent = x; };
constexpr auto kTtftMs = [](auto& c, auto&, auto x) { c.ttft_p95_us = 1000 * x; };
constexpr auto kItlMs = [](auto& c, auto&, auto x) { c.itl_p95_us = 1000 * x; };
constexpr auto kTtft = [](auto& c, auto& s, auto x) {
  s.ttft_p95_us = 1'000'000;
  c.ttft_p95_us = 10'000 * x;
};
constexpr auto kItl = [](auto& c, auto& s, auto x) {
  s.itl_p95_us = 1'000'000;
  c.itl_p95_us = 10'000 * x;
};

std::vector<Row> alias_rows() {
  return {
      {"aliases.ready_timeout_ms", 1000, 1000, 7000, 7000, alias_waits},
      {"canary.window_ms", 1600, 1600, 4800, 4800, window_lasts},
      {"canary.min_requests", 8, 7, 30, 29, tolerated(kOneInFiveFails)},
      {"canary.clear_errors", 3, 2, 9, 8, tolerated(kAllFail)},
      {"canary.max_error_percent", 1, 1, 7, 7, tolerated(kFailures)},
      {"canary.max_refusal_percent", 1, 1, 7, 7, tolerated(kRefusals)},
      {"canary.max_queue_percent", 50, 50, 700, 700, tolerated(kQueue)},
      {"canary.max_ttft_percent", 120, 120, 300, 300, tolerated(kTtft)},
      {"canary.ttft_slack_ms", 20, 20, 200, 200, tolerated(kTtftMs)},
      {"canary.max_itl_percent", 120, 120, 300, 300, tolerated(kItl)},
      {"canary.itl_slack_ms", 2, 2, 50, 50, tolerated(kItlMs)},
  };
}

std::vector<Row> liveness_rows() {
  return {
      {"link.worker_timeout_ms", 50, 50, 5000, 5000, silent_worker_is_trusted},
      {"link.worker_lost_ms", 70, 70, 9000, 9000, hung_worker_timeout},
      {"link.worker_stopped_ms", 20, 20, 4000, 4000, stopped_worker_timeout},
      {"link.node_timeout_ms", 40, 40, 80, 80, suspect_node_timeout},
      {"link.node_lost_ms", 70, 70, 9000, 9000, lost_node_timeout},
  };
}

std::vector<Row> memory_rows() {
  return {
      {"models.memory_percent", 50, 31, 90, 57, pages_of_the_load},
      {"memory.min_available_percent", 5, 42, 20, 28, pages_of_what_is_available},
      {"memory.max_stall_percent", 10, 0, 30, 1, loads_while_a_fifth_is_stalled},
      {"memory.evict_pause_ms", 500, 500, 2000, 2000, between_two_evictions},
      {"workers.gone_hold_ms", 1000, 1000, 5000, 5000, lost_load_is_counted},
  };
}

const std::vector<Row>& rows() {
  static const std::vector<Row> all = {
      {"queue.max_requests", 2, 2, 4, 4, five_without_worker},
      {"queue.max_tenant_requests", 2, 2, 4, 4, five_without_worker},
      {"queue.max_bytes", 1 << 20, 3, 2 << 20, 5, five_with_300k},
      {"queue.max_waiting", 1, 1, 3, 3, five_without_worker},
      {"queue.max_running", 1, 1, 3, 3, five_with_worker},
      {"queue.max_pages", 1, 1, 3, 3, five_with_worker},
      {"queue.preempt", 0, 0, 1, 1, second_tenant_running_when_full},
      {"queue.max_preparing", 1, 1, 3, 3, five_texts},
      {"request.max_prompts", 2, 2, 7, 7, largest_prompts},
      {"request.max_choices", 3, 3, 9, 9, largest_n},
      {"request.max_meta_bytes", 10, 10, 100, 100, largest_meta},
      {"request.max_prompt_tokens", 5, 5, 150, 150, largest_prompt},
      {"request.max_output_tokens", 5, 5, 150, 150, largest_output},
      {"request.max_bytes", 20, 20, 200, 200, largest_bytes},
      {"request.max_score_bytes", 200, 160, 800, 800, largest_scores},
      {"requests.ended_in_memory", 1, 1, 4, 4, retained_after_five},
      {"workers.adoption_window_ms", 100, 100, 9000, 9000, adoption_takes},
      {"workers.reconnect_ms", 50, 50, 7000, 7000, lost_worker_load_timeout},
      {"requests.disconnect_grace_ms", 70, 70, 5000, 5000, orphan_lives},
      {"requests.class_wait_ms", 2000, 2000, 90'000, 90'000, class_is_waited_for},
      {"streams.chunk_tokens", 7, 7, 40, 40, longest_event},
      {"streams.max_window", 8, 8, 33, 33, sent_of_sixty},
      {"streams.retry_ms", 3, 3, 500, 500, pause_of_a_full_socket},
      {"ingress.timeout_ms", 20, 20, 4000, 4000, prepare_takes},
      {"ingress.inspect_timeout_ms", 1000, 1000, 9000, 9000, inspect_takes},
      {"ingress.tries", 1, 1, 4, 4, helpers_tried},
      {"workers.returned_hold_ms", 10, 10, 400, 400, returned_worker_rests},
      {"blame.alone_after", 1, 1, 3, 3, deaths_until_alone},
      {"blame.quarantine_after", 3, 3, 6, 6, deaths_until_quarantine},
      {"breaker.failures", 2, 2, 6, 6, breaker_opens_after},
      {"breaker.pause_ms", 100, 100, 3000, 3000, breaker_pause},
      {"breaker.pause_max_ms", 6000, 6000, 11'000, 11'000, longest_breaker_pause},
      {"retention.hours", 9, 1, 11, 0, swept_after_ten_hours},
      {"retention.key_hours", 9, 1, 11, 0, swept_when_crowded},
      {"retention.max_bytes", 1 << 20, 1, 4 << 20, 0, swept_with_two_mib},
      {"tenant.default.max_requests", 2, 2, 4, 4, five_without_worker},
      {"tenant.default.max_waiting", 2, 2, 4, 4, five_without_worker},
      {"tenant.default.max_running", 1, 1, 3, 3, five_with_worker},
      {"tenant.default.max_pages", 1, 1, 3, 3, five_with_worker},
      {"tenant.default.max_prompt_tokens", 5, 5, 150, 150, largest_prompt},
      {"tenant.default.max_output_tokens", 5, 5, 150, 150, largest_output},
      {"tenant.default.max_bytes", 32, 2, 64, 4, five_without_worker},
      {"tenant.t.weight", 1, 5, 4, 8, share_of_ten},
      {"worker.w1.max_running", 1, 1, 3, 3, five_with_worker},
      {"worker.w1.max_pages", 1, 1, 3, 3, five_with_worker},
  };
  return all;
}

std::vector<Row> model_rows() {
  return {
      {"models.load_tries", 2, 2, 7, 7, loads_tried},
      {"models.load_backoff_ms", 30, 30, 900, 900, first_pause},
      {"models.load_backoff_max_ms", 2000, 2000, 7000, 7000, tenth_pause},
      {"models.load_timeout_ms", 150, 150, 20'000, 20'000, silent_load_lives},
      {"models.loads_at_once", 1, 1, 3, 3, loads_of_five_at_once},
      {"models.dwell_ms", 100, 100, 6000, 6000, idle_model_stays},
      {"models.idle_unload_s", 7, 7000, 20, 20'000, unused_model_stays},
      {"models.client_keep_alive", 0, -1, 1, 6000, model_stays_as_a_client_says},
      {"models.drift_percent", 5, 1, 15, 0, ten_percent_more_is_told},
      {"models.replicas", 1, 1, 2, 2, loads_on_three_workers},
      {"nodes.fetch", 0, 0, 1, 1, models_that_a_node_fetches},
      {"models.fleet_wait_ms", 0, 0, 3000, 3000, unfit_model_waits},
      {"model.m.max_requests", 2, 2, 4, 4, five_without_worker},
      {"model.m.max_waiting", 2, 2, 4, 4, five_without_worker},
      {"model.m.max_running", 1, 1, 3, 3, five_with_worker},
      {"model.m.max_pages", 1, 1, 3, 3, five_with_worker},
      {"model.m.max_prompt_tokens", 5, 5, 150, 150, largest_prompt},
      {"model.m.max_output_tokens", 5, 5, 150, 150, largest_output},
      {"model.m.max_bytes", 32, 2, 64, 4, five_without_worker},
      {"model.m.replicas", 1, 1, 2, 2, loads_on_three_workers},
      {"model.m.dwell_ms", 100, 100, 6000, 6000, idle_model_stays},
      {"model.m.idle_unload_s", 7, 7000, 20, 20'000, unused_model_stays},
  };
}

std::vector<Row> all_rows() {
  std::vector<Row> all = alias_rows();
  for (const Row& row : liveness_rows()) all.push_back(row);
  for (const Row& row : memory_rows()) all.push_back(row);
  for (const Row& row : model_rows()) all.push_back(row);
  all.insert(all.end(), rows().begin(), rows().end());
  return all;
}

TEST(KnobEffects, EveryKnob_WhenChanged_HasItsStatedEffect) {
  for (const Row& row : all_rows()) {
    SCOPED_TRACE(row.knob);
    Rig a(row.knob, row.value_a);
    EXPECT_EQ(row.observe(a), row.observed_a) << "at " << row.value_a;
    Rig b(row.knob, row.value_b);
    EXPECT_EQ(row.observe(b), row.observed_b) << "at " << row.value_b;
  }
}

TEST(KnobEffects, EveryKnob_HasATestRow) {
  std::set<std::string> expected, have(std::begin(kKnobsOfTheShell), std::end(kKnobsOfTheShell));
  std::ifstream file(std::string(HOLDFAST_SOURCE_DIR) + "/tests/process/knobs_test.cpp");
  std::stringstream others;
  others << file.rdbuf();
  for (const std::string& name : have) {
    EXPECT_NE(others.str().find("\"" + name), std::string::npos) << name;
  }
  for (const Knob& knob : knobs()) expected.insert(std::string(knob.name));
  for (const SubjectKind& kind : subject_kinds()) {
    for (const Knob& knob : kind.knobs) {
      expected.insert(std::string(kind.prefix) + ".*." + std::string(knob.name));
    }
  }
  have.insert(std::begin(kTextKnobs), std::end(kTextKnobs));
  for (const Row& row : all_rows()) {
    const NamedKnob named = *find_knob(row.knob);
    std::string name = row.knob;
    if (named.of_subject()) {
      name = name.substr(0, name.find('.')) + ".*." + std::string(named.knob().name);
    }
    EXPECT_TRUE(have.insert(name).second) << name;
  }
  EXPECT_EQ(have, expected);
}

}  // namespace
}  // namespace holdfast::core::knob_effects_test
