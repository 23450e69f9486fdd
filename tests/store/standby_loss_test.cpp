// Goal: what a primary acknowledged while its standby was in step is in the standby's copy, whole,
// whenever the primary's machine is lost.
// Method: a forked primary commits groups, waits for the standby as the daemon does, and writes the
// committed number to a pipe (its acknowledgement). The standby is another process, behind a wire
// that delays each byte by a millisecond. Primary and wire are killed together at a random moment,
// so that what was under way is lost; the standby's copy is then opened as a daemon does it. A
// primary that does not wait must be found out.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <random>

#include "control/replication/copy_receiver.h"
#include "control/replication/primary.h"
#include "control/store/check.h"
#include "control/store/store.h"
#include "shared/base/clock.h"
#include "tests/store/slow_wire.h"
#include "tests/store/temp_state.h"

namespace holdfast::store::standby_loss_test {
namespace {

constexpr core::PeerId kStandby = 1;
constexpr std::int64_t kLongUs = 60'000'000;

/// The primary's process: a store that ships, and acknowledgements into a pipe.
class PrimaryProcess {
 public:
  PrimaryProcess(const std::string& dir, int wire, int acks, bool waits)
      : disk_(dir), end_(wire), acks_(acks), waits_(waits) {
    OpenOptions options;
    options.state_dir = dir;
    options.disk = &disk_;
    auto store = Store::open(options);
    CHECK(store.has_value());
    store_ = std::move(store).value();
    replication::PrimaryOptions pair;
    pair.url = "tcp://primary:1";
    pair.term = 1;
    pair.silence_us = kLongUs;
    primary_.emplace(std::move(pair), disk_, [this](core::PeerId, const wire::Message& message) {
      return end_.send(message) ? wire::SendStatus::kSent : wire::SendStatus::kGone;
    });
  }

  [[noreturn]] void run() {
    for (core::Seq seq = 1;; ++seq) {
      const bool full = seq % 3 != 0;
      commit(*store_, rows_of(seq), full ? core::Durability::kFull : core::Durability::kNormal);
      primary_->flush(now());
      hear(0);
      if (full && primary_->must_wait()) {
        while (waits_ && !primary_->confirmed()) hear(100);
        if (write(acks_, &seq, sizeof seq) != sizeof seq) _exit(1);
      }
      CHECK(primary_->tick(now()).has_value());
      if (seq % 37 == 0) CHECK(store_->checkpoint_all().has_value());
      if (seq % 11 == 0) CHECK(store_->checkpoint_if_due(true).has_value());
    }
  }

 private:
  static std::int64_t now() { return system_clock().monotonic_us(); }

  /// A request and its tokens in one group, or tokens of one before.
  static std::vector<core::RowChange> rows_of(core::Seq seq) {
    std::vector<core::RowChange> rows = {request_row(seq, "k" + std::to_string(seq))};
    std::int64_t index = 0;
    for (int i = 0; i < 5; ++i) {
      rows.emplace_back(chunk(seq, index, {static_cast<core::TokenId>(seq), i}));
      index += 2;
      rows.emplace_back(progress(seq, index));
    }
    return rows;
  }

  void hear(int wait_ms) {
    for (auto message = end_.receive(wait_ms); message; message = end_.receive(0)) {
      if (const auto* hello = std::get_if<wire::StandbyHello>(&*message)) {
        CHECK(primary_->hello(kStandby, *hello, now()).has_value());
      } else if (const auto* shipped = std::get_if<wire::Shipped>(&*message)) {
        primary_->shipped(kStandby, *shipped, now());
      }
    }
    if (end_.is_over()) _exit(2);
  }

