// Goal: /v1/responses is a WebSocket too: the events of a stream as messages, turns that continue
// what is not stored, errors that leave the connection usable; keys, bounds, slow and leaving
// clients as with every other request. Method: a gateway in this process over a fake daemon; the
// client writes and reads frames by hand.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "control/gateway/http/tls.h"
#include "control/gateway/responses/conversation.h"
#include "shared/client/api_key.h"
#include "tests/http/certificate.h"
#include "tests/http/http_peer.h"

namespace holdfast::test::response_socket_test {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;

constexpr const char* kPath = "/v1/responses";
// The key of RFC 6455, 1.3, and the accept value that it gives there.
constexpr const char* kKey = "dGhlIHNhbXBsZSBub25jZQ==";
constexpr const char* kAccept = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";
constexpr int kText = 1, kBinary = 2, kClose = 8, kPing = 9, kPong = 10;

std::string handshake(const std::string& headers = "") {
  return get(kPath,
             "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
             "Sec-WebSocket-Key: " +
                 std::string(kKey) + "\r\n" + headers);
}

struct Frame {
  int opcode = -1;  // -1: there was none
  bool last = true;
  std::string payload;
};

std::string frame(const Frame& what, bool masked = true) {
  std::string out(1, static_cast<char>((what.last ? 0x80 : 0) | what.opcode));
  const std::size_t size = what.payload.size();
  const char mask = static_cast<char>(masked ? 0x80 : 0);
  if (size < 126) {
    out += static_cast<char>(mask | static_cast<char>(size));
  } else {
    const int bytes = size < 65'536 ? 2 : 8;
    out += static_cast<char>(mask | (bytes == 2 ? 126 : 127));
    for (int i = bytes - 1; i >= 0; --i) out += static_cast<char>(size >> (8 * i) & 0xff);
  }
  if (!masked) return out + what.payload;
  const std::string key = "\x11\x22\x33\x44";
  out += key;
  for (std::size_t i = 0; i < size; ++i) {
    out += static_cast<char>(what.payload[i] ^ key[i % 4]);
  }
  return out;
}

/// The client's side of one WebSocket.
class Socket {
 public:
  explicit Socket(const Gateway& gateway, const std::string& headers = "",
                  const std::string& cert = "")
      : peer(gateway.address()) {
    if (!cert.empty()) {
      EXPECT_TRUE(peer.start_tls(cert));
    }
    peer.send(handshake(headers));
    head = peer.read_upgrade();
  }
  void send(const json& message) { peer.send(frame({kText, true, message.dump()})); }
  void create(const json& input, const json& more = json::object()) {
    json message = {{"type", "response.create"}, {"model", "m"}, {"input", input}};
    message.update(more);
    send(message);
  }
  Frame read_frame() {
    Frame out;
    const std::string begin = peer.read_bytes(2);
    if (begin.size() < 2) return out;
    out.opcode = begin[0] & 0x0f;
    out.last = (begin[0] & 0x80) != 0;
    EXPECT_EQ(begin[1] & 0x80, 0) << "a server does not mask";
    std::size_t size = static_cast<std::size_t>(begin[1] & 0x7f);
    if (size >= 126) {
      const std::string more = peer.read_bytes(size == 126 ? 2 : 8);
      size = 0;
      for (const char c : more) size = size << 8 | static_cast<unsigned char>(c);
    }
    out.payload = peer.read_bytes(size);
    return out;
  }
  /// Returns the next message; skips pings.
  json read() {
    Frame got = read_frame();
    while (got.opcode == kPing) got = read_frame();
    EXPECT_EQ(got.opcode, kText) << got.payload;
    EXPECT_TRUE(got.last);
    return got.opcode == kText ? json::parse(got.payload) : json();
  }
  /// Reads to the end of a response, or to an error.
  std::vector<json> read_turn() {
    std::vector<json> events;
    for (;;) {
      events.push_back(read());
      if (!events.back().is_object()) return events;
      const std::string type = events.back()["type"];
      if (type == "error" || type == "response.completed" || type == "response.incomplete" ||
          type == "response.failed" || type == "response.cancelled") {
        return events;
      }
    }
  }
  json turn(const json& input, const json& more = json::object()) {
    create(input, more);
    return read_turn().back();
  }
  /// Returns the code of the close frame that comes next; -1: another frame, or none.
  int close_code() {
    const Frame got = read_frame();
    if (got.opcode != kClose || got.payload.size() < 2) return -1;
    return static_cast<unsigned char>(got.payload[0]) << 8 |
           static_cast<unsigned char>(got.payload[1]);
  }

