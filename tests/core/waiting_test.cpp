// Goal: what a request is told and charged while it waits is right to the last one: bounds count
// what is prepared and what is still to be read, places in the queue are those of the choice that
// waits, pages are those of its tokens, and a reason that was given is not replaced by a later one.
// Method: events by hand; a restart is a second machine that is booted from the rows of the first.
#include <gtest/gtest.h>

#include "tests/core/bench_machine.h"

namespace holdfast::core::waiting_test {
namespace {

constexpr PeerId kW1 = 101;

struct WaitingTest : testing::Test {
  Bench bench;

  void ready(std::int32_t slots = 4) {
    bench.boot();
    bench.add_model(1024, slots);
    bench.step(FromWorker{kW1, bench.hello("w1")});
    bench.make_ready(kW1, "class-a", slots);
  }
  std::int64_t position(const std::string& id) {
    return bench.machine.lifecycle().info(*bench.machine.request(id)).queue_position;
  }
  void prepared(std::uint64_t job) {
    wire::Prepared done;
    done.job = job;
    done.ok = true;
    done.ids = {{1, 2, 3}};
    bench.step(PreparedEvent{Bench::kHelper, done});
  }
};

TEST_F(WaitingTest, QueuePosition_WhenSomeChoicesRun_IsThatOfTheWaitingOne) {
  ready(1);
  wire::Submit submit = bench.submission("r1");
  submit.n = 3;
  bench.submit(submit);
  const wire::Dispatch first = bench.dispatch();
  bench.submit(bench.submission("r2"));
  EXPECT_EQ(position("r1"), -1) << "it runs";
  EXPECT_EQ(position("r2"), 2) << "behind both";
  bench.step(OpPause{Bench::kOperator, 1, true});
  bench.advance_ms(40);
  bench.tokens(kW1, first, 0, {}, FinishReason::kStop);
  EXPECT_EQ(bench.state("r1"), RequestState::kQueued);
  EXPECT_EQ(bench.written<UpdateRequest>().back().state, RequestState::kQueued);
  EXPECT_EQ(position("r1"), 0) << "its first choice has ended, the second is next";
  EXPECT_EQ(position("r2"), 2);
  EXPECT_EQ(bench.machine.lifecycle().info(*bench.machine.request("r2")).eta_ms, 3 * 40);
}

TEST_F(WaitingTest, UsedPages_WithAnyPromptLength_CoverTokensAndTheNextOne) {
  for (const std::int64_t prompt : {1, 62, 63, 64, 127, 128}) {
    Bench local_bench;
    local_bench.boot();
    local_bench.add_model();
    local_bench.connect_worker(kW1, "w1");
    const auto used = [&] { return local_bench.machine.loads().all().begin()->second.pages_used; };
    local_bench.submit(local_bench.submission("r1", 100, prompt));
    const wire::Dispatch d = local_bench.dispatch();
    EXPECT_EQ(used(), (prompt + 1 + 63) / 64) << prompt;
    for (std::int64_t i = 0; i < 3; ++i) {
      local_bench.tokens(kW1, d, i, {1});
      EXPECT_EQ(used(), (prompt + i + 2 + 63) / 64) << prompt << " and " << i + 1;
      Bench after;
      after.boot(local_bench.database(), 2);
      wire::Hello hello = after.hello("w1");
      hello.models = {ready_model(d.load_id)};
      hello.active = {{"r1", 0, d.fence, i + 1, i + 1, false}};
      after.step(FromWorker{kW1, hello});
      ASSERT_EQ(after.messages<wire::Adopt>().size(), 1u);
      EXPECT_EQ(after.machine.loads().all().begin()->second.pages_used, used()) << "adopted";
      const Load& load = after.machine.loads().all().begin()->second;
      EXPECT_EQ(load.running, (std::set<ChoiceRef>{{1, 0}}));
    }
    local_bench.step(OpRequeue{Bench::kOperator, 1, "r1"});  // given back, and taken again
    EXPECT_EQ(used(), (prompt + 4 + 63) / 64) << prompt << " again";
  }
}

TEST_F(WaitingTest, ResumedRequest_WhenDispatched_NeedsPagesForItsTokens) {
  bench.boot();
  bench.add_model(1024, 4, 64);
  bench.step(FromWorker{kW1, bench.hello("w1")});
  bench.make_ready(kW1, "class-a", 4, 3);  // three pages
  bench.submit(bench.submission("long", 150));
  const wire::Dispatch d = bench.dispatch();
  bench.tokens(kW1, d, 0, std::vector<TokenId>(120, 7));  // two of them
  bench.step(OpPause{Bench::kOperator, 1, true});
  bench.step(OpRequeue{Bench::kOperator, 2, "long"});
  wire::Submit first = bench.submission("first");
  first.priority = PriorityClass::kInteractive;
  bench.submit(first);
  bench.step(OpPause{Bench::kOperator, 3, false});
  const wire::Dispatch running = bench.dispatch();
  EXPECT_EQ(running.request_id, "first");
  EXPECT_EQ(bench.state("long"), RequestState::kQueued) << "two pages, and one to grow for that";
  bench.tokens(kW1, running, 0, {1}, FinishReason::kStop);
  EXPECT_EQ(bench.dispatch().committed_ids.size(), 120u);
}

TEST_F(WaitingTest, Request_WhileItWaitsForAModelSlot_DoesNotBlockOtherModels) {
  Config config;
  config.queue_max_pages = 8;
  Bench local_bench(config);
  local_bench.boot();
  for (const char* name : {"a", "b"}) {
    local_bench.add_model(1024, 1, 64, true, name);
  }
  local_bench.step(FromWorker{kW1, local_bench.hello("w1")});
  while (!local_bench.messages<wire::Load>().empty()) local_bench.make_ready(kW1, "class-a", 1);
  const auto ask = [&](const char* id, const char* model, std::int64_t tokens) {
    wire::Submit submit = local_bench.submission(id, tokens);
    submit.model = model;
    local_bench.submit(submit);
    return local_bench.dispatches().size();
  };
  EXPECT_EQ(ask("runs", "a", 8), 1u);
  EXPECT_EQ(ask("large", "a", 500), 0u) << "all eight pages, and the slot is taken";
  EXPECT_EQ(ask("small", "b", 8), 1u);
}

TEST_F(WaitingTest, QueueLimit_WhileRequestsArePrepared_CountsThem) {
  Config config;
  config.queue_max_requests = 2;
  bench = Bench(config);
  bench.boot();
  bench.add_model();
  std::vector<std::uint64_t> jobs;
  for (const char* id : {"t1", "t2"}) {
    bench.submit(bench.text_submission(id));
    ASSERT_EQ(bench.messages<wire::Prepare>().size(), 1u);
    jobs.push_back(bench.messages<wire::Prepare>()[0].job);
  }
  bench.submit(bench.text_submission("t3"));
  ASSERT_EQ(bench.messages<wire::Refused>().size(), 1u);
  EXPECT_EQ(bench.messages<wire::Refused>()[0].refusal.code, Errc::kQueueFull);
  EXPECT_EQ(bench.messages<wire::Refused>()[0].refusal.needed, 3);
  for (const std::uint64_t job : jobs) {
    prepared(job);
    EXPECT_EQ(bench.messages<wire::Accepted>().size(), 1u) << "it does not count against itself";
  }
}

TEST_F(WaitingTest, QuarantinedRequest_WhenItExpiresOrIsCancelled_RetainsItsReason) {
  for (const bool cancelled : {false, true}) {
    Config config;
    config.blame_alone_after = 100;
    config.blame_quarantine_after = 1;
    Bench local_bench(config);
    local_bench.boot();
    local_bench.add_model();
    local_bench.connect_worker(kW1, "w1");
    wire::Submit submit = local_bench.submission("r1");
    submit.total_timeout_ms = 60'000;
    local_bench.submit(submit);
    local_bench.step(WorkerExit{local_bench.hello("w1").pid, 0, 11, false});
    ASSERT_EQ(local_bench.state("r1"), RequestState::kQuarantined);
    if (cancelled) {
      local_bench.step(FromClient{Bench::kClient, wire::Cancel{9, "r1", ""}});
      EXPECT_EQ(local_bench.state("r1"), RequestState::kCancelled);
    } else {
      local_bench.advance_ms(60'000);
      EXPECT_EQ(local_bench.state("r1"), RequestState::kExpired);
    }
    const UpdateRequest last = local_bench.written<UpdateRequest>().back();
    EXPECT_EQ(last.error_code, "quarantined");
    EXPECT_EQ(last.error, "workers died each time that they ran it");
    EXPECT_EQ(local_bench.machine.lifecycle().quarantined(), 0);
  }
}

TEST_F(WaitingTest, EndedRequest_WhenExpiredOrCancelled_HasReasonAndTime) {
  ready(1);
  wire::Submit late = bench.submission("late");
  late.total_timeout_ms = 50;
  bench.submit(late);
  bench.submit(bench.submission("unwanted"));
  bench.advance_ms(50);
  UpdateRequest last = bench.written<UpdateRequest>().back();
  EXPECT_EQ(bench.state("late"), RequestState::kExpired);
  bench.step(OpCancel{Bench::kOperator, 1, "unwanted"});
  last = bench.written<UpdateRequest>().back();
  EXPECT_EQ(last.state, RequestState::kCancelled);
  EXPECT_EQ(last.error_code, "cancelled");
  EXPECT_EQ(last.finished_ms, bench.now.wall_ms);
  const RequestRow& expired = bench.machine.request("late")->row;
  EXPECT_EQ(expired.error_code, "expired");
  EXPECT_EQ(expired.error, "total time limit reached");
  EXPECT_EQ(bench.machine.request("late")->choices[0].row.error_code, "");
}

TEST_F(WaitingTest, Unread_WhenTheQueueIsReadInBatches_CountsDown) {
  ready();
  bench.step(OpPause{Bench::kOperator, 1, true});
  for (int i = 0; i < 5; ++i) bench.submit(bench.submission("r" + std::to_string(i)));
  Boot database = bench.database();
  const std::vector<BootRequest> all = database.requests;
  database.requests.clear();
  database.unread = 5;
  Bench after;
  after.boot(std::move(database), 2);
  EXPECT_EQ(after.machine.lifecycle().unread(), 5);
  after.step(Recall{all[3]});
  EXPECT_EQ(after.machine.lifecycle().unread(), 4);
  after.step(BootQueuePage{{all[0], all[1]}, false});
  EXPECT_EQ(after.machine.lifecycle().unread(), 2);
  EXPECT_EQ(after.machine.lifecycle().queued_choices(), 5);
  after.step(BootQueuePage{{all[2], all[3]}, false});
  EXPECT_EQ(after.machine.lifecycle().unread(), 1) << "one of them was here already";
  EXPECT_EQ(after.machine.core().counters.recovered, 4u);
  after.step(BootQueuePage{{all[4]}, true});
  EXPECT_EQ(after.machine.lifecycle().unread(), 0);
  EXPECT_EQ(after.machine.lifecycle().queued_choices(), 5);
}

}  // namespace
}  // namespace holdfast::core::waiting_test