  replication::ShippingDisk disk_;
  std::unique_ptr<Store> store_;
  std::optional<replication::Primary> primary_;
  WireEnd end_;
  int acks_;
  bool waits_;
};

[[noreturn]] void run_standby(const std::string& dir, int wire) {
  using replication::CopyReceiver;
  CopyReceiver copy(dir);
  WireEnd end(wire);
  (void)end.send(wire::StandbyHello{"tcp://standby:1", 0});
  while (!end.is_over()) {
    const auto message = end.receive(-1);
    const auto* ship = message ? std::get_if<wire::Ship>(&*message) : nullptr;
    if (ship == nullptr) continue;
    const auto taken = copy.take(*ship);
    CHECK(taken.has_value() && *taken == CopyReceiver::Taken::kWritten);
    (void)end.send(wire::Shipped{ship->term, ship->number});
  }
  _exit(0);
}

/// The standby after the loss of one primary.
struct Loss {
  core::Seq acknowledged = 0;  // the last one
  core::Seq count = 0;         // requests in the copy
  core::Seq last = 0;
  bool whole = false;  // the copy was complete, and is sound
};

pid_t fork_one(const std::function<void()>& run) {
  const pid_t pid = fork();
  CHECK(pid >= 0);
  if (pid == 0) run();
  return pid;
}

/// Waits until the primary acknowledges in step, then kills it with its wire a random time later.
Loss lose_one(std::int64_t after_us, bool waits) {
  const TempState primary;
  const TempState standby;
  SlowWire wire;
  int acks[2];
  CHECK(pipe(acks) == 0);
  const pid_t other = fork_one([&] {
    wire.close_left();
    close(acks[0]);
    close(acks[1]);
    run_standby(standby.dir(), wire.right());
  });
  const pid_t pid = fork_one([&] {
    wire.close_right();
    close(acks[0]);
    PrimaryProcess process(primary.dir(), wire.left(), acks[1], waits);
    process.run();
  });
  wire.close_left();
  wire.close_right();
  close(acks[1]);
  Loss loss;
  core::Seq seq = 0;
  if (read(acks[0], &seq, sizeof seq) == sizeof seq) loss.acknowledged = seq;
  usleep(static_cast<useconds_t>(after_us));
  wire.cut();
  kill(pid, SIGKILL);
  waitpid(pid, nullptr, 0);
  while (read(acks[0], &seq, sizeof seq) == sizeof seq) loss.acknowledged = seq;
  close(acks[0]);
  waitpid(other, nullptr, 0);

  replication::CopyReceiver copy(standby.dir());
  loss.whole = copy.note().complete && copy.promote(2).has_value();
  auto opened = open_store(standby.dir());
  loss.whole = loss.whole && opened->raise_epoch(1).has_value();
  opened.reset();
  loss.whole = loss.whole && read_sql(standby.db(), "PRAGMA integrity_check") == "ok";
  loss.count = std::atoll(read_sql(standby.db(), "SELECT count(*) FROM requests").c_str());
  loss.last = std::atoll(read_sql(standby.db(), "SELECT max(seq) FROM requests").c_str());
  return loss;
}

int cycles() {
  return std::getenv("HOLDFAST_TEST_FULL") != nullptr ? 1000 : 40;
}

TEST(StandbyLoss, Acknowledged_WhenThePrimarysMachineIsLost_IsAllInTheCopy) {
  std::mt19937 random(7);
  core::Seq acknowledged = 0;
  for (int i = 0; i < cycles(); ++i) {
    const Loss loss = lose_one(static_cast<std::int64_t>(random() % 60'000), true);
    ASSERT_TRUE(loss.whole) << i;
    ASSERT_GT(loss.acknowledged, 0) << i;
    ASSERT_GE(loss.last, loss.acknowledged) << i;
    ASSERT_EQ(loss.count, loss.last) << i << ": a hole";
    acknowledged += loss.acknowledged;
  }
  std::printf("%d machines lost, %lld acknowledged requests, all there\n", cycles(),
              static_cast<long long>(acknowledged));
}

TEST(StandbyLoss, PrimaryThatDoesNotWait_WhenLost_IsFoundOut) {
  std::mt19937 random(11);
  int lost = 0;
  for (int i = 0; i < 40 && lost == 0; ++i) {
    const Loss loss = lose_one(static_cast<std::int64_t>(random() % 20'000), false);
    if (loss.last < loss.acknowledged) ++lost;
  }
  EXPECT_GT(lost, 0) << "the test cannot see a loss";
}

}  // namespace
}  // namespace holdfast::store::standby_loss_test