  Peer peer;
  Reply head;
};

class ResponseSocket : public testing::Test {
 protected:
  ResponseSocket() {
    gateway.client.stores_objects = true;
    gateway.client.script.token_bytes = {{"He", "llo"}};
    gateway.client.script.finish = wire::FinishReason::kStop;
  }
  /// Returns the messages of the last prompt that the model got.
  json messages() {
    return json::parse(*gateway.client.last_submit().prompts[0].messages_json)["messages"];
  }
  void put_key(bool revoked) {
    const json object = {{"seq", 1},
                         {"id", "key_a"},
                         {"owner", ""},
                         {"version", 1},
                         {"created_ms", 1},
                         {"expires_ms", 0},
                         {"bytes", 0},
                         {"body",
                          {{"hash", client::hash_api_key("a")},
                           {"role", "client"},
                           {"tenant", "t-a"},
                           {"revoked_ms", revoked ? 5 : 0}}}};
    gateway.client.op_results["objects.list"] =
        json{{"more", false}, {"objects", json::array({object})}}.dump();
  }
  void ask_for_keys() {
    gateway.context().access =
        std::make_shared<gateway::Access>(*gateway.context().object_store, true);
    gateway.context().access->start();
  }

  Gateway gateway;
};

json message(const std::string& role, const std::string& text) {
  return {{"role", role}, {"content", text}};
}

TEST_F(ResponseSocket, WebSocket_WhenResponseIsCreated_SendsTheEventsOfAStream) {
  Socket socket(gateway);
  ASSERT_EQ(socket.head.status, 101);
  EXPECT_EQ(socket.head.headers.at("sec-websocket-accept"), kAccept);
  socket.create("a", {{"store", false}});
  const std::vector<json> events = socket.read_turn();
  const Reply stream =
      gateway.ask(post(kPath, R"({"model":"m","input":"a","store":false,"stream":true})"));
  const std::vector<SseEvent> expected = parse_events(stream.body);
  ASSERT_EQ(events.size(), expected.size());
  for (std::size_t i = 0; i < events.size(); ++i) {
    const json other = json::parse(expected[i].data);
    EXPECT_EQ(events[i]["type"], other["type"]);
    EXPECT_EQ(events[i]["sequence_number"], other["sequence_number"]);
    EXPECT_EQ(events[i].value("delta", json()), other.value("delta", json()));
  }
  EXPECT_EQ(events.back()["response"]["output"][0]["content"][0]["text"], "Hello");
}

TEST_F(ResponseSocket, Turn_WithUnstoredPreviousResponse_ContinuesOnSameSocket) {
  Socket socket(gateway);
  const json first = socket.turn("one", {{"store", false}})["response"];
  ASSERT_EQ(first["status"], "completed") << first.dump();
  const json again = {{"store", false}, {"previous_response_id", first["id"]}};
  const json second = socket.turn("two", again)["response"];
  EXPECT_EQ(second["previous_response_id"], first["id"]);
  const json expected =
      json::array({message("user", "one"), message("assistant", "Hello"), message("user", "two")});
  EXPECT_EQ(messages(), expected);
  const json third =
      socket.turn("three", {{"store", false}, {"previous_response_id", second["id"]}});
  EXPECT_EQ(messages().size(), 5u);
  EXPECT_EQ(third["type"], "response.completed");
  socket.turn(json::array({{{"id", first["output"][0]["id"]}}}), {{"store", false}});
  EXPECT_EQ(messages(), json::array({message("assistant", "Hello")})) << "by its id too";

  // Another connection does not know the response, and stays usable after asking.
  Socket other(gateway);
  const json refused = other.turn("two", again);
  EXPECT_EQ(refused["type"], "error");
  EXPECT_EQ(refused["status"], 400);
  EXPECT_EQ(refused["error"]["code"], "previous_response_not_found") << refused.dump();
  EXPECT_EQ(refused["error"]["param"], "previous_response_id");
  EXPECT_EQ(other.turn("one")["type"], "response.completed");
}

TEST_F(ResponseSocket, Response_WhenStored_ContinuesOnAnyConnection) {
  Socket socket(gateway);
  const json first = socket.turn("one")["response"];
  const Reply next = gateway.ask(post(
      kPath, json{{"model", "m"}, {"input", "two"}, {"previous_response_id", first["id"]}}.dump()));
  EXPECT_EQ(next.status, 200) << next.body;
  EXPECT_EQ(messages().size(), 3u);
  const json after = socket.turn("three", {{"previous_response_id", json::parse(next.body)["id"]}});
  EXPECT_EQ(after["type"], "response.completed");
  EXPECT_EQ(messages().size(), 5u);
}

TEST_F(ResponseSocket, WebSocket_AfterAnInvalidMessage_StaysUsable) {
  Socket socket(gateway);
  const auto refused = [&](const std::string& text) {
    socket.peer.send(frame({kText, true, text}));
    const json error = socket.read();
    EXPECT_EQ(error["type"], "error") << text;
    EXPECT_EQ(error["status"], 400) << text;
    EXPECT_FALSE(error["error"]["message"].get<std::string>().empty());
    return error["error"]["param"];
  };
  EXPECT_EQ(refused("{"), json());
  EXPECT_EQ(refused("[]"), json());
  EXPECT_EQ(refused("{}"), "type");
  EXPECT_EQ(refused(R"({"type":"response.cancel"})"), "type");
  EXPECT_EQ(refused(R"({"type":"response.create","model":"m"})"), "input");
  EXPECT_EQ(refused(R"({"type":"response.create","model":"m","input":"a","background":true})"),
            "background");
  EXPECT_EQ(refused(R"({"type":"response.create","model":"m","input":"a","stream_id":"x"})"),
            "stream_id");
  EXPECT_EQ(refused(R"({"type":"response.create","model":"m","input":"a","generate":1})"),
            "generate");
  EXPECT_EQ(refused(R"({"type":"response.create","model":"m","input":"a","temperature":9})"),
            "temperature");
  EXPECT_EQ(socket.turn("a")["type"], "response.completed");
}

TEST_F(ResponseSocket, Turn_WithGenerateFalse_RemembersTheInputOnly) {
  Socket socket(gateway);
  socket.create("one", {{"generate", false}, {"store", false}});
  const std::vector<json> events = socket.read_turn();
  const json made = events.back()["response"];
  EXPECT_EQ(events.front()["type"], "response.created");
  EXPECT_EQ(events.back()["type"], "response.completed");
  EXPECT_EQ(made["output"], json::array());
  EXPECT_EQ(gateway.client.submits(), 0);
  socket.turn("two", {{"previous_response_id", made["id"]}, {"store", false}});
  EXPECT_EQ(messages(), json::array({message("user", "one"), message("user", "two")}));
}

TEST_F(ResponseSocket, Responses_WhenQueuedOnOneSocket_RunOneAtATime) {
  gateway.client.hold_tokens = true;
  Socket socket(gateway);
  socket.create("one");
  socket.create("two");
  EXPECT_EQ(socket.read()["type"], "response.created");
  for (int i = 0; i < 16; ++i) socket.create("more");
  json event = socket.read();
  while (event["type"] != "error") event = socket.read();
  EXPECT_EQ(event["status"], 429);
  EXPECT_EQ(event["error"]["code"], "queue_full") << event.dump();
  EXPECT_EQ(gateway.client.submits(), 1);
  gateway.client.hold_tokens = false;
  gateway.client.commit("resp_req1", 2, true);
  for (int i = 0; i < 17; ++i) EXPECT_EQ(socket.read_turn().back()["type"], "response.completed");
  EXPECT_EQ(gateway.client.submits(), 17);
}

TEST_F(ResponseSocket, Response_WhenClientLeaves_IsReleased) {
  gateway.client.hold_tokens = true;
  Socket gone(gateway);
  gone.create("one");
  EXPECT_EQ(gone.read()["type"], "response.created");
  gateway.client.wait_for([&] { return gateway.client.open_streams() == 1; });
  gone.peer.shut();
  gateway.client.wait_for([&] { return gateway.client.open_streams() == 0; });
  Socket closes(gateway);
  closes.create("one");
  EXPECT_EQ(closes.read()["type"], "response.created");
  EXPECT_EQ(closes.read()["type"], "response.in_progress");
  gateway.client.wait_for([&] { return gateway.client.open_streams() == 1; });
  closes.peer.send(frame({kClose, true, std::string("\x03\xe8", 2)}));
  EXPECT_EQ(closes.close_code(), 1000);
  gateway.client.wait_for([&] { return gateway.client.open_streams() == 0; });
  EXPECT_TRUE(closes.peer.closed());
}

TEST_F(ResponseSocket, Frame_WhenBinaryUnmaskedOrTooLong_ClosesTheSocket) {
  gateway.context().params.body_bytes = 1'000;
  Socket large(gateway);
  large.create(std::string(2'000, 'a'));
  EXPECT_EQ(large.close_code(), 1009);
  EXPECT_TRUE(large.peer.closed());
  Socket binary(gateway);
  binary.peer.send(frame({kBinary, true, "{}"}));
  EXPECT_EQ(binary.close_code(), 1003);
  Socket bare(gateway);
  bare.peer.send(frame({kText, true, "{}"}, false));
  EXPECT_EQ(bare.close_code(), 1002);
  Socket parts(gateway);
  const std::string text = R"({"type":"response.create","model":"m","input":"a"})";
  parts.peer.send(frame({kText, false, text.substr(0, 20)}) + frame({kPing, true, "p"}) +
                  frame({0, true, text.substr(20)}));
  const Frame pong = parts.read_frame();
  EXPECT_EQ(pong.opcode, kPong);
  EXPECT_EQ(pong.payload, "p");
  EXPECT_EQ(parts.read_turn().back()["type"], "response.completed");
  EXPECT_EQ(gateway.client.submits(), 1);
}

TEST_F(ResponseSocket, Stream_WhenReaderIsSlow_IsHeld) {
  std::vector<std::string> token_bytes(1'000, std::string(1'000, 'x'));
  gateway.client.script.token_bytes = {token_bytes};
  gateway.context().hold_bytes = 64 * 1024;
  gateway.context().resume_bytes = 16 * 1024;
  Socket socket(gateway);
  socket.create("a", {{"store", false}});
  gateway.client.wait_for([&] { return gateway.client.holds() > 0; });
  std::size_t bytes = 0;
  for (const json& event : socket.read_turn()) {
    if (event["type"] == "response.output_text.delta") {
      bytes += event["delta"].get<std::string>().size();
    }
  }
  EXPECT_EQ(bytes, 1'000'000u);
  gateway.client.script.token_bytes = {{"a"}};
  EXPECT_EQ(socket.turn("b", {{"store", false}})["type"], "response.completed");
}

TEST_F(ResponseSocket, WebSocket_WithoutAHandshake_Returns426) {
  const Reply plain = gateway.ask(get(kPath));
  EXPECT_EQ(plain.status, 426);
  EXPECT_EQ(plain.headers.at("upgrade"), "websocket");
  EXPECT_EQ(json::parse(plain.body)["error"]["type"], "invalid_request_error");
  const Reply old = gateway.ask(get(kPath,
                                    "Connection: Upgrade\r\nUpgrade: websocket\r\n"
                                    "Sec-WebSocket-Version: 8\r\nSec-WebSocket-Key: x\r\n"));
  EXPECT_EQ(old.status, 426);
  EXPECT_EQ(old.headers.at("sec-websocket-version"), "13");
  EXPECT_EQ(gateway
                .ask(get("/health/live",
                         "Connection: Upgrade\r\nUpgrade: websocket\r\n"
                         "Sec-WebSocket-Version: 13\r\n"))
                .status,
            200)
      << "elsewhere the wish is passed over";
}

TEST_F(ResponseSocket, KeylessWebSocket_WhenOriginIsForeign_Returns403) {
  gateway.client.op_results["objects.list"] = R"({"more": false, "objects": []})";
  ask_for_keys();
  EXPECT_EQ(Socket(gateway).head.status, 101);
  EXPECT_EQ(gateway.ask(handshake("Origin: https://evil.example\r\n")).status, 403);
  std::string renamed = handshake();
  renamed.replace(renamed.find("localhost"), 9, "evil.site");
  EXPECT_EQ(gateway.ask(renamed).status, 403);
}

TEST_F(ResponseSocket, ApiKey_AtHandshakeAndEachTurn_IsChecked) {
  put_key(false);
  ask_for_keys();
  const Reply none = gateway.ask(handshake());
  EXPECT_EQ(none.status, 401);
  EXPECT_EQ(json::parse(none.body)["error"]["type"], "authentication_error");
  Socket socket(gateway, "Authorization: Bearer a\r\n");
  ASSERT_EQ(socket.head.status, 101);
  EXPECT_EQ(socket.turn("one")["type"], "response.completed");
  EXPECT_EQ(gateway.client.last_submit().tenant, "t-a");
  put_key(true);
  usleep(1'100'000);  // longer than a list of keys is valid
  const json refused = socket.turn("two");
  EXPECT_EQ(refused["status"], 401) << refused.dump();
  EXPECT_EQ(socket.close_code(), 1008);
  EXPECT_EQ(gateway.client.submits(), 1);
}

TEST_F(ResponseSocket, WebSocket_WhenTenantHasTooMany_Returns429) {
  gateway.context().sockets = std::make_shared<gateway::TenantSlots>(2, 1);  // one per tenant
  {
    Socket first(gateway);
    EXPECT_EQ(first.turn("a")["type"], "response.completed");
    EXPECT_EQ(gateway.ask(handshake()).status, 429);
  }
  const auto opens = [&] { return Socket(gateway).head.status == 101; };
  gateway.client.wait_for(opens);
}

TEST_F(ResponseSocket, WebSocket_WhenTimeLimitIsReached_ClosesAfterTheResponse) {
  gateway.context().socket_time = milliseconds(1);
  Socket idle(gateway);
  EXPECT_EQ(idle.read()["error"]["code"], "websocket_connection_limit_reached");
  EXPECT_EQ(idle.close_code(), 1000);
  gateway.context().socket_time = milliseconds(300);
  gateway.client.hold_tokens = true;
  Socket busy(gateway);
  busy.create("a");
  EXPECT_EQ(busy.read()["type"], "response.created");
  usleep(400'000);  // the time is over while the response is under way
  gateway.client.commit(gateway.client.last_submit().request_id, 2, true);
  EXPECT_EQ(busy.read_turn().back()["type"], "response.completed");
  EXPECT_EQ(busy.read()["error"]["code"], "websocket_connection_limit_reached");
  EXPECT_EQ(busy.close_code(), 1000);
}

TEST_F(ResponseSocket, WebSocket_WhenServerStops_ClosesWith1001) {
  Socket socket(gateway);
  EXPECT_EQ(socket.turn("a")["type"], "response.completed");
  gateway.stop();
  EXPECT_EQ(socket.close_code(), 1001);
  socket.peer.send(frame({kClose, true, std::string("\x03\xe9", 2)}));
  EXPECT_TRUE(socket.peer.closed());
  gateway.join();
}

TEST_F(ResponseSocket, Turn_WhenDrainTimeEnds_GetsADrainingError) {
  gateway.client.hold_tokens = true;
  Socket socket(gateway);
  socket.create("a");
  EXPECT_EQ(socket.read()["type"], "response.created");
  EXPECT_EQ(socket.read()["type"], "response.in_progress");
  gateway.client.wait_for([&] { return gateway.client.open_streams() == 1; });
  gateway.server().stop(std::chrono::milliseconds(50));
  const json told = socket.read();
  EXPECT_EQ(told["type"], "error");
  EXPECT_EQ(told["status"], 503);
  EXPECT_EQ(told["error"]["code"], "draining");
  EXPECT_EQ(socket.close_code(), 1001);
  EXPECT_EQ(gateway.client.left_for_good(), 0) << "its client may come back";
  gateway.join();
}

TEST(ResponseSocketTls, WebSocket_WithTls_ServesLargeTurns) {
  std::string folder = std::filesystem::temp_directory_path() / "hf-wss-XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  const Certificate identity = make_certificate("one");
  std::ofstream(folder + "/cert.pem") << identity.cert;
  std::ofstream(folder + "/key.pem") << identity.key;
  Gateway gateway({},
                  gateway::TlsIdentity::load(folder + "/cert.pem", folder + "/key.pem").value());
  std::filesystem::remove_all(folder);
  gateway.client.stores_objects = true;
  gateway.client.script.token_bytes = {std::vector<std::string>(500, std::string(100, 'x'))};
  Socket socket(gateway, "", identity.cert);
  ASSERT_EQ(socket.head.status, 101);
  for (int i = 0; i < 2; ++i) {
    const json end = socket.turn(std::string(300'000, 'a'), {{"store", false}});
    EXPECT_EQ(end["response"]["output"][0]["content"][0]["text"].get<std::string>().size(),
              50'000u);
  }
}

TEST(TurnMemory, TurnMemory_WhenFull_ForgetsTheOldest) {
  const auto total = std::make_shared<std::atomic<std::size_t>>(0);
  {
    gateway::TurnMemory memory(total);
    for (int i = 0; i < 10; ++i) {
      memory.add({"resp_" + std::to_string(i), "", std::string(1 << 20, 'a'), "[]"});
    }
    EXPECT_EQ(memory.find("resp_0"), nullptr);
    EXPECT_NE(memory.find("resp_9"), nullptr);
    EXPECT_LE(total->load(), std::size_t{4} << 20);
    memory.add({"large", "", std::string(5 << 20, 'a'), "[]"});
    EXPECT_EQ(memory.find("large"), nullptr) << "more than all that there is room for";
    EXPECT_EQ(total->load(), 0u);
    *total = std::size_t{40} << 20;  // other connections use it all
    memory.add({"small", "", "[]", "[]"});
    EXPECT_EQ(memory.find("small"), nullptr);
    *total = 0;
    memory.add({"small", "", "[]", "[]"});
    EXPECT_NE(memory.find("small"), nullptr);
  }
  EXPECT_EQ(total->load(), 0u) << "gone with its connection";
}

}  // namespace
}  // namespace holdfast::test::response_socket_test
