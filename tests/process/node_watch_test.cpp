// Goal: only what a node of the session wrote counts as its sign of life, and only silence that it
// could have ended counts against it: not the daemon's own standstill, no lost packet, no time in
// which it waited for a processor. Method: the real watch with a clock set by hand, nodes that
// write datagrams, networks that lose some by a seeded draw, hours of them.
#include "control/endpoints/node_watch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <random>

#include "control/core/config.h"

namespace holdfast::daemon::node_watch_test {
namespace {

constexpr std::int64_t kMs = 1000;
constexpr std::int64_t kStepUs = 5 * kMs;  // of the daemon's loop
using State = wire::WorkerFact::State;

/// A watch with one node that sends each 10 ms.
struct Pair {
  NodeWatch watch;
  std::int64_t now_us = 50'000'000;
  wire::LivenessSession session;
  wire::NodeDatagram next;
  wire::UdpAddress address;

  Pair() {
    session = watch.session("n", "i1");
    next.session = session.id;
    address.length = 1;
  }
  std::string write() {
    ++next.counter;
    return wire::seal(next, session.key);
  }
  bool send() { return watch.received(write(), address); }
  /// A turn of the daemon's loop; what it sends arrives, if `back`.
  void turn(bool back = true, std::int64_t after_us = kStepUs) {
    now_us += after_us;
    watch.advance(now_us);
    for (const NodeWatch::Outgoing& out : watch.due()) {
      const auto datagram = wire::open_daemon_datagram(out.datagram, session.key);
      ASSERT_TRUE(datagram.has_value());
      if (back) next.last_received = std::max(next.last_received, datagram->counter);
    }
  }
  void run_ms(std::int64_t ms, bool forth = true, bool back = true) {
    for (std::int64_t t = 0; t < ms; t += 5) {
      turn(back);
      if (forth && t % 10 == 0) {
        ASSERT_TRUE(send());
      }
    }
  }
  core::NodeHealth health() {
    const NodeWatch::Told told = watch.take();
    return told.health.empty() ? core::NodeHealth{} : told.health.front();
  }
};

TEST(NodeWatch, Node_BeforeItsFirstDatagram_IsNotToldOf) {
  Pair pair;
  pair.run_ms(5'000, false);
  EXPECT_TRUE(pair.watch.take().health.empty());
  EXPECT_FALSE(pair.watch.is_urgent());
  EXPECT_TRUE(pair.send());
  EXPECT_TRUE(pair.watch.is_urgent()) << "the first one is news";
  EXPECT_EQ(pair.health().name, "n");
  EXPECT_FALSE(pair.watch.is_urgent());
}

TEST(NodeWatch, Node_ThatIsWell_IsToldOfEachSecond) {
  Pair pair;
  int told = 0;
  for (int ms = 0; ms < 10'000; ms += 10) {
    pair.run_ms(10);
    told += static_cast<int>(pair.watch.take().health.size());
  }
  EXPECT_GE(told, 9);
  EXPECT_LE(told, 12);
}

TEST(NodeWatch, Silence_GrowsFromTheLastDatagramOnAndEndsWithTheNext) {
  Pair pair;
  pair.run_ms(100);
  (void)pair.watch.take();
  pair.run_ms(100, false);
  EXPECT_TRUE(pair.watch.is_urgent());
  EXPECT_NEAR(static_cast<double>(pair.health().silent_us), 105 * kMs, 5 * kMs);
  EXPECT_TRUE(pair.send());
  EXPECT_TRUE(pair.watch.is_urgent()) << "that it is well again must be told";
  EXPECT_EQ(pair.health().silent_us, 0);
  pair.run_ms(20);
  EXPECT_FALSE(pair.watch.is_urgent());
  pair.run_ms(1'000);
  EXPECT_NEAR(static_cast<double>(pair.health().longest_us), 105 * kMs, 5 * kMs);
}

TEST(NodeWatch, Silence_ThatLastsForSeconds_IsToldOnceASecond) {
  Pair pair;
  pair.run_ms(100);
  pair.run_ms(2'000, false);
  int told = 0;
  for (int i = 0; i < 1'000; ++i) {
    pair.turn();
    EXPECT_FALSE(pair.watch.is_urgent() && i > 0);
    told += static_cast<int>(pair.watch.take().health.size());
  }
  EXPECT_GE(told, 4);
  EXPECT_LE(told, 7);
}

TEST(NodeWatch, Silence_WhileTheDaemonStoodStill_IsNotTheNodes) {
  Pair pair;
  pair.run_ms(100);
  pair.turn(true, 3'000'000);  // stopped by somebody; the datagrams wait in the socket
  EXPECT_LE(pair.health().silent_us, 20 * kMs);
  EXPECT_EQ(pair.health().deaf_us, 0);
}

TEST(NodeWatch, Silence_WhileDatagramsWaitUnread_IsNotCounted) {
  Pair pair;
  pair.run_ms(100);
  for (int i = 0; i < 100; ++i) {
    pair.now_us += kStepUs;
    pair.watch.skip(pair.now_us);
    pair.watch.advance(pair.now_us);
  }
  EXPECT_LE(pair.health().silent_us, 10 * kMs);
}

TEST(NodeWatch, Deafness_GrowsWhileTheNodeReceivesNothing) {
  Pair pair;
  pair.run_ms(200);
  EXPECT_LE(pair.health().deaf_us, 20 * kMs);
  pair.run_ms(100, true, false);
  const core::NodeHealth deaf = pair.health();
  EXPECT_LE(deaf.silent_us, 10 * kMs);
  EXPECT_NEAR(static_cast<double>(deaf.deaf_us), 100 * kMs, 15 * kMs);
  pair.run_ms(30);
  EXPECT_LE(pair.health().deaf_us, 20 * kMs);
}

TEST(NodeWatch, Deafness_OfANodeThatNeverReceivedAny_IsNotJudged) {
  Pair pair;
  pair.run_ms(10'000, true, false);
  EXPECT_EQ(pair.health().deaf_us, 0) << "a firewall lets nothing back";
}

TEST(NodeWatch, Deafness_WhileTheDaemonSentNothing_IsNotTheNodes) {
  Pair pair;
  pair.run_ms(200);
  pair.turn(true, 5'000'000);
  pair.send();
  EXPECT_LE(pair.health().deaf_us, 30 * kMs);
}

TEST(NodeWatch, Datagrams_OfTheDaemon_GoEachTenMillisecondsToWhereTheNodeIs) {
  Pair pair;
  pair.run_ms(100, false);
  EXPECT_EQ(pair.next.last_received, 0u) << "its address comes with its first datagram";
  pair.run_ms(10'000);
  EXPECT_NEAR(static_cast<double>(pair.next.last_received), 1000, 10);
  pair.now_us += kStepUs;
  pair.watch.advance(pair.now_us);
  EXPECT_LE(pair.watch.due().size(), 1u);
  EXPECT_TRUE(pair.watch.due().empty());
}

TEST(NodeWatch, Datagram_ThatIsACopyOrOlder_IsIgnored) {
  Pair pair;
  const std::string first = pair.write();
  const std::string second = pair.write();
  EXPECT_TRUE(pair.watch.received(second, pair.address));
  pair.run_ms(100, false);
  wire::UdpAddress stranger;
  stranger.length = 2;
  EXPECT_FALSE(pair.watch.received(second, stranger)) << "a recording, played again";
  EXPECT_FALSE(pair.watch.received(first, stranger));
  EXPECT_EQ(pair.watch.stale(), 2u);
  EXPECT_EQ(pair.watch.refused(), 0u);
  EXPECT_GE(pair.health().silent_us, 95 * kMs);
  pair.now_us += 20 * kMs;
  pair.watch.advance(pair.now_us);
  for (const auto& out : pair.watch.due()) EXPECT_EQ(out.to.length, pair.address.length);
}

TEST(NodeWatch, Datagram_WithoutSessionOrWithAnotherKey_IsRefused) {
  Pair pair;
  wire::LivenessSession wrong = pair.session;
  wrong.key[0] ^= 1;
  EXPECT_FALSE(pair.watch.received(wire::seal(pair.next, wrong.key), pair.address));
  wire::NodeDatagram stray = pair.next;
  ++stray.session;
  EXPECT_FALSE(pair.watch.received(wire::seal(stray, pair.session.key), pair.address));
  EXPECT_FALSE(pair.watch.received("HFLV", pair.address));
  EXPECT_EQ(pair.watch.refused(), 3u);
  EXPECT_TRUE(pair.watch.take().health.empty());
}

TEST(NodeWatch, Session_OfOneProcess_StaysAndThatOfTheNextReplacesIt) {
  Pair pair;
  EXPECT_EQ(pair.watch.session("n", "i1").id, pair.session.id);
  EXPECT_TRUE(pair.send());
  const wire::LivenessSession next = pair.watch.session("n", "i2");
  EXPECT_NE(next.id, pair.session.id);
  EXPECT_NE(next.key, pair.session.key);
  EXPECT_FALSE(pair.send()) << "the process of before";
  EXPECT_EQ(pair.watch.nodes(), (std::vector<std::string>{"n"}));
  pair.watch.close("n");
  EXPECT_TRUE(pair.watch.nodes().empty());
}

TEST(NodeWatch, Workers_ThatAreStoppedOrGoOn_AreNews) {
  Pair pair;
  pair.next.workers = {{7, State::kAlive, 0, 0}, {8, State::kAlive, 0, 0}};
  pair.run_ms(50);
  (void)pair.watch.take();
  pair.next.workers[1].state = State::kStopped;
  EXPECT_TRUE(pair.send());
  EXPECT_TRUE(pair.watch.is_urgent());
  const NodeWatch::Told told = pair.watch.take();
  ASSERT_EQ(told.workers.size(), 1u);
  ASSERT_EQ(told.workers[0].workers.size(), 2u);
  EXPECT_EQ(told.workers[0].workers[1].state, State::kStopped);
  EXPECT_TRUE(pair.send());
  EXPECT_FALSE(pair.watch.is_urgent()) << "the same again";
  pair.next.workers = {{8, State::kAlive, 0, 0}};
  EXPECT_TRUE(pair.send());
  EXPECT_TRUE(pair.watch.is_urgent());
  pair.next.workers = {{8, State::kEnded, 0, 0}};
  EXPECT_TRUE(pair.send());
  EXPECT_EQ(pair.watch.take().workers[0].workers.size(), 1u) << "7 is told of in its turn";
}

TEST(NodeWatch, Workers_OfANodeThatNamesEverMore_AreBounded) {
  Pair pair;
  for (std::uint32_t pid = 1; pid < 100'000;) {
    pair.next.workers.clear();
    for (std::size_t i = 0; i < wire::kDatagramWorkersMax; ++i) {
      pair.next.workers.push_back({pid++, State::kAlive, 0, 0});
    }
    ASSERT_TRUE(pair.send());
  }
  EXPECT_LE(pair.watch.take().workers[0].workers.size(), 4'096u);
}

TEST(NodeWatch, Delay_ThatANodeTellsOfItself_IsRememberedForAWhile) {
  Pair pair;
  pair.run_ms(100);
  pair.next.run_delay_us = 40'000;
  EXPECT_TRUE(pair.send());
  pair.next.run_delay_us = 0;
  pair.run_ms(4'000);
  EXPECT_EQ(pair.health().delay_us, 40'000);
  pair.run_ms(11'000);
  EXPECT_EQ(pair.health().delay_us, 0);
}

/// The result of an hour over a network that loses packets.
struct Hour {
  int alarms = 0;  // times that silence or deafness reached the bound
  std::int64_t longest_us = 0;
  std::uint64_t missed = 0;
};

/// Lets a node and a daemon speak for an hour of their own time.
Hour hour_with_loss(double loss, std::uint64_t seed) {
  Pair pair;
  std::mt19937_64 random(seed);
  std::bernoulli_distribution lost(loss);
  const std::int64_t bound_us = core::Config().link_node_timeout_ms * kMs;
  Hour hour;
  bool alarmed = false;
  pair.run_ms(50);
  for (std::int64_t t = 0; t < 3'600 * 1'000; t += 5) {
    pair.turn(!lost(random));
    if (t % 10 == 0) {
      const std::string datagram = pair.write();
      if (!lost(random)) {
        EXPECT_TRUE(pair.watch.received(datagram, pair.address));
      }
    }
    if (!pair.watch.is_urgent()) continue;
    const core::NodeHealth health = pair.health();
    const std::int64_t quiet_us = std::max(health.silent_us, health.deaf_us);
    hour.longest_us = std::max(hour.longest_us, quiet_us);
    hour.alarms += quiet_us >= bound_us && !alarmed;
    alarmed = quiet_us >= bound_us;
  }
  pair.run_ms(1'100);
  hour.missed = pair.health().missed;
  return hour;
}

TEST(NodeWatch, FalseAlarms_OfThreeHoursAtOneAndThreePercentLoss_AreNone) {
  for (const double loss : {0.01, 0.03}) {
    Hour all;
    for (std::uint64_t seed = 1; seed <= 3; ++seed) {
      const Hour hour = hour_with_loss(loss, seed);
      all.alarms += hour.alarms;
      all.longest_us = std::max(all.longest_us, hour.longest_us);
      all.missed += hour.missed;
    }
    std::printf(
        "loss %.0f %%: 3 hours, %llu datagrams missed, longest silence %lld ms, %d alarms\n",
        loss * 100, static_cast<unsigned long long>(all.missed),
        static_cast<long long>(all.longest_us / kMs), all.alarms);
    EXPECT_EQ(all.alarms, 0);
    EXPECT_GT(all.missed, 8'000u);
  }
}

}  // namespace
}  // namespace holdfast::daemon::node_watch_test
