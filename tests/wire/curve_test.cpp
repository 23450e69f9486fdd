// Goal: only owners of a key that the handler knows get one frame through a socket of the network,
// each is known by its key, and a socket without keys cannot be opened there. Method: real sockets
// on loopback.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <chrono>
#include <string>
#include <thread>

#include "shared/wire/curve.h"
#include "shared/wire/socket.h"
#include "shared/wire/zap.h"

namespace holdfast::wire::curve_test {
namespace {

using namespace std::chrono_literals;

CurvePair new_pair() {
  return new_curve_pair().value();
}

SocketOptions server_options(const CurvePair& server) {
  SocketOptions options;
  options.curve_server = true;
  options.secret_key = server.secret_key;
  return options;
}

SocketOptions client_options(const CurvePair& own, const CurvePair& server) {
  SocketOptions options;
  options.server_key = server.public_key;
  options.public_key = own.public_key;
  options.secret_key = own.secret_key;
  return options;
}

/// A ROUTER with its handler, which lets one key in under the name "friend".
struct Listener {
  Context context;
  CurvePair pair = new_pair(), allowed = new_pair();
  ZapHandler handler = ZapHandler::open(context).value();
  Socket router = Socket::open(context, SocketKind::kRouter, server_options(pair)).value();
  std::string address;

  Listener() {
    EXPECT_TRUE(router.bind("tcp://127.0.0.1:*"));
    address = router.endpoint();
  }
  std::optional<Received> receive(std::chrono::milliseconds time) {
    const auto until = std::chrono::steady_clock::now() + time;
    while (std::chrono::steady_clock::now() < until) {
      handler.answer([this](const std::string& key) -> std::optional<std::string> {
        if (key != allowed.public_key) return std::nullopt;
        return "friend";
      });
      if (auto received = router.receive()) return received;
      std::this_thread::sleep_for(1ms);
    }
    return std::nullopt;
  }
};

/// A DEALER with a context of its own, as another process would have.
struct Visitor {
  Context context;
  Socket socket;
  Visitor(const SocketOptions& options, const std::string& address)
      : socket(Socket::open(context, SocketKind::kDealer, options).value()) {
    EXPECT_TRUE(socket.start_monitor(context));
    EXPECT_TRUE(socket.connect(address));
  }
  std::optional<LinkEvent> event() {
    for (int i = 0; i < 300; ++i) {
      if (auto event = socket.next_link_event()) return event;
      std::this_thread::sleep_for(10ms);
    }
    return std::nullopt;
  }
  void send_soon(const std::string& frame) {
    for (int i = 0; i < 300 && socket.send(frame) != SendStatus::kSent; ++i) {
      std::this_thread::sleep_for(10ms);
    }
  }
};

TEST(Curve, Keys_AsTextAndBytes_AreTheSame) {
  const CurvePair pair = new_pair();
  const std::string secret = curve_key_bytes(pair.secret_key);
  ASSERT_EQ(secret.size(), kCurveKeyBytes);
  EXPECT_EQ(curve_key_text(secret), pair.secret_key);
  EXPECT_EQ(curve_pair_of(secret).value().public_key, pair.public_key);
  EXPECT_EQ(curve_key_bytes("too short"), "");
  EXPECT_EQ(curve_key_bytes(std::string(40, '~')), "");
}

TEST(Curve, Peer_WithAnAllowedKey_IsReceivedUnderItsName) {
  Listener listener;
  Visitor visitor(client_options(listener.allowed, listener.pair), listener.address);
  std::thread sender([&] { visitor.send_soon("hello"); });
  const auto received = listener.receive(5s);
  sender.join();
  ASSERT_TRUE(received);
  EXPECT_EQ(received->frame, "hello");
  EXPECT_EQ(received->user_id, "friend");
  EXPECT_FALSE(received->credentials.identified) << "no process of this host vouches for it";
  EXPECT_EQ(visitor.event(), LinkEvent::kConnected);
  EXPECT_EQ(listener.handler.accepted(), 1u);
}

TEST(Curve, Peer_WithAnotherKey_IsRefusedAndToldSo) {
  Listener listener;
  Visitor stranger(client_options(new_pair(), listener.pair), listener.address);
  EXPECT_FALSE(listener.receive(500ms));
  EXPECT_EQ(stranger.event(), LinkEvent::kRefused);
  EXPECT_EQ(stranger.socket.send("hello"), SendStatus::kFull);
  EXPECT_EQ(listener.handler.accepted(), 0u);
  EXPECT_GE(listener.handler.refused(), 1u);
}

TEST(Curve, Peer_ThatExpectsAnotherServer_SendsNothing) {
  Listener listener;
  Visitor visitor(client_options(listener.allowed, new_pair()), listener.address);
  EXPECT_FALSE(listener.receive(500ms));
  EXPECT_EQ(visitor.socket.send("hello"), SendStatus::kFull);
  EXPECT_EQ(visitor.event(), LinkEvent::kBroken) << "the server closes without a word";
  EXPECT_EQ(visitor.event(), LinkEvent::kDisconnected);
  EXPECT_EQ(visitor.event(), LinkEvent::kBroken) << "and does so at the next try";
}

TEST(Curve, Peer_WithoutAnyKey_IsIgnored) {
  Listener listener;
  Visitor plain(SocketOptions{}, listener.address);
  EXPECT_FALSE(listener.receive(500ms));
  EXPECT_EQ(plain.socket.send("hello"), SendStatus::kFull);
  EXPECT_EQ(listener.handler.accepted(), 0u);
}

TEST(Curve, Router_OnTheNetworkWithoutKeys_IsRefused) {
  Context context;
  Socket router = Socket::open(context, SocketKind::kRouter, {}).value();
  const auto bound = router.bind("tcp://127.0.0.1:*");
  ASSERT_FALSE(bound);
  EXPECT_EQ(bound.error().code, Errc::kUsage);
  EXPECT_NE(bound.error().what.find("without keys"), std::string::npos);
}

TEST(Curve, Router_WithKeysAndNoHandler_LetsNobodyIn) {
  Context context;
  const CurvePair server = new_pair();
  Socket router = Socket::open(context, SocketKind::kRouter, server_options(server)).value();
  ASSERT_TRUE(router.bind("tcp://127.0.0.1:*"));
  Visitor visitor(client_options(new_pair(), server), router.endpoint());
  std::this_thread::sleep_for(300ms);
  EXPECT_FALSE(router.receive());
  EXPECT_EQ(visitor.socket.send("hello"), SendStatus::kFull);
}

}  // namespace
}  // namespace holdfast::wire::curve_test
