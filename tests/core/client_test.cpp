// Goal: clients reach what is theirs and nothing else, by id or key; a stream begins where it was
// asked to and belongs to one tag; only the last client that leaves counts; what could not be
// prepared leaves no trace.
// Method: events by hand.
#include <gtest/gtest.h>

#include "tests/core/bench_machine.h"

namespace holdfast::core::client_test {
namespace {

constexpr PeerId kW1 = 101;
constexpr PeerId kClient = Bench::kClient;
constexpr PeerId kOther = 2;

struct ClientTest : testing::Test {
  Bench bench;
  wire::Dispatch d;

  void run_one(wire::OnDisconnect on = wire::OnDisconnect::kContinue) {
    bench.boot();
    bench.add_model();
    bench.connect_worker(kW1, "w1");
    wire::Submit submit = bench.submission("r1", 100);
    submit.idem_key = "key";
    submit.on_disconnect = on;
    bench.submit(submit);
    d = bench.dispatch(kW1);
  }
  bool attach(std::vector<std::int64_t> from, std::int64_t window = 64, std::uint64_t tag = 5,
              PeerId peer = kClient) {
    wire::Attach m;
    m.tag = tag;
    m.request_id = "r1";
    m.from = std::move(from);
    m.window = window;
    bench.step(FromClient{peer, m});
    const bool attached = !bench.messages<wire::Attached>(peer).empty();
    EXPECT_NE(attached, !bench.messages<wire::Refused>(peer).empty());
    return attached;
  }
  Errc refusal() {
    const auto refused = bench.messages<wire::Refused>();
    return refused.size() == 1 ? refused[0].refusal.code : Errc::kInternal;
  }
  std::vector<TokenId> got(PeerId peer = kClient) {
    std::vector<TokenId> ids;
    for (const SendEvent& event : bench.events(peer)) {
      ids.insert(ids.end(), event.ids.begin(), event.ids.end());
    }
    return ids;
  }
};

// A request that is not there and another tenant's have one answer, before acceptance too.
TEST_F(ClientTest, Request_WhenItIsAnotherTenants_IsNotFound) {
  bench.boot();
  bench.add_model();
  bench.step(IngressUp{Bench::kHelper});
  wire::Submit submit = bench.text_submission("t1");
  submit.tenant = "ben";
  bench.submit(submit);
  const auto prepares = bench.messages<wire::Prepare>();
  ASSERT_EQ(prepares.size(), 1u);
  const std::uint64_t job = prepares[0].job;
  const auto said = [&](const auto& question) {
    bench.step(FromClient{kOther, question});
    const auto refused = bench.messages<wire::Refused>(kOther);
    EXPECT_EQ(refused.size(), 1u);
    EXPECT_TRUE(bench.messages<wire::Refused>(kClient).empty()) << "ben hears nothing";
    return refused.empty() ? std::string() : refused[0].refusal.message;
  };
  const auto ask_all = [&](const std::string& id, const std::string& tenant) {
    return said(wire::StatusQuery{7, id, tenant, {}}) + said(wire::Cancel{7, id, tenant}) +
           said(wire::Attach{7, id, tenant, {}, {}, 64});
  };
  std::string none = ask_all("t2", "ann");
  for (std::size_t at; (at = none.find("t2")) != std::string::npos;) none[at + 1] = '1';
  EXPECT_EQ(ask_all("t1", "ann"), none) << "while it is prepared";
  wire::Prepared prepared;
  prepared.job = job;
  prepared.ok = true;
  prepared.ids = {{1, 2}};
  bench.step(PreparedEvent{Bench::kHelper, prepared});
  ASSERT_NE(bench.machine.request("t1"), nullptr);
  EXPECT_EQ(ask_all("t1", "ann"), none) << "and after";
  bench.step(FromClient{kOther, wire::StatusQuery{7, "t1", "ben", {}}});
  EXPECT_EQ(bench.messages<wire::StatusReply>(kOther).size(), 1u);
}

TEST_F(ClientTest, Attach_WithAStartIndex_StreamsFromThere) {
  run_one();
  bench.tokens(kW1, d, 0, {10, 11, 12});
  EXPECT_TRUE(attach({}, 64, 1));
  EXPECT_EQ(got(), (std::vector<TokenId>{10, 11, 12}));
  EXPECT_TRUE(attach({2}, 64, 2));
  EXPECT_EQ(got(), std::vector<TokenId>{12});
  EXPECT_TRUE(attach({3}, 1, 3));
  EXPECT_TRUE(got().empty());
  EXPECT_FALSE(attach({-1}));
  EXPECT_EQ(refusal(), Errc::kInvalidRequest);
  EXPECT_FALSE(attach({0, 0}));
  EXPECT_FALSE(attach({0}, 0));
  EXPECT_FALSE(attach({0}, -5));
  EXPECT_EQ(bench.machine.streams().size(), 3);
  EXPECT_EQ(bench.machine.request("r1")->subscribers, 3);
}

TEST_F(ClientTest, Attach_WhenTheTagIsRepeated_OpensOneStream) {
  run_one();
  EXPECT_TRUE(attach({}));
  EXPECT_TRUE(attach({}));
  EXPECT_EQ(bench.machine.streams().size(), 1);
  EXPECT_EQ(bench.machine.request("r1")->subscribers, 1);
  EXPECT_TRUE(attach({}, 64, 5, kOther));
  EXPECT_EQ(bench.machine.streams().size(), 2);
  bench.tokens(kW1, d, 0, {10});
  EXPECT_EQ(got(kClient), std::vector<TokenId>{10});
  EXPECT_EQ(got(kOther), std::vector<TokenId>{10});
  bench.step(FromClient{kClient, wire::Detach{5, "r1"}});
  bench.step(FromClient{kClient, wire::Detach{5, "r1"}});
  EXPECT_EQ(bench.machine.request("r1")->subscribers, 1);
  bench.tokens(kW1, d, 1, {11});
  EXPECT_TRUE(got(kClient).empty());
  EXPECT_EQ(got(kOther), std::vector<TokenId>{11});
}

TEST_F(ClientTest, Credit_WhenForAnUnknownChoice_IsIgnored) {
  run_one();
  EXPECT_TRUE(attach({}, 2));
  bench.tokens(kW1, d, 0, {10, 11, 12, 13, 14});
  EXPECT_EQ(got(), (std::vector<TokenId>{10, 11}));
  for (const std::int32_t choice : {-1, 1, 7}) {
    bench.step(FromClient{kClient, wire::Credit{5, "r1", choice, 2}});
    EXPECT_TRUE(got().empty()) << choice;
  }
  bench.step(FromClient{kClient, wire::Credit{6, "r1", 0, 2}});
  EXPECT_TRUE(got().empty()) << "of another stream";
  bench.step(FromClient{kClient, wire::Credit{5, "r1", 0, 1}});
  EXPECT_EQ(got(), std::vector<TokenId>{12});
  bench.step(FromClient{kClient, wire::Credit{5, "r1", 0, 0}});  // what was given stays given
  EXPECT_TRUE(got().empty());
  bench.step(FromClient{kClient, wire::Credit{5, "r1", 0, 3}});
  EXPECT_EQ(got(), (std::vector<TokenId>{13, 14}));
}

TEST_F(ClientTest, FailedSend_AfterTheRetryTime_IsResentFromItsIndex) {
  run_one();
  EXPECT_TRUE(attach({}));
  bench.tokens(kW1, d, 0, {10, 11, 12});
  bench.step(SendFailed{kClient, 5, "r1", 0, 1});
  bench.step(SendFailed{kClient, 5, "r1", 0, 2});  // the next one came back as well
  bench.step(SendFailed{kClient, 5, "r1", 9, 0});  // there is no such choice
  bench.step(SendFailed{kOther, 5, "r1", 0, 0});   // nor such a reader
  bench.advance_ms(bench.machine.config().streams_retry_ms - 1);
  EXPECT_TRUE(got().empty());
  bench.advance_ms(1);
  EXPECT_EQ(got(), (std::vector<TokenId>{11, 12}));
}

TEST_F(ClientTest, CancelOnDisconnect_WhenTheLastReaderLeaves_EndsAfterTheGraceTime) {
  run_one(wire::OnDisconnect::kCancel);
  EXPECT_TRUE(attach({}));
  EXPECT_TRUE(attach({}, 64, 6, kOther));
  bench.step(PeerGone{kClient});
  bench.advance_ms(bench.machine.config().requests_disconnect_grace_ms);
  EXPECT_EQ(bench.state("r1"), RequestState::kRunning);
  bench.step(FromClient{kOther, wire::Detach{6, "r1"}});
  bench.advance_ms(bench.machine.config().requests_disconnect_grace_ms - 1);
  EXPECT_EQ(bench.state("r1"), RequestState::kRunning);
  EXPECT_TRUE(attach({}));  // somebody comes back in time
  bench.advance_ms(1'000);
  EXPECT_EQ(bench.state("r1"), RequestState::kRunning);
  bench.step(PeerGone{kClient});
  bench.advance_ms(bench.machine.config().requests_disconnect_grace_ms);
  EXPECT_EQ(bench.state("r1"), RequestState::kCancelled);
}

TEST_F(ClientTest, CancelOnDisconnect_WhenTheLastReaderLeavesForGood_EndsAtOnce) {
  run_one(wire::OnDisconnect::kCancel);
  EXPECT_TRUE(attach({}));
  EXPECT_TRUE(attach({}, 64, 6, kOther));
  bench.step(FromClient{kOther, wire::Detach{6, "r1", true}});
  bench.advance_ms(1);
  EXPECT_EQ(bench.state("r1"), RequestState::kRunning) << "somebody else watches";
  bench.step(FromClient{kClient, wire::Detach{5, "r1", true}});
  bench.advance_ms(1);
  EXPECT_EQ(bench.state("r1"), RequestState::kCancelled);
}

TEST_F(ClientTest, ContinueOnDisconnect_WhenTheClientLeaves_GoesOn) {
  run_one(wire::OnDisconnect::kContinue);
  EXPECT_TRUE(attach({}));
  bench.step(FromClient{kClient, wire::Detach{5, "r1", true}});
  bench.advance_ms(bench.machine.config().requests_disconnect_grace_ms);
  EXPECT_EQ(bench.state("r1"), RequestState::kRunning);
}

TEST_F(ClientTest, StatusQuery_ByIdOrKeyAndTenant_FindsOnlyThatRequest) {
  run_one();
  const auto ask = [&](const char* id, const char* tenant, const char* key) {
    bench.step(FromClient{kClient, wire::StatusQuery{7, id, tenant, key}});
    const auto replies = bench.messages<wire::StatusReply>();
    EXPECT_EQ(replies.size() + bench.messages<wire::Refused>().size(), 1u);
    return replies.empty() ? std::string() : replies[0].info.request_id;
  };
  EXPECT_EQ(ask("r1", "", ""), "r1");
  EXPECT_EQ(ask("r1", "default", ""), "r1");
  EXPECT_EQ(ask("", "default", "key"), "r1");
  EXPECT_EQ(ask("", "", "key"), "r1");
  EXPECT_EQ(ask("r1", "other", ""), "");
  EXPECT_EQ(ask("", "other", "key"), "");
  EXPECT_EQ(ask("", "", ""), "");
  EXPECT_EQ(ask("r2", "", "key"), "") << "the id goes before the key";
}

TEST_F(ClientTest, TextPrompt_WithoutAHelper_IsRefusedAfterTheTimeout) {
  bench.boot();
  bench.add_model();
  bench.step(PeerGone{Bench::kHelper});
  bench.submit(bench.text_submission("t1"));
  EXPECT_EQ(bench.machine.jobs().size(), 1);
  bench.advance_ms(bench.machine.config().ingress_timeout_ms - 1);
  EXPECT_EQ(bench.machine.jobs().size(), 1);
  bench.advance_ms(1);
  const auto refused = bench.messages<wire::Refused>();
  ASSERT_EQ(refused.size(), 1u);
  EXPECT_EQ(refused[0].refusal.code, Errc::kTimeout);
  EXPECT_EQ(refused[0].refusal.message, "no ingress helper is connected");
  EXPECT_EQ(refused[0].refusal.retry_after_ms, 1000);
  EXPECT_EQ(bench.machine.jobs().size(), 0);
}

TEST_F(ClientTest, IdempotencyKey_WhenPreparationIsCancelled_IsFreeAgain) {
  bench.boot();
  bench.add_model();
  wire::Submit submit = bench.text_submission("t1");
  submit.idem_key = "key";
  bench.submit(submit);
  EXPECT_TRUE(bench.machine.knows_id("t1"));
  EXPECT_TRUE(bench.machine.knows_key("default", "key"));
  bench.submit(submit, kOther);
  wire::Submit another = submit;
  another.request_id = "t2";
  another.body_hash = "another";
  bench.submit(another);
  EXPECT_EQ(refusal(), Errc::kIdempotencyMismatch) << "while the first is prepared";
  wire::Cancel cancel;
  cancel.request_id = "t1";
  bench.step(FromClient{3, cancel});
  EXPECT_EQ(bench.messages<wire::Refused>(kClient).at(0).refusal.code, Errc::kCancelled);
  EXPECT_EQ(bench.messages<wire::Refused>(kOther).at(0).refusal.code, Errc::kCancelled);
  EXPECT_EQ(bench.messages<wire::Refused>(3).at(0).refusal.code, Errc::kNotFound);
  EXPECT_FALSE(bench.machine.knows_id("t1"));
  EXPECT_FALSE(bench.machine.knows_key("default", "key"));
  EXPECT_EQ(bench.machine.jobs().size(), 0);
  bench.submit(another);
  EXPECT_EQ(bench.messages<wire::Prepare>(Bench::kHelper).size(), 1u) << "the key is free";
  EXPECT_TRUE(bench.written<InsertRequest>().empty());
}

TEST_F(ClientTest, Accepted_WhenItsClientIsGone_IsNotSentToIt) {
  bench.boot();
  bench.add_model();
  wire::Submit submit = bench.text_submission("t1");
  bench.submit(submit);
  const wire::Prepare job = bench.messages<wire::Prepare>(Bench::kHelper).at(0);
  bench.submit(submit, kOther);
  bench.step(PeerGone{kClient});
  wire::Prepared done;
  done.job = job.job;
  done.ok = true;
  done.ids = {{1, 2}};
  bench.step(PreparedEvent{Bench::kHelper, done});
  const auto accepted = bench.messages<wire::Accepted>();
  ASSERT_EQ(accepted.size(), 1u);
  EXPECT_EQ(bench.messages<wire::Accepted>(kOther).size(), 1u);
  EXPECT_FALSE(accepted[0].duplicate);
}

}  // namespace
}  // namespace holdfast::core::client_test
