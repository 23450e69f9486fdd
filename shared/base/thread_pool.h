#pragma once
// A fixed team of threads that runs one computation together, with barriers inside it.

#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

namespace holdfast {

/// A barrier that spins for a while and then sleeps in the kernel. The spin time adapts to what
/// paid off lately: on an oversubscribed host waiting threads give their processor away quickly.
class SpinBarrier {
 public:
  explicit SpinBarrier(int parties) : parties_(parties) {}
  SpinBarrier(const SpinBarrier&) = delete;
  SpinBarrier& operator=(const SpinBarrier&) = delete;
  /// Returns when all parties have arrived; what they wrote before is visible after it.
  void arrive_and_wait();
  /// Returns how often all have arrived, modulo 2^32.
  std::uint32_t passes() const { return generation_.load(std::memory_order_relaxed); }

 private:
  const int parties_;
  alignas(64) std::atomic<int> arrived_{0};
  alignas(64) std::atomic<std::uint32_t> generation_{0};
  alignas(64) std::atomic<std::uint32_t> sleepers_{0};
  alignas(64) std::atomic<std::int64_t> spin_{100'000};  // time stamp ticks
};

/// A pool of `size` workers: the calling thread is worker 0, the others are threads that live as
/// long as the pool. run() and barrier() allocate nothing. One thread at a time may call run().
class ThreadPool {
 public:
  /// Starts the threads; size >= 1 (CHECKed).
  explicit ThreadPool(int size);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  /// Returns the number of workers, the calling thread included.
  int size() const { return size_; }
  /// Calls task(context, worker) on every worker and returns when all have.
  void run(void (*task)(void* context, int worker), void* context);
  /// Does the same for any callable that takes the worker's number.
  template <class F>
  void run(F&& f) {
    run([](void* context,
           int worker) { (*static_cast<std::remove_reference_t<F>*>(context))(worker); },
        const_cast<void*>(static_cast<const void*>(&f)));
  }
  /// Waits for all workers, inside run(). Each must call it equally often.
  void barrier() {
    if (size_ > 1) inner_.arrive_and_wait();
  }
  /// Returns how often all workers have waited for each other, beginnings and ends of runs
  /// included, modulo 2^32. With one worker there are no waits.
  std::uint32_t waits() const { return inner_.passes() + gate_.passes(); }

 private:
  void loop(int worker);

  const int size_;
  SpinBarrier inner_;
  SpinBarrier gate_;  // opens and closes a run
  void (*task_)(void*, int) = nullptr;
  void* context_ = nullptr;
  std::atomic<bool> stop_{false};
  std::vector<std::thread> threads_;
};

/// A worker's share [first, last) of n items in equal contiguous ranges.
struct Share {
  std::int64_t first;
  std::int64_t last;
};
/// Returns the share of `worker`, from 0; the shares of all `workers` differ by at most one item.
constexpr Share share_of(std::int64_t n, int worker, int workers) {
  return {n * worker / workers, n * (worker + 1) / workers};
}

}  // namespace holdfast
