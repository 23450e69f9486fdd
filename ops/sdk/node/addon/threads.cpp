#include "ops/sdk/node/addon/threads.h"

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

namespace holdfast::node {
namespace {

constexpr std::chrono::seconds kIdle{5};

struct Shared {
  std::mutex mutex;
  std::condition_variable given;
  std::deque<std::function<void()>> tasks;
  std::size_t idle = 0;  // threads that wait for a task
};

Shared& shared() {
  static Shared* once = new Shared;  // never freed: threads may outlive main()
  return *once;
}

/// Runs tasks until none came for kIdle.
void serve_tasks() {
  Shared& at = shared();
  std::unique_lock lock(at.mutex);
  for (;;) {
    ++at.idle;
    const bool found = at.given.wait_for(lock, kIdle, [&] { return !at.tasks.empty(); });
    --at.idle;
    if (!found) return;
    std::function<void()> task = std::move(at.tasks.front());
    at.tasks.pop_front();
    lock.unlock();
    task();
    task = nullptr;  // what it held is given back here, not under the lock
    lock.lock();
  }
}

}  // namespace

void run_on_thread(std::function<void()> task) {
  Shared& at = shared();
  const std::lock_guard lock(at.mutex);
  if (at.idle <= at.tasks.size()) std::thread(serve_tasks).detach();
  at.tasks.push_back(std::move(task));
  at.given.notify_one();
}

}  // namespace holdfast::node
