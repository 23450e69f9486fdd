// Goal: the process that comes next knows what a dead one was working on when it ended, and over
// which item it crashed; items that were done, and processes that ended in order, are blamed for
// nothing. Method: processes of our own that end in every way while several threads work.
#include "control/gateway/common/touch_journal.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <functional>
#include <thread>

namespace holdfast::gateway::touch_journal_test {
namespace {

struct Dir {
  Dir() {
    char name[] = "/tmp/touched-XXXXXX";
    path = std::string(mkdtemp(name)) + "/touched";
  }
  ~Dir() { std::filesystem::remove_all(std::filesystem::path(path).parent_path()); }
  std::string path;
};

/// Returns how a process ended that did this work.
int in_process(const std::string& dir, const std::function<void(TouchJournal&)>& work) {
  const pid_t child = fork();
  if (child == 0) {
    const rlimit none{0, 0};
    setrlimit(RLIMIT_CORE, &none);
    auto journal = TouchJournal::create(dir);
    if (!journal) _exit(9);
    work(**journal);
    journal->reset();
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

/// Returns "item", or "item!" for an item over which the process crashed.
std::vector<std::string> left_in(const std::string& dir, bool remove = true) {
  std::vector<std::string> out;
  for (const auto& left : find_left_touches(dir)) {
    for (const Touched& touched : left->items())
      out.push_back(touched.item + (touched.guilty ? "!" : ""));
    if (remove) left->remove();
  }
  std::sort(out.begin(), out.end());
  return out;
}

volatile char g_sink;
[[gnu::noinline]] int deeper(int n) {  // NOLINT
  volatile char frame[256];
  frame[0] = static_cast<char>(n);
  g_sink = frame[0];
  if (g_sink == 0 && n > 1'000'000'000) return 0;
  return deeper(n + 1) + frame[0];
}

TEST(TouchJournal, TouchJournal_WhenAThreadCrashes_BlamesItsOpenItem) {
  const Dir dir;
  const std::pair<int, std::function<void()>> ends[] = {
      {-SIGABRT, [] { std::abort(); }},
      {-SIGSEGV,
       [] { g_sink = static_cast<char>(deeper(0)); }},  // the stack has no room for a handler
      {-SIGSEGV, [] { raise(SIGSEGV); }},
      {-SIGILL, [] { raise(SIGILL); }}};
  for (const auto& [signal, end] : ends) {
    const int ended = in_process(dir.path, [&end = end](TouchJournal& journal) {
      std::atomic<bool> ready = false;
      std::thread bystander([&] {
        const auto touch = journal.touch("bystander");
        ready = true;
        pause();
      });
      while (!ready) std::this_thread::yield();
      std::thread worker([&] {
        { const auto before = journal.touch("laid-down"); }
        const auto outer = journal.touch("outer");
        { const auto inner = journal.touch("inner"); }
        end();
      });
      worker.join();
    });
    EXPECT_EQ(ended, signal);
    EXPECT_EQ(left_in(dir.path), (std::vector<std::string>{"bystander", "outer!"})) << signal;
    EXPECT_TRUE(left_in(dir.path).empty()) << "it was removed";
  }
}

TEST(TouchJournal, TouchJournal_WhenKilledBySigkill_ListsItemsWithoutBlame) {
  const Dir dir;
  EXPECT_EQ(in_process(dir.path,
                       [](TouchJournal& journal) {
                         const auto touch = journal.touch("item");
                         kill(getpid(), SIGKILL);
                         pause();
                       }),
            -SIGKILL);
  EXPECT_EQ(left_in(dir.path, false), (std::vector<std::string>{"item"}));
  EXPECT_EQ(left_in(dir.path), (std::vector<std::string>{"item"})) << "until it is removed";
}

TEST(TouchJournal, TouchJournal_WhenProcessExitsCleanlyOrLives_ReportsNothing) {
  const Dir dir;
  EXPECT_EQ(in_process(dir.path,
                       [](TouchJournal& journal) {
                         auto touch = journal.touch("item");
                         touch = {};
                       }),
            0);
  EXPECT_TRUE(left_in(dir.path).empty());
  const auto journal = TouchJournal::create(dir.path);
  ASSERT_TRUE(journal) << journal.error().what;
  const auto touch = (*journal)->touch("mine");
  EXPECT_TRUE(left_in(dir.path).empty()) << "its process lives";
  const auto long_name = (*journal)->touch(std::string(1'000, 'x'));
  std::vector<TouchJournal::Touch> many;
  for (int i = 0; i < 1'000; ++i) many.push_back((*journal)->touch("more"));
}

}  // namespace
}  // namespace holdfast::gateway::touch_journal_test
