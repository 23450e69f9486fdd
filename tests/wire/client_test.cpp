// Goal: through the SDK a request is submitted once and each token is delivered exactly once and in
// order, whatever the daemon and the connection do in between.
// Method: a scripted daemon that dies, repeats, leaves out and comes back.

#include <gtest/gtest.h>

#include <future>
#include <limits>
#include <thread>

#include "scripted_daemon.h"
#include "shared/client/client.h"
#include "shared/client/cursor.h"

namespace holdfast::client::client_test {
namespace {

using wire::testing::ScriptedDaemon;

wire::RequestInfo info(std::int64_t tokens, wire::RequestState state) {
  wire::RequestInfo out;
  out.request_id = "r";
  out.state = state;
  out.choices.push_back({0, 0, tokens, wire::FinishReason::kLength, "", ""});
  return out;
}

/// Tokens [start, start + n): token i has id i and as text the letter 'a' + i % 26.
wire::Event event(std::uint64_t tag, std::int64_t start, std::int64_t n) {
  wire::Event e;
  e.tag = tag;
  e.request_id = "r";
  e.start = start;
  for (std::int64_t i = start; i < start + n; ++i) {
    e.ids.push_back(static_cast<wire::TokenId>(i));
    e.bytes.push_back(static_cast<char>('a' + i % 26));
    e.ends.push_back(static_cast<std::uint32_t>(e.bytes.size()));
  }
  return e;
}

std::string letters(std::int64_t from, std::int64_t to) {
  return event(0, from, to - from).bytes;
}

struct Streaming {
  std::unique_ptr<Client> client;
  std::future<Answer<wire::RequestInfo>> end;
  std::string text;
  std::vector<wire::TokenId> ids;

