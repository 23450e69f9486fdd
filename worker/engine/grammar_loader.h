#pragma once
// Compiles grammars beside the compute thread: a schema takes tens of milliseconds, in which nobody
// else's tokens shall wait. Which grammar a text has depends on its request alone, never on when it
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

/// Its thread begins with the first grammar that is not kept, and ends with it; that may wait for
/// a compilation (bounded, see GrammarLimits).
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

  /// A grammar that is kept is there at once. Whoever loses interest drops the job.
  JobPtr start(const grammar::GrammarRequest& request);
  /// What came of it; null while it is being compiled.
  const Result<Masks>* result(const Job& job) const;
  /// Until a job has a result, or a short time is over.
  void wait();

 private:
  void run();
  Result<Masks> make(const grammar::GrammarRequest& request) const;

  const std::shared_ptr<const grammar::TokenTable> table_;
  const GrammarCompile compile_;
  mutable std::mutex mutex_;  // guards what follows, and the results of jobs
  std::condition_variable wakes_, done_;
  grammar::GrammarCache kept_;
  std::deque<JobPtr> todo_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace holdfast::engine
