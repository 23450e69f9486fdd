// Goal: barriers separate steps and no wake-up is lost, also with more threads than processors.
// Method: every worker writes its cell in each step and reads the others' after the barrier.

#include "shared/base/thread_pool.h"

#include <gtest/gtest.h>

namespace holdfast::thread_pool_test {
namespace {

TEST(ThreadPool, Barrier_WithAnyThreadCount_SeparatesSteps) {
  for (const int size : {1, 2, 3, 7}) {
    ThreadPool pool(size);
    std::vector<std::int64_t> cell(static_cast<std::size_t>(size) * 16, 0);
    std::atomic<std::int64_t> wrong{0};
    const std::int64_t steps = size > 2 ? 300 : 3000;
    for (int round = 0; round < 3; ++round) {
      pool.run([&](int worker) {
        for (std::int64_t step = 1; step <= steps; ++step) {
          cell[static_cast<std::size_t>(worker) * 16] = step;
          pool.barrier();
          for (int i = 0; i < size; ++i) {
            if (cell[static_cast<std::size_t>(i) * 16] != step) wrong.fetch_add(1);
          }
          pool.barrier();
        }
      });
    }
    EXPECT_EQ(wrong.load(), 0) << size;
  }
}

TEST(ThreadPool, Run_AfterIdleTimes_RunsEveryWorkerOnce) {
  ThreadPool pool(4);
  for (int round = 0; round < 500; ++round) {
    std::atomic<int> mask{0};
    pool.run([&](int worker) { mask.fetch_or(1 << worker); });
    ASSERT_EQ(mask.load(), 15);
    if (round % 100 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

TEST(ThreadPool, ShareOf_WithAnyCount_CoversEverythingOnce) {
  for (const std::int64_t n : {0, 1, 5, 7, 64}) {
    std::int64_t at = 0;
    for (int worker = 0; worker < 3; ++worker) {
      const Share share = share_of(n, worker, 3);
      EXPECT_EQ(share.first, at);
      at = share.last;
    }
    EXPECT_EQ(at, n);
  }
}

}  // namespace
}  // namespace holdfast::thread_pool_test
