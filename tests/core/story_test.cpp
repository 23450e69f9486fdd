// Goal: what the machine does is what somebody has read and found right, to the last field: every
// row, message, note, count, durability and deadline of ten lives that operators know.
// Method: each story steps a machine by hand (story.h). Stories say that something changed, the
// other tests of this room say what must hold.
#include "tests/core/story.h"
#include "control/core/admission.h"

namespace holdfast::core::story_test {
namespace {

TEST_F(Story, Model_FromRegistrationToRemoval_MatchesTheStory) {
  tell("start and registration");
  bench.boot();
  bench.add_model(1024, 4, 64, false);
  tell("nobody has it yet: a wish waits for a worker");
  operate("models.load");
  bench.step(FromWorker{kW1, bench.hello("w1")});
  const std::string load = bench.messages<wire::Load>(kW1)[0].load_id;
  report(load, "loading", "", 0.5);
  report(load, "warming", "", 1);
  report(load, "ready");
  tell("what clients see of it; the same file again; another file while it is loaded");
  bench.step(FromClient{kClient, wire::ModelsQuery{9}});
  bench.add_model(2048, 2, 32, false);
  tell("pinned and not; removing what is loaded is refused");
  operate("models.pin");
  operate("models.unpin");
  operate("models.remove");
  tell("a report of a load that nobody knows");
  report("l9-9", "ready");
  tell("unload while a request runs: it ends first");
  bench.submit(bench.submission("r1"));
  const wire::Dispatch d = bench.dispatch();
  operate("models.unload");
  bench.advance_ms(10);
  tell("the same file again: when it was used last is kept");
  bench.add_model(2048, 2, 32, false);
  bench.tokens(kW1, d, 0, {1, 2}, FinishReason::kStop);
  report(load, "unloaded", "done");
  operate("models.remove");
  operate("models.load", "nobody");
}

TEST_F(Story, Request_FromTextToItsEnd_MatchesTheStory) {
  start();
  tell("text goes to a helper; the same again waits with it; others are told no");
  wire::Submit s = bench.text_submission("r1");
  s.idem_key = "key";
  s.n = 2;
  s.stops = {"stop"};
  s.meta = "{\"a\":1}";
  s.queue_timeout_ms = 5000;
  s.total_timeout_ms = 9000;
  bench.submit(s);
  const std::uint64_t job = bench.messages<wire::Prepare>(kHelper)[0].job;
  bench.submit(s, kOther);
  s.body_hash = "another";
  bench.submit(s, kOther);
  tell("an answer of a helper that was not asked, then the right one");
  wire::Prepared prepared;
  prepared.job = job;
  prepared.ok = true;
  prepared.ids = {{5, 6, 7}};
  bench.step(PreparedEvent{kHelper + 5, prepared});
  bench.step(PreparedEvent{kHelper, prepared});
  const auto d = bench.dispatches();
  ASSERT_EQ(d.size(), 2u);
  tell("known now: by id, by key, by the body");
  bench.submit(s, kOther);
  s.body_hash = "hash-r1";
  s.request_id.clear();
  bench.submit(s, kOther);
  tell("streamed: from 1, then credit, then a second reader from the start");
  attach("r1", {1, 0}, 2);
  bench.tokens(kW1, d[0], 0, {10, 11, 12, 13});
  bench.step(FromClient{kClient, wire::Credit{70, "r1", 0, 3}});
  attach("r1", {}, 100, 80, kOther);
  ask("r1");
  tell("one choice ends, the other fails");
  bench.tokens(kW1, d[0], 4, {14}, FinishReason::kStop);
  fail(kW1, d[1], "internal");
  tell("the FIN comes back once and is sent again");
  bench.step(SendFailed{kOther, 80, "r1", -1, 0});
  bench.advance_ms(20);
  bench.advance_ms(2000);
  tell("after its end");
  attach("r1", {5, 0});
  cancel("r1");
  bench.step(PeerGone{kClient});
}

TEST_F(Story, Request_WhenRefusedOrCancelled_MatchesTheStory) {
  start(1);
  tell("prepared badly");
  wire::Submit text = bench.text_submission("bad");
  bench.submit(text);
  wire::Prepared prepared;
  prepared.job = bench.messages<wire::Prepare>(kHelper)[0].job;
  prepared.refusal = refuse(Errc::kInvalidRequest, "no text");
  bench.step(PreparedEvent{kHelper, prepared});
  tell("as many prompts as asked for?");
  bench.submit(text);
  prepared.job = bench.messages<wire::Prepare>(kHelper)[0].job;
  prepared.ok = true;
  bench.step(PreparedEvent{kHelper, prepared});
  tell("cancelled while it is prepared");
  bench.submit(text);
  cancel("bad");
  cancel("nobody");
  tell("unknown model, unknown ids, too long, empty");
  wire::Submit s = bench.submission("r1");
  s.model = "other";
  bench.submit(s);
  s = bench.submission("r1");
  s.prompts[0].ids = std::vector<TokenId>{1, 1000};
  bench.submit(s);
  bench.submit(bench.submission("r1", 1021));
  bench.submit(bench.submission("r1", 1020));
  const wire::Dispatch d = bench.dispatch();
  tell("nothing to run");
  bench.submit(bench.submission("r0", 0));
  tell("waiting: position and time are told");
  bench.submit(bench.submission("r2"));
  bench.submit(bench.submission("r3"));
  ask("r3");
  tell("cancelled while it waits, while it runs, and again");
  cancel("r2");
  bench.now.mono_us += 250'000;
  cancel("r1");
  cancel("r1");
  bench.tokens(kW1, d, 0, {1});
  ask("r3");
  tell("attach: too many indices, no window, nobody");
  attach("r3", {0, 0});
  attach("r3", {0}, 0);
  attach("nobody", {0});
  bench.step(FromClient{kClient, wire::Detach{70, "r3"}});
}

TEST_F(Story, Request_WhenDeadlinesPass_MatchesTheStory) {
  start(1);
  const auto with = [&](const std::string& id, std::int64_t queue, std::int64_t total,
                        wire::OnDisconnect policy = wire::OnDisconnect::kContinue) {
    wire::Submit s = bench.submission(id);
    s.queue_timeout_ms = queue;
    s.total_timeout_ms = total;
    s.on_disconnect = policy;
    bench.submit(std::move(s));
  };
  with("runs", 1000, 3000);
  const wire::Dispatch d = bench.dispatch();
  with("waits", 1000, 0);
  with("total", 0, 2000);
  with("orphan", 0, 0, wire::OnDisconnect::kCancel);
  attach("orphan", {}, 10, 90, kOther);
  tell("the queue's time, then the total");
  bench.advance_ms(999);
  bench.advance_ms(1);
  bench.advance_ms(1000);
  bench.tokens(kW1, d, 0, {1});
  bench.advance_ms(1000);
  tell("nobody reads the last one any more");
  bench.step(PeerGone{kOther});
  bench.advance_ms(29'999);
  bench.advance_ms(1);
}

TEST_F(Story, Request_WhenWorkersDie_MatchesTheStory) {
  start();
  bench.step(FromWorker{kW2, bench.hello("w2")});
  bench.make_ready(kW2);
  wire::Submit s = bench.submission("r1");
  s.n = 2;
  bench.submit(s);
  const auto d = bench.dispatches();
  ASSERT_EQ(d.size(), 2u);
  const PeerId first = bench.dispatches(kW1).empty() ? kW2 : kW1;
  tell("tokens, then the connection is gone: the work goes on elsewhere with its tokens");
  bench.tokens(first, bench.dispatches(first)[0], 0, {1, 2, 3});
  bench.step(PeerGone{first});
  tell("its end is told later: a crash counts");
  bench.step(WorkerExit{bench.hello(first == kW1 ? "w1" : "w2").pid, 0, 11, false});
  tell("it comes back with its weights, then too late");
  bench.advance_ms(3000);
  tell("tokens with a hole before them");
  bench.submit(bench.submission("r2"));
  const wire::Dispatch hole = bench.dispatch();
  bench.tokens(first == kW1 ? kW2 : kW1, hole, 0, {7, 8});
  bench.tokens(first == kW1 ? kW2 : kW1, hole, 3, {9});
  tell("a worker hands work back, and drains");
  const PeerId other = first == kW1 ? kW2 : kW1;
  for (const auto& [id, load] : bench.machine.loads().all()) {
    for (const ChoiceRef& ref : load.running) {
      write("running on " + load.row.worker_key + ": " + std::to_string(ref.choice));
    }
  }
  bench.step(FromWorker{other, wire::Drain{}});
  bench.step(FromWorker{other, wire::Drained{}});
  bench.step(PeerGone{other});
}

TEST_F(Story, Request_WhenItKillsItsWorkers_MatchesTheStory) {
  start();
  wire::Submit s = bench.submission("killer");
  s.n = 2;
  bench.submit(s);
  PeerId peer = kW1;
  for (int death = 1; bench.state("killer") != RequestState::kQuarantined; ++death) {
    ASSERT_LT(death, 20);
    tell("death " + std::to_string(death));
    bench.step(WorkerExit{bench.hello("w1").pid, 0, 11, false});
    bench.step(FromWorker{++peer, bench.hello("w1", "i" + std::to_string(death + 1))});
    bench.make_ready(peer);
    bench.advance_ms(40'000);
  }
  tell("looked at, moved, released, cancelled");
  ask("killer");
  bench.step(OpMove{kOperator, 3, "killer", PriorityClass::kBatch});
  bench.step(OpRequeue{kOperator, 4, "killer"});
  bench.step(OpCancel{kOperator, 5, "killer"});
  bench.step(OpCancel{kOperator, 6, "nobody"});
  bench.step(OpRequeue{kOperator, 7, "killer"});
}

TEST_F(Story, Daemon_AfterARestart_MatchesTheStory) {
  start();
  wire::Submit s = bench.submission("r1");
  s.n = 3;
  bench.submit(s);
  const auto d = bench.dispatches();
  bench.tokens(kW1, d[0], 0, {1, 2});
  bench.submit(bench.submission("r2"));
  bench.submit(bench.submission("r3"));
  bench.step(OpPause{kOperator, 1, true});
  bench.submit(bench.submission("r4"));
  tell("the second process: one choice is adopted, one is not listed, one forged");
  Bench again;
  listen(again);
  again.now = bench.now;
  again.now.mono_us += 700'000;
  Boot boot = bench.database();
  boot.boot_id = "b1";
  boot.clock_boot_id = "b0";
  boot.queue_paused = true;
  again.boot(std::move(boot), 2);
  wire::Hello hello = again.hello("w1");
  wire::LoadedModel model = ready_model(d[0].load_id);
  hello.models = {model};
  model.load_id = "l7-7";
  hello.models.push_back(model);
  hello.active = {{"r1", 0, d[0].fence, 1, 6, false},
                  {"r1", 2, Fence{1, 99}, 0, 0, false},
                  {"gone", 0, d[0].fence, 0, 3, false}};
  again.step(FromWorker{kW1, hello});
  tell("the queue goes on; what nobody came back for is queued when the window ends");
  again.step(OpPause{kOperator, 2, false});
  again.advance_ms(1500);
  tell("an ended request is named; a damaged one ends");
  BootRequest old;
  old.row.seq = 77;
  old.row.id = "old";
  old.row.state = RequestState::kSucceeded;
  old.choices.resize(1);
  old.choices[0].row.finish = FinishReason::kLength;
  old.prompt_tokens = {3};
  again.step(Recall{old});
  again.step(FromClient{kClient, wire::StatusQuery{72, "old", {}, {}}});
  again.step(RowsDamaged{2, "bad checksum"});
}

TEST_F(Story, Worker_WhenItFailsOrContradictsItself_MatchesTheStory) {
  Config config;
  config.breaker_failures = 2;
  config.breaker_pause_ms = 1000;
  bench.machine = Machine(config);
  start();
  for (int i = 1; i <= 3; ++i) {
    tell("failure " + std::to_string(i));
    bench.submit(bench.submission("f" + std::to_string(i)));
    if (bench.dispatches().empty()) bench.advance_ms(1000);
    fail(kW1, bench.dispatch(), "internal");
  }
  tell("twice as long now; then one that works");
  bench.submit(bench.submission("good"));
  bench.advance_ms(1000);
  bench.advance_ms(1000);
  const wire::Dispatch d = bench.dispatch();
  bench.tokens(kW1, d, 0, {1}, FinishReason::kStop);
  tell("two tokens for one index: the worker is not believed any more");
  bench.submit(bench.submission("r1"));
  bench.submit(bench.submission("r2"));
  bench.step(FromWorker{kW2, bench.hello("w2")});
  const auto& loads = bench.machine.loads().all();
  const wire::Dispatch r1 = [&] {
    wire::Dispatch made;
    made.request_id = "r1";
    made.fence = bench.machine.request("r1")->choices[0].fence;
    made.load_id = loads.begin()->first;
    return made;
  }();
  bench.tokens(kW1, r1, 0, {1, 2});
  bench.tokens(kW1, r1, 0, {1, 3});
  tell("as a new process it stays out, until an operator says otherwise");
  bench.step(PeerGone{kW1});
  bench.step(FromWorker{kW1 + 10, bench.hello("w1", "i2")});
  bench.step(OpWorker{kOperator, 6, "w1", false});
  bench.step(OpWorker{kOperator, 7, "w1", true});
  bench.step(OpWorker{kOperator, 8, "w8", true});
  bench.step(OpWorker{kOperator, 9, "w8", false});
}

TEST_F(Story, Eviction_WhenTheOthersLoadFails_IsUndone) {
  Config config;
  config.models_dwell_ms = 2000;
  config.models_load_tries = 2;
  config.models_loads_at_once = 1;
  bench.machine = Machine(config);
  tell("a device with room for one of two models");
  bench.boot();
  bench.add_model(1024, 4, 64, true, "a");
  bench.add_model(1024, 4, 64, false, "b");
  wire::Hello hello = bench.hello("w1");
  hello.memory.total = hello.memory.free = 72'400;
  bench.step(FromWorker{kW1, hello});
  bench.make_ready(kW1);
  tell("a request wants the other one");
  wire::Submit s = bench.submission("r1");
  s.model = "b";
  bench.submit(s);
  bench.advance_ms(2000);
  bench.unloaded(kW1);
  tell("its load fails, twice: what waits fails, and the first model comes back");
  const auto failed = [&](const std::string& why) {
    wire::StateReport report;
    report.model.load_id = bench.machine.loads().all().begin()->first;
    report.model.state = "failed";
    report.model.reason = why;
    bench.step(FromWorker{kW1, report});
  };
  failed("internal: no luck");
  bench.advance_ms(500);
  failed("internal: no luck again");
  bench.make_ready(kW1);
  bench.submit(s);
  tell("a load that says nothing is given up");
  operate("models.load", "b");
  bench.advance_ms(2000);
  bench.unloaded(kW1);
  bench.advance_ms(600'000);
  tell("helpers that take too long to read a file");
  OpAddModel add;
  add.peer = kOperator;
  add.tag = 3;
  add.name = "c";
  add.path = "/models/c.gguf";
  bench.step(add);
  for (int i = 0; i < 3; ++i) bench.advance_ms(600'000);
  add.name = "";
  bench.step(add);
}

TEST_F(Story, Daemon_WhenItDrains_MatchesTheStory) {
  start(1);
  tell("the disk is nearly full, and has room again");
  bench.step(StorageLevel{true, 1000});
  bench.submit(bench.submission("r1"));
  bench.step(StorageLevel{false, 1 << 30});
  bench.submit(bench.submission("r1"));
  const wire::Dispatch d = bench.dispatch();
  bench.submit(bench.submission("r2"));
  tell("configuration: set, refused, back");
  bench.step(OpConfig{kOperator,
                      1,
                      "config.set",
                      "ann",
                      {{"queue.max_requests", "2"}, {"retention.hours", "1"}},
                      {}});
  bench.submit(bench.submission("r3"));
  bench.step(OpConfig{kOperator, 2, "config.set", "ann", {{"queue.max_requests", "none"}}, {}});
  bench.step(OpConfig{kOperator, 3, "config.rollback", "bob", {}, 0});
  bench.step(OpConfig{kOperator, 4, "config.rollback", "bob", {}, 9});
  tell("it drains: what runs ends, what waits stays");
  bench.step(Shutdown{5000});
  bench.submit(bench.submission("r4"));
  bench.tokens(kW1, d, 0, {1}, FinishReason::kStop);
  tell("and what is old goes");
  bench.step(Sweep{{{1, 1}, {2, 0}}, 1000});
}

}  // namespace
}  // namespace holdfast::core::story_test
