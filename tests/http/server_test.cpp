// Goal: the connection's promises: one request after the other, bounds and time limits with a
// visible answer, slow readers held and dead ones cut off, an orderly end. Method: a gateway in
// this process over a fake daemon, raw bytes over loopback.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <deque>
#include <nlohmann/json.hpp>

#include "control/gateway/http/errors.h"
#include "tests/http/http_peer.h"

namespace holdfast::test::server_test {
namespace {

using gateway::ServerLimits;
using nlohmann::json;
using std::chrono::milliseconds;

const std::string kStreamBody = R"({"model":"m","prompt":"a","stream":true})";

TEST(Server, PersistentConnection_WithPipelinedRequests_AnswersInOrder) {
  Gateway gateway;
  Peer peer(gateway.address());
  for (int i = 0; i < 3; ++i) {
    peer.send(get("/health/live"));
    EXPECT_EQ(peer.read_reply().status, 200);
  }
  std::string pipelined;
  for (int i = 0; i < 50; ++i) pipelined += get(i % 2 == 0 ? "/health/live" : "/nowhere");
  peer.send(pipelined);
  for (int i = 0; i < 50; ++i) EXPECT_EQ(peer.read_reply().status, i % 2 == 0 ? 200 : 404) << i;
}

TEST(Server, Generations_WhenPipelined_AnswerInOrder) {
  Gateway gateway;
  gateway.client.script.token_bytes = {{"x"}};
  Peer peer(gateway.address());
  std::string all;
  for (int i = 0; i < 10; ++i) {
    all += post("/v1/completions", R"({"model":"m)" + std::to_string(i) + R"(","prompt":"a"})");
  }
  peer.send(all);
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(json::parse(peer.read_reply().body)["model"], "m" + std::to_string(i));
  }
}

TEST(Server, RequestBody_WithChunkedOrExpectContinue_IsAccepted) {
  Gateway gateway;
  gateway.client.script.token_bytes = {{"x"}};
  const std::string head = "POST /v1/completions HTTP/1.1\r\nHost: h\r\n";
  EXPECT_EQ(gateway
                .ask(head + "Transfer-Encoding: chunked\r\n\r\n" +
                     "a\r\n{\"model\":\"\r\n11\r\nm\",\"prompt\":\"a\"} \r\n0\r\n\r\n")
                .status,
            200);
  const std::string body = R"({"model":"m","prompt":"a"})";
  Peer peer(gateway.address());
  peer.send(head + "Expect: 100-continue\r\nContent-Length: " + std::to_string(body.size()) +
            "\r\n\r\n");
  peer.send(body);  // read_reply skips the 100
  EXPECT_EQ(peer.read_reply().status, 200);
}

TEST(Server, Connection_AfterMalformedRequest_AnswersAndCloses) {
  Gateway gateway;
  for (const char* bad : {"nonsense\r\n\r\n", "GET / HTTP/1.1\r\n\r\n", "GET / HTTP/1.1\n\n",
                          "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 9999999\r\n\r\n"}) {
    Peer peer(gateway.address());
    peer.send(bad);
    const Reply reply = peer.read_reply();
    EXPECT_GE(reply.status, 400) << bad;
    EXPECT_LT(reply.status, 500) << bad;
    EXPECT_EQ(reply.headers.at("connection"), "close");
    EXPECT_TRUE(json::parse(reply.body).contains("error"));
    EXPECT_TRUE(peer.closed());
  }
}

TEST(Server, RequestBody_WhenTooLong_Returns413WithoutReadingIt) {
  Gateway gateway;
  Peer peer(gateway.address());
  peer.send("POST /v1/completions HTTP/1.1\r\nHost: h\r\nContent-Length: 1500000\r\n\r\n");
  peer.send(std::string(1'500'000, 'x'));
  EXPECT_EQ(peer.read_reply().status, 413);
}

TEST(Server, Connection_WithHeadHttp10OrClose_FollowsHttpSemantics) {
  Gateway gateway;
  Peer peer(gateway.address());
  peer.send("HEAD /health/live HTTP/1.1\r\nHost: h\r\n\r\n");
  const Reply head = peer.read_reply(true);
  EXPECT_EQ(head.status, 200);
  EXPECT_EQ(head.headers.at("content-length"), "15");
  peer.send(get("/health/live", "Connection: close\r\n"));
  EXPECT_EQ(peer.read_reply().headers.at("connection"), "close");
  EXPECT_TRUE(peer.closed());
  gateway.client.script.token_bytes = {{"a", "b"}};
  const Reply old = gateway.ask("POST /v1/completions HTTP/1.0\r\nContent-Length: " +
                                std::to_string(kStreamBody.size()) + "\r\n\r\n" + kStreamBody);
  EXPECT_EQ(old.status, 200);
  EXPECT_FALSE(old.headers.contains("transfer-encoding"));
  EXPECT_EQ(text_of(parse_events(old.body), 0), "ab");
}

TEST(Server, Request_WhenHeadOrBodyIsSlow_Returns408) {
  ServerLimits limits;
  limits.header_time = limits.body_time = milliseconds(50);
  Gateway gateway(limits);
  for (const char* part :
       {"GET / HT", "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nab"}) {
    Peer peer(gateway.address());
    peer.send(part);
    EXPECT_EQ(peer.read_reply().status, 408) << part;
    EXPECT_TRUE(peer.closed());
  }
  Peer silent(gateway.address());
  EXPECT_TRUE(silent.closed());  // no byte was sent, so there is no answer
  EXPECT_EQ(silent.read_reply().status, 0);
}

TEST(Server, Connection_WhenIdle_IsClosed) {
  ServerLimits limits;
  limits.idle_time = milliseconds(50);
  Gateway gateway(limits);
  Peer peer(gateway.address());
  peer.send(get("/health/live"));
  EXPECT_EQ(peer.read_reply().status, 200);
  EXPECT_TRUE(peer.closed());
}

TEST(Server, Connection_WhenAddressExceedsItsLimit_Returns429) {
  ServerLimits limits;
  limits.connections_per_address = 3;
  Gateway gateway(limits);
  std::vector<std::unique_ptr<Peer>> peers;
  for (int i = 0; i < 3; ++i) {
    peers.push_back(std::make_unique<Peer>(gateway.address()));
    peers.back()->send(get("/health/live"));
    EXPECT_EQ(peers.back()->read_reply().status, 200);
  }
  Peer extra(gateway.address());
  const Reply refused = extra.read_reply();
  EXPECT_EQ(refused.status, 429);
  EXPECT_EQ(refused.headers.at("retry-after"), "1");
  EXPECT_TRUE(extra.closed());
  peers.pop_back();
  gateway.client.wait_for([&] { return gateway.server().connections() < 3; });
  EXPECT_EQ(gateway.ask(get("/health/live")).status, 200);
}

TEST(Server, Stream_WhenSilent_WritesHeartbeatComments) {
  ServerLimits limits;
  limits.keep_alive_time = milliseconds(20);
  Gateway gateway(limits);
  gateway.client.script.token_bytes = {{"a", "b"}};
  gateway.client.hold_tokens = true;
  Peer peer(gateway.address());
  peer.send(post("/v1/completions", kStreamBody));
  Reply reply = peer.read_until(": keep-alive\n");
  EXPECT_NE(reply.body.find(": keep-alive\n"), std::string::npos);
  EXPECT_EQ(reply.body.find(": keep-alive\n\n"), std::string::npos);
  gateway.client.commit("req1", 2, true);
}

TEST(Server, Stream_WhenReaderIsSlow_IsHeldAndLosesNothing) {
  Gateway gateway;
  std::vector<std::string> token_bytes;
  std::string all;
  for (int i = 0; i < 500; ++i) {
    token_bytes.push_back(std::string(4000, static_cast<char>('a' + i % 26)));
    all += token_bytes.back();
  }
  gateway.client.script.token_bytes = {token_bytes};
  Peer peer(gateway.address());
  peer.send(post("/v1/completions", kStreamBody));
  gateway.client.wait_for([&] { return gateway.client.holds() > 0; });
  const Reply reply = peer.read_reply();
  EXPECT_TRUE(reply.complete);
  EXPECT_EQ(text_of(parse_events(reply.body), 0), all);
  EXPECT_EQ(gateway.client.open_streams(), 0);
}

TEST(Server, Stream_WhenReaderStalls_IsCutOff) {
  ServerLimits limits;
  limits.stall_time = milliseconds(100);
  Gateway gateway(limits);
  gateway.client.script.token_bytes = {std::vector<std::string>(5000, std::string(4000, 'x'))};
  Peer peer(gateway.address());
  peer.small_receive_buffer();
  peer.send(post("/v1/completions", kStreamBody));
  gateway.client.wait_for([&] { return gateway.client.holds() > 0; });
  gateway.client.wait_for([&] { return gateway.client.open_streams() == 0; });
  gateway.client.wait_for([&] { return gateway.server().connections() == 0; });
}

TEST(Server, Stream_WhenClientDisconnects_IsClosed) {
  Gateway gateway;
  gateway.client.hold_tokens = true;
  gateway.client.script.token_bytes = {{"a"}};
  for (const char* body :
       {R"({"model":"m","prompt":"a","stream":true})", R"({"model":"m","prompt":"a"})"}) {
    Peer peer(gateway.address());
    peer.send(post("/v1/completions", body));
    gateway.client.wait_for([&] { return gateway.client.open_streams() == 1; });
    peer.shut();
    gateway.client.wait_for([&] { return gateway.client.open_streams() == 0; });
  }
  EXPECT_EQ(gateway.client.cancels(), 0);  // that is the daemon's decision
}

TEST(Server, Stop_WhileAnswersRun_LetsThemFinish) {
  Gateway gateway;
  gateway.client.hold_tokens = true;
  gateway.client.script.token_bytes = {{"a", "b"}};
  Peer idle(gateway.address());
  idle.send(get("/health/live"));
  EXPECT_EQ(idle.read_reply().status, 200);
  Peer busy(gateway.address());
  busy.send(post("/v1/completions", R"({"model":"m","prompt":"a"})"));
  gateway.client.wait_for([&] { return gateway.client.open_streams() == 1; });
  gateway.stop();
  EXPECT_TRUE(idle.closed());
  gateway.client.commit("req1", 2, true);
  const Reply reply = busy.read_reply();
  EXPECT_EQ(json::parse(reply.body)["choices"][0]["text"], "ab");
  EXPECT_EQ(reply.headers.at("connection"), "close");
  gateway.join();
}

TEST(Server, Disconnect_WhenClientCannotResume_LeavesForGood) {
  const std::string plain = R"({"model":"m","prompt":"a"})";
  const struct {
    std::string body, headers;
    bool for_good;
  } kCases[] = {{plain, "", true},
                {plain, "Idempotency-Key: k\r\n", false},
                {plain, "X-On-Disconnect: continue\r\n", false},
                {kStreamBody, "", false},
                {kStreamBody, "X-On-Disconnect: cancel\r\n", true}};
  for (const auto& c : kCases) {
    Gateway gateway;
    gateway.client.hold_tokens = true;
    gateway.client.script.token_bytes = {{"a"}};
    Peer peer(gateway.address());
    peer.send(post("/v1/completions", c.body, c.headers));
    gateway.client.wait_for([&] { return gateway.client.open_streams() == 1; });
    peer.shut();
    gateway.client.wait_for([&] { return gateway.client.open_streams() == 0; });
    EXPECT_EQ(gateway.client.left_for_good(), c.for_good ? 1 : 0) << c.headers << c.body;
  }
}

TEST(Server, Stop_WhenDrainTimeEnds_TellsClientsHowToResume) {
  ServerLimits limits;
  limits.drain_time = milliseconds(50);
  Gateway gateway(limits);
  gateway.client.hold_tokens = true;
  gateway.client.script.token_bytes = {{"a", "b"}};
  const std::string chat =
      R"({"model":"m","max_tokens":5,"messages":[{"role":"user","content":"a"}])";
  std::deque<Peer> peers;
  for (const auto& [path, body] : std::initializer_list<std::pair<std::string, std::string>>{
           {"/v1/completions", kStreamBody},
           {"/v1/messages", chat + R"(,"stream":true})"},
           {"/v1/completions", R"({"model":"m","prompt":"a"})"}}) {
    peers.emplace_back(gateway.address());
    peers.back().send(post(path, body));
  }
  gateway.client.wait_for([&] { return gateway.client.open_streams() == 3; });
  gateway.stop();
  gateway.join();
  const Reply stream = peers[0].read_reply();
  EXPECT_TRUE(stream.complete);
  EXPECT_NE(stream.body.find("\"code\":\"draining\""), std::string::npos) << stream.body;
  EXPECT_NE(stream.body.find("Last-Event-ID"), std::string::npos);
  EXPECT_EQ(stream.body.find("[DONE]"), std::string::npos) << "it is not over";
  const std::vector<SseEvent> events = parse_events(stream.body);
  ASSERT_GE(events.size(), 2U);
  EXPECT_EQ(events.back().id, events[events.size() - 2].id) << "there it goes on";
  const Reply message = peers[1].read_reply();
  EXPECT_TRUE(message.complete);
  EXPECT_NE(message.body.find("event: error\n"), std::string::npos) << message.body;
  const Reply whole = peers[2].read_reply();
  EXPECT_EQ(whole.status, 503);
  EXPECT_EQ(whole.headers.count("x-request-id"), 1U);
  EXPECT_EQ(whole.headers.count("retry-after"), 1U);
  EXPECT_EQ(gateway.client.open_streams(), 0);
  EXPECT_EQ(gateway.client.left_for_good(), 0) << "its client may come back";
}

TEST(Server, Listen_WithInheritedSocket_AcceptsOnlyAListeningOne) {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(::bind(fd, reinterpret_cast<sockaddr*>(&name), sizeof name), 0);
  const auto handler = [](const gateway::ExchangePtr&) {};
  const auto deaf = gateway::Server::listen(fd, "", {}, handler);
  ASSERT_FALSE(deaf.has_value());
  EXPECT_EQ(deaf.error().code, Errc::kUsage);
  ASSERT_EQ(::listen(fd, 5), 0);
  const auto server = gateway::Server::listen(fd, "", {}, handler);
  ASSERT_TRUE(server.has_value());
  EXPECT_TRUE((*server)->address().starts_with("127.0.0.1:"));
  // The port is taken now, and the error says so in one line.
  const auto second = gateway::Server::listen(-1, (*server)->address(), {}, handler);
  ASSERT_FALSE(second.has_value());
  EXPECT_EQ(second.error().code, Errc::kConflict);
  EXPECT_NE(second.error().what.find("--http"), std::string::npos);
  for (const char* bad : {"nocolon", "127.0.0.1:", "no.such.host.invalid:80", "127.0.0.1:99999"}) {
    EXPECT_FALSE(gateway::Server::listen(-1, bad, {}, handler).has_value()) << bad;
  }
}

TEST(Errors, ErrorCode_MapsToANamedHttpStatus) {
  for (int i = 0; i <= static_cast<int>(Errc::kInternal); ++i) {
    const auto code = static_cast<Errc>(i);
    EXPECT_NE(gateway::reason_phrase(gateway::http_status(code)), "Status") << errc_name(code);
  }
}

}  // namespace
}  // namespace holdfast::test::server_test
