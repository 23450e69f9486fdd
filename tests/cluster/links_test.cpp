// Goal: between machines of the bench, delay, loss, rate and cuts do what they say, in each
// direction. Method: sockets of two namespaces in the hands of one test, one clock, and the wire's
// counters. Lower bounds of times are exact; upper ones leave room for a busy machine.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/cluster/namespaces.h"
#include "tests/cluster/sockets.h"

namespace holdfast::cluster::links_test {
namespace {

constexpr int kPatienceMs = 10'000;

void set(Machines& machines, int machine, const std::string& command) {
  const auto answer = machines.set_wire(machine, command);
  ASSERT_TRUE(answer.has_value()) << answer.error().what;
}

std::string pattern(std::size_t bytes) {
  std::string text(bytes, ' ');
  for (std::size_t i = 0; i < bytes; ++i) text[i] = static_cast<char>('a' + (i * 7 + i / 251) % 26);
  return text;
}

/// The shortest of several one-way times, in microseconds: the one that nothing held up.
std::int64_t shortest_way_us(const Datagrams& from, const Datagrams& to, int machine) {
  std::int64_t shortest = INT64_MAX;
  for (int i = 0; i < 15; ++i) {
    const std::int64_t begin = monotonic_us();
    from.send(machine, i);
    EXPECT_EQ(to.receive(kPatienceMs), i);
    shortest = std::min(shortest, monotonic_us() - begin);
  }
  return shortest;
}

/// True once the wire has nothing in its queues and has received `received` packets of end a.
bool is_through(Machines& machines, int machine, std::int64_t received) {
  return becomes_true([&] {
    const WireCounters counters = machines.counters(machine).value();
    return counters.a.received == received && counters.a.queued + counters.b.queued == 0;
  });
}

TEST(Links, Delay_OfEachDirection_IsTheOneSet) {
  HOLDFAST_MAKE_MACHINES(machines, 1);
  const Datagrams hub(*machines, kHub);
  const Datagrams one(*machines, 0);
  EXPECT_LT(shortest_way_us(one, hub, kHub), 10'000) << "a wire as it is made has no delay";
  set(*machines, 0, "delay 20000 a");
  set(*machines, 0, "delay 4000 b");
  const std::int64_t there = shortest_way_us(one, hub, kHub);
  const std::int64_t back = shortest_way_us(hub, one, 0);
  std::printf("set 20,000 and 4,000 us: %ld and %ld us\n", static_cast<long>(there),
              static_cast<long>(back));
  EXPECT_GE(there, 20'000);
  EXPECT_LT(there, 40'000);
  EXPECT_GE(back, 4'000);
  EXPECT_LT(back, 20'000);
}

TEST(Links, Delays_OfTwoMachines_AddUpBetweenThem) {
  HOLDFAST_MAKE_MACHINES(machines, 2);
  set(*machines, 0, "delay 5000");
  set(*machines, 1, "delay 7000");
  const Datagrams one(*machines, 0);
  const Datagrams other(*machines, 1);
  const std::int64_t way = shortest_way_us(one, other, 1);
  EXPECT_GE(way, 12'000);
  EXPECT_LT(way, 30'000);
}

/// Sends datagrams 0 to count - 1, of which few are on their way at a time, so that no buffer of
/// the kernel overflows. Returns those that arrive.
std::set<int> datagrams_through(Machines& machines, int count) {
  constexpr int kAtOnce = 50;
  const Datagrams hub(machines, kHub);
  const Datagrams one(machines, 0);
  std::set<int> arrived;
  for (int i = 0; i < count;) {
    for (int k = 0; k < kAtOnce && i < count; ++k) one.send(kHub, i++);
    EXPECT_TRUE(is_through(machines, 0, i));
    const auto delivered = static_cast<std::size_t>(machines.counters(0).value().a.delivered);
    while (arrived.size() < delivered) {
      const auto number = hub.receive(kPatienceMs);
      EXPECT_TRUE(number.has_value()) << "delivered, and not received";
      if (!number) return arrived;
      arrived.insert(*number);
    }
  }
  EXPECT_FALSE(hub.receive(20).has_value()) << "more than was delivered";
  return arrived;
}

// A seed's packets are lost whatever the time: the second run loses the same ones.
TEST(Links, Loss_OfDatagrams_IsTheStatedShareAndRepeats) {
  constexpr int kCount = 4'000;
  constexpr double kShare = 0.05;
  std::vector<std::set<int>> runs;
  for (const std::uint64_t seed : {5, 5, 6}) {
    HOLDFAST_MAKE_MACHINES(machines, 1, seed);
    set(*machines, 0, "loss 50 a");
    runs.push_back(datagrams_through(*machines, kCount));
    const LineCounters counters = machines->counters(0)->a;
    EXPECT_EQ(counters.received, kCount);
    EXPECT_EQ(counters.lost, kCount - static_cast<std::int64_t>(runs.back().size()));
    const double deviation = std::sqrt(kCount * kShare * (1 - kShare));
    EXPECT_NEAR(static_cast<double>(counters.lost), kCount * kShare, 4 * deviation);
  }
  EXPECT_EQ(runs[0], runs[1]);
  EXPECT_NE(runs[0], runs[2]);
}

TEST(Links, TcpStream_WithLossInBothDirections_LosesNoByte) {
  HOLDFAST_MAKE_MACHINES(machines, 1);
  const Stream stream(*machines, 0, kHub);
  set(*machines, 0, "delay 1000");
  set(*machines, 0, "loss 30");
  const std::string bytes = pattern(1'000'000);
  EXPECT_EQ(stream.carry(stream.from_fd(), bytes) == bytes, true);
  const LineCounters counters = machines->counters(0)->a;
  EXPECT_GT(counters.lost, 5);
  EXPECT_GT(counters.delivered, 500);
}

TEST(Links, Rate_OfOneDirection_LeavesTheOtherOneFast) {
  HOLDFAST_MAKE_MACHINES(machines, 1);
  const Stream stream(*machines, 0, kHub);
  set(*machines, 0, "rate 500000 a");
  const std::string bytes = pattern(400'000);
  const auto time_of = [&](int sender) {
    const std::int64_t begin = monotonic_us();
    EXPECT_EQ(stream.carry(sender, bytes) == bytes, true);
    return monotonic_us() - begin;
  };
  const std::int64_t slow = time_of(stream.from_fd());
  const std::int64_t fast = time_of(stream.to_fd());
  std::printf("400,000 bytes: %.3f s at 500,000 bytes a second, %.3f s without a rate\n",
              slow / 1e6, fast / 1e6);
  EXPECT_GE(slow, 800'000);
  EXPECT_LT(slow, 4'000'000);
  EXPECT_LT(fast, 600'000);
}

TEST(Links, Rate_WithABurst_DropsWhatTheQueueDoesNotHold) {
  HOLDFAST_MAKE_MACHINES(machines, 1);
  set(*machines, 0, "rate 500000 a");
  const Datagrams hub(*machines, kHub);
  const Datagrams one(*machines, 0);
  for (int i = 0; i < 300; ++i) one.send(kHub, i, 1000);
  ASSERT_TRUE(is_through(*machines, 0, 300));
  const LineCounters counters = machines->counters(0)->a;
  EXPECT_EQ(counters.delivered + counters.overflowed, 300);
  EXPECT_GE(counters.delivered, 95) << "200 ms of the rate fit";
  EXPECT_GE(counters.overflowed, 50);
}

TEST(Links, Cut_OfOneDirection_LosesWhatIsOnItsWayAndLetsTheOtherPass) {
  HOLDFAST_MAKE_MACHINES(machines, 1);
  const Datagrams hub(*machines, kHub);
  const Datagrams one(*machines, 0);
  set(*machines, 0, "delay 100000 a");
  for (int i = 0; i < 5; ++i) one.send(kHub, i);
  ASSERT_TRUE(becomes_true([&] { return machines->counters(0)->a.queued == 5; }));
  set(*machines, 0, "cut a");
  one.send(kHub, 5);
  hub.send(0, 100);
  EXPECT_EQ(one.receive(kPatienceMs), 100);
  EXPECT_FALSE(hub.receive(300).has_value());
  EXPECT_EQ(machines->counters(0)->a, (LineCounters{.received = 6, .cut = 6}));
  EXPECT_EQ(machines->counters(0)->b, (LineCounters{.received = 1, .delivered = 1}));
  set(*machines, 0, "heal a");
  one.send(kHub, 6);
  EXPECT_EQ(hub.receive(kPatienceMs), 6);
}

TEST(Links, Cut_OnceItIsAnswered_LetsNothingThrough) {
  HOLDFAST_MAKE_MACHINES(machines, 1);
  const Datagrams hub(*machines, kHub);
  const auto sender = machines->start_function(0, [&] {
    const Datagrams here(*machines, 0);
    for (int i = 0;; ++i) {
      here.send(kHub, i);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return 0;
  });
  ASSERT_TRUE(hub.receive(kPatienceMs).has_value()) << sender->errors();
  const std::int64_t begin = monotonic_us();
  set(*machines, 0, "cut both");
  const std::int64_t answered = monotonic_us() - begin;
  while (hub.receive(0).has_value()) {  // what had arrived before
  }
  EXPECT_FALSE(hub.receive(200).has_value());
  EXPECT_GT(machines->counters(0)->a.cut, 50);
  std::printf("a cut holds %ld us after it was asked for\n", static_cast<long>(answered));
  EXPECT_LT(answered, 1'000'000);
  set(*machines, 0, "heal");
  EXPECT_TRUE(hub.receive(kPatienceMs).has_value());
}

TEST(Links, Block_OfAPeer_SeparatesThatPairAlone) {
  HOLDFAST_MAKE_MACHINES(machines, 2);
  const Datagrams hub(*machines, kHub);
  const Datagrams one(*machines, 0);
  const Datagrams other(*machines, 1);
  set(*machines, 0, "block " + Machines::address(1));
  one.send(1, 1);
  other.send(0, 2);
  for (const int machine : {0, 1}) {
    hub.send(machine, 10 + machine);
    (machine == 0 ? one : other).send(kHub, 20 + machine);
    EXPECT_EQ(hub.receive(kPatienceMs), 20 + machine);
  }
  EXPECT_EQ(one.receive(kPatienceMs), 10);
  EXPECT_EQ(other.receive(kPatienceMs), 11);
  EXPECT_FALSE(one.receive(50).has_value());
  EXPECT_FALSE(other.receive(50).has_value());
  set(*machines, 0, "heal");
  one.send(1, 3);
  EXPECT_EQ(other.receive(kPatienceMs), 3);
}

TEST(Links, TcpStream_OverACutThatHeals_LosesNoByte) {
  HOLDFAST_MAKE_MACHINES(machines, 1);
  const Stream stream(*machines, 0, kHub);
  set(*machines, 0, "rate 1000000 a");
  const std::string bytes = pattern(500'000);
  std::thread cutting([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    set(*machines, 0, "cut both");
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    set(*machines, 0, "heal");
  });
  EXPECT_EQ(stream.carry(stream.from_fd(), bytes) == bytes, true);
  cutting.join();
  EXPECT_GT(machines->counters(0)->a.cut, 0);
}

/// The processor time of a process, in microseconds.
std::int64_t processor_us(pid_t pid) {
  clockid_t clock{};
  timespec used{};
  EXPECT_EQ(clock_getcpuclockid(pid, &clock), 0);
  EXPECT_EQ(clock_gettime(clock, &used), 0);
  return used.tv_sec * 1'000'000 + used.tv_nsec / 1000;
}

TEST(Links, Wire_WhenIdleOrWaiting_UsesNoProcessor) {
  HOLDFAST_MAKE_MACHINES(machines, 1);
  const auto expect_sleep = [&](const char* state) {
    const std::int64_t before = processor_us(machines->wire_pid(0));
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    EXPECT_LE(processor_us(machines->wire_pid(0)) - before, 5'000) << state;
  };
  expect_sleep("idle");
  set(*machines, 0, "delay 5000000");
  const Datagrams one(*machines, 0);
  one.send(kHub, 1);
  ASSERT_TRUE(becomes_true([&] { return machines->counters(0)->a.queued == 1; }));
  expect_sleep("with a packet on its way");
}

TEST(Links, Commands_ToAWire_AreAnsweredWithTheirErrors) {
  HOLDFAST_MAKE_MACHINES(machines, 1);
  const auto refused = machines->set_wire(0, "loss 2000");
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, Errc::kInvalidRequest);
  EXPECT_NE(refused.error().what.find("from 0 to 1000"), std::string::npos);
  const pid_t wire = machines->wire_pid(0);
  ASSERT_GT(wire, 0);
  kill(wire, SIGKILL);
  const auto gone = machines->set_wire(0, "loss 20");
  ASSERT_FALSE(gone.has_value());
  EXPECT_EQ(gone.error().code, Errc::kUnreachable);
}

}  // namespace
}  // namespace holdfast::cluster::links_test
