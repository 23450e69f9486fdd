// Goal: an accepted request is finished exactly once, each index is committed once, under one
// fence, whatever workers, clients and restarts do. Method: events by hand into the machine alone;
// effects and rows are looked at. Tokens are chosen freely: the machine must not care which they
// are, only where they stand and under which fence.
#include <gtest/gtest.h>

#include "tests/core/bench_machine.h"

namespace holdfast::core::machine_test {
namespace {

constexpr PeerId kW1 = 101;
constexpr PeerId kW2 = 102;
constexpr PeerId kClient = Bench::kClient;

struct MachineTest : testing::Test {
  Bench bench;
  void ready(PeerId peer = kW1, const std::string& key = "w1") {
    bench.boot();
    bench.add_model();
    bench.connect_worker(peer, key);
  }
};

TEST_F(MachineTest, Request_OnThePlainPath_IsCommittedBeforeItsAnswer) {
  ready();
  bench.submit(bench.submission("r1"));
  EXPECT_EQ(bench.durability, Durability::kFull);  // the promise is synced
  const auto accepted = bench.messages<wire::Accepted>(kClient);
  ASSERT_EQ(accepted.size(), 1u);
  EXPECT_FALSE(accepted[0].duplicate);
  EXPECT_EQ(accepted[0].info.sampling.seed, 42u);  // drawn and stored
  const wire::Dispatch d = bench.dispatch(kW1);
  EXPECT_EQ(d.max_tokens, 8);
  bench.tokens(kW1, d, 0, {11, 12});
  EXPECT_EQ(bench.durability, Durability::kFull);  // it binds the numerics class
  ASSERT_EQ(bench.messages<wire::Ack>(kW1).size(), 1u);
  EXPECT_EQ(bench.messages<wire::Ack>(kW1)[0].items[0].upto, 2);
  bench.tokens(kW1, d, 2, {13}, FinishReason::kStop);
  EXPECT_EQ(bench.durability, Durability::kFull);
  EXPECT_TRUE(bench.messages<wire::Ack>(kW1)[0].items[0].finished);
  EXPECT_EQ(bench.state("r1"), RequestState::kSucceeded);
  EXPECT_EQ(bench.stored_ids("r1"), (std::vector<TokenId>{11, 12, 13}));
}

TEST_F(MachineTest, Submit_WithTheSameIdOrIdempotencyKey_IsOneRequest) {
  ready();
  wire::Submit submit = bench.submission("r1");
  submit.idem_key = "k";
  bench.submit(submit);
  bench.submit(submit);
  ASSERT_EQ(bench.messages<wire::Accepted>().size(), 1u);
  EXPECT_TRUE(bench.messages<wire::Accepted>()[0].duplicate);
  EXPECT_TRUE(bench.dispatches().empty());
  submit.request_id = "r2";  // another id, the same key and body
  bench.submit(submit);
  ASSERT_EQ(bench.messages<wire::Accepted>().size(), 1u);
  EXPECT_EQ(bench.messages<wire::Accepted>()[0].info.request_id, "r1");
  submit.body_hash = "another body";
  bench.submit(submit);
  ASSERT_EQ(bench.messages<wire::Refused>().size(), 1u);
  EXPECT_EQ(bench.messages<wire::Refused>()[0].refusal.code, Errc::kIdempotencyMismatch);
  EXPECT_EQ(bench.written<InsertRequest>().size(), 1u);
}

TEST_F(MachineTest, Submit_WhenRepeatedWhilePreparing_StartsNothingNew) {
  ready();
  wire::Submit submit = bench.text_submission("r1");
  bench.submit(submit, 1);
  const auto jobs = bench.messages<wire::Prepare>(Bench::kHelper);
  ASSERT_EQ(jobs.size(), 1u);
  bench.submit(submit, 2);
  EXPECT_TRUE(bench.messages<wire::Prepare>().empty());
  wire::Prepared prepared;
  prepared.job = jobs[0].job;
  prepared.ok = true;
  prepared.ids = {{1, 2, 3}};
  bench.step(PreparedEvent{Bench::kHelper, prepared});
  EXPECT_EQ(bench.messages<wire::Accepted>(1).size(), 1u);
  EXPECT_EQ(bench.messages<wire::Accepted>(2).size(), 1u);
  EXPECT_EQ(bench.written<InsertRequest>().size(), 1u);
}

TEST_F(MachineTest, Submit_WithoutAnId_GetsTheDaemonsId) {
  ready();
  bench.submit(bench.submission(""));
  ASSERT_EQ(bench.messages<wire::Accepted>().size(), 1u);
  EXPECT_EQ(bench.messages<wire::Accepted>()[0].info.request_id, "new-id");
  EXPECT_EQ(bench.dispatch().request_id, "new-id");
}

TEST_F(MachineTest, PrepareJob_WithTwoHelpers_GoesToTheLessLoadedOne) {
  ready();
  constexpr PeerId kSecond = Bench::kHelper + 1;
  bench.step(IngressUp{kSecond});
  const auto ask = [&](const std::string& id) {
    bench.submit(bench.text_submission(id));
    const auto first = bench.messages<wire::Prepare>(Bench::kHelper);
    const auto second = bench.messages<wire::Prepare>(kSecond);
    EXPECT_EQ(first.size() + second.size(), 1u);
    return first.empty() ? std::make_pair(kSecond, second[0].job)
                         : std::make_pair(PeerId{Bench::kHelper}, first[0].job);
  };
  const auto done = [&](const std::pair<PeerId, std::uint64_t>& job) {
    wire::Prepared prepared;
    prepared.job = job.second;
    prepared.ok = true;
    prepared.ids = {{5}};
    bench.step(PreparedEvent{job.first, prepared});
    EXPECT_EQ(bench.messages<wire::Accepted>().size(), 1u);
  };
  const auto a = ask("a");
  const auto b = ask("b");
  EXPECT_NE(a.first, b.first);
  done(b);
  const auto c = ask("c");
  EXPECT_EQ(c.first, b.first);  // it has nothing to do, the other one has
  done(a);
  EXPECT_EQ(ask("d").first, a.first);
}

TEST_F(MachineTest, PrepareJob_WhenTheHelperTakesTooLong_IsRetriedThenRefused) {
  ready();
  bench.submit(bench.text_submission("r1"));
  const Config& config = bench.machine.config();
  for (int i = 1; i < config.ingress_tries; ++i) {
    bench.advance_ms(config.ingress_timeout_ms);
    EXPECT_EQ(bench.messages<wire::Prepare>(Bench::kHelper).size(), 1u) << i;
    EXPECT_TRUE(bench.messages<wire::Refused>().empty());
  }
  bench.advance_ms(config.ingress_timeout_ms);
  ASSERT_EQ(bench.messages<wire::Refused>().size(), 1u);
  EXPECT_EQ(bench.messages<wire::Refused>()[0].refusal.code, Errc::kTimeout);
  EXPECT_NE(bench.messages<wire::Refused>()[0].refusal.message.find("too long"), std::string::npos);
  EXPECT_EQ(bench.machine.jobs().size(), 0);
}

TEST_F(MachineTest, Prepare_WhenTheHelperDies_IsRetriedTwice) {
  ready();
  bench.submit(bench.text_submission("r1"));
  for (PeerId helper = Bench::kHelper; helper < Bench::kHelper + 2; ++helper) {
    bench.step(PeerGone{helper});
    EXPECT_TRUE(bench.messages<wire::Refused>().empty());
    bench.step(IngressUp{helper + 1});
    EXPECT_EQ(bench.messages<wire::Prepare>(helper + 1).size(), 1u);
  }
  bench.step(PeerGone{Bench::kHelper + 2});  // the third one
  ASSERT_EQ(bench.messages<wire::Refused>().size(), 1u);
  EXPECT_EQ(bench.messages<wire::Refused>()[0].refusal.code, Errc::kTimeout);
}

TEST_F(MachineTest, Tokens_WithAStaleFence_AreDropped) {
  ready();
  bench.submit(bench.submission("r1"));
  wire::Dispatch d = bench.dispatch();
  bench.step(PeerGone{kW1});  // the worker is suspected: its fence is worth nothing from here on
  bench.step(FromWorker{kW2, bench.hello("w2")});
  bench.make_ready(kW2);
  const wire::Dispatch d2 = bench.dispatch(kW2);
  EXPECT_GT(d2.fence, d.fence);
  // The old worker wakes up on a new connection and sends what it has.
  bench.step(FromWorker{kW1, bench.hello("w1", "i2")});
  bench.tokens(kW1, d, 0, {66});
  EXPECT_EQ(bench.messages<wire::Drop>(kW1).size(), 1u);
  EXPECT_TRUE(bench.stored_ids("r1").empty());
  bench.tokens(kW2, d2, 0, {1});
  EXPECT_EQ(bench.stored_ids("r1"), std::vector<TokenId>{1});
  // A forged current fence from a worker that does not hold the choice is refused as well.
  bench.tokens(kW1, d2, 1, {67});
  EXPECT_EQ(bench.stored_ids("r1"), std::vector<TokenId>{1});
}

TEST_F(MachineTest, StaleFence_FromTheCurrentHolder_DoesNotDropTheNewAttempt) {
  // DROP names no fence: sent to the worker that runs the choice again, it would kill that attempt.
  ready();
  bench.submit(bench.submission("r1"));
  const wire::Dispatch d = bench.dispatch();
  bench.step(FromWorker{kW1, wire::Returned{"r1", 0, d.fence, "no pages"}});
  bench.advance_ms(60);
  const wire::Dispatch d2 = bench.dispatch(kW1);
  bench.tokens(kW1, d, 0, {66});
  EXPECT_TRUE(bench.messages<wire::Drop>().empty());
  EXPECT_EQ(bench.machine.core().counters.stale_events, 1u);
  EXPECT_TRUE(bench.stored_ids("r1").empty());
  bench.tokens(kW1, d2, 0, {1});
  EXPECT_EQ(bench.stored_ids("r1"), std::vector<TokenId>{1});
}

TEST_F(MachineTest, DuplicateTokens_WhenEqual_AreDroppedAndAcknowledged) {
  ready();
  bench.submit(bench.submission("r1"));
  const wire::Dispatch d = bench.dispatch();
  bench.tokens(kW1, d, 0, {1, 2, 3});
  bench.tokens(kW1, d, 1, {2, 3, 4});  // overlaps by two
  EXPECT_EQ(bench.stored_ids("r1"), (std::vector<TokenId>{1, 2, 3, 4}));
  EXPECT_EQ(bench.messages<wire::Ack>()[0].items[0].upto, 4);
  bench.tokens(kW1, d, 0, {1, 2});
  EXPECT_EQ(bench.messages<wire::Ack>()[0].items[0].upto, 4);
  EXPECT_EQ(bench.stored_ids("r1").size(), 4u);
  EXPECT_EQ(bench.machine.core().counters.duplicate_tokens, 4u);
}

TEST_F(MachineTest, DuplicateTokens_WhenDifferent_QuarantineTheWorker) {
  ready();
  bench.connect_worker(kW2, "w2");
  bench.submit(bench.submission("r1"));
  const bool first = !bench.dispatches(kW1).empty();
  const PeerId bad = first ? kW1 : kW2;
  const PeerId good = first ? kW2 : kW1;
  const wire::Dispatch d = bench.dispatch(bad);
  bench.tokens(bad, d, 0, {1, 2});
  bench.tokens(bad, d, 1, {9});
  EXPECT_EQ(bench.machine.core().counters.violations, 1u);
  EXPECT_TRUE(bench.machine.fleet().workers().at(bad).quarantined);
  EXPECT_EQ(bench.messages<wire::Drop>(bad).size(), 1u);
  const wire::Dispatch d2 = bench.dispatch(good);
  EXPECT_EQ(d2.committed_ids, (std::vector<TokenId>{1, 2}));
  bench.submit(bench.submission("r2"));
  EXPECT_TRUE(bench.dispatches(bad).empty());  // it gets no new work
}

TEST_F(MachineTest, Tokens_AfterAGap_EndTheAttempt) {
  ready();
  bench.submit(bench.submission("r1"));
  const wire::Dispatch d = bench.dispatch();
  bench.tokens(kW1, d, 1, {9});
  EXPECT_TRUE(bench.stored_ids("r1").empty());
  EXPECT_GT(bench.dispatch().fence, d.fence);
}

TEST_F(MachineTest, RequestError_WhenSeveralChoicesFail_IsThatOfTheFirst) {
  ready();
  wire::Submit submit = bench.submission("r1");
  submit.n = 3;
  bench.submit(submit);
  const auto d = bench.dispatches();
  ASSERT_EQ(d.size(), 3u);
  bench.fail(kW1, d[2], "internal", "third");
  bench.fail(kW1, d[1], "numerics_nan", "second");
  bench.step(FromClient{kClient, wire::Cancel{9, "r1", ""}});
  const RequestRow& row = bench.machine.request("r1")->row;
  EXPECT_EQ(row.state, RequestState::kFailed);
  EXPECT_EQ(row.error_code, "numerics_nan");
  EXPECT_EQ(row.error, "second");
}

TEST_F(MachineTest, Refusal_WhenTheQueueIsFull_HasRetryAfterAndEta) {
  Config config;
  config.queue_max_requests = 6;
  Bench local_bench(config);
  local_bench.boot();
  local_bench.add_model();
  local_bench.connect_worker(kW1, "w1");  // four slots
  for (int i = 0; i < 7; ++i) local_bench.submit(local_bench.submission("r" + std::to_string(i)));
  const auto refused = local_bench.messages<wire::Refused>();
  ASSERT_EQ(refused.size(), 1u);
  EXPECT_EQ(refused[0].refusal.code, Errc::kQueueFull);
  EXPECT_EQ(refused[0].refusal.queue_position, 2);
  EXPECT_EQ(refused[0].refusal.retry_after_ms, 1000 / 4) << "the next slot";
  EXPECT_EQ(refused[0].refusal.eta_ms, 1000 * 3 / 4) << "behind the two that wait";
}

TEST_F(MachineTest, MaxTokens_WhenTheWorkerSendsMore_IsEnforcedByTheDaemon) {
  ready();
  bench.submit(bench.submission("r1", 2));
  const wire::Dispatch d = bench.dispatch();
  bench.tokens(kW1, d, 0, {1, 2, 3, 4});
  EXPECT_EQ(bench.stored_ids("r1"), (std::vector<TokenId>{1, 2}));
  EXPECT_EQ(bench.state("r1"), RequestState::kSucceeded);
  EXPECT_EQ(bench.machine.request("r1")->choices[0].row.finish, FinishReason::kLength);
}

TEST_F(MachineTest, TokenExtra_WhenTokensAreCut_IsCutWithThem) {
  ready();
  bench.submit(bench.submission("r1", 2));
  const wire::Dispatch d = bench.dispatch();
  wire::TokenEvent event;
  event.request_id = "r1";
  event.fence = d.fence;
  event.ids = {1, 2, 3, 4};
  event.extra = {"a", "b", "c", "d"};
  wire::Tokens tokens;
  tokens.events = {event};
  bench.step(FromWorker{kW1, tokens});
  const auto chunks = bench.written<InsertChunk>();
  ASSERT_EQ(chunks.size(), 1u);
  EXPECT_EQ(chunks[0].ids, (std::vector<TokenId>{1, 2}));
  EXPECT_EQ(chunks[0].extra, (std::vector<std::string>{"a", "b"}));
}

TEST_F(MachineTest, UsedPages_WhenTokensArrive_Grow) {
  ready();
  bench.submit(bench.submission("r1", 8, 62));
  const wire::Dispatch d = bench.dispatch();
  const auto used = [&] { return bench.machine.loads().all().begin()->second.pages_used; };
  const auto before = used();
  bench.tokens(kW1, d, 0, {1, 2, 3, 4});  // 66 in pages of 64
  EXPECT_EQ(used(), before + 1);
  bench.tokens(kW1, d, 4, {5}, FinishReason::kStop);
  EXPECT_EQ(used(), 0);
}

TEST_F(MachineTest, MaxTokens_WhenReachedExactly_EndsTheRequest) {
  ready();
  bench.submit(bench.submission("r1", 2));
  bench.tokens(kW1, bench.dispatch(), 0, {1, 2});  // the worker does not say that this is all
  EXPECT_EQ(bench.state("r1"), RequestState::kSucceeded);
  EXPECT_EQ(bench.machine.request("r1")->choices[0].row.finish, FinishReason::kLength);
}

TEST_F(MachineTest, MaxTokens_WhenZero_EndsTheRequestAtOnce) {
  ready();
  bench.submit(bench.submission("r1", 0));
  const auto accepted = bench.messages<wire::Accepted>();
  ASSERT_EQ(accepted.size(), 1u);
  EXPECT_EQ(accepted[0].info.state, RequestState::kSucceeded);
  EXPECT_EQ(accepted[0].info.choices[0].finish, FinishReason::kLength);
  EXPECT_TRUE(bench.dispatches().empty());
  EXPECT_EQ(bench.database().requests.size(), 0u);  // terminal in the same transaction
}

TEST_F(MachineTest, Cancel_WhileRunning_FreezesTheIndex) {
  ready();
  bench.submit(bench.submission("r1"));
  const wire::Dispatch d = bench.dispatch();
  bench.tokens(kW1, d, 0, {1});
  bench.step(FromClient{kClient, wire::Cancel{9, "r1", ""}});
  EXPECT_EQ(bench.durability, Durability::kFull);
  EXPECT_EQ(bench.messages<wire::CancelWork>(kW1).size(), 1u);
  ASSERT_EQ(bench.messages<wire::StatusReply>().size(), 1u);
  EXPECT_EQ(bench.messages<wire::StatusReply>()[0].info.choices[0].next_index, 1);
  bench.tokens(kW1, d, 1, {2}, FinishReason::kStop);  // it was on its way
  EXPECT_EQ(bench.stored_ids("r1"), std::vector<TokenId>{1});
  EXPECT_EQ(bench.state("r1"), RequestState::kCancelled);
  EXPECT_TRUE(bench.messages<wire::Ack>()[0].items[0].finished);  // the worker may forget it
  bench.step(FromClient{kClient, wire::Cancel{10, "r1", ""}});
  EXPECT_EQ(bench.messages<wire::StatusReply>().size(), 1u);
  EXPECT_EQ(bench.durability, Durability::kNone);  // twice changes nothing
}

TEST_F(MachineTest, WorkerMessage_AfterACancel_IsAcknowledgedAndNotStored) {
  ready();
  bench.submit(bench.submission("r1"));
  const wire::Dispatch d = bench.dispatch();
  bench.tokens(kW1, d, 0, {1, 2});
  bench.step(FromClient{kClient, wire::Cancel{9, "r1", ""}});
  const std::size_t rows = bench.rows.size();
  const auto expect_acknowledged = [&] {
    const auto acks = bench.messages<wire::Ack>(kW1);
    ASSERT_EQ(acks.size(), 1u);
    EXPECT_EQ(acks[0].items.at(0).upto, 2);
    EXPECT_TRUE(acks[0].items[0].finished);
    EXPECT_EQ(bench.rows.size(), rows);
  };
  bench.tokens(kW1, d, 1, {2, 3});
  expect_acknowledged();
  bench.tokens(kW1, d, 2, {3});
  expect_acknowledged();
  bench.tokens(kW1, d, 2, {}, FinishReason::kStop);
  expect_acknowledged();
  EXPECT_EQ(bench.state("r1"), RequestState::kCancelled);
}

TEST_F(MachineTest, Cancel_AfterTheFinish_ChangesNothing) {
  ready();
  bench.submit(bench.submission("r1"));
  bench.tokens(kW1, bench.dispatch(), 0, {1}, FinishReason::kStop);
  bench.step(FromClient{kClient, wire::Cancel{9, "r1", ""}});
  EXPECT_EQ(bench.messages<wire::StatusReply>()[0].info.state, RequestState::kSucceeded);
}

TEST_F(MachineTest, Deadline_WhenQueueOrTotalTimeIsOver_ExpiresTheRequest) {
  bench.boot();
  bench.add_model();
  wire::Submit waits = bench.submission("r1");
  waits.queue_timeout_ms = 100;
  bench.submit(waits);
  bench.advance_ms(99);
  EXPECT_EQ(bench.state("r1"), RequestState::kQueued);
  bench.advance_ms(1);
  EXPECT_EQ(bench.state("r1"), RequestState::kExpired);
  bench.connect_worker(kW1, "w1");
  wire::Submit runs = bench.submission("r2");
  runs.queue_timeout_ms = 100;
  runs.total_timeout_ms = 500;
  bench.submit(runs);
  const wire::Dispatch d = bench.dispatch();
  EXPECT_EQ(d.time_left_ms, 500);
  bench.advance_ms(499);
  EXPECT_EQ(bench.state("r2"), RequestState::kRunning);  // the queue limit is over for it
  bench.advance_ms(1);
  EXPECT_EQ(bench.state("r2"), RequestState::kExpired);
  EXPECT_EQ(bench.messages<wire::CancelWork>(kW1).size(), 1u);
  bench.tokens(kW1, d, 0, {1});
  EXPECT_TRUE(bench.stored_ids("r2").empty());
}

TEST_F(MachineTest, LostWorkersRequest_WhenResumed_HasItsCommittedTokens) {
  ready();
  bench.submit(bench.submission("r1"));
  const wire::Dispatch d = bench.dispatch();
  bench.tokens(kW1, d, 0, {1, 2});
  bench.step(PeerGone{kW1});
  EXPECT_EQ(bench.state("r1"), RequestState::kQueued);
  const auto ended = bench.written<EndAttempt>();
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_EQ(ended[0].fence, d.fence);
  bench.submit(bench.submission("r2"));  // new work does not pass resumed work
  bench.step(FromWorker{kW2, bench.hello("w1", "i2")});
  bench.make_ready(kW2);
  const auto again = bench.dispatches(kW2);
  ASSERT_EQ(again.size(), 2u);
  EXPECT_EQ(again[0].request_id, "r1");
  EXPECT_EQ(again[0].committed_ids, (std::vector<TokenId>{1, 2}));
}

/// Log-probabilities are only in the database: the shell reads them with the ids.
TEST_F(MachineTest, StreamEvents_WithLogprobs_AreReadFromTheDatabase) {
  for (const std::int32_t logprobs : {-1, 0, 2}) {
    Bench one;
    one.boot();
    one.add_model();
    one.connect_worker(kW1, "w1");
    wire::Submit submit = one.submission("r1");
    submit.sampling.logprobs = logprobs;
    one.submit(submit);
    const wire::Dispatch d = one.dispatch();
    one.step(FromClient{kClient, wire::Attach{3, "r1", "", "", {}, 16}});
    one.tokens(kW1, d, 0, {7});
    std::vector<SendEvent> events;
    for (const Outgoing& o : one.sent) {
      if (const auto* event = std::get_if<SendEvent>(&o)) events.push_back(*event);
    }
    ASSERT_EQ(events.size(), 1u);
    EXPECT_EQ(events[0].ids.empty(), logprobs >= 0) << logprobs;
    EXPECT_EQ(events[0].until, 1);
  }
}

TEST_F(MachineTest, Tokens_AfterTheChoiceEnded_AreAcknowledgedAndCounted) {
  ready();
  bench.submit(bench.submission("r1"));
  const wire::Dispatch d = bench.dispatch();
  bench.tokens(kW1, d, 0, {1}, FinishReason::kStop);
  EXPECT_EQ(bench.machine.core().counters.duplicate_tokens, 0u);
  bench.tokens(kW1, d, 0, {1}, FinishReason::kStop);
  EXPECT_EQ(bench.machine.core().counters.duplicate_tokens, 1u);
  EXPECT_EQ(bench.messages<wire::Ack>().at(0).items.at(0).upto, 1);
}

TEST_F(MachineTest, Dispatch_WhenSeveralWorkersAreReady_PrefersMostFreeSlots) {
  Bench fleet;
  fleet.boot();
  fleet.add_model(1024, 8, 64);
  const std::pair<PeerId, std::int32_t> workers[] = {{101, 2}, {102, 5}, {103, 3}};
  for (const auto& [peer, slots] : workers) {
    fleet.step(FromWorker{peer, fleet.hello("w" + std::to_string(peer), "i")});
    fleet.make_ready(peer, "class", slots);
  }
  std::vector<PeerId> order;
  for (int i = 0; i < 10; ++i) {
    fleet.submit(fleet.submission("r" + std::to_string(i)));
    for (const auto& [peer, slots] : workers) {
      order.insert(order.end(), fleet.dispatches(peer).size(), peer);
    }
  }
  EXPECT_EQ(order, (std::vector<PeerId>{102, 102, 102, 103, 101, 102, 103, 101, 102, 103}));
}

TEST_F(MachineTest, Request_WithSeveralChoices_EndsAfterTheLastOne) {
  ready();
  wire::Submit submit = bench.submission("r1");
  submit.prompts.push_back(submit.prompts[0]);
  submit.n = 2;
  bench.submit(submit);
  const auto all = bench.dispatches();
  ASSERT_EQ(all.size(), 4u);
  EXPECT_EQ(bench.machine.request("r1")->choices[3].row.prompt, 1);
  for (std::size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(bench.state("r1"), RequestState::kRunning);
    bench.tokens(kW1, all[i], 0, {1}, FinishReason::kStop);
    EXPECT_EQ(bench.durability, Durability::kFull) << "the end of a choice is a promise, too";
  }
  EXPECT_EQ(bench.state("r1"), RequestState::kSucceeded);
}

TEST_F(MachineTest, Request_WhenItsChoiceFails_Fails) {
  ready();
  bench.submit(bench.submission("r1"));
  const wire::Dispatch d = bench.dispatch();
  wire::TokenEvent event;
  event.request_id = "r1";
  event.fence = d.fence;
  event.finish = FinishReason::kError;
  event.error_code = "numerics_nan";
  event.error = "NaN";
  wire::Tokens tokens;
  tokens.events = {event};
  bench.step(FromWorker{kW1, tokens});
  EXPECT_EQ(bench.state("r1"), RequestState::kFailed);
  EXPECT_EQ(bench.machine.request("r1")->row.error_code, "numerics_nan");
}

TEST_F(MachineTest, BoundRequest_WhenOnlyAnotherNumericsClassIsReady_WaitsThenFails) {
  ready();
  bench.submit(bench.submission("r1"));
  bench.tokens(kW1, bench.dispatch(), 0, {1});
  bench.step(PeerGone{kW1});
  bench.step(FromWorker{kW2, bench.hello("w2")});
  bench.make_ready(kW2, "class-b");
  EXPECT_TRUE(bench.dispatches().empty());
  bench.submit(bench.submission("r2"));  // not bound yet: it may run there
  EXPECT_EQ(bench.dispatch(kW2).request_id, "r2");
  bench.advance_ms(3'000);  // the worker may come back with its load till then
  bench.advance_ms(60'000);
  EXPECT_EQ(bench.state("r1"), RequestState::kFailed);
  EXPECT_EQ(bench.machine.request("r1")->row.error_code, "determinism_class_unavailable");
}

TEST_F(MachineTest, Disconnect_AfterTheGraceTime_CancelsRequestsThatOptedIn) {
  ready();
  wire::Submit submit = bench.submission("r1");
  submit.on_disconnect = wire::OnDisconnect::kCancel;
  bench.submit(submit);
  bench.step(FromClient{kClient, wire::Attach{3, "r1", "", "", {}, 16}});
  bench.advance_ms(60'000);
  EXPECT_EQ(bench.state("r1"), RequestState::kRunning);
  bench.step(PeerGone{kClient});
  bench.advance_ms(29'999);
  EXPECT_EQ(bench.state("r1"), RequestState::kRunning);
  bench.advance_ms(1);
  EXPECT_EQ(bench.state("r1"), RequestState::kCancelled);
}

TEST_F(MachineTest, Suspect_AfterRepeatedCrashes_RunsAloneThenIsQuarantined) {
  ready();
  bench.submit(bench.submission("r1"));
  bench.submit(bench.submission("r2"));
  for (int death = 1; death <= 5; ++death) {
    const wire::Hello hello = bench.hello("w1", "i" + std::to_string(death));
    bench.step(WorkerExit{hello.pid, 0, 11, false});
    if (death == 1) {  // r2 makes progress between its deaths, so it is never to blame
      EXPECT_EQ(bench.state("r1"), RequestState::kQueued);
    }
    bench.step(FromWorker{kW1, bench.hello("w1", "i" + std::to_string(death + 1))});
    bench.make_ready(kW1);
    for (const wire::Dispatch& d : bench.dispatches()) {
      if (d.request_id == "r2") {
        bench.tokens(kW1, d, static_cast<std::int64_t>(d.committed_ids.size()), {death});
      }
    }
    if (death == 2) {
      EXPECT_EQ(bench.machine.lifecycle().running_choices(), 1);  // the suspect runs alone
    }
  }
  EXPECT_EQ(bench.state("r1"), RequestState::kQuarantined);
  EXPECT_NE(bench.state("r2"), RequestState::kQuarantined);
}

TEST_F(MachineTest, Quarantine_WhenOneChoiceKillsWorkers_StopsItsSiblings) {
  Config config;
  config.blame_alone_after = 100;  // so that both choices run together
  config.blame_quarantine_after = 1;
  Bench local_bench(config);
  local_bench.boot();
  local_bench.add_model();
  local_bench.connect_worker(kW1, "w1");
  wire::Submit submit = local_bench.submission("r1");
  submit.n = 3;
  local_bench.submit(submit);
  ASSERT_EQ(local_bench.dispatches().size(), 3u);
  local_bench.step(WorkerExit{local_bench.hello("w1").pid, 0, 11, false});
  EXPECT_EQ(local_bench.state("r1"), RequestState::kQuarantined);
  EXPECT_EQ(local_bench.durability, Durability::kFull);
  EXPECT_EQ(local_bench.machine.lifecycle().running_choices(), 0);
  EXPECT_EQ(local_bench.machine.lifecycle().queued_choices(), 0);
  local_bench.step(FromClient{kClient, wire::Cancel{9, "r1", ""}});
  EXPECT_EQ(local_bench.state("r1"), RequestState::kCancelled);
}

TEST_F(MachineTest, WorkerDeath_WhenKilledFromOutside_NeverCounts) {
  ready();
  bench.submit(bench.submission("r1"));
  for (int death = 1; death <= 20; ++death) {
    bench.step(PeerGone{kW1});
    bench.step(WorkerExit{bench.hello("w1").pid, 0, 9, false});
    bench.step(FromWorker{kW1, bench.hello("w1", "i" + std::to_string(death + 1))});
    bench.make_ready(kW1);
    ASSERT_EQ(bench.dispatches().size(), 1u);
  }
  EXPECT_EQ(bench.state("r1"), RequestState::kRunning);
}

TEST_F(MachineTest, Drain_WhileWorkRuns_StopsAdmissionAndLetsItEnd) {
  ready();
  bench.submit(bench.submission("r1"));
  const wire::Dispatch d = bench.dispatch();
  EXPECT_FALSE(bench.machine.core().draining);
  bench.step(Shutdown{10'000});
  EXPECT_TRUE(bench.machine.core().draining);
  EXPECT_FALSE(bench.stop);
  bench.submit(bench.submission("r2"));
  EXPECT_EQ(bench.messages<wire::Refused>()[0].refusal.code, Errc::kDraining);
  bench.tokens(kW1, d, 0, {1}, FinishReason::kStop);
  EXPECT_TRUE(bench.stop);
}

TEST_F(MachineTest, Drain_AtItsTimeLimit_LeavesTheRestForTheNextStart) {
  ready();
  bench.submit(bench.submission("r1"));
  bench.step(Shutdown{1'000});
  ASSERT_TRUE(bench.machine.next_deadline_us().has_value());
  EXPECT_LE(*bench.machine.next_deadline_us(), bench.now.mono_us + 1'000'000)
      << "its owner must wake it";
  bench.advance_ms(1'000);
  EXPECT_TRUE(bench.stop);
  EXPECT_EQ(bench.database().requests.size(), 1u);
}

TEST_F(MachineTest, Drain_WithTwoTimeLimits_ObeysTheShorter) {
  for (const bool shorter_first : {false, true}) {
    Bench local_bench;
    local_bench.boot();
    local_bench.add_model();
    local_bench.connect_worker(kW1, "w1");
    local_bench.submit(local_bench.submission("r1"));
    local_bench.step(Shutdown{shorter_first ? 1'000 : 10'000});
    local_bench.step(Shutdown{shorter_first ? 10'000 : 1'000});
    local_bench.advance_ms(999);
    EXPECT_FALSE(local_bench.stop);
    local_bench.advance_ms(1);
    EXPECT_TRUE(local_bench.stop);
  }
}

TEST_F(MachineTest, FullDisk_WhileWorkRuns_StopsAdmissionOnly) {
  ready();
  bench.submit(bench.submission("r1"));
  const wire::Dispatch d = bench.dispatch();
  bench.step(StorageLevel{false, 0});
  EXPECT_TRUE(bench.notes.empty()) << "as before";
  bench.step(StorageLevel{true, 0});
  bench.submit(bench.submission("r2"));
  EXPECT_EQ(bench.messages<wire::Refused>()[0].refusal.code, Errc::kStorageFull);
  bench.step(StorageLevel{true, 0});
  EXPECT_TRUE(bench.notes.empty()) << "it is said once";
  bench.tokens(kW1, d, 0, {1}, FinishReason::kStop);
  EXPECT_EQ(bench.state("r1"), RequestState::kSucceeded);
}

TEST_F(MachineTest, MissingStandby_WhileWorkRuns_StopsAdmissionOnly) {
  ready();
  bench.submit(bench.submission("r1"));
  const wire::Dispatch d = bench.dispatch();
  bench.step(StandbyLevel{true});
  bench.submit(bench.submission("r2"));
  EXPECT_EQ(bench.messages<wire::Refused>()[0].refusal.code, Errc::kNoStandby);
  bench.tokens(kW1, d, 0, {1}, FinishReason::kStop);
  EXPECT_EQ(bench.state("r1"), RequestState::kSucceeded);
  bench.step(StandbyLevel{false});
  bench.submit(bench.submission("r3"));
  EXPECT_EQ(bench.messages<wire::Accepted>().size(), 1u);
}

}  // namespace
}  // namespace holdfast::core::machine_test
