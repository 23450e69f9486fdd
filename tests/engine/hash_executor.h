#pragma once
// Doubles for the engine's tests: a device whose logits are a hash of the token prefix, read back
// through the page table that the engine passes, and a tokenizer of single letters.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "worker/engine/model_engine.h"

namespace holdfast::engine {

struct HashCall {
  std::int32_t segments = 0;
  std::int32_t decode = 0;   // segments of one token that request logits
  std::int32_t prefill = 0;  // tokens of the others
};

/// Calls that the double saw, and options for what it does; shared with the test.
struct HashLog {
  std::vector<HashCall> calls;
  TokenId nan_after = -1;           // a row whose last token is this one is NaN
  std::int64_t period = 0;          // > 0: mostly the token so many positions back comes again
  TokenId error_after = -1;         // forward fails where the logits after this one are requested
  Errc error = Errc::kNumericsNan;  // with this
  std::optional<Errc> then;         // and so does every forward after one that failed
  backend::Capabilities capabilities = {"test/hash/r1", false, 0, 16, 3};
  bool tells_maxima = false;
  std::int64_t maxima_rows = 0;               // rows given with their maxima
  std::int64_t spread = 0;                    // times that work ran on all of them
  std::int64_t best_rows = 0, top_rows = 0;   // of which nothing else was requested
  ManualClock clock;                          // moves with each forward, by:
  std::int64_t decode_us = 0, prompt_us = 0;  // each sequence that decodes, each prompt token
};

/// An executor that CHECKs every limit and that live segments share no page that one of them
/// writes, and reads nothing but what was written through the page tables (pages start as garbage).
/// An executor with prefill kernels: a sequence that met a page of the other kind has other logits.
std::unique_ptr<backend::Executor> make_hash_executor(const ModelEngineConfig& config,
                                                      std::shared_ptr<HashLog> log);

/// A tokenizer with token bytes "a".."z" by id % 26; the end token is `end`.
std::shared_ptr<const text::Tokenizer> make_letter_tokenizer(std::int32_t vocab, TokenId end);

inline constexpr TokenId kTestEnd = 1;
inline constexpr std::int64_t kHashWidth = 3;  // width of its rows for embeddings

/// A configuration of vocab 97, context 320, 6 slots, 30 pages, chunks 64 and 64.
ModelEngineConfig test_config();

struct TestEngine {
  std::shared_ptr<HashLog> log = std::make_shared<HashLog>();
  std::unique_ptr<ModelEngine> engine;
  explicit TestEngine(ModelEngineConfig config = test_config(), int workers = 3);
};

/// All that was produced for one sequence; `start` continuity is CHECKed as it comes in.
struct Outcome {
  std::vector<TokenId> ids;
  wire::FinishReason finish = wire::FinishReason::kNone;
  Errc error = Errc::kInternal;
  std::vector<std::string> extra;
  bool operator==(const Outcome& o) const { return ids == o.ids && finish == o.finish; }
};

/// Adds to `out` (by key - first) what a step produced.
void gather(const std::vector<Produced>& produced, SequenceKey first, std::vector<Outcome>& out);

/// Runs the sequence alone on a fresh engine.
Outcome run_alone(const SequenceSpec& spec, const ModelEngineConfig& config = test_config());

/// A varied sequence: prompt, sampling, stops and length drawn from n.
SequenceSpec varied_spec(SequenceKey key, std::uint64_t n);

}  // namespace holdfast::engine
