// Goal: a wire delays, spaces, loses and cuts exactly as it was told, in order, and its counters
// account for every packet. Method: the wire without devices, with instants as numbers.
#include "tests/cluster/wire.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace holdfast::cluster::wire_test {
namespace {

constexpr std::int64_t kMs = 1'000'000;  // nanoseconds

/// The instants at which the packets of a line come out, each looked for when it is due.
std::vector<std::int64_t> instants_of(Line& line) {
  std::vector<std::int64_t> out;
  while (const auto due = line.next_due_ns()) {
    EXPECT_FALSE(line.take_due(*due - 1).has_value());
    EXPECT_TRUE(line.take_due(*due).has_value());
    line.count_delivery(true);
    out.push_back(*due);
  }
  return out;
}

/// The numbers of those packets from `begin` to `end` - 1 that a line lets through.
std::vector<int> survivors(Line& line, int begin, int end) {
  std::vector<int> out;
  for (int i = begin; i < end; ++i) {
    line.offer(std::to_string(i), i * kMs);
    while (const auto packet = line.take_due(i * kMs + 100 * kMs))
      out.push_back(std::stoi(*packet));
  }
  return out;
}

void expect_balance(const LineCounters& c) {
  EXPECT_EQ(c.received, c.delivered + c.lost + c.cut + c.overflowed + c.refused + c.queued);
}

TEST(Line, Packets_WithADelay_ComeInOrderWhenTheyAreDue) {
  Line line(1);
  line.settings().delay_us = 5'000;
  line.offer("a", 0);
  line.offer("b", 1 * kMs);
  line.settings().delay_us = 1'000;  // a shorter way, on which nothing overtakes
  line.offer("c", 2 * kMs);
  line.offer("d", 9 * kMs);
  EXPECT_EQ(instants_of(line), (std::vector<std::int64_t>{5 * kMs, 6 * kMs, 6 * kMs, 10 * kMs}));
  EXPECT_EQ(line.counters(), (LineCounters{.received = 4, .delivered = 4}));
}

TEST(Line, Packets_WithARate_AreSpacedByTheirLengths) {
  Line line(1);
  line.settings().rate_bytes_per_s = 1'000'000;  // a byte a microsecond
  line.settings().delay_us = 2'000;
  line.offer(std::string(1000, 'x'), 0);
  line.offer(std::string(500, 'x'), 0);
  line.offer(std::string(1000, 'x'), 10 * kMs);  // the line was free by then
  EXPECT_EQ(instants_of(line), (std::vector<std::int64_t>{3 * kMs, 3'500'000, 13 * kMs}));
}

TEST(Line, Rate_WithABacklog_DropsWhatWouldWaitTooLong) {
  Line line(1);
  line.settings().rate_bytes_per_s = 1'000'000;
  for (int i = 0; i < 300; ++i) line.offer(std::string(1000, 'x'), 0);
  const std::int64_t waiting = Line::kRateWaitMaxNs / kMs + 1;  // a packet a millisecond
  EXPECT_EQ(line.counters(),
            (LineCounters{.received = 300, .overflowed = 300 - waiting, .queued = waiting}));
}

TEST(Line, Rate_WhenLifted_HoldsNothingBackThatComesLater) {
  Line line(1);
  line.settings().rate_bytes_per_s = 1'000;
  line.offer(std::string(150, 'x'), 0);
  line.settings().rate_bytes_per_s = 0;
  line.offer("y", 1);  // follows in order
  EXPECT_EQ(instants_of(line), (std::vector<std::int64_t>{150 * kMs, 150 * kMs}));
  line.offer("z", 151 * kMs);
  EXPECT_EQ(instants_of(line), (std::vector<std::int64_t>{151 * kMs}));
}

TEST(Line, Queue_WhenFull_DropsTheLastPackets) {
  Line line(1);
  line.settings().delay_us = 1'000'000;
  const auto bound = static_cast<std::int64_t>(Line::kPacketsMax);
  for (std::int64_t i = 0; i < bound + 3; ++i) line.offer(std::to_string(i), 0);
  EXPECT_EQ(line.counters(),
            (LineCounters{.received = bound + 3, .overflowed = 3, .queued = bound}));
  Line bytes(1);
  bytes.settings().delay_us = 1'000'000;
  const std::string large(65'000, 'x');
  const auto fits = static_cast<std::int64_t>(Line::kBytesMax / large.size());
  for (std::int64_t i = 0; i < fits + 2; ++i) bytes.offer(large, 0);
  EXPECT_EQ(bytes.counters(),
            (LineCounters{.received = fits + 2, .overflowed = 2, .queued = fits}));
}

TEST(Line, Loss_OfManyPackets_IsTheStatedShare) {
  constexpr int kPackets = 200'000;
  for (const int permille : {0, 1, 10, 500, 1000}) {
    Line line(7);
    line.settings().loss_permille = permille;
    const auto lost = kPackets - static_cast<double>(survivors(line, 0, kPackets).size());
    const double share = permille / 1000.0;
    const double deviation = std::sqrt(kPackets * share * (1 - share));
    EXPECT_NEAR(lost, kPackets * share, 5 * deviation) << permille;
    EXPECT_EQ(line.counters().lost, static_cast<std::int64_t>(lost));
  }
}

TEST(Line, Loss_WithOneSeed_MeetsTheSamePackets) {
  Line one(7);
  Line again(7);
  Line other(8);
  for (Line* line : {&one, &again, &other}) line->settings().loss_permille = 100;
  again.settings().delay_us = 3'000;
  const std::vector<int> first = survivors(one, 0, 1'000);
  EXPECT_EQ(first, survivors(again, 0, 1'000));
  EXPECT_NE(first, survivors(other, 0, 1'000));
}

TEST(Line, Loss_SetLater_MeetsThePacketsThatItWouldHave) {
  Line one(7);
  Line later(7);
  one.settings().loss_permille = 100;
  (void)survivors(later, 0, 500);
  later.settings().loss_permille = 100;
  std::vector<int> rest;
  for (const int packet : survivors(one, 0, 1'000)) {
    if (packet >= 500) rest.push_back(packet);
  }
  EXPECT_EQ(survivors(later, 500, 1'000), rest);
}

TEST(Line, Cut_WithPacketsOnTheirWay_LosesThemAndAllLaterOnes) {
  Line line(1);
  line.settings().delay_us = 1'000;
  for (int i = 0; i < 3; ++i) line.offer("x", 0);
  line.cut();
  EXPECT_FALSE(line.next_due_ns().has_value());
  line.offer("x", 1);
  EXPECT_EQ(line.counters(), (LineCounters{.received = 4, .cut = 4}));
  line.heal();
  line.offer("x", 2);
  EXPECT_EQ(instants_of(line), (std::vector<std::int64_t>{2 + kMs}));
}

/// An IPv4 packet of a header alone.
std::string packet_between(const std::string& from, const std::string& to) {
  return "\x45" + std::string(11, '.') + from + to;
}

TEST(Line, Block_OfAnAddress_LosesItsPacketsAlone) {
  Line line(1);
  line.settings().delay_us = 1'000;
  const std::string blocked = packet_between("aaaa", "bbbb");
  const std::string other = packet_between("aaaa", "cccc");
  line.offer(blocked, 0);
  line.offer(other, 0);
  line.block("bbbb");
  line.offer(packet_between("bbbb", "aaaa"), 1);
  line.offer(other, 1);
  line.offer("no packet with bbbb in it", 1);
  EXPECT_EQ(line.counters(), (LineCounters{.received = 5, .cut = 2, .queued = 3}));
  EXPECT_EQ(instants_of(line), (std::vector<std::int64_t>{kMs, 1 + kMs, 1 + kMs}));
  line.heal();
  line.offer(blocked, 2);
  EXPECT_EQ(line.counters().queued, 1);
}

TEST(Line, Counters_AfterAnyMixture_AddUp) {
  std::mt19937 random(3);
  Line line(3);
  std::int64_t now = 0;
  for (int i = 0; i < 20'000; ++i) {
    now += random() % 200'000;
    line.offer(std::string(1 + random() % 1500, 'x'), now);
    if (random() % 3 == 0 && line.take_due(now)) line.count_delivery(random() % 10 != 0);
    if (random() % 100 == 0) line.settings().loss_permille = random() % 300;
    if (random() % 100 == 0) line.settings().delay_us = random() % 5'000;
    if (random() % 100 == 0) line.settings().rate_bytes_per_s = random() % 20'000'000;
    if (random() % 500 == 0) line.cut();
    if (random() % 50 == 0) line.heal();
    expect_balance(line.counters());
  }
  const LineCounters end = line.counters();
  EXPECT_EQ(end.received, 20'000);
  for (const std::int64_t count : {end.delivered, end.lost, end.cut, end.overflowed, end.refused}) {
    EXPECT_GT(count, 0);
  }
}

TEST(Wire, Commands_WithADirection_ChangeThatOneAlone) {
  Wire wire(1);
  EXPECT_EQ(wire.command("delay 1500"), "ok");
  EXPECT_EQ(wire.command("loss 20 a"), "ok");
  EXPECT_EQ(wire.command(" rate  125000 b "), "ok");
  const LineSettings a = wire.line(End::kA).settings();
  const LineSettings b = wire.line(End::kB).settings();
  EXPECT_EQ(a.delay_us, 1500);
  EXPECT_EQ(b.delay_us, 1500);
  EXPECT_EQ(a.loss_permille, 20);
  EXPECT_EQ(b.loss_permille, 0);
  EXPECT_EQ(a.rate_bytes_per_s, 0);
  EXPECT_EQ(b.rate_bytes_per_s, 125'000);
  EXPECT_EQ(wire.command("cut a"), "ok");
  wire.line(End::kA).offer("x", 0);
  wire.line(End::kB).offer("x", 0);
  EXPECT_EQ(wire.command("counters"),
            "ok a received=1 delivered=0 lost=0 cut=1 overflowed=0 refused=0 queued=0 "
            "b received=1 delivered=0 lost=0 cut=0 overflowed=0 refused=0 queued=1");
  EXPECT_EQ(wire.command("heal both"), "ok");
}

TEST(Wire, Commands_ThatAreNone_AreRefusedAndChangeNothing) {
  Wire wire(1);
  for (const char* bad : {"", "dealy 1", "delay", "delay x", "delay -1", "delay 60000001",
                          "loss 1001", "loss 5 c", "loss 5 a b", "cut 5", "counters a", "block",
                          "block 10.0.0", "rate 99999999999999999999"}) {
    EXPECT_EQ(wire.command(bad).rfind("error: ", 0), 0u) << bad;
  }
  for (const End end : {End::kA, End::kB}) {
    EXPECT_EQ(wire.line(end).settings().delay_us, 0);
    EXPECT_EQ(wire.line(end).settings().loss_permille, 0);
    wire.line(end).offer("x", 0);
    EXPECT_EQ(wire.line(end).counters(), (LineCounters{.received = 1, .queued = 1}));
  }
}

TEST(Counters, Text_WhenParsed_IsTheSame) {
  WireCounters counters;
  counters.a = {1, 2, 3, 4, 5, 6, 7};
  counters.b = {8, 9, 10, 11, 12, 13, 14};
  EXPECT_EQ(parse_counters(counters_text(counters)).value(), counters);
  EXPECT_EQ(parse_counters("ok " + counters_text(counters)).value(), counters);
  for (const char* bad : {"", "ok", "ok a received=1", "error: a", "a received=x"}) {
    EXPECT_FALSE(parse_counters(bad).has_value()) << bad;
  }
}

}  // namespace
}  // namespace holdfast::cluster::wire_test
