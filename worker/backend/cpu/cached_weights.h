#pragma once
// Weights that outlive the process that packed them: their region is a memfd that the weight cache
// server (shared/weight_cache) holds too. A load that finds its weights there packs nothing and
// reads no tensor.

#include <memory>
#include <string>

#include "shared/gguf/read_guard.h"
#include "worker/backend/api/load.h"
#include "worker/backend/cpu/memory.h"

namespace holdfast::cpu {

/// This process's use of an entry of the weight cache; gives it back when destroyed.
class CachedWeights {
 public:
  struct Taken {
    Region region;
    std::unique_ptr<CachedWeights> weights;
    bool full = false;
  };
  /// Memory for `bytes` of weights: a cached entry that is filled already (`full`), a new one to be
  /// filled, or, without a weight cache server, memory of this process alone (then `weights` is
  /// null). `layout`: everything besides the model that the bytes depend on. Errors as
  /// Region::take.
  static Result<Taken> take(std::size_t bytes, const std::string& layout,
                            const backend::LoadOptions& options);
  ~CachedWeights();
  CachedWeights(const CachedWeights&) = delete;
  CachedWeights& operator=(const CachedWeights&) = delete;

  /// Publishes the filled `region`: it is read-only from now on, and later loads find it. Does
  /// nothing if a read of the model file failed since this was made.
  void publish(const Region& region);

 private:
  CachedWeights(weight_cache::Client* client, std::string key, int fd)
      : client_(client), key_(std::move(key)), fd_(fd), losses_(gguf::ReadGuard::losses()) {}
  weight_cache::Client* client_;
  std::string key_;
  int fd_;
  std::uint64_t losses_;  // ReadGuard::losses() when this was made
};

}  // namespace holdfast::cpu
