#pragma once
// Tools that run the serving engine in this process, without a daemon: what they show is what a
// worker computes.

#include <cstdint>
#include <string>
#include <vector>

#include "shared/base/result.h"

namespace holdfast::cli {

struct EngineChoice {
  std::string file;
  std::string device = "cpu";
  std::string kernels;  // empty = the best that runs here
  std::int32_t threads = 1;
  std::string kv_type = "f16";
  std::string cache_dir;  // of kernels that were built for devices; empty = none
};

struct LogitsCall {
  EngineChoice engine;
  std::vector<std::int32_t> tokens;
  std::vector<std::int64_t> positions;  // empty = all
  std::int32_t chunk = 0;
  std::int32_t neighbours = 0;
  bool decode = false;
};
/// {"positions": […], "logits": [[…]], "class": "…"}, nine significant digits.
Result<std::string> logits_json(const LogitsCall& call);

struct PerplexityCall {
  EngineChoice engine;
  std::string text_file;
  std::int32_t window = 256;   // tokens; windows do not overlap
  bool all_positions = false;  // else the second half of each window alone is scored
};
struct Perplexity {
  double value = 0;
  double standard_error = 0;
  std::int64_t tokens = 0;  // scored
  std::int64_t windows = 0;
  std::string numerics_class;
};
Result<Perplexity> measure_perplexity(const PerplexityCall& call);

struct BenchCall {
  EngineChoice engine;
  std::int32_t prompt_tokens = 512;
  std::int32_t decode_tokens = 64;
  std::int32_t streams = 1;
  std::int32_t prefill_chunk = 0;  // 0 = default
};
struct Bench {
  double load_s = 0;
  double prefill_tok_s = 0;
  double decode_tok_s = 0;     // summed over streams
  double bytes_per_token = 0;  // of weights, read once for all streams of a step
  double decode_gb_s = 0;
  std::string kernels;
  std::string numerics_class;
};
/// Times one prefill of prompt_tokens from an empty context and decode_tokens steps of `streams`
/// sequences from an empty context. 0 tokens leave a part out.
Result<Bench> run_bench(const BenchCall& call);

}  // namespace holdfast::cli
