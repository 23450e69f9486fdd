// Goal: only the worker that runs a choice now speaks for it; a worker that goes, or is not
// believed any more, takes neither its models nor its room along, and one that is believed again
// serves at once.
// Method: events by hand; what a second machine makes of the rows where a restart matters.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/core/bench_machine.h"

namespace holdfast::core::trust_test {
namespace {

constexpr PeerId kW1 = 101;
constexpr PeerId kW2 = 102;

struct TrustTest : testing::Test {
  Bench bench;
  wire::Dispatch d;  // of r1, on w1

  void run_one() {
    bench.boot();
    bench.add_model();
    bench.connect_worker(kW1, "w1");
    bench.submit(bench.submission("r1"));
    d = bench.dispatch(kW1);
  }
  void returned(PeerId peer, const Fence& fence, std::int32_t choice = 0,
                const std::string& id = "r1") {
    wire::Returned m;
    m.request_id = id;
    m.choice = choice;
    m.fence = fence;
    m.reason = "no pages";
    bench.step(FromWorker{peer, m});
  }
  std::uint64_t taken_back() { return bench.machine.core().counters.returned; }
  ModelState state(const std::string& name = "m") {
    return bench.machine.registry().models().at(name).row.state;
  }
  /// HELLO of w1 after a restart of the daemon.
  wire::Hello holding_r1(Bench& after) const {
    wire::Hello hello = after.hello("w1");
    hello.models = {ready_model(d.load_id)};
    hello.active = {{"r1", 0, d.fence, 0, 0, false}};
    return hello;
  }
  void operate(const std::string& key, bool drain) {
    bench.step(OpWorker{Bench::kOperator, 1, key, drain});
  }
  /// Sends two different ids for one index.
  void contradict(PeerId peer, const wire::Dispatch& of) {
    bench.tokens(peer, of, 0, {1, 2});
    bench.tokens(peer, of, 1, {9});
    ASSERT_TRUE(bench.machine.fleet().workers().at(peer).quarantined);
  }
};

TEST_F(TrustTest, Returned_FromAnotherWorkerOrFence_IsIgnored) {
  run_one();
  bench.connect_worker(kW2, "w2");
  returned(kW2, d.fence);
  returned(kW1, {d.fence.epoch, d.fence.counter + 1});
  returned(kW1, d.fence, 1);
  returned(kW1, d.fence, -1);
  returned(kW1, d.fence, 0, "nobody");
  EXPECT_EQ(taken_back(), 0u);
  EXPECT_EQ(bench.state("r1"), RequestState::kRunning);
  // The choice waits again, under no new fence yet: the old attempt has nothing to give back.
  bench.step(OpPause{Bench::kOperator, 1, true});
  bench.step(OpRequeue{Bench::kOperator, 2, "r1"});
  returned(kW1, d.fence);
  EXPECT_EQ(taken_back(), 0u);
  EXPECT_EQ(bench.written<EndAttempt>().size(), 1u);
  bench.step(OpPause{Bench::kOperator, 3, false});
  const wire::Dispatch again = bench.dispatch();
  const PeerId now = bench.dispatches(kW1).empty() ? kW2 : kW1;
  returned(now, again.fence);
  EXPECT_EQ(taken_back(), 1u);
  const wire::Dispatch elsewhere = bench.dispatch(now == kW1 ? kW2 : kW1);  // that one is held
  bench.step(OpCancel{Bench::kOperator, 4, "r1"});
  returned(now == kW1 ? kW2 : kW1, elsewhere.fence);  // it crossed the cancel
  EXPECT_EQ(taken_back(), 1u);
  EXPECT_EQ(bench.state("r1"), RequestState::kCancelled);
}

TEST_F(TrustTest, Worker_AfterReturningAChoice_RestsForTheHoldTime) {
  run_one();
  returned(kW1, d.fence);
  EXPECT_TRUE(bench.dispatches().empty());
  bench.advance_ms(bench.machine.config().workers_returned_hold_ms - 1);
  EXPECT_TRUE(bench.dispatches().empty());
  bench.advance_ms(1);
  EXPECT_GT(bench.dispatch(kW1).fence, d.fence);
}

TEST_F(TrustTest, Worker_WhenItContradictsItself_LosesAllItsWork) {
  run_one();
  bench.submit(bench.submission("r2"));
  bench.submit(bench.submission("r3"));
  contradict(kW1, d);
  std::vector<std::string> dropped;
  for (const wire::Drop& drop : bench.messages<wire::Drop>(kW1)) dropped.push_back(drop.request_id);
  EXPECT_EQ(dropped, (std::vector<std::string>{"r1", "r2", "r3"}));
  for (const char* id : {"r1", "r2", "r3"}) EXPECT_EQ(bench.state(id), RequestState::kQueued);
  EXPECT_EQ(state(), ModelState::kPlacing) << "nobody serves it now";
  const auto& row = bench.written<InsertTransition>();
  const auto told = [&](const InsertTransition& t) {
    return t.subject == "worker" && t.key == "w1" && t.to == "quarantined";
  };
  EXPECT_EQ(std::count_if(row.begin(), row.end(), told), 1);
}

TEST_F(TrustTest, QuarantinedWorker_WhenReleased_ServesItsLoadsAtOnce) {
  run_one();
  contradict(kW1, d);
  bench.submit(bench.submission("r2"));
  EXPECT_TRUE(bench.dispatches().empty());
  operate("w1", false);
  EXPECT_EQ(state(), ModelState::kReady);
  EXPECT_EQ(bench.dispatches(kW1).size(), 2u);
  EXPECT_EQ(bench.machine.fleet().workers().at(kW1).quarantine_reason, "");
  operate("w1", false);  // once more changes nothing
  EXPECT_TRUE(bench.dispatches().empty());
}

TEST_F(TrustTest, WaitingModel_WhenAWorkerIsQuarantined_GetsTheVerdictAtOnce) {
  bench.boot();
  bench.add_model();
  wire::Hello hello = bench.hello("w1");
  hello.memory.total = hello.memory.free = 72'400;  // for one of them
  bench.step(FromWorker{kW1, hello});
  bench.make_ready(kW1);
  bench.add_model(1024, 4, 64, true, "n");
  bench.submit(bench.submission("r1"));
  d = bench.dispatch(kW1);
  const auto verdict = [&] { return bench.machine.registry().models().at("n").devices.at(0); };
  EXPECT_EQ(verdict().verdict, Verdict::kNoFreeMemory);
  contradict(kW1, d);
  EXPECT_EQ(verdict().verdict, Verdict::kClosed);
  EXPECT_EQ(verdict().why, "quarantined");
  operate("w1", false);
  EXPECT_EQ(verdict().verdict, Verdict::kNoFreeMemory);
}

TEST_F(TrustTest, DisconnectedWorker_WithStoredFlags_CanBeReleasedByAnOperator) {
  const auto refused = [&] {
    for (const Outgoing& out : bench.sent) {
      const auto* result = std::get_if<SendOpResult>(&out);
      if (result != nullptr) return !result->ok;
    }
    return true;
  };
  run_one();
  operate("w1", true);
  bench.step(PeerGone{kW1});
  operate("w1", true);
  EXPECT_TRUE(refused()) << "there is nothing to drain";
  operate("w1", false);
  EXPECT_FALSE(refused()) << "it was drained";
  operate("w1", false);
  EXPECT_TRUE(refused()) << "nothing is remembered any more";
  bench.advance_ms(60'000);
  bench.connect_worker(kW2, "w1");
  EXPECT_FALSE(bench.machine.fleet().workers().at(kW2).draining);
  bench.fail(kW2, bench.dispatch(kW2));
  EXPECT_EQ(bench.machine.breakers().of_worker("w1").failures(), 1);
  bench.step(PeerGone{kW2});
  operate("w1", false);
  EXPECT_FALSE(refused()) << "it had failed";
  EXPECT_EQ(bench.machine.breakers().of_worker("w1").failures(), 0);
  bench.connect_worker(kW1, "w1");
  bench.submit(bench.submission("r2"));
  contradict(kW1, bench.dispatch(kW1));
  bench.step(PeerGone{kW1});
  operate("w1", false);
  EXPECT_FALSE(refused()) << "it was quarantined";
}

TEST_F(TrustTest, Memory_WhenItsWorkerIsGone_IsFreeForTheNeighbour) {
  bench.boot();
  bench.add_model();
  const auto connect = [&](PeerId peer, const char* key, const char* host) {
    wire::Hello hello = bench.hello(key);
    hello.host = host;
    hello.device = "opencl:0";  // one device, two workers
    hello.memory.total = hello.memory.free = 72'400;
    bench.step(FromWorker{peer, hello});
  };
  connect(kW1, "w1", "here");
  bench.make_ready(kW1);
  connect(kW2, "w2", "here");
  EXPECT_TRUE(bench.messages<wire::Load>(kW2).empty());
  connect(kW2 + 1, "w3", "there");
  EXPECT_EQ(bench.messages<wire::Load>(kW2 + 1).size(), 1u) << "another machine's has its own";
  bench.step(PeerGone{kW1});
  EXPECT_TRUE(bench.messages<wire::Load>(kW2).empty()) << "its process may live";
  WorkerExit exit;
  exit.pid = bench.hello("w1").pid;
  bench.step(exit);
  EXPECT_EQ(bench.messages<wire::Load>(kW2).size(), 1u);
}

TEST_F(TrustTest, WorkerStats_WhenReported_AreStored) {
  run_one();
  const auto at = [&]() -> const Worker& { return bench.machine.fleet().workers().at(kW1); };
  wire::WorkerStats stats;
  stats.running = 3;
  stats.memory.total = 1;
  stats.memory.free = 400'000;
  bench.step(FromWorker{kW1, stats});
  EXPECT_EQ(at().stats.running, 3);
  EXPECT_EQ(at().hello.memory.free, 400'000);
  stats.running = 2;
  stats.memory = {};  // it does not know
  bench.step(FromWorker{kW1, stats});
  EXPECT_EQ(at().stats.running, 2);
  EXPECT_EQ(at().hello.memory.free, 400'000);
  bench.step(FromWorker{kW2, stats});  // from nobody
  EXPECT_EQ(bench.machine.fleet().workers().count(kW2), 0u);
}

TEST_F(TrustTest, LostWorkers_BeyondSixtyFour_ForgetTheOldest) {
  bench.boot();
  for (std::int64_t i = 0; i <= 64; ++i) {
    wire::Hello hello = bench.hello("w" + std::to_string(i));
    hello.pid = 5'000 + i;
    bench.step(FromWorker{kW1, hello});
    EXPECT_EQ(bench.machine.fleet().workers().at(kW1).since_ms, bench.now.wall_ms);
    bench.step(PeerGone{kW1});
    bench.advance_ms(1);
  }
  for (std::int64_t i = 0; i <= 64; ++i) {
    bench.step(WorkerExit{5'000 + i, 0, 11, false});
    bench.step(WorkerExit{5'000 + i, 0, 11, false});  // told twice
    EXPECT_EQ(bench.machine.breakers().of_worker("w" + std::to_string(i)).failures(),
              i == 0 ? 0 : 1)
        << i;
  }
  EXPECT_EQ(bench.machine.core().counters.workers_lost, 65u);
}

TEST_F(TrustTest, AdoptedSuspect_AfterARestart_RunsAloneWithUnknownDuration) {
  run_one();
  Boot database = bench.database();
  ChoiceRow& choice = database.requests.at(0).choices.at(0).row;
  choice.deaths = 2;
  choice.deaths_index = choice.next_index;  // it has not moved since
  Bench after;
  after.boot(std::move(database), 2);
  after.step(FromWorker{kW1, holding_r1(after)});
  ASSERT_EQ(after.messages<wire::Adopt>(kW1).size(), 1u);
  after.submit(after.submission("r2"));
  EXPECT_TRUE(after.dispatches().empty());
  wire::Dispatch adopted = d;
  adopted.fence = after.machine.request("r1")->choices[0].fence;
  after.advance_ms(500);
  after.tokens(kW1, adopted, 0, {1}, FinishReason::kStop);
  EXPECT_EQ(after.dispatch(kW1).request_id, "r2");
  EXPECT_EQ(after.machine.registry().models().at("m").service_ms, 0);
}

TEST_F(TrustTest, AdoptedRequest_WhenItsRowSaysQueued_IsRunning) {
  run_one();
  Boot database = bench.database();
  ASSERT_EQ(database.requests.size(), 1u);
  database.requests[0].row.state = RequestState::kQueued;
  Bench after;
  after.boot(std::move(database), 2);
  after.step(FromWorker{kW1, holding_r1(after)});
  ASSERT_EQ(after.messages<wire::Adopt>(kW1).size(), 1u);
  EXPECT_EQ(after.state("r1"), RequestState::kRunning);
  ASSERT_EQ(after.written<UpdateRequest>().size(), 1u);
  EXPECT_EQ(after.written<UpdateRequest>()[0].state, RequestState::kRunning);
  wire::Dispatch adopted = d;
  adopted.fence = after.messages<wire::Adopt>()[0].fence;
  after.tokens(kW1, adopted, 0, {1}, FinishReason::kStop);
  EXPECT_EQ(after.state("r1"), RequestState::kSucceeded);
}

TEST_F(TrustTest, Tokens_OfAnUnknownChoice_AreDropped) {
  run_one();
  for (const std::int32_t choice : {-1, 1}) {
    wire::Dispatch other = d;
    other.choice = choice;
    bench.tokens(kW1, other, 0, {1});
    ASSERT_EQ(bench.messages<wire::Drop>(kW1).size(), 1u);
    EXPECT_EQ(bench.messages<wire::Drop>(kW1)[0].choice, choice);
    EXPECT_EQ(bench.messages<wire::Drop>(kW1)[0].reason, "unknown request");
  }
  EXPECT_EQ(bench.machine.core().counters.stale_events, 2u);
  EXPECT_TRUE(bench.stored_ids("r1").empty());
  EXPECT_EQ(bench.state("r1"), RequestState::kRunning);
}

TEST_F(TrustTest, Tokens_BeforeTheFirstIndex_EndTheAttempt) {
  run_one();
  bench.tokens(kW1, d, -1, {1, 2});
  EXPECT_EQ(bench.messages<wire::Drop>(kW1).at(0).reason, "gap");
  EXPECT_EQ(bench.written<EndAttempt>().at(0).reason, "gap in tokens");
  EXPECT_TRUE(bench.stored_ids("r1").empty());
  EXPECT_GT(bench.dispatch(kW1).fence, d.fence);
}

TEST_F(TrustTest, LoadReport_FromAnotherWorker_IsAnsweredWithUnload) {
  run_one();
  wire::Hello hello = bench.hello("w2");
  hello.models = {ready_model(d.load_id)};
  bench.step(FromWorker{kW2, hello});
  ASSERT_EQ(bench.messages<wire::Unload>(kW2).size(), 1u);
  EXPECT_EQ(bench.messages<wire::Unload>(kW2)[0].load_id, d.load_id);
  wire::StateReport report;
  report.model = ready_model(d.load_id);
  bench.step(FromWorker{kW2, report});
  EXPECT_EQ(bench.messages<wire::Unload>(kW2).size(), 1u) << "it is told once more";
  for (const char* over : {"unloaded", "failed"}) {
    report.model.state = over;
    bench.step(FromWorker{kW2, report});
    EXPECT_TRUE(bench.messages<wire::Unload>().empty()) << "what is over for it is over";
  }
  EXPECT_EQ(bench.machine.loads().all().at(d.load_id).worker, kW1);
  EXPECT_EQ(bench.state("r1"), RequestState::kRunning);
  bench.tokens(kW1, d, 0, {1}, FinishReason::kStop);
  EXPECT_EQ(bench.state("r1"), RequestState::kSucceeded);
}

TEST_F(TrustTest, NewProcess_OnTheSameConnection_IsANewWorker) {
  run_one();
  bench.step(FromWorker{kW1, bench.hello("w1", "i2")});
  EXPECT_EQ(bench.machine.fleet().workers().at(kW1).hello.incarnation, "i2");
  EXPECT_EQ(bench.machine.core().counters.workers_lost, 1u);
  EXPECT_EQ(bench.written<EndAttempt>().at(0).reason, "worker lost: replaced by a new process");
  EXPECT_EQ(bench.state("r1"), RequestState::kQueued);
  bench.make_ready(kW1);
  EXPECT_GT(bench.dispatch(kW1).fence, d.fence);
}

/// The supervisor's word comes when the model that was being loaded is gone.
TEST_F(TrustTest, WorkerDeath_WhileLoadingARemovedModel_CountsForTheWorker) {
  bench.boot();
  bench.add_model();
  bench.step(FromWorker{kW1, bench.hello("w1")});
  ASSERT_EQ(bench.messages<wire::Load>(kW1).size(), 1u);
  bench.step(PeerGone{kW1});
  bench.step(OpModel{Bench::kOperator, 1, "models.remove", "m"});
  ASSERT_TRUE(bench.machine.registry().models().empty());
  bench.step(WorkerExit{bench.hello("w1").pid, 0, 11, false, {}});
  EXPECT_EQ(bench.machine.breakers().of_worker("w1").failures(), 1);
}

}  // namespace
}  // namespace holdfast::core::trust_test
