#pragma once
// From a program to an executor, on a device by its name.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "shared/base/result.h"
#include "shared/weight_cache/client.h"
#include "worker/backend/api/executor.h"
#include "worker/model/program.h"

namespace holdfast::backend {

/// The sizes for which load() takes memory; every forward stays within them.
struct Limits {
  std::int64_t context = 0;       // tokens of the longest sequence
  std::int32_t pages = 0;         // KV pages in the pool
  std::int32_t batch_tokens = 0;  // most tokens in one forward (all segments)
  std::int32_t batch_segments = 0;
  std::int32_t logit_rows = 0;  // most logit rows in one forward
  std::string kv_type = "f16";  // "f32", "f16", "bf16", "int8", "fp8"
  std::int32_t states = 0;      // sequence states, where layers carry one; 0 = batch_segments
};

/// Options of a load besides the model.
struct LoadOptions {
  Limits limits;
  std::int32_t threads = 1;
  std::string kernels;                   // forced family or tier, empty = best that runs here
  std::function<void(double)> progress;  // 0..1, may be empty
  weight_cache::Client* weight_cache =
      nullptr;                   // holds packed weights, outlives the executor; null: none
  std::string weight_cache_key;  // names the model's content; empty: weights are not cached
  std::string cache_dir;         // folder of built kernels; empty: they are not cached
};

/// "cpu": packs the weights for the kernel family and takes all memory. Errors: kUnsupported
/// (forced family cannot run here, weight type unknown), kFileInvalid (NaN or infinity in a tensor:
/// names it), kMemoryExhausted (needed and free bytes). "opencl:N": worker/backend/api/opencl.h.
Result<std::unique_ptr<Executor>> load(std::string_view device, const model::Program& program,
                                       const LoadOptions& options);

/// Families that run on this machine, best first, e.g. {"avx512+amx", "avx512", "amx", "scalar"}.
std::vector<std::string> cpu_families();

}  // namespace holdfast::backend
