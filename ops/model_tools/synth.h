#pragma once
// Model files with random weights in the shape of known models: for timing, load tests and
// comparisons. The speed of inference does not depend on the values of weights.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "shared/base/result.h"

namespace holdfast::cli {

/// "tiny", "test-llama", …, "qwen2.5-0.5b", …: from the smallest to the largest kind.
std::vector<std::string> synth_shapes();
/// "f32", "f16", "bf16", "q8_0", …
std::vector<std::string> synth_types();

/// Writes `out_path` atomically. Matrices have a standard deviation near 1 / sqrt(columns), norms
/// are near 1, so activations stay in range. The bytes depend on (shape, type, seed) alone.
/// kUsage: unknown shape or type (the message lists the known ones); else as gguf::Writer::write.
/// `progress(done_bytes, total_bytes)` may be empty. About as fast as the disk.
Result<void> synth(std::string_view shape_name, const std::string& out_path, std::string_view type,
                   std::uint64_t seed,
                   const std::function<void(std::uint64_t, std::uint64_t)>& progress);

}  // namespace holdfast::cli
