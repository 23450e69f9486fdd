#include "control/gateway/batch_runner.h"

#include <chrono>
#include <utility>
#include <variant>

#include "control/gateway/await.h"
#include "control/gateway/batch_work.h"
#include "control/gateway/batches.h"
#include "control/gateway/blame.h"

namespace holdfast::gateway {

namespace {

constexpr std::int64_t kPage = 100;
constexpr std::size_t kOpenMax = 10'000;  // looked at; a tenant's own limit is far below

std::int64_t steady_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// Returns all open batches, oldest first; nullopt when the daemon did not answer.
std::optional<std::vector<OpenBatch>> list_open(ObjectStore& object_store) {
  std::vector<OpenBatch> open;
  ObjectListQuery query;
  query.kind = kOpenBatchKind;
  query.newest_first = false;
  query.limit = kPage;
  for (;;) {
    const auto answer = await<ObjectStore::Page>(
        [&](auto done) { object_store.list(client::AllTenants::local(), query, std::move(done)); });
    const auto* page = std::get_if<ObjectStore::Page>(&answer);
    if (page == nullptr) return std::nullopt;
    for (const StoredObject& object : page->objects) open.push_back({object.id, object.owner});
    if (!page->more || page->objects.empty() || open.size() >= kOpenMax) return open;
    query.from = page->objects.back().seq;
  }
}

}  // namespace

BatchRunner::BatchRunner(Context& context, BatchRunnerOptions options)
    : context_(context), options_(options), name_(context.new_request_id()) {
  threads_.emplace_back([this] { look(); });
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
    if (!stopping_) batch = open_.take(steady_ms());
    return stopping_ || batch.has_value();
  });
  return batch;
}

bool BatchRunner::stops(const OpenBatch& batch) {
  const std::lock_guard lock(mutex_);
  return stopping_ || open_.gives_way(batch, steady_ms(), options_.slice_ms);
}

void BatchRunner::run(int number) {
  const std::string worker = name_ + "/" + std::to_string(number);
  while (const auto batch = wait_for_batch()) {
    work_on_batch(context_, batch->id, worker, {options_.lines, options_.lease_ms},
                  [&] { return stops(*batch); });
    const std::lock_guard lock(mutex_);
    open_.leave(*batch);
  }
}

}  // namespace holdfast::gateway
