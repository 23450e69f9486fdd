// Goal: a client whose socket is full loses no answer: parts of a stream wait with their sender,
// answers in the outbox, in order; a peer that takes nothing any more is gone. Method: one endpoint
// and one peer that does not read, with small queues.
#include "control/endpoints/router_endpoint.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/store/temp_state.h"

namespace holdfast::daemon::router_endpoint_test {
namespace {

constexpr std::size_t kOutboxMax = 20;
constexpr int kTriesMax = 1'000'000;

/// An endpoint with one connected peer, whose queues hold a few frames.
class FullPeer : public testing::Test {
 protected:
  void SetUp() override {
    RouterEndpoint::Options options;
    options.endpoint = "ipc://" + state_.dir() + "/clients.sock";
    options.socket.send_high_water = options.socket.receive_high_water = 4;
    options.socket.heartbeat_interval_ms = 0;  // a peer that does not read answers none
    options.outbox_max = kOutboxMax;
    auto opened = RouterEndpoint::open(context_, options);
    ASSERT_TRUE(opened.has_value()) << opened.error().what;
    endpoint_ = std::make_unique<RouterEndpoint>(std::move(opened).value());
    auto socket = wire::Socket::open(context_, wire::SocketKind::kDealer, options.socket);
    ASSERT_TRUE(socket.has_value()) << socket.error().what;
    socket_ = std::make_unique<wire::Socket>(std::move(socket).value());
    ASSERT_TRUE(socket_->connect(options.endpoint).has_value());
    const std::string hello = wire::encode(wire::Ping{});
    wait_for([&] { return socket_->send(hello) == wire::SendStatus::kSent; });
    PeerId last = 0;
    wait_for([&] {
      const auto got = endpoint_->receive(last);
      if (got) peer_ = got->peer;
      return got.has_value();
    });
  }

  template <class Condition>
  void wait_for(Condition condition) {
    for (int i = 0; i < 5'000 && !condition(); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  /// Sends parts of a stream until one is not taken, for a while. Returns how many were.
  int fill() {
    int sent = 0;
    int refused = 0;
    while (sent < kTriesMax && refused < 100) {
      const std::string frame = "part " + std::to_string(sent) + std::string(60'000, '.');
      if (endpoint_->send(peer_, frame, true) == wire::SendStatus::kSent) {
        ++sent;
        refused = 0;
      } else {
        ++refused;
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    }
    return sent;
  }
  /// Reads until `n` frames have come. Each is cut at its first full stop.
  std::vector<std::string> read(std::size_t n) {
    std::vector<std::string> frames;
    wait_for([&] {
      (void)endpoint_->flush();
      while (const auto got = socket_->receive()) {
        frames.push_back(got->frame.substr(0, got->frame.find('.')));
      }
      return frames.size() >= n;
    });
    return frames;
  }

  store::TempState state_{true};
  wire::Context context_;
  std::unique_ptr<RouterEndpoint> endpoint_;
  std::unique_ptr<wire::Socket> socket_;
  PeerId peer_ = 0;
};

TEST_F(FullPeer, Answer_ToAFullPeer_ComesAfterWhatWasSentBefore) {
  const int parts = fill();
  ASSERT_LT(parts, kTriesMax);
  ASSERT_EQ(endpoint_->send(peer_, "answer 1."), wire::SendStatus::kSent);
  EXPECT_EQ(endpoint_->send(peer_, "part late.", true), wire::SendStatus::kFull)
      << "nothing overtakes the answer";
  ASSERT_EQ(endpoint_->send(peer_, "answer 2."), wire::SendStatus::kSent);
  const auto frames = read(static_cast<std::size_t>(parts) + 2);
  ASSERT_EQ(frames.size(), static_cast<std::size_t>(parts) + 2);
  for (int i = 0; i < parts; ++i) EXPECT_EQ(frames[i], "part " + std::to_string(i));
  EXPECT_EQ(frames[frames.size() - 2], "answer 1");
  EXPECT_EQ(frames.back(), "answer 2");
  EXPECT_EQ(endpoint_->send(peer_, "part late.", true), wire::SendStatus::kSent);
}

TEST_F(FullPeer, Peer_ThatTakesNothing_IsGoneWhenItsOutboxIsFull) {
  ASSERT_LT(fill(), kTriesMax);
  for (std::size_t i = 0; i < kOutboxMax; ++i) {
    ASSERT_EQ(endpoint_->send(peer_, "answer."), wire::SendStatus::kSent) << i;
  }
  EXPECT_EQ(endpoint_->send(peer_, "answer."), wire::SendStatus::kGone);
  EXPECT_EQ(endpoint_->take_gone(), std::vector<PeerId>{peer_});
}

}  // namespace
}  // namespace holdfast::daemon::router_endpoint_test
