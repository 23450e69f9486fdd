#include "worker/engine/logits.h"

#include <algorithm>
#include <numeric>

#include "worker/engine/model_engine.h"
#include "worker/engine/philox.h"

namespace holdfast::engine {

namespace {

constexpr SequenceKey kProbeKey = 1;
constexpr std::uint64_t kNeighbourSeed = 0x6e65696768626f75u;

/// Random sequences of all lengths around the probe: some decode while it prefills, some prefill.
class Neighbours {
 public:
  Neighbours(ModelEngine& engine, std::int32_t n) : engine_(engine), n_(n) {}

  /// Starts as many as are missing.
  Result<void> fill() {
    while (live_ < n_) {
      SequenceSpec spec;
      spec.key = kProbeKey + 1 + started_;
      const std::int64_t prompt_max = engine_.config().context - 1;
      const auto length = static_cast<std::int64_t>(1 + draw() % 150);
      for (std::int64_t i = 0; i < std::min(length, prompt_max); ++i) {
        const auto vocab = static_cast<std::uint64_t>(engine_.config().vocab);
        spec.prompt.push_back(static_cast<TokenId>(draw() % vocab));
      }
      spec.max_tokens = static_cast<std::int64_t>(1 + draw() % 100);
      spec.sampling.seed = draw();
      spec.sampling.ignore_eos = true;
      HOLDFAST_CHECKED(engine_.add(std::move(spec)));
      ++live_;
      ++started_;
    }
    return {};
  }
  void ended() { --live_; }

 private:
  std::uint64_t draw() {
    return random_bits(kNeighbourSeed, 0, drawn_++, RandomPurpose::kNeighbour);
  }

  ModelEngine& engine_;
  std::int32_t n_;
  std::int32_t live_ = 0;
  std::uint64_t started_ = 0;
  std::int64_t drawn_ = 0;
};

/// Runs one step; true when the probe has ended.
Result<bool> step_once(ModelEngine& engine, Neighbours& neighbours) {
  bool done = false;
  for (const Produced& p : engine.step()) {
    if (p.finish == wire::FinishReason::kNone) continue;
    if (p.key != kProbeKey) {
      neighbours.ended();
    } else if (p.finish == wire::FinishReason::kError) {
      return p.error;
    } else {
      done = true;
    }
  }
  return done;
}

Result<void> run_probe(ModelEngine& engine, Probe probe, std::int32_t n_neighbours) {
  Neighbours neighbours(engine, n_neighbours);
  HOLDFAST_CHECKED(neighbours.fill());
  for (int i = 0; i < 3 && n_neighbours > 0; ++i) {  // so that some decode already
    HOLDFAST_TRY(const bool done, step_once(engine, neighbours));
    CHECK(!done);
    HOLDFAST_CHECKED(neighbours.fill());
  }
  HOLDFAST_CHECKED(engine.add_probe(kProbeKey, std::move(probe)));
  for (;;) {
    HOLDFAST_TRY(const bool done, step_once(engine, neighbours));
    if (done) return {};
    HOLDFAST_CHECKED(neighbours.fill());
  }
}

/// Leaves the engine as it was found, also after an error.
void clear(ModelEngine& engine, std::int32_t chunk, std::int32_t chunk_busy) {
  engine.cancel_all();
  engine.set_prefill_chunk(chunk, chunk_busy);
}

}  // namespace

Result<void> visit_logits(Engine& engine, const std::vector<TokenId>& tokens,
                          const std::vector<std::int64_t>& positions, const LogitsOptions& options,
                          const std::function<void(std::size_t, const float*)>& sink) {
  auto* model = dynamic_cast<ModelEngine*>(&engine);
  if (model == nullptr) {
    return Error{Errc::kUnsupported, "compute logits: the fake engine has none"};
  }
  std::vector<std::size_t> order(positions.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return positions[a] < positions[b]; });
  Probe probe;
  probe.tokens = tokens;
  probe.decode = options.decode;
  std::vector<std::size_t> first_of;  // in `order`, of each distinct position
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (i > 0 && positions[order[i]] == positions[order[i - 1]]) continue;
    probe.positions.push_back(positions[order[i]]);
    first_of.push_back(i);
  }
  first_of.push_back(order.size());
  probe.sink = [&](std::size_t distinct, const float* row) {
    for (std::size_t i = first_of[distinct]; i < first_of[distinct + 1]; ++i) sink(order[i], row);
  };
  const std::int32_t chunk = model->config().prefill_chunk;
  const std::int32_t chunk_busy = model->config().prefill_chunk_busy;
  if (options.chunk < 0 || options.chunk > std::max(chunk, chunk_busy)) {
    return Error{Errc::kInvalidRequest, "compute logits: chunk " + std::to_string(options.chunk) +
                                            "; expected 1 to " +
                                            std::to_string(std::max(chunk, chunk_busy))};
  }
  if (options.chunk > 0) model->set_prefill_chunk(options.chunk, options.chunk);
  const Result<void> result = run_probe(*model, std::move(probe), options.neighbours);
  clear(*model, chunk, chunk_busy);
  return result;
}

Result<std::vector<std::vector<float>>> compute_logits(Engine& engine,
                                                       const std::vector<TokenId>& tokens,
                                                       const std::vector<std::int64_t>& positions,
                                                       const LogitsOptions& options) {
  const auto* model = dynamic_cast<const ModelEngine*>(&engine);
  const std::size_t vocab = model != nullptr ? static_cast<std::size_t>(model->config().vocab) : 0;
  std::vector<std::vector<float>> rows(positions.size());
  HOLDFAST_CHECKED(
      visit_logits(engine, tokens, positions, options,
                   [&](std::size_t i, const float* row) { rows[i].assign(row, row + vocab); }));
  return rows;
}

double row_log_sum_exp(Engine& engine, const float* row) {
  auto* model = dynamic_cast<ModelEngine*>(&engine);
  CHECK(model != nullptr);
  return model->sampler().log_sum_exp({row});
}

}  // namespace holdfast::engine
