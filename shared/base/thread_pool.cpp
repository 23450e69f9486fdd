#include "shared/base/thread_pool.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>

#include "shared/base/check.h"

namespace holdfast {
namespace {

// In ticks of the time stamp counter, 2 to 3 a nanosecond.
constexpr std::int64_t kSpinMin = 5'000;
constexpr std::int64_t kSpinMax = 250'000;
constexpr std::int64_t kShortSleep = 400'000;  // spinning should have bridged such a sleep

std::int64_t ticks() {
  return static_cast<std::int64_t>(__builtin_ia32_rdtsc());
}

void futex_wait(std::atomic<std::uint32_t>* word, std::uint32_t generation) {
  syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(word), FUTEX_WAIT_PRIVATE, generation,
          nullptr, nullptr, 0);
}
void futex_wake_all(std::atomic<std::uint32_t>* word) {
  syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(word), FUTEX_WAKE_PRIVATE, INT_MAX, nullptr,
          nullptr, 0);
}

}  // namespace

void SpinBarrier::arrive_and_wait() {
  const std::uint32_t generation = generation_.load(std::memory_order_relaxed);
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == parties_) {
    arrived_.store(0, std::memory_order_relaxed);
    // Sequentially consistent with the sleeper's count-then-check, so that no wake-up is lost.
    generation_.store(generation + 1, std::memory_order_seq_cst);
    if (sleepers_.load(std::memory_order_seq_cst) != 0) futex_wake_all(&generation_);
    return;
  }
  const std::int64_t limit = spin_.load(std::memory_order_relaxed);
  const std::int64_t began = ticks();
  while (ticks() - began < limit) {
    if (generation_.load(std::memory_order_acquire) != generation) return;
    __builtin_ia32_pause();
  }
  sleepers_.fetch_add(1, std::memory_order_seq_cst);
  while (generation_.load(std::memory_order_seq_cst) == generation)
    futex_wait(&generation_, generation);
  sleepers_.fetch_sub(1, std::memory_order_relaxed);
  // A short sleep costs more than it saves: spin longer next time. A long one means that other
  // threads are off their processors, perhaps because this thread spins on one: sleep sooner.
  const bool was_short = ticks() - began < kShortSleep;
  const std::int64_t next = was_short ? limit * 2 : limit / 2;
  spin_.store(next < kSpinMin   ? kSpinMin
              : next > kSpinMax ? kSpinMax
                                : next,
              std::memory_order_relaxed);
}

ThreadPool::ThreadPool(int size) : size_(size), inner_(size), gate_(size) {
  CHECK(size >= 1);
  for (int worker = 1; worker < size; ++worker) {
    threads_.emplace_back([this, worker] { loop(worker); });
  }
}

ThreadPool::~ThreadPool() {
  stop_.store(true, std::memory_order_relaxed);
  if (size_ > 1) gate_.arrive_and_wait();
  for (std::thread& thread : threads_) thread.join();
}

void ThreadPool::run(void (*task)(void*, int), void* context) {
  if (size_ == 1) return task(context, 0);
  task_ = task;
  context_ = context;
  gate_.arrive_and_wait();
  task(context, 0);
  gate_.arrive_and_wait();
}

void ThreadPool::loop(int worker) {
  for (;;) {
    gate_.arrive_and_wait();
    if (stop_.load(std::memory_order_relaxed)) return;
    task_(context_, worker);
    gate_.arrive_and_wait();
  }
}

}  // namespace holdfast
