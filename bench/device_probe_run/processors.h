#pragma once
// Work of the host on all of its processors.

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <thread>
#include <vector>

namespace holdfast::bench::probe {

/// Calls f(i) for i < n on all processors; f is called from several threads at once.
template <class F>
void on_all_processors(std::size_t n, const F& f) {
  std::atomic<std::size_t> next{0};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < std::max(1u, std::thread::hardware_concurrency()); ++t) {
    threads.emplace_back([&] {
      for (std::size_t i = 0; (i = next++) < n;) f(i);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace holdfast::bench::probe
