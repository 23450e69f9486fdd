#include "control/gateway/batch_runner.h"

#include <chrono>
#include <future>

#include "control/gateway/batch_work.h"
#include "control/gateway/batches.h"
#include "control/gateway/blame.h"

namespace holdfast::gateway {

BatchRunner::BatchRunner(Context& context, BatchRunnerOptions options)
    : context_(context), options_(options), name_(context.new_request_id()) {
  for (int i = 0; i < options_.batches; ++i) threads_.emplace_back([this, i] { run(i); });
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
    ++wakes_;
  }
  changed_.notify_all();
}

/// Returns false when it is time to stop.
bool BatchRunner::wait(std::int64_t ms) {
  std::unique_lock lock(mutex_);
  const std::uint64_t before = wakes_;
  changed_.wait_for(lock, std::chrono::milliseconds(ms),
                    [&] { return stopping_ || wakes_ != before; });
  return !stopping_;
}

void BatchRunner::run(int number) {
  const std::string worker = name_ + "/" + std::to_string(number);
  const auto stopping = [this] {
    const std::lock_guard lock(mutex_);
    return stopping_;
  };
  // Spreads the threads' first looks over an interval.
  if (!wait(number * options_.look_ms / options_.batches)) return;
  while (wait(options_.look_ms)) {
    if (context_.blame != nullptr && !context_.blame->settle()) continue;
    ObjectListQuery query;
    query.kind = kOpenBatchKind;
    query.newest_first = false;
    query.limit = 100;
    std::promise<client::Answer<ObjectStore::Page>> promise;
    context_.object_store->list(
        client::AllTenants::local(), query,
        [&promise](client::Answer<ObjectStore::Page> page) { promise.set_value(std::move(page)); });
    const auto answer = promise.get_future().get();
    const auto* page = std::get_if<ObjectStore::Page>(&answer);
    if (page == nullptr) continue;
    for (const StoredObject& open : page->objects) {
      if (stopping()) return;
      work_on_batch(context_, open.id, worker, {options_.lines, options_.lease_ms}, stopping);
    }
  }
}

}  // namespace holdfast::gateway
