#include "worker/engine/grammar_loader.h"

#include <chrono>
#include <utility>

namespace holdfast::engine {
namespace {

constexpr std::chrono::microseconds kWait{500};  // other models of this worker may have work

}  // namespace

GrammarLoader::GrammarLoader(std::shared_ptr<const grammar::TokenTable> table,
                             GrammarCompile compile)
    : table_(std::move(table)), compile_(std::move(compile)), cache_(table_) {}

GrammarLoader::~GrammarLoader() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wakes_.notify_all();
  if (thread_.joinable()) thread_.join();
}

GrammarLoader::JobPtr GrammarLoader::start(const grammar::GrammarRequest& request) {
  auto job = std::make_shared<Job>(Job{request, std::nullopt});
  const std::lock_guard lock(mutex_);
  if (Masks masks = cache_.lookup(request)) {
    job->result.emplace(std::move(masks));
    return job;
  }
  todo_.push_back(job);
  if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  wakes_.notify_one();
  return job;
}

const Result<GrammarLoader::Masks>* GrammarLoader::result(const Job& job) const {
  const std::lock_guard lock(mutex_);
  return job.result ? &*job.result : nullptr;
}

void GrammarLoader::wait() {
  std::unique_lock lock(mutex_);
  if (!todo_.empty()) done_.wait_for(lock, kWait);
}

Result<GrammarLoader::Masks> GrammarLoader::make(const grammar::GrammarRequest& request) const {
  HOLDFAST_TRY(grammar::GrammarPtr compiled, compile_(request));
  HOLDFAST_TRY(Masks masks, grammar::TokenMasks::make(std::move(compiled), table_));
  if (request.finish) masks->shortest();
  return masks;
}

/// Compiles job after job; a job stays at the head of the queue until it is done.
void GrammarLoader::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    wakes_.wait(lock, [&] { return stopping_ || !todo_.empty(); });
    if (stopping_) return;
    const JobPtr job = todo_.front();
    Result<Masks> found = cache_.lookup(job->request);  // an earlier job may be the same
    if (*found == nullptr) {
      lock.unlock();
      found = make(job->request);
      lock.lock();
      if (found) cache_.insert(job->request, *found);
    }
    job->result.emplace(std::move(found));
    todo_.pop_front();
    done_.notify_all();
  }
}

}  // namespace holdfast::engine
