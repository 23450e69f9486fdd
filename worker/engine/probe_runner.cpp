#include "worker/engine/probe_runner.h"

#include <algorithm>
#include <utility>

namespace holdfast::engine {

namespace {

Result<void> check_positions(SequenceKey key, const Probe& probe) {
  const auto n = static_cast<std::int64_t>(probe.tokens.size());
  std::int64_t before = -1;
  for (const std::int64_t p : probe.positions) {
    if (p <= before || p >= n) {
      return Error{Errc::kInvalidRequest, key_text(key) + "position " + std::to_string(p) +
                                              "; expected ascending positions below " +
                                              std::to_string(n)};
    }
    before = p;
  }
  return {};
}

/// Checks that a text which is computed to its last token fits into the pool at all.
Result<void> check_pages(const std::string& where, std::size_t tokens, std::int32_t pages) {
  const std::int32_t needed = pages_for(static_cast<std::int64_t>(tokens));
  if (needed <= pages) return {};
  return Error{Errc::kMemoryExhausted, where + "needs " + std::to_string(needed) +
                                           " KV pages, the pool has " + std::to_string(pages)};
}

}  // namespace

ProbeRunner::ProbeRunner(const ModelEngineConfig& config, backend::Executor& executor,
                         SlotTable& slots, SequenceSampler& sampler, StepResults& results)
    : config_(config), executor_(executor), slots_(slots), sampler_(sampler), results_(results) {}

Result<void> ProbeRunner::add_probe(SequenceKey key, Probe probe) {
  SequenceSpec spec;  // for the checks only
  spec.key = key;
  spec.prompt = probe.tokens;
  HOLDFAST_CHECKED(
      check_spec(spec, config_.vocabulary, config_.vocab, config_.context, config_.pages));
  HOLDFAST_CHECKED(check_pages(key_text(key), probe.tokens.size(), config_.pages));
  HOLDFAST_CHECKED(check_positions(key, probe));
  HOLDFAST_TRY(Slot * slot, slots_.claim(key));
  slot->tokens.assign(probe.tokens.begin(),
                      probe.decode ? probe.tokens.begin() + 1 : probe.tokens.end());
  slot->prompt_n = slot->length();
  slot->priority = 0;
  slot->probe.request = std::make_unique<Probe>(std::move(probe));
  if (slot->probe.request->positions.empty()) slot->finish = wire::FinishReason::kLength;
  return {};
}

std::int32_t ProbeRunner::row_count(const Slot& slot, std::int64_t& n, std::int32_t rows_left) {
  const std::vector<std::int64_t>& positions = slot.probe.request->positions;
  const std::size_t next = slot.probe.next;
  if (next == positions.size() || positions[next] >= slot.computed + n) return 0;
  const std::int64_t first = positions[next];
  n = std::min(n, first + 1 + rows_left - slot.computed);
  std::int64_t last = first;
  for (std::size_t i = next; i < positions.size() && positions[i] < slot.computed + n; ++i) {
    last = positions[i];
  }
  n = last + 1 - slot.computed;
  return static_cast<std::int32_t>(slot.computed + n - first);
}

void ProbeRunner::advance_probe(Slot& slot, const backend::Segment& segment,
                                const backend::StepResult& result, std::int32_t row) {
  Probe& probe = *slot.probe.request;
  std::size_t& next = slot.probe.next;
  const std::int64_t first = slot.computed - segment.wants.logit_rows();  // position of `row`
  while (next < probe.positions.size() && probe.positions[next] < slot.computed) {
    const std::int64_t after = probe.positions[next] - first;
    CHECK(after >= 0);
    probe.sink(next, result.logits(row + static_cast<std::int32_t>(after)).at);
    ++next;
  }
  if (next == probe.positions.size()) {
    Produced p;
    p.key = slot.key;
    p.finish = wire::FinishReason::kLength;
    return results_.end(slot, std::move(p));
  }
  if (probe.decode && slot.pending() == 0) {
    slot.tokens.push_back(probe.tokens[static_cast<std::size_t>(slot.computed)]);
  }
}

/// The pooling that other servers use: the last token of a decoder has seen the whole text.
plan::Pooling ProbeRunner::usual_pooling() const {
  return config_.causal ? plan::Pooling::kLast : plan::Pooling::kMean;
}

Result<void> ProbeRunner::add_embedding(const EmbedSpec& spec) {
  const plan::Pooling pooling =
      spec.pooling ? *spec.pooling : config_.pooling.value_or(usual_pooling());
  SequenceSpec checked;
  checked.key = spec.key;
  checked.prompt = spec.tokens;
  HOLDFAST_CHECKED(
      check_spec(checked, config_.vocabulary, config_.vocab, config_.context, config_.pages));
  HOLDFAST_CHECKED(check_pages("add embedding " + std::to_string(spec.key) + ": ",
                               spec.tokens.size(), config_.pages));
  HOLDFAST_TRY(Slot * slot, slots_.claim(spec.key));
  slot->tokens.assign(spec.tokens.begin(), spec.tokens.end());
  slot->prompt_n = slot->length();
  slot->priority = spec.priority;
  slot->prefill_heavy = executor_.capabilities().has_prefill_kernels();
  slot->probe.pooler = std::make_unique<Pooler>(pooling, spec.normalize, config_.width);
  return {};
}

Result<void> ProbeRunner::add_vector(SequenceSpec spec, const sampling::EmbeddingOptions& options) {
  if (!spec.committed.empty()) {
    HOLDFAST_TRY(Slot * slot, slots_.claim(spec.key));
    slot->tokens.assign(spec.committed.begin(), spec.committed.end());
    slot->finish = wire::FinishReason::kStop;
    return {};
  }
  EmbedSpec embed;
  embed.key = spec.key;
  embed.tokens = std::move(spec.prompt);
  embed.priority = spec.priority;
  embed.normalize = options.normalize;
  if (config_.pooling == plan::Pooling::kNone) embed.pooling = usual_pooling();
  if (options.pooling == "mean") embed.pooling = plan::Pooling::kMean;
  if (options.pooling == "cls") embed.pooling = plan::Pooling::kCls;
  if (options.pooling == "last") embed.pooling = plan::Pooling::kLast;
  return add_embedding(embed);
}

void ProbeRunner::advance_embedding(Slot& slot, const backend::Segment& segment,
                                    const backend::StepResult& result, std::int32_t first) {
  slot.probe.pooler->take(result, segment, first);
  if (slot.pending() > 0) return;
  Produced p;
  p.key = slot.key;
  p.finish = wire::FinishReason::kStop;
  slot.probe.pooler->finish(p);
  results_.end(slot, std::move(p));
}

}  // namespace holdfast::engine
