#pragma once
// Compiles grammars off the compute thread: a schema takes tens of milliseconds, in which no other
// sequence's tokens may wait. The grammar of a text depends on its request alone, never on when it
// was ready.

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "shared/grammar/request.h"

namespace holdfast::engine {

using GrammarCompile = std::function<Result<grammar::GrammarPtr>(const grammar::GrammarRequest&)>;

/// Owns the thread that compiles. It begins with the first grammar that is not cached, and ends
/// with the loader, which may wait for a compilation (bounded, see GrammarLimits).
class GrammarLoader {
 public:
  using Masks = std::shared_ptr<grammar::TokenMasks>;
  struct Job {
    grammar::GrammarRequest request;
    std::optional<Result<Masks>> result;
  };
  using JobPtr = std::shared_ptr<Job>;

  GrammarLoader(std::shared_ptr<const grammar::TokenTable> table, GrammarCompile compile);
  ~GrammarLoader();

  /// Queues a grammar; a cached one is there at once. A caller that loses interest drops the job.
  JobPtr start(const grammar::GrammarRequest& request);
  /// The result of a job; null while it is being compiled.
  const Result<Masks>* result(const Job& job) const;
  /// Waits until a job has a result, or a short time is over.
  void wait();

 private:
  void run();
  Result<Masks> make(const grammar::GrammarRequest& request) const;

  const std::shared_ptr<const grammar::TokenTable> table_;
  const GrammarCompile compile_;
  mutable std::mutex mutex_;  // guards what follows, and the results of jobs
  std::condition_variable wakes_, done_;
  grammar::GrammarCache cache_;
  std::deque<JobPtr> todo_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace holdfast::engine
