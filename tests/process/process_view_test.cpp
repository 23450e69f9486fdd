// Goal: a view of a process from outside is true of that process and of no other: its end, that it
// is stopped, how long it had to wait for a processor. Method: children of this program that sleep,
// spin, stop and end.
#include "shared/base/process_view.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "shared/base/clock.h"

namespace holdfast::process_view_test {
namespace {

void sleep_ms(int ms) {
  std::this_thread::sleep_for(std::chrono::milliseconds(ms));
}

/// A child process that does `work` until it is killed.
class Child {
 public:
  template <class Work>
  explicit Child(const Work& work) : pid_(fork()) {
    if (pid_ != 0) return;
    work();
    _exit(0);
  }
  ~Child() { end(); }
  void end() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_;
};

void sleep_for_ever() {
  while (true) pause();
}
void spin_on_one_processor() {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(0, &one);
  sched_setaffinity(0, sizeof one, &one);
  for (;;) asm volatile("");
}

template <class Done>
bool wait_for(const Done& done) {
  for (int i = 0; i < 2000 && !done(); ++i) sleep_ms(5);
  return done();
}

TEST(ProcessView, ProcessView_WhenTheProcessStopsOrContinues_ReportsItsState) {
  const Child child(sleep_for_ever);
  const auto view = ProcessView::open(child.pid());
  ASSERT_TRUE(view.has_value());
  EXPECT_EQ(view->state(), ProcessView::State::kAlive);
  kill(child.pid(), SIGSTOP);
  EXPECT_TRUE(wait_for([&] { return view->state() == ProcessView::State::kStopped; }));
  kill(child.pid(), SIGCONT);
  EXPECT_TRUE(wait_for([&] { return view->state() == ProcessView::State::kAlive; }));
}

TEST(ProcessView, ProcessView_BeforeAndAfterTheParentReaps_ReportsTheEnd) {
  Child child(sleep_for_ever);
  const auto view = ProcessView::open(child.pid());
  ASSERT_TRUE(view.has_value());
  pollfd end{view->exit_fd(), POLLIN, 0};
  EXPECT_EQ(poll(&end, 1, 0), 0);
  kill(child.pid(), SIGKILL);
  EXPECT_EQ(poll(&end, 1, 20'000), 1);
  EXPECT_EQ(view->state(), ProcessView::State::kEnded);  // a zombie
  child.end();
  EXPECT_EQ(view->state(), ProcessView::State::kEnded);
}

TEST(ProcessView, ProcessView_WithAReusedPid_IsNotOpened) {
  const Child child(sleep_for_ever);
  EXPECT_FALSE(ProcessView::open(child.pid(), own_start_ticks() - 1).has_value());
  EXPECT_FALSE(ProcessView::open(0).has_value());
  EXPECT_FALSE(ProcessView::open(1 << 30).has_value());
  EXPECT_TRUE(ProcessView::open(getpid(), own_start_ticks()).has_value());
}

TEST(ProcessView, HeldUpTime_WhenTheProcessSleeps_IsSmall) {
  const Child child(sleep_for_ever);
  auto view = ProcessView::open(child.pid());
  ASSERT_TRUE(view.has_value());
  sleep_ms(50);
  view->begin_count(system_clock().monotonic_us());
  sleep_ms(300);
  EXPECT_LT(view->held_up_us(system_clock().monotonic_us()), 100'000);
}

TEST(ProcessView, HeldUpTime_WhenFourShareAProcessor_IsMostOfTheTime) {
  const Child one(spin_on_one_processor), two(spin_on_one_processor), three(spin_on_one_processor);
  const Child four(spin_on_one_processor);
  auto view = ProcessView::open(one.pid());
  ASSERT_TRUE(view.has_value());
  sleep_ms(100);
  std::int64_t held = 0;
  std::int64_t begin = system_clock().monotonic_us();
  view->begin_count(begin);
  for (int i = 0; i < 40; ++i) {
    sleep_ms(20);
    held += view->held_up_us(system_clock().monotonic_us());
  }
  const std::int64_t took = system_clock().monotonic_us() - begin;
  EXPECT_GT(held, took / 2) << "of " << took;
  EXPECT_LE(held, took);
}

}  // namespace
}  // namespace holdfast::process_view_test
