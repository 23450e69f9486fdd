#include "control/gateway/objects/batch_runner.h"

#include <chrono>
#include <utility>

#include "control/gateway/common/blame.h"
#include "control/gateway/common/object_pages.h"
#include "control/gateway/objects/batch_work.h"
#include "control/gateway/objects/batches.h"
#include "shared/base/clock.h"

namespace holdfast::gateway {

namespace {

constexpr std::int64_t kOpenMax = 10'000;  // looked at; a tenant's own limit is far below

std::int64_t monotonic_ms() {
  return system_clock().monotonic_us() / 1000;
}

/// Returns all open batches, oldest first; nullopt when the daemon did not answer.
std::optional<std::vector<OpenBatch>> list_open(ObjectStore& object_store) {
  std::vector<OpenBatch> open;
  const auto add = [&](const std::vector<StoredObject>& objects) {
    for (const StoredObject& object : objects) open.push_back({object.id, object.owner});
    return true;
  };
  if (!each_page(object_store, kOpenBatchKind, Order::kOldestFirst, kOpenMax, add)) {
    return std::nullopt;
  }
  return open;
}

}  // namespace

BatchRunner::BatchRunner(Context& context, BatchRunnerOptions options)
    : context_(context), options_(options), name_(context.new_request_id()) {
  threads_.emplace_back([this] { look(); });
  for (int i = 0; i < options_.batches; ++i) threads_.emplace_back([this] { run(); });
}

BatchRunner::~BatchRunner() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void BatchRunner::wake() {
  {
    const std::lock_guard lock(mutex_);
    woken_ = true;
  }
  changed_.notify_all();
}

/// The thread that looks for open batches.
void BatchRunner::look() {
  for (;;) {
    if (context_.blame == nullptr || context_.blame->settle()) {
      if (auto open = list_open(*context_.object_store)) {
        const std::lock_guard lock(mutex_);
        open_.look(std::move(*open));
      }
      changed_.notify_all();
    }
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::milliseconds(options_.look_ms),
                      [&] { return stopping_ || woken_; });
    if (stopping_) return;
    woken_ = false;
  }
}

/// Returns nullopt when it is time to stop.
std::optional<OpenBatch> BatchRunner::wait_for_batch() {
  std::unique_lock lock(mutex_);
  std::optional<OpenBatch> batch;
  changed_.wait(lock, [&] {
    if (!stopping_) batch = open_.take(monotonic_ms());
    return stopping_ || batch.has_value();
  });
  return batch;
}

bool BatchRunner::stops(const OpenBatch& batch) {
  const std::lock_guard lock(mutex_);
  return stopping_ || open_.gives_way(batch, monotonic_ms(), options_.slice_ms);
}

/// A thread that works on batches. All of them lease in the process's name: none of its threads
/// takes a batch that another one works on, and one that gave way can be taken up at once.
void BatchRunner::run() {
  while (const auto batch = wait_for_batch()) {
    work_on_batch(context_, batch->id, name_, {options_.lines, options_.lease_ms},
                  [&] { return stops(*batch); });
    const std::lock_guard lock(mutex_);
    open_.leave(*batch);
  }
}

}  // namespace holdfast::gateway
