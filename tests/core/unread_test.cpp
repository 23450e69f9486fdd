// Goal: a daemon that is still reading its queue serves everybody, and nothing of the queue is
// lost, done twice or forgotten by the bounds meanwhile.
// Method: the rows of one machine are turned into what a database would hold; a second machine
// starts from a part of them and gets the rest as BootQueuePage, with clients and workers in
// between.
#include <gtest/gtest.h>

#include "tests/core/bench_machine.h"

namespace holdfast::core::unread_test {
namespace {

constexpr PeerId kW1 = 101;

struct UnreadTest : testing::Test {
  Bench before;
  Bench after;
  std::vector<BootRequest> rest;

  /// Queues `n` requests, of which the new machine knows the first `loaded`.
  void restart(int n, std::size_t loaded, Config config = {}) {
    before.boot();
    before.add_model();
    for (int i = 1; i <= n; ++i) before.submit(before.submission("r" + std::to_string(i)));
    Boot boot = before.database();
    ASSERT_EQ(boot.requests.size(), static_cast<std::size_t>(n));
    rest.assign(boot.requests.begin() + static_cast<std::ptrdiff_t>(loaded), boot.requests.end());
    boot.requests.resize(loaded);
    boot.unread = static_cast<std::int64_t>(rest.size());
    after.machine = Machine(config);
    after.boot(std::move(boot), 2);
  }
  void read_rest() { after.step(BootQueuePage{rest, true}); }
  std::vector<std::string> dispatched() const {
    std::vector<std::string> ids;
    for (const wire::Dispatch& d : after.dispatches()) ids.push_back(d.request_id);
    return ids;
  }
};

TEST_F(UnreadTest, UnreadRequests_WhenRead_AreServedInOrder) {
  restart(4, 1);
  EXPECT_EQ(after.machine.lifecycle().queued_choices(), 4);
  EXPECT_EQ(after.machine.lifecycle().unread(), 3);
  read_rest();
  EXPECT_EQ(after.machine.lifecycle().unread(), 0);
  EXPECT_EQ(after.machine.lifecycle().queued_choices(), 4);
  after.connect_worker(kW1, "w1");
  EXPECT_EQ(dispatched(), (std::vector<std::string>{"r1", "r2", "r3", "r4"}));
}

TEST_F(UnreadTest, UnreadRequest_WhenAClientNamesIt_IsRecalled) {
  restart(3, 0);
  after.step(Recall{rest[1]});  // the shell read it because r2 was named
  EXPECT_EQ(after.machine.lifecycle().unread(), 2);
  after.step(FromClient{Bench::kClient, wire::StatusQuery{7, "r2", "", ""}});
  ASSERT_EQ(after.messages<wire::StatusReply>().size(), 1u);
  EXPECT_EQ(after.messages<wire::StatusReply>()[0].info.state, RequestState::kQueued);
  // The same submission again is the same request.
  after.submit(after.submission("r2"));
  ASSERT_EQ(after.messages<wire::Accepted>().size(), 1u);
  EXPECT_TRUE(after.messages<wire::Accepted>()[0].duplicate);
  read_rest();
  EXPECT_EQ(after.machine.lifecycle().unread(), 0);
  EXPECT_EQ(after.machine.lifecycle().queued_choices(), 3);
  EXPECT_TRUE(after.written<InsertRequest>().empty());
}

TEST_F(UnreadTest, LoadedRequest_WhenRecalledAgain_IsNotDuplicated) {
  restart(2, 1);
  after.step(Recall{rest[0]});
  after.step(FromClient{Bench::kClient, wire::Cancel{7, "r2", ""}});
  ASSERT_EQ(after.state("r2"), RequestState::kCancelled);
  after.step(Recall{rest[0]});  // read before its end was written
  EXPECT_EQ(after.state("r2"), RequestState::kCancelled);
  EXPECT_EQ(after.machine.lifecycle().unread(), 0);
  EXPECT_EQ(after.machine.lifecycle().queued_choices(), 1);
}

TEST_F(UnreadTest, DamagedRows_OfAnUnknownRequest_ChangeNothing) {
  restart(1, 1);
  const std::size_t rows = after.rows.size();
  after.step(RowsDamaged{99, "its checksum is wrong"});
  EXPECT_EQ(after.rows.size(), rows);
  EXPECT_TRUE(after.notes.empty());
  EXPECT_EQ(after.state("r1"), RequestState::kQueued);
}

TEST_F(UnreadTest, CancelledRequest_WhenReadLater_StaysEnded) {
  restart(2, 0);
  after.step(Recall{rest[0]});
  after.step(FromClient{Bench::kClient, wire::Cancel{7, "r1", ""}});
  EXPECT_EQ(after.state("r1"), RequestState::kCancelled);
  read_rest();  // read in the same group as the cancel: the row still says queued
  EXPECT_EQ(after.state("r1"), RequestState::kCancelled);
  EXPECT_EQ(after.machine.lifecycle().queued_choices(), 1);
  after.connect_worker(kW1, "w1");
  EXPECT_EQ(dispatched(), std::vector<std::string>{"r2"});
}

TEST_F(UnreadTest, QueueLimit_WhileRequestsAreUnread_CountsThem) {
  Config config;
  config.queue_max_requests = 4;
  restart(3, 1, config);
  after.submit(after.submission("new1"));
  EXPECT_EQ(after.messages<wire::Accepted>().size(), 1u);
  after.submit(after.submission("new2"));
  ASSERT_EQ(after.messages<wire::Refused>().size(), 1u);
  EXPECT_EQ(after.messages<wire::Refused>()[0].refusal.code, Errc::kQueueFull);
}

TEST_F(UnreadTest, RemoveModel_WhileRequestsAreUnread_IsRefused) {
  restart(2, 0);
  after.step(OpModel{Bench::kOperator, 5, "models.remove", "m"});
  bool refused = false;
  for (const Outgoing& out : after.sent) {
    const auto* result = std::get_if<SendOpResult>(&out);
    refused = refused || (result != nullptr && !result->ok);
  }
  EXPECT_TRUE(refused);
  read_rest();
  after.connect_worker(kW1, "w1");
  EXPECT_EQ(dispatched().size(), 2u);
}

TEST_F(UnreadTest, UnreadRequest_WithoutReadableChoices_Fails) {
  restart(1, 0);
  rest[0].damaged = "read choices";
  rest[0].choices.clear();
  read_rest();
  EXPECT_EQ(after.state("r1"), RequestState::kFailed);
  EXPECT_EQ(after.machine.request("r1")->row.error, "read choices");
  EXPECT_EQ(after.durability, Durability::kFull);
}

TEST_F(UnreadTest, UnreadRequest_WithAnOpenAttempt_IsRunAgain) {
  restart(1, 0);
  rest[0].row.started_ms = 1;
  rest[0].choices[0].has_attempt = true;
  rest[0].choices[0].fence = {1, 9};
  rest[0].choices[0].worker_key = "w9";
  after.advance_ms(10'000);  // the time for adoptions is over
  read_rest();
  EXPECT_EQ(after.machine.lifecycle().queued_choices(), 1);
  EXPECT_EQ(after.machine.lifecycle().running_choices(), 0);
  after.connect_worker(kW1, "w1");
  EXPECT_EQ(dispatched(), std::vector<std::string>{"r1"});
  EXPECT_GT(after.dispatch().fence, (Fence{1, 9}));
}

}  // namespace
}  // namespace holdfast::core::unread_test
