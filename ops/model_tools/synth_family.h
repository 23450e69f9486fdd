#pragma once
// Tiny models of every architecture with random weights, for checks: sizes drawn from the seed
// (seed 0: round ones), random biases, norms away from 1, caps and windows that bite, experts.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "shared/base/result.h"
#include "shared/gguf/writer.h"

namespace holdfast::cli {

/// "llama", "gemma2", …, and "mistral", "mixtral" and "gemma4-moe": llama with a window or experts,
/// gemma4 with experts.
std::vector<std::string> synth_architectures();

/// The kinds of position scaling that `synth_family` knows; "" lets the seed choose.
std::vector<std::string> synth_scalings();

/// Writes `out_path` atomically. `type` is one of synth_types(); rows that blocks do not fill fall
/// back as in `quantize`. The bytes depend on the arguments alone. kUsage: unknown name.
Result<void> synth_family(std::string_view architecture, const std::string& out_path,
                          std::string_view type, std::uint64_t seed, std::string_view scaling = "");

/// Sets the vocabulary of synthetic models: 256 bytes and made-up words, at least 259 tokens.
void set_synth_tokenizer(gguf::Writer& writer, std::int64_t vocab);

}  // namespace holdfast::cli