  Streaming(const std::string& endpoint, std::vector<std::int64_t> from) {
    client = Client::connect(endpoint).value();
    end = std::async(std::launch::async, [this, from] {
      return client->stream(client::AllTenants::local(), "r", from, [this](const wire::Event& e) {
        text += e.bytes;
        ids.insert(ids.end(), e.ids.begin(), e.ids.end());
      });
    });
  }
  void expect_end(std::int64_t from, std::int64_t to) {
    const Answer<wire::RequestInfo> answer = end.get();
    ASSERT_TRUE(std::holds_alternative<wire::RequestInfo>(answer))
        << std::get<Failure>(answer).message;
    EXPECT_EQ(text, letters(from, to));
    ASSERT_EQ(ids.size(), static_cast<std::size_t>(to - from));
    for (std::size_t i = 0; i < ids.size(); ++i) {
      ASSERT_EQ(ids[i], from + static_cast<std::int64_t>(i));
    }
  }
};

// A call without a principal does not compile, and a tenant never means all tenants.
template <class T>
concept AsksForNobody = requires(T& client) {
  client.status("r");
}
|| requires(T& client) {
  client.cancel("r");
}
|| requires(T& client) {
  client.models();
}
|| requires(T& client) {
  client.op("status", "{}");
}
|| requires(T& client, wire::Submit submit) {
  client.submit(submit);
}
|| requires(T& client, StreamHandler handler) {
  client.open_stream("r", {}, handler);
}
|| requires(T& client, AllTenants all, wire::Submit submit) {
  client.submit(all, submit);
};
static_assert(!AsksForNobody<Client>);
static_assert(!std::is_convertible_v<Principal, AllTenants>);
static_assert(!std::is_default_constructible_v<Principal>);
static_assert(!std::is_default_constructible_v<AllTenants>);
static_assert(!std::is_constructible_v<AllTenants, Principal>);

TEST(Client, ClientCall_WithAPrincipal_CarriesItsTenant) {
  ScriptedDaemon daemon;
  auto client = Client::connect(daemon.endpoint()).value();
  const Principal ann("ann", "key_1", Role::kClient);
  EXPECT_FALSE(AllTenants::of(ann));
  const Principal boss("ann", "key_2", Role::kOperator);
  ASSERT_TRUE(AllTenants::of(boss));
  wire::Submit submit;
  submit.tenant = "ben";
  submit.api_key = "key_9";
  client->submit_async(ann, submit, [](const auto&) {});
  const auto submitted = daemon.expect<wire::Submit>();
  EXPECT_EQ(submitted.tenant, "ann");
  EXPECT_EQ(submitted.api_key, "key_1");
  client->status_async(ann, "r", [](const auto&) {});
  EXPECT_EQ(daemon.expect<wire::StatusQuery>().tenant, "ann");
  client->cancel_async(ann, "r", [](const auto&) {});
  EXPECT_EQ(daemon.expect<wire::Cancel>().tenant, "ann");
  client->open_stream(ann, "r", {}, {});
  EXPECT_EQ(daemon.expect<wire::Attach>().tenant, "ann");
  client->op_async(ann, "objects.get", "{}", [](const auto&) {});
  EXPECT_EQ(daemon.expect<wire::Op>().tenant, "ann");
  client->status_async(*AllTenants::of(boss), "r", [](const auto&) {});
  EXPECT_EQ(daemon.expect<wire::StatusQuery>().tenant, "");
  client->op_async(*AllTenants::of(boss), "status", "{}", [](const auto&) {});
  EXPECT_TRUE(daemon.expect<wire::Op>().from_network);
  client->op_async(AllTenants::local(), "status", "{}", [](const auto&) {});
  EXPECT_FALSE(daemon.expect<wire::Op>().from_network);
  EXPECT_EQ(Caller(Principal("", "", Role::kClient)).tenant(), "default") << "never all of them";
}

TEST(Cursor, Cursor_WhenEventsRepeatOrSkip_CutsRepeatsAndReportsGaps) {
  Cursor cursor({2});
  wire::Event e = event(1, 0, 5);
  e.extra = {"0", "1", "2", "3", "4"};
  ASSERT_EQ(cursor.take(e), Cursor::Verdict::kDeliver);
  EXPECT_EQ(e.start, 2);
  EXPECT_EQ(e.ids, (std::vector<wire::TokenId>{2, 3, 4}));
  EXPECT_EQ(e.bytes, "cde");
  EXPECT_EQ(e.ends, (std::vector<std::uint32_t>{1, 2, 3}));
  EXPECT_EQ(e.extra, (std::vector<std::string>{"2", "3", "4"}));
  e = event(1, 3, 2);
  EXPECT_EQ(cursor.take(e), Cursor::Verdict::kRepeat);
  e = event(1, 6, 1);
  EXPECT_EQ(cursor.take(e), Cursor::Verdict::kGap);
  e = event(1, 5, 1);
  e.choice = 3;
  EXPECT_EQ(cursor.take(e), Cursor::Verdict::kGap) << "choice 3 begins at 0";
  e = event(1, -1, 1);
  EXPECT_EQ(cursor.take(e), Cursor::Verdict::kBroken);
  e = event(1, 5, 2);
  e.ends = {2, 1};
  EXPECT_EQ(cursor.take(e), Cursor::Verdict::kBroken);
  EXPECT_FALSE(cursor.is_complete(info(6, wire::RequestState::kSucceeded)));
  EXPECT_TRUE(cursor.is_complete(info(5, wire::RequestState::kSucceeded)));
}

TEST(Client, Submit_WhenDaemonRestarts_IsRepeatedWithSameId) {
  ScriptedDaemon daemon;
  auto client = Client::connect(daemon.endpoint()).value();
  auto answer = std::async(std::launch::async, [&] {
    wire::Submit submit;
    submit.model = "m";
    return client->submit(client::Principal::local(), std::move(submit));
  });
  const auto first = daemon.expect<wire::Submit>();
  EXPECT_EQ(first.request_id.size(), 26u);
  daemon.stop();
  daemon.start();
  const auto second = daemon.expect<wire::Submit>();
  EXPECT_EQ(second.request_id, first.request_id);
  wire::Accepted accepted;
  accepted.tag = second.tag;
  accepted.duplicate = true;
  accepted.info.request_id = second.request_id;
  daemon.send(accepted);
  const Answer<wire::Accepted> got = answer.get();
  ASSERT_TRUE(std::holds_alternative<wire::Accepted>(got));
  EXPECT_EQ(std::get<wire::Accepted>(got).info.request_id, first.request_id);
}

TEST(Client, Refusal_WhenReceived_CarriesItsNumbers) {
  ScriptedDaemon daemon;
  auto client = Client::connect(daemon.endpoint()).value();
  auto answer = std::async(std::launch::async,
                           [&] { return client->submit(client::Principal::local(), {}); });
  wire::Refused refused;
  refused.tag = daemon.expect<wire::Submit>().tag;
  refused.refusal.code = Errc::kQueueFull;
  refused.refusal.retry_after_ms = 250;
  daemon.send(refused);
  const Answer<wire::Accepted> got = answer.get();
  ASSERT_TRUE(std::holds_alternative<Failure>(got));
  EXPECT_EQ(std::get<Failure>(got).code, Errc::kQueueFull);
  EXPECT_EQ(std::get<Failure>(got).retry_after_ms, 250);
}

// The frame would end the connection that all calls share, again and again.
TEST(Client, Frame_WhenTooLongForTheDaemon_IsRefusedUnsent) {
  ScriptedDaemon daemon;
  auto client = Client::connect(daemon.endpoint()).value();
  const auto submit = [&](std::size_t bytes) {
    return std::async(std::launch::async, [&client, bytes] {
      wire::Submit message;
      message.model = "m";
      message.meta = std::string(bytes, 'x');
      return client->submit(Principal::local(), std::move(message));
    });
  };
  const auto accept = [&](std::future<Answer<wire::Accepted>> answer) {
    wire::Accepted accepted;
    accepted.tag = daemon.find<wire::Submit>().tag;
    daemon.send(accepted);
    EXPECT_TRUE(std::holds_alternative<wire::Accepted>(answer.get()));
  };
  const auto expect_refused = [](Answer<wire::Accepted> got, std::int64_t needed,
                                 std::int64_t largest) {
    const auto* failure = std::get_if<Failure>(&got);
    ASSERT_NE(failure, nullptr);
    EXPECT_EQ(failure->code, Errc::kInvalidRequest) << failure->message;
    EXPECT_GT(failure->needed, needed);
    EXPECT_LT(failure->needed, needed + 10'000);
    EXPECT_EQ(failure->largest, largest);
  };
  auto large = submit(200'000);
  auto small = submit(1'000);
  accept(std::move(small));  // before the client knows what the daemon takes
  wire::Ping ping = daemon.find<wire::Ping>();
  daemon.send(wire::Pong{ping.tag, 100'000});
  expect_refused(large.get(), 200'000, 100'000);
  accept(submit(90'000));
  expect_refused(submit(100'000).get(), 100'000, 100'000);
  daemon.stop();  // the next daemon has another limit, and does not say so
  daemon.start();
  auto larger = submit(5'000'000);
  ping = daemon.find<wire::Ping>();
  daemon.send(wire::Pong{ping.tag});
  expect_refused(larger.get(), 5'000'000, 4 << 20);
  accept(submit(4'000'000));
}

TEST(Client, Submit_WhenNotEncodable_IsRefusedAtOnce) {
  ScriptedDaemon daemon;
  auto client = Client::connect(daemon.endpoint()).value();
  wire::Submit submit;
  submit.stops = {"\xff"};
  wire::Submit not_a_number;
  not_a_number.sampling.temperature = std::numeric_limits<float>::quiet_NaN();
  wire::Submit too_many;
  too_many.prompts.resize(65'537);
  wire::Submit unknown;
  unknown.priority = static_cast<wire::PriorityClass>(3);
  for (const wire::Submit& bad : {submit, not_a_number, too_many, unknown}) {
    const Answer<wire::Accepted> got = client->submit(client::Principal::local(), bad);
    ASSERT_TRUE(std::holds_alternative<Failure>(got));
    EXPECT_EQ(std::get<Failure>(got).code, Errc::kInvalidRequest);
  }
}

TEST(Client, Query_WhenDaemonIsAbsent_ReturnsUnreachableAfterTimeout) {
  Options options;
  options.timeout = std::chrono::milliseconds(200);
  auto client = Client::connect("ipc:///tmp/holdfast-no-such-socket", options).value();
  const auto got = client->status(client::AllTenants::local(), "r");
  ASSERT_TRUE(std::holds_alternative<Failure>(got));
  EXPECT_EQ(std::get<Failure>(got).code, Errc::kUnreachable);
}

TEST(Client, Query_WhenPatienceWithoutADaemonEnds_ReturnsUnreachable) {
  ScriptedDaemon daemon;
  Options options;
  options.timeout = std::chrono::hours(1);
  options.patience_without_daemon = std::chrono::milliseconds(300);
  auto client = Client::connect(daemon.endpoint(), options).value();
  auto answer = std::async(std::launch::async,
                           [&] { return client->status(client::AllTenants::local(), "r"); });
  daemon.expect<wire::StatusQuery>();
  daemon.stop();
  const auto got = answer.get();  // within the patience, not within the hour
  ASSERT_TRUE(std::holds_alternative<Failure>(got));
  EXPECT_EQ(std::get<Failure>(got).code, Errc::kUnreachable);
}

TEST(Client, ShutdownOp_WhenDaemonRestarts_IsNotRepeated) {
  ScriptedDaemon daemon;
  auto client = Client::connect(daemon.endpoint()).value();
  auto answer = std::async(std::launch::async, [&] {
    return client->op(client::AllTenants::local(), "shutdown", "{}");
  });
  daemon.expect<wire::Op>();
  daemon.stop();
  daemon.start();
  auto other = std::async(std::launch::async,
                          [&] { return client->op(client::AllTenants::local(), "status", "{}"); });
  const auto op = daemon.expect<wire::Op>();
  EXPECT_EQ(op.verb, "status");
  daemon.send(wire::OpResult{op.tag, true, {}, "{\"ok\":1}", {}});
  EXPECT_EQ(std::get<std::string>(other.get()), "{\"ok\":1}");
  const auto got = answer.get();
  ASSERT_TRUE(std::holds_alternative<Failure>(got));
  EXPECT_EQ(std::get<Failure>(got).code, Errc::kUnreachable);
}

TEST(Client, Stream_WhenDaemonRestarts_ContinuesWithoutGaps) {
  ScriptedDaemon daemon;
  Streaming s(daemon.endpoint(), {3});
  const auto attach = daemon.expect<wire::Attach>();
  EXPECT_EQ(attach.from, std::vector<std::int64_t>{3});
  daemon.send(wire::Attached{attach.tag, info(0, wire::RequestState::kRunning)});
  daemon.send(event(attach.tag, 3, 7));
  // A repeat that the client must cut, so that the test knows when it has seen token 10.
  daemon.send(event(attach.tag, 0, 12));
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  daemon.stop();
  daemon.start();
  const auto again = daemon.expect<wire::Attach>();
  ASSERT_EQ(again.from.size(), 1u);
  EXPECT_LE(again.from[0], 12);
  daemon.send(event(again.tag, again.from[0], 20 - again.from[0]));
  daemon.send(wire::Fin{again.tag, info(20, wire::RequestState::kSucceeded)});
  s.expect_end(3, 20);
}

TEST(Client, Stream_WhenTokensAreMissing_ReattachesAndIgnoresLateEvents) {
  ScriptedDaemon daemon;
  Streaming s(daemon.endpoint(), {});
  const auto attach = daemon.expect<wire::Attach>();
  daemon.send(event(attach.tag, 0, 4));
  daemon.send(event(attach.tag, 6, 4));  // 4 and 5 are missing
  daemon.send(event(attach.tag, 10, 4));
  EXPECT_EQ(daemon.expect<wire::Detach>().tag, attach.tag);
  const auto again = daemon.expect<wire::Attach>();
  EXPECT_NE(again.tag, attach.tag);
  EXPECT_EQ(again.from, std::vector<std::int64_t>{4});
  daemon.send(event(attach.tag, 4, 2));  // late, for the old attachment
  daemon.send(wire::Fin{attach.tag, info(6, wire::RequestState::kSucceeded)});
  daemon.send(event(again.tag, 4, 10));
  daemon.send(wire::Fin{again.tag, info(14, wire::RequestState::kSucceeded)});
  s.expect_end(0, 14);
}

TEST(Client, Stream_WhenFinArrivesBeforeTheLastToken_Reattaches) {
  ScriptedDaemon daemon;
  Streaming s(daemon.endpoint(), {});
  const auto attach = daemon.expect<wire::Attach>();
  daemon.send(event(attach.tag, 0, 4));
  daemon.send(wire::Fin{attach.tag, info(6, wire::RequestState::kSucceeded)});
  daemon.expect<wire::Detach>();
  const auto again = daemon.expect<wire::Attach>();
  daemon.send(event(again.tag, 4, 2));
  daemon.send(wire::Fin{again.tag, info(6, wire::RequestState::kSucceeded)});
  s.expect_end(0, 6);
}

TEST(Client, StreamCredit_WhileReaderConsumes_FollowsIt) {
  ScriptedDaemon daemon;
  Streaming s(daemon.endpoint(), {});
  const auto attach = daemon.expect<wire::Attach>();
  std::int64_t sent = 0;
  std::int64_t credit = 0;
  while (credit < 5000) {
    for (; sent < credit + attach.window; sent += 64) daemon.send(event(attach.tag, sent, 64));
    const auto got = daemon.expect<wire::Credit>();
    ASSERT_GT(got.upto, credit);
    ASSERT_LE(got.upto, sent);
    credit = got.upto;
  }
  daemon.send(wire::Fin{attach.tag, info(sent, wire::RequestState::kSucceeded)});
  s.expect_end(0, sent);
}

TEST(Client, Stream_WhileHeld_GivesNoCredit) {
  ScriptedDaemon daemon;
  auto client = Client::connect(daemon.endpoint()).value();
  std::promise<void> taken;
  StreamHandler handler;
  handler.on_event = [&](const wire::Event& e) {
    if (e.start + static_cast<std::int64_t>(e.ids.size()) == 1024) taken.set_value();
  };
  const StreamId id = client->open_stream(client::AllTenants::local(), "r", {}, handler);
  const auto attach = daemon.expect<wire::Attach>();
  client->hold_stream(id, true);
  client->hold_stream(id, true);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  daemon.send(event(attach.tag, 0, 1024));
  taken.get_future().wait();
  EXPECT_FALSE(daemon.next(std::chrono::milliseconds(150)).has_value());
  client->hold_stream(id, false);
  EXPECT_EQ(daemon.expect<wire::Credit>().upto, 1024);
}

TEST(Client, Attach_WhenRefused_EndsTheStream) {
  ScriptedDaemon daemon;
  Streaming s(daemon.endpoint(), {});
  wire::Refused refused;
  refused.tag = daemon.expect<wire::Attach>().tag;
  refused.refusal.code = Errc::kNotFound;
  daemon.send(refused);
  const auto end = s.end.get();
  ASSERT_TRUE(std::holds_alternative<Failure>(end));
  EXPECT_EQ(std::get<Failure>(end).code, Errc::kNotFound);
}

TEST(Client, RequestIds_WhenGenerated_AreOrderedAndUnique) {
  const std::string a = new_request_id();
  std::this_thread::sleep_for(std::chrono::milliseconds(3));
  const std::string b = new_request_id();
  EXPECT_EQ(a.size(), 26u);
  EXPECT_LT(a, b);
}

}  // namespace
}  // namespace holdfast::client::client_test
