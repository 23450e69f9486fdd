#pragma once
// Continuous batching over one loaded model. No sockets; the owner calls step() in a loop, and
// everything else, from the same thread.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "shared/base/clock.h"
#include "shared/base/result.h"
#include "shared/plan/family.h"
#include "shared/text/tokenizer.h"
#include "shared/weight_cache/client.h"
#include "shared/wire/messages.h"

namespace holdfast::engine {

using domain::TokenId;
using SequenceKey = std::uint64_t;  // chosen by the caller, unique among live sequences

/// One choice that the engine is to generate.
struct SequenceSpec {
  SequenceKey key = 0;
  std::vector<TokenId> prompt;
  std::vector<TokenId> committed;  // tokens already generated: prefilled, never sampled again
  wire::Sampling sampling;
  std::int32_t choice = 0;  // enters the random numbers
  std::vector<std::string> stops;
  std::int64_t max_tokens = 0;  // counted from index 0, committed included
  std::int32_t priority = 1;    // lower first; preemption takes the highest number, then youngest
  std::string prefix_root;      // PrefixRoot::scope; sequences of different ones share no page
};

/// A text to be turned into one vector (or one for each token), not to be continued.
struct EmbedSpec {
  SequenceKey key = 0;
  std::vector<TokenId> tokens;
  std::int32_t priority = 1;             // as SequenceSpec's
  std::optional<plan::Pooling> pooling;  // nullopt: what the file names, else the last
                                         // token's (an encoder: the mean); kNone: every token's
  bool normalize = true;                 // to length 1
};

/// The results of one sequence in a step.
struct Produced : domain::TokenRun {
  SequenceKey key = 0;
  wire::FinishReason finish = wire::FinishReason::kNone;
  Error error;                   // when finish is kError
  std::vector<float> embedding;  // of an EmbedSpec, with finish kStop: [vectors][width]
  std::int32_t vectors = 0;
  /// Tokens of prompt and committed text whose keys and values were cached; reported once, with the
  /// first result of a sequence.
  std::optional<std::int64_t> cached_tokens = {};
};

/// The part of an engine that is in use.
struct Usage {
  std::int32_t running = 0;
  std::int32_t pages_total = 0;
  std::int32_t pages_used = 0;
  std::uint64_t steps = 0;
  std::uint64_t tokens = 0;  // generated
  std::uint64_t prefill_tokens = 0;
  std::uint64_t drafts = 0;  // draft tokens that were computed, and of these the accepted ones
  std::uint64_t drafts_accepted = 0;
  std::uint64_t preemptions = 0;
  std::uint32_t barriers = 0;     // backend::ExecutorCounters::barriers
  std::uint64_t allocations = 0;  // device + engine allocations since the process started
};

/// Runs the sequences of one model. Implementations: the model engine (open_engine) and the fake
/// one (open_fake_engine). Not thread-safe.
class Engine {
 public:
  virtual ~Engine() = default;
  /// Adds a sequence. Errors: kContextExceeded / kMemoryExhausted (can never fit), kConflict (key
  /// in use), kRateLimited (no free slot now), kInvalidRequest (token id out of range, parameters
  /// out of range), kUnsupported (the model is an encoder, or its kernels are for vectors alone: no
  /// text). A spec whose sampling.extra asks for an embedding ends with one Produced that has it.
  /// With sampling.prompt_logprobs the first token's extra has the prompt's scores
  /// (wire/prompt_scores.h); with max_tokens 0 they come as kScoresToken. A grammar is compiled on
  /// another thread while steps run; one that cannot be compiled ends the sequence with kError.
  virtual Result<void> add(SequenceSpec spec) = 0;
  /// Adds a text to be turned into vectors; errors as add(). It shares steps with other sequences,
  /// in chunks where the model has a causal mask, and ends with one Produced. The vector's bits
  /// depend on its tokens and the spec alone. kUnsupported: the fake engine, which has add() for
  /// that.
  virtual Result<void> add_embedding(const EmbedSpec& spec);
  /// Takes the sequence out before the next step; unknown keys are ignored. Nothing is produced for
  /// it afterwards.
  virtual void cancel(SequenceKey key) = 0;
  /// Holds a sequence back (its results are not taken fast enough) or lets it go on.
  virtual void pause(SequenceKey key, bool paused) = 0;
  /// Runs one forward pass: a token for every running sequence and a budget of prefill tokens.
  /// Empty if there was nothing to do. The vector is reused by the next call.
  virtual const std::vector<Produced>& step() = 0;
  virtual bool idle() const = 0;  // a step would have nothing to do
  virtual Usage usage() const = 0;
  virtual wire::LoadedModel describe() const = 0;  // numerics class, slots, pages, memory
};

/// Options of a load.
struct EngineOptions {
  std::string device = "cpu";
  std::string kernels;  // empty = best
  std::int32_t threads = 1;
  std::int64_t context = 0;  // 0 = as plan::LoadRequest
  std::int32_t slots = 0;
  std::int32_t pages = 0;  // 0 = by the envelope
  std::string kv_type = "f16";
  std::int32_t prefill_chunk = 0;       // tokens of prefill a step; 0 = 512
  std::int32_t prefill_chunk_busy = 0;  // the same while others decode; 0 = by gap_ms
  std::int32_t gap_ms = -1;             // what a step may take while others decode; 0 = no bound,
                                        // -1 = little more than twice what they take alone
  std::int32_t logit_rows =
      0;  // rows of logits in one forward; 0 = slots (compute_logits: more is faster)
  bool prefix_cache = true;     // pages of cached prefixes are shared
  std::int32_t drafts = -1;     // draft tokens in one step at most; -1 = as many as there may be
  bool assume_prompts = false;  // for measuring: tokens of a prompt but its last count as computed,
                                // whatever its pages hold
  std::string model_sha;        // enters the numerics class
  std::function<void(double)> progress;
  weight_cache::Client* weight_cache =
      nullptr;                   // holds packed weights, outlives the engine; null: none
  std::string cache_dir;         // folder of kernels that were built for devices; empty: none
  const Clock* clock = nullptr;  // times the steps; null: the system's
};

/// Reads the model's own options, as `models add --options JSON` gave them: {"prefix_cache": bool,
/// "drafts": 0 to 7, "gap_ms": 0 to 60000, "kernels": a family's name}; options of other engines
/// are ignored. kInvalidRequest for another type or range; a family that cannot run fails the load.
Result<void> read_options(std::string_view options_json, EngineOptions& options);

/// Opens the file, builds the program, loads it on the device, warms up with one prefill and one
/// decode. The tokenizer is optional (a file without one cannot match stop strings: kUnsupported
/// when a request has any).
Result<std::unique_ptr<Engine>> open_engine(const std::string& path, const EngineOptions& options);

/// Options for raw logits of a token sequence through the same steps (CLI `logits`, `perplexity`,
/// tests).
struct LogitsOptions {
  std::int32_t chunk = 0;       // prefill tokens a step; 0 = default
  std::int32_t neighbours = 0;  // other random sequences that run with it
  bool decode = false;          // one token at a time
};
/// Returns rows[i] = logits after tokens[0 .. positions[i]], each [vocab]. The engine must be idle;
/// a chunk is at most the prefill_chunk that it was opened with; logits.h gives rows without
/// copying them.
Result<std::vector<std::vector<float>>> compute_logits(Engine& engine,
                                                       const std::vector<TokenId>& tokens,
                                                       const std::vector<std::int64_t>& positions,
                                                       const LogitsOptions& options);

/// The device that a fake worker pretends to have; its name and memory go into HELLO.
struct FakeDevice {
  std::string name = "cpu";
  std::int64_t memory_bytes = 0;  // 0 = the machine's own
  double speed = 1;               // all of the engine's times are divided by it
};

/// Opens a fake engine: a token is a hash of (seed, choice, index, prefix), or what a script says.
/// `options_json` is a JSON object, all optional: sizes, times, a script, ways to fail;
/// docs/contribute/fake-engine.md. `model`: the file or folder that is loaded, whose tokenizer
/// writes the script unless the options name one. kInvalidRequest for a field of another type,
/// kModelFailed and kMemoryExhausted where the options ask for a load that fails.
Result<std::unique_ptr<Engine>> open_fake_engine(std::string_view options_json,
                                                 const EngineOptions& options,
                                                 const FakeDevice& device = {},
                                                 const std::string& model = {});

}  // namespace holdfast::engine
