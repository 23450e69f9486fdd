#pragma once
// Tools that run the serving engine in this process, without a daemon: their results are those of a
// worker.

#include <cstdint>
#include <string>
#include <vector>

#include "shared/base/result.h"

namespace holdfast::cli {

/// The model file and the device on which a tool runs it.
struct EngineChoice {
  std::string file;
  std::string device = "cpu";
  std::string kernels;  // empty = the best that runs here
  std::int32_t threads = 1;
  std::string kv_type = "f16";
  std::string cache_dir;  // of kernels that were built for devices; empty = none
};

/// A computation of logits after positions of one sequence. It can be made as serving makes it, in
/// chunks, next to other sequences or token by token: the result must not depend on that.
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

/// A text whose perplexity is measured.
struct PerplexityCall {
  EngineChoice engine;
  std::string text;
  std::int32_t window = 256;   // tokens; windows do not overlap
  bool all_positions = false;  // else the second half of each window alone is scored
};
/// The perplexity: e to the mean negative log-likelihood of the scored tokens, with its standard
/// error.
struct Perplexity {
  double value = 0;
  double standard_error = 0;
  std::int64_t tokens = 0;  // scored
  std::int64_t windows = 0;
  std::string numerics_class;
};
/// Measures the text window by window. kUsage: a window below 4 tokens; kInvalidRequest: a text
/// shorter than one.
Result<Perplexity> measure_perplexity(const PerplexityCall& call);

/// The load that a bench measures.
struct BenchCall {
  EngineChoice engine;
  std::int32_t prompt_tokens = 512;
  std::int32_t decode_tokens = 64;
  std::int32_t streams = 1;
  std::int32_t context = 1;        // tokens that each stream has when decoding begins
  bool assume_context = false;     // they count as computed, whatever the KV pages hold
  std::int32_t repeat = 1;         // samples of each rate
  std::int32_t prefill_chunk = 0;  // 0 = default
};
/// Rates of one bench, with the rates of this machine's memory and products that bound them.
struct Bench {
  double load_s = 0;
  std::vector<double> prefill_tok_s;  // a sample each
  std::vector<double> decode_tok_s;   // likewise, summed over streams
  double fill_tok_s = 0;              // of the contexts before decoding, of all streams
  double bytes_per_token = 0;         // of weights, read once for all streams of a step (Work)
  std::vector<double> decode_gb_s;    // of them
  std::vector<double> stream_gb_s;    // rate of reading memory alone, around each decode sample
  double prefill_work = 0;  // multiplications and additions with weights, of a token of the prompt
  double decode_work = 0;   // … of a token that is decoded, its logits included
  std::vector<double> prefill_peak_tops;  // rate of products alone, around each prefill sample
  std::vector<double> decode_peak_tops;   // … around each decode sample
  double barriers_per_step = 0;           // of decoding: how often all threads wait for each other
  std::string kernels;
  std::string numerics_class;
};
/// Times prefills of prompt_tokens from an empty context, and decode_tokens steps of `streams`
/// sequences that have `context` tokens each (and grow from sample to sample). 0 tokens leave a
/// part out. The contents of KV pages make no difference to the time of a step, so a context may be
/// assumed where computing one for each stream would take hours; then nothing of prefill is timed.
/// kUsage for numbers out of range; else the errors of engine::open_engine and Engine::add.
Result<Bench> run_bench(const BenchCall& call);

}  // namespace holdfast::cli
