// Goal: a restart of the daemon loses nothing, computes nothing twice when the worker is still
// there, and gives up on it in time when it is not.
// Method: the rows of one machine are turned into what a database would hold, and a second machine
// starts from them.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "tests/core/bench_machine.h"

namespace holdfast::core::restart_test {
namespace {

constexpr PeerId kW1 = 101;

struct RestartTest : testing::Test {
  Bench before;
  wire::Dispatch dispatched;

  /// One request runs with two committed tokens.
  void run_one() {
    before.boot();
    before.add_model();
    before.connect_worker(kW1, "w1");
    before.submit(before.submission("r1"));
    dispatched = before.dispatch();
    before.tokens(kW1, dispatched, 0, {1, 2});
  }
  wire::Hello hello_with(std::int64_t first_unacked, std::int64_t next, const Fence& fence,
                         const std::string& incarnation = "i1") {
    wire::Hello hello = before.hello("w1", incarnation);
    hello.models = {ready_model(dispatched.load_id)};
    hello.active = {{"r1", 0, fence, first_unacked, next, false}};
    return hello;
  }
};

TEST_F(RestartTest, Worker_AfterARestart_IsAdoptedUnderANewFence) {
  run_one();
  Bench after;
  after.boot(before.database(), 2);
  EXPECT_EQ(after.state("r1"), RequestState::kRunning);
  after.step(FromWorker{kW1, hello_with(2, 5, dispatched.fence)});
  ASSERT_EQ(after.messages<wire::Adopt>(kW1).size(), 1u);
  const wire::Adopt adopt = after.messages<wire::Adopt>(kW1)[0];
  EXPECT_GT(adopt.fence, dispatched.fence);
  EXPECT_EQ(adopt.fence.epoch, 2u);
  EXPECT_EQ(adopt.ack_upto, 2);
  EXPECT_EQ(after.machine.core().counters.adopted, 1u);
  EXPECT_EQ(after.machine.loads().all().begin()->second.pages_used, 1);
  EXPECT_TRUE(after.messages<wire::Drop>().empty());
  EXPECT_TRUE(after.dispatches().empty());  // nothing is computed twice
  // Tokens on their way under the old fence change nothing and kill nothing.
  after.tokens(kW1, dispatched, 2, {3});
  EXPECT_TRUE(after.messages<wire::Drop>().empty());
  EXPECT_TRUE(after.written<InsertChunk>().empty());
  wire::Dispatch now = dispatched;
  now.fence = adopt.fence;
  after.tokens(kW1, now, 2, {3, 4, 5}, FinishReason::kStop);
  EXPECT_EQ(after.state("r1"), RequestState::kSucceeded);
  ASSERT_EQ(after.written<InsertChunk>().size(), 1u);
  EXPECT_EQ(after.written<InsertChunk>()[0].start, 2);
}

TEST_F(RestartTest, OrphanRequest_AfterARestartWithoutItsClient_IsCancelled) {
  before.boot();
  before.add_model();
  wire::Submit submit = before.submission("r1");
  submit.on_disconnect = wire::OnDisconnect::kCancel;
  before.submit(submit);
  before.submit(before.submission("r2"));
  Bench after;
  after.boot(before.database(), 2);
  after.advance_ms(Config().requests_disconnect_grace_ms - 1);
  EXPECT_EQ(after.state("r1"), RequestState::kQueued);
  after.advance_ms(1);
  EXPECT_EQ(after.state("r1"), RequestState::kCancelled);
  EXPECT_EQ(after.state("r2"), RequestState::kQueued);
}

TEST_F(RestartTest, QueueDeadline_AfterARestart_StillExpiresTheRequest) {
  before.boot();
  before.add_model();
  wire::Submit submit = before.submission("r1");
  submit.queue_timeout_ms = 5000;
  before.submit(submit);
  before.advance_ms(2000);
  Bench after;
  after.now = before.now;
  after.boot(before.database(), 2);
  after.advance_ms(2999);
  EXPECT_EQ(after.state("r1"), RequestState::kQueued);
  after.advance_ms(1);
  EXPECT_EQ(after.state("r1"), RequestState::kExpired);
}

TEST_F(RestartTest, BegunRequest_AfterARestart_GoesBeforeOlderNewOnes) {
  before.boot();
  before.add_model();
  for (const char* id : {"old", "begun"}) before.submit(before.submission(id));
  const Boot database = before.database();
  const auto first_after = [&](const std::function<void(BootRequest&)>& change) {
    Boot boot = database;
    change(boot.requests[1]);
    Bench after;
    after.boot(std::move(boot), 2);
    after.advance_ms(Config().workers_adoption_window_ms);
    after.step(FromWorker{kW1, after.hello("w1")});
    after.make_ready(kW1, "class-a", 1);
    return after.dispatch().request_id;
  };
  EXPECT_EQ(first_after([](BootRequest&) {}), "old");
  EXPECT_EQ(first_after([](BootRequest& r) { r.row.started_ms = 1; }), "begun");
  EXPECT_EQ(first_after([](BootRequest& r) {
              r.choices[0].row.next_index = 2;
              r.choices[0].ids = {1, 2};
            }),
            "begun");
  EXPECT_EQ(first_after([](BootRequest& r) {
              r.row.state = RequestState::kRunning;
              r.choices[0].has_attempt = true;
              r.choices[0].fence = {1, 9};
              r.choices[0].worker_key = "w9";
            }),
            "begun");
}

TEST_F(RestartTest, Restart_WithStoredRequests_RestoresEveryField) {
  run_one();
  Boot boot = before.database();
  BootRequest& stored = boot.requests.at(0);
  stored.sampling.seed = 99;
  stored.sampling.top_k = 7;
  stored.stops = {"x", "y"};
  stored.echo = true;
  stored.meta = "{\"a\":1}";
  stored.prompt_tokens = {4};
  stored.row.alias = "chat";
  Bench after;
  after.now.mono_us = 90'000'000;
  after.now.wall_ms = stored.row.created_ms + 2'500;
  after.boot(boot, 2);
  const Request& in = *after.machine.request("r1");
  EXPECT_EQ(in.accepted_us, after.now.mono_us - 2'500'000) << "it is as old as it was";
  EXPECT_EQ(in.submitted_us, in.accepted_us);
  EXPECT_EQ(in.payload_bytes, 16 + 7 + 2) << "tokens, meta and stops";
  const wire::RequestInfo info = after.machine.lifecycle().info(in);
  EXPECT_EQ(info.request_id, "r1");
  EXPECT_EQ(info.model + info.model_sha + info.tenant + info.alias, "msha-mdefaultchat");
  EXPECT_EQ(info.state, RequestState::kRunning);
  EXPECT_EQ(info.created_ms, stored.row.created_ms);
  EXPECT_EQ(info.max_tokens, stored.row.max_tokens);
  EXPECT_EQ(info.sampling.seed, 99u);
  EXPECT_EQ(info.stops, stored.stops);
  EXPECT_TRUE(info.echo);
  EXPECT_EQ(info.meta, stored.meta);
  EXPECT_EQ(info.prompt_tokens, stored.prompt_tokens);
  EXPECT_EQ(info.choices.at(0).next_index, 2);
  after.advance_ms(Config().workers_adoption_window_ms);
  after.connect_worker(kW1, "w1");
  const wire::Dispatch d = after.dispatch(kW1);
  EXPECT_EQ(d.sampling.top_k, 7);
  EXPECT_EQ(d.stops, stored.stops);
  EXPECT_EQ(d.committed_ids, (std::vector<TokenId>{1, 2}));
  EXPECT_EQ(d.model_sha, "sha-m");
  EXPECT_EQ(d.time_left_ms, -1);
  // A clock that was set back makes no request younger than new.
  Bench early;
  early.now.wall_ms = stored.row.created_ms - 5'000;
  early.boot(boot, 2);
  EXPECT_EQ(early.machine.request("r1")->accepted_us, early.now.mono_us);
}

TEST_F(RestartTest, Load_WhenItsWorkerDoesNotReturn_IsLoadedElsewhere) {
  run_one();
  Config config;
  config.models_replicas = 1;
  Bench after(config);
  after.boot(before.database(), 2);
  after.step(FromWorker{kW1 + 1, after.hello("w2")});
  EXPECT_TRUE(after.messages<wire::Load>().empty()) << "its own worker may come back";
  after.advance_ms(config.workers_adoption_window_ms);
  EXPECT_EQ(after.messages<wire::Load>(kW1 + 1).size(), 1u);
  EXPECT_EQ(after.state("r1"), RequestState::kQueued);
  after.make_ready(kW1 + 1);
  EXPECT_EQ(after.dispatch(kW1 + 1).request_id, "r1");
}

TEST_F(RestartTest, QuarantinedRequests_AfterARestart_AreCounted) {
  run_one();
  Boot database = before.database();
  ASSERT_EQ(database.requests.size(), 1u);
  database.requests[0].row.state = RequestState::kQuarantined;
  Bench after;
  after.boot(std::move(database), 2);
  EXPECT_EQ(after.machine.lifecycle().quarantined(), 1);
}

TEST_F(RestartTest, Adoption_WithAnotherFenceOrIncarnation_IsRefused) {
  run_one();
  Fence forged = dispatched.fence;
  ++forged.counter;
  for (const wire::Hello& hello :
       {hello_with(2, 5, forged), hello_with(2, 5, dispatched.fence, "i2")}) {
    Bench after;
    after.boot(before.database(), 2);
    after.step(FromWorker{kW1, hello});
    EXPECT_TRUE(after.messages<wire::Adopt>().empty());
    EXPECT_EQ(after.messages<wire::Drop>(kW1).size(), 1u);
    // Not adopted: it is dispatched again, with what is committed.
    ASSERT_EQ(after.dispatches().size(), 1u);
    EXPECT_EQ(after.dispatch().committed_ids, (std::vector<TokenId>{1, 2}));
  }
}

TEST_F(RestartTest, Adoption_WhenWorkOrProcessDiffers_IsRefused) {
  run_one();
  const auto adopted = [&](const std::function<void(wire::Hello&)>& change) {
    wire::Hello hello = hello_with(2, 5, dispatched.fence);
    change(hello);
    Bench after;
    after.boot(before.database(), 2);
    after.step(FromWorker{kW1, hello});
    EXPECT_EQ(after.messages<wire::Adopt>().size() + after.messages<wire::Drop>().size(), 1u);
    const Request& request = *after.machine.request("r1");
    EXPECT_EQ(request.running, after.machine.lifecycle().requests().usage().all().running);
    return !after.messages<wire::Adopt>().empty();
  };
  EXPECT_TRUE(adopted([](wire::Hello&) {}));
  EXPECT_TRUE(adopted([](wire::Hello& h) { h.active[0].first_unacked = 0; }));
  EXPECT_FALSE(adopted([](wire::Hello& h) { h.active[0].request_id = "r2"; }));
  EXPECT_FALSE(adopted([](wire::Hello& h) { h.active[0].choice = 1; }));
  EXPECT_FALSE(adopted([](wire::Hello& h) { h.active[0].choice = -1; }));
  EXPECT_FALSE(adopted([](wire::Hello& h) { h.worker_key = "w2"; }));
  EXPECT_FALSE(adopted([](wire::Hello& h) { h.models.clear(); })) << "without its model";
  EXPECT_FALSE(adopted([](wire::Hello& h) { h.models[0].model_sha = "sha-other"; }));
  EXPECT_FALSE(adopted([](wire::Hello& h) { h.models[0].load_id = "l9-9"; }));
  EXPECT_FALSE(adopted([](wire::Hello& h) { h.models[0].numerics_class = "class-b"; }));
}

TEST_F(RestartTest, OldConnection_AfterItsProcessReconnected_IsIgnored) {
  run_one();
  constexpr PeerId kAgain = 150;
  before.step(FromWorker{kAgain, hello_with(2, 2, dispatched.fence)});
  wire::Dispatch now = dispatched;
  now.fence = before.messages<wire::Adopt>(kAgain).at(0).fence;
  before.tokens(kW1, now, 2, {3});
  EXPECT_EQ(before.stored_ids("r1"), (std::vector<TokenId>{1, 2}));
  EXPECT_TRUE(before.sent.empty()) << "nobody is there";
  before.tokens(kAgain, now, 2, {3}, FinishReason::kStop);
  EXPECT_EQ(before.state("r1"), RequestState::kSucceeded);
  EXPECT_EQ(before.machine.loads().all().begin()->second.pages_used, 0);
  EXPECT_EQ(before.machine.core().counters.workers_lost, 0u);
}

TEST_F(RestartTest, Adoption_WhenTheTokenRingDoesNotReachBack_IsRefused) {
  run_one();
  Bench after;
  after.boot(before.database(), 2);
  after.step(FromWorker{kW1, hello_with(3, 5, dispatched.fence)});
  EXPECT_TRUE(after.messages<wire::Adopt>().empty());
  EXPECT_EQ(after.dispatches().size(), 1u);
}

TEST_F(RestartTest, Choice_WhenItsWorkerDoesNotListIt_IsRequeuedAtOnce) {
  run_one();
  wire::Hello hello = hello_with(0, 0, {});
  hello.active.clear();
  Bench after;
  after.boot(before.database(), 2);
  after.step(FromWorker{kW1, hello});
  EXPECT_EQ(after.dispatch(kW1).committed_ids, (std::vector<TokenId>{1, 2}));
}

TEST_F(RestartTest, Adoption_AfterItsWindow_IsRefused) {
  run_one();
  Bench after;
  after.boot(before.database(), 2);
  after.advance_ms(1499);
  EXPECT_EQ(after.state("r1"), RequestState::kRunning);
  after.advance_ms(1);
  EXPECT_EQ(after.state("r1"), RequestState::kQueued);
  after.step(
      FromWorker{kW1, hello_with(2, 5, dispatched.fence)});  // too late: nothing is taken back
  EXPECT_TRUE(after.messages<wire::Adopt>().empty());
  EXPECT_EQ(after.messages<wire::Drop>(kW1).size(), 1u);
}

TEST_F(RestartTest, Adoption_AfterTwoRestarts_RequiresTheNewestFence) {
  run_one();
  Bench second;
  second.rows = before.rows;
  second.boot(before.database(), 2);
  second.step(FromWorker{kW1, hello_with(2, 5, dispatched.fence)});
  const Fence adopted = second.messages<wire::Adopt>()[0].fence;
  Bench third;
  third.boot(second.database(), 3);
  third.step(FromWorker{kW1, hello_with(2, 5, adopted)});
  ASSERT_EQ(third.messages<wire::Adopt>().size(), 1u);
  EXPECT_GT(third.messages<wire::Adopt>()[0].fence, adopted);
}

TEST_F(RestartTest, Hello_WhenRepeated_ChangesNothing) {
  run_one();
  before.step(FromWorker{kW1, hello_with(2, 2, dispatched.fence)});
  EXPECT_EQ(before.messages<wire::Welcome>().size(), 1u);
  EXPECT_TRUE(before.dispatches().empty());
  EXPECT_EQ(before.state("r1"), RequestState::kRunning);
}

TEST_F(RestartTest, SameProcess_OnANewConnection_IsAdopted) {
  run_one();
  constexpr PeerId kAgain = 150;
  before.step(FromWorker{kAgain, hello_with(2, 5, dispatched.fence)});
  ASSERT_EQ(before.messages<wire::Adopt>(kAgain).size(), 1u);
  before.step(PeerGone{kW1});  // the old connection is noticed late and means nothing
  EXPECT_EQ(before.state("r1"), RequestState::kRunning);
}

/// After a pause of the daemon the HELLO of a connection that is dead by now may be read after that
/// of the live one: the worker has its welcome there and says nothing more.
TEST_F(RestartTest, DeadConnection_WhenReadLast_DoesNotHideTheLiveOne) {
  run_one();
  const wire::Hello hello = hello_with(2, 3, dispatched.fence);
  constexpr PeerId kAlive = 201;
  constexpr PeerId kDead = 202;
  before.step(FromWorker{kAlive, hello});
  before.step(FromWorker{kDead, hello});
  before.step(PeerGone{kW1});
  before.step(PeerGone{kDead});
  ASSERT_EQ(before.machine.fleet().workers().count(kAlive), 1u);
  EXPECT_EQ(before.machine.loads().all().begin()->second.worker, kAlive);
  before.advance_ms(Config().workers_returned_hold_ms);
  before.submit(before.submission("r2"));
  before.advance_ms(1000);
  EXPECT_EQ(before.state("r1"), RequestState::kRunning);
  EXPECT_EQ(before.state("r2"), RequestState::kRunning);
  before.step(PeerGone{kAlive});
  EXPECT_TRUE(before.machine.fleet().workers().empty());
}

TEST_F(RestartTest, CancelledRequest_AfterARestart_StaysCancelled) {
  run_one();
  before.step(FromClient{1, wire::Cancel{1, "r1", ""}});
  const Boot boot = before.database();
  EXPECT_TRUE(boot.requests.empty());
  Bench after;
  after.boot(boot, 2);
  after.step(FromWorker{kW1, hello_with(2, 5, dispatched.fence)});
  EXPECT_EQ(after.messages<wire::Drop>(kW1).size(), 1u);
}

TEST_F(RestartTest, TotalDeadline_AfterARestart_StillExpiresTheRequest) {
  before.boot();
  before.add_model();
  wire::Submit submit = before.submission("r1");
  submit.total_timeout_ms = 1000;
  before.submit(submit);
  Bench after;
  after.now = {5, before.now.wall_ms + 400};  // another monotonic clock
  after.boot(before.database(), 2);
  after.advance_ms(599);
  EXPECT_EQ(after.state("r1"), RequestState::kQueued);
  after.advance_ms(1);
  EXPECT_EQ(after.state("r1"), RequestState::kExpired);
}

TEST_F(RestartTest, DeadlineClock_ForEachMachineBoot_IsStored) {
  Boot boot;
  boot.boot_id = "one";
  before.boot(boot);
  EXPECT_EQ(before.durability, Durability::kFull);
  ASSERT_EQ(before.written<PutFlag>().size(), 1u);
  EXPECT_EQ(before.written<PutFlag>()[0].name, "clock.offset");
  const std::int64_t offset = before.now.wall_ms - before.now.mono_us / 1000;
  EXPECT_EQ(before.written<PutFlag>()[0].value, "one " + std::to_string(offset));
  boot.clock_boot_id = "one";
  boot.clock_offset_ms = offset - 7;
  Bench same;
  same.boot(boot, 2);
  EXPECT_TRUE(same.written<PutFlag>().empty());
  boot.boot_id = "two";
  Bench other;
  other.boot(boot, 2);
  ASSERT_EQ(other.written<PutFlag>().size(), 1u);
  EXPECT_EQ(other.written<PutFlag>()[0].value, "two " + std::to_string(offset));
}

TEST_F(RestartTest, EndedRequest_WhenRecalled_IsStreamedFromTheStore) {
  run_one();
  before.tokens(kW1, dispatched, 2, {3}, FinishReason::kStop);
  BootRequest ended;
  ended.row = before.machine.request("r1")->row;
  ended.choices.push_back(
      {before.machine.request("r1")->choices[0].row, {}, false, {}, {}, {}, {}});
  ended.prompt_tokens = {4};
  Bench after;
  after.boot({}, 2);
  EXPECT_FALSE(after.machine.knows_id("r1"));
  after.step(Recall{ended});
  after.step(FromClient{1, wire::Attach{4, "r1", "", "", {1}, 64}});
  ASSERT_EQ(after.events(1).size(), 1u);
  EXPECT_EQ(after.events(1)[0].start, 1);
  EXPECT_EQ(after.events(1)[0].until, 3);
  EXPECT_TRUE(after.events(1)[0].ids.empty());  // the shell reads them from the store
  EXPECT_EQ(after.messages<wire::Fin>(1).size(), 1u);
}

TEST_F(RestartTest, Request_WithoutReadableChoices_Fails) {
  run_one();
  Boot boot = before.database();
  boot.requests[0].damaged = "read choices";
  boot.requests[0].choices.clear();
  Bench after;
  after.boot(boot, 2);
  EXPECT_EQ(after.state("r1"), RequestState::kFailed);
}

TEST_F(RestartTest, DamagedRows_AtStart_FailOneRequest) {
  run_one();
  Boot boot = before.database();
  boot.requests[0].damaged = "read tokens: its checksum is wrong";
  boot.requests[0].choices[0].ids.clear();
  Bench after;
  after.boot(boot, 2);
  EXPECT_EQ(after.state("r1"), RequestState::kFailed);
  EXPECT_EQ(after.machine.request("r1")->row.error_code, "corrupt");
  const auto told = [](const Note& note) {
    return note.alarm && note.event.find("damaged") != std::string::npos;
  };
  EXPECT_EQ(std::count_if(after.notes.begin(), after.notes.end(), told), 1);
}

/// A database that lost a model's row: the model's requests go on as far as its load does, and
/// nothing of what its worker does or suffers needs the row.
TEST_F(RestartTest, Request_WhenItsModelIsNotRegistered_GoesOnAtItsLoad) {
  run_one();
  Boot database = before.database();
  database.models.clear();
  Bench after;
  after.boot(std::move(database), 2);
  after.step(FromWorker{kW1, hello_with(2, 2, dispatched.fence)});
  ASSERT_EQ(after.messages<wire::Adopt>(kW1).size(), 1u);
  EXPECT_EQ(after.machine.loads().all().at(dispatched.load_id).row.state, ModelState::kReady);
  wire::Dispatch now = dispatched;
  now.fence = after.messages<wire::Adopt>(kW1)[0].fence;
  after.tokens(kW1, now, 1, {9});  // not what it said before
  EXPECT_TRUE(after.machine.fleet().workers().at(kW1).quarantined);
  EXPECT_EQ(after.state("r1"), RequestState::kQueued);
  after.step(OpWorker{Bench::kOperator, 1, "w1", false});
  now = after.dispatch(kW1);
  EXPECT_EQ(now.committed_ids, (std::vector<TokenId>{1, 2}));
  after.tokens(kW1, now, 2, {3}, FinishReason::kStop);
  EXPECT_EQ(after.state("r1"), RequestState::kSucceeded);
  after.step(PeerGone{kW1});
  EXPECT_EQ(after.machine.loads().all().at(dispatched.load_id).worker, 0u);
  wire::Hello again = before.hello("w1");
  again.models = {ready_model(dispatched.load_id)};
  after.step(FromWorker{kW1, again});
  EXPECT_EQ(after.machine.loads().all().at(dispatched.load_id).worker, kW1);
  wire::StateReport report;
  report.model = ready_model(dispatched.load_id);
  report.model.state = "failed";
  after.step(FromWorker{kW1, report});
  EXPECT_TRUE(after.machine.loads().all().empty());
  EXPECT_TRUE(after.machine.registry().models().empty());
}

}  // namespace
}  // namespace holdfast::core::restart_test
