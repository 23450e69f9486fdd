// The measurements of `bench`: the serving engine itself, one step after the other.

#include <algorithm>
#include <memory>

#include "ops/cli/engine_open.h"
#include "ops/cli/memory_rate.h"
#include "ops/cli/product_rate.h"
#include "shared/base/clock.h"
#include "shared/huggingface/folder.h"
#include "worker/backend/cpu/family.h"
#include "worker/backend/cpu/load.h"
#include "worker/model/work.h"

namespace holdfast::cli {
namespace {

double seconds_now() {
  return static_cast<double>(system_clock().monotonic_us()) / 1e6;
}

/// Adds `streams` greedy sequences of a prompt of `context` tokens each, which end after `tokens`.
Result<void> add_sequences(engine::Engine& engine, std::int32_t streams, std::int32_t context,
                           std::int64_t tokens) {
  for (std::int32_t s = 0; s < streams; ++s) {
    engine::SequenceSpec spec;
    spec.key = static_cast<engine::SequenceKey>(s) + 1;
    for (std::int32_t i = 0; i < context; ++i) spec.prompt.push_back(3 + (i * 7 + s) % 200);
    spec.sampling.temperature = 0;
    spec.sampling.ignore_eos = true;
    spec.max_tokens = tokens;
    HOLDFAST_CHECKED(engine.add(std::move(spec)));
  }
  return {};
}

/// Steps until nothing is left to do; each sequence is paused after its first token.
Result<void> run_prompts(engine::Engine& engine, std::int64_t tokens) {
  const std::uint64_t before = engine.usage().prefill_tokens;
  while (!engine.idle()) {
    for (const engine::Produced& p : engine.step()) {
      if (p.finish == wire::FinishReason::kError) return p.error;
      engine.pause(p.key, true);
    }
    show_share("prefill", static_cast<double>(engine.usage().prefill_tokens - before) /
                              static_cast<double>(tokens));
  }
  return {};
}

/// Peak rates of the processor at the moment of a sample.
struct Yardsticks {
  /// `prefill_int8_share`, `decode_int8_share`: shares of the products made with int8 rows.
  Yardsticks(int threads, const cpu::Kernels& kernels, gguf::TensorType type,
             double prefill_int8_share, double decode_int8_share)
      : memory(threads),
        prefill_heavy(threads, kernels.prefill_heavy != nullptr ? *kernels.prefill_heavy : kernels,
                      type, prefill_int8_share),
        decode_heavy(threads, kernels, type, decode_int8_share) {}
  MemoryRate memory;
  ProductRate prefill_heavy;  // by prefill-heavy kernels
  ProductRate decode_heavy;
};

/// Rows of the prompt, one of which needs logits; 1 where there is no prompt.
std::int32_t prompt_rows(const BenchCall& call) {
  return std::max(call.prompt_tokens, 1);
}

/// Makes yardsticks of the processor's kernels; null for devices.
Result<std::unique_ptr<Yardsticks>> make_yardsticks(const BenchCall& call, const Bench& bench,
                                                    const model::Work& work) {
  const auto int8_share = [](const model::Work::Part& part) { return part.marked / part.all; };
  if (call.engine.device != "cpu") return std::unique_ptr<Yardsticks>();
  HOLDFAST_TRY(const cpu::Kernels* const kernels, cpu::select_family(bench.kernels));
  return std::make_unique<Yardsticks>(call.engine.threads, *kernels, work.type,
                                      int8_share(work.of_one_in(prompt_rows(call))),
                                      int8_share(work.of_one_in(1)));
}

/// Times prefills after one prompt that is not timed: a processor takes a while to reach its rate.
Result<void> time_prefill(engine::Engine& engine, const BenchCall& call, Yardsticks* yardsticks,
                          Bench& out) {
  const std::int32_t first = std::min(call.prompt_tokens, 512);
  HOLDFAST_CHECKED(add_sequences(engine, 1, first, 1));
  HOLDFAST_CHECKED(run_prompts(engine, first));
  for (std::int32_t i = 0; i < call.repeat; ++i) {
    const double before = yardsticks != nullptr ? yardsticks->prefill_heavy.tops() : 0;
    HOLDFAST_CHECKED(add_sequences(engine, 1, call.prompt_tokens, 1));
    const double start = seconds_now();
    HOLDFAST_CHECKED(run_prompts(engine, call.prompt_tokens));
    out.prefill_tok_s.push_back(call.prompt_tokens / (seconds_now() - start));
    if (yardsticks == nullptr) continue;
    out.prefill_peak_tops.push_back((before + yardsticks->prefill_heavy.tops()) / 2);
  }
  return {};
}

/// Runs steps of all streams, a token of each, without drafts. Returns the seconds.
Result<double> run_steps(engine::Engine& engine, std::int32_t steps) {
  const double start = seconds_now();
  for (std::int32_t i = 0; i < steps; ++i) {
    for (const engine::Produced& p : engine.step()) {
      if (p.finish == wire::FinishReason::kError) return p.error;
    }
    show_share("decode", static_cast<double>(i) / steps);
  }
  return seconds_now() - start;
}

/// Tokens that a stream may generate: at least those of the samples, and so many that the stream
/// does not count as prefill-heavy (engine: is_prefill_heavy), which has other kernels.
std::int64_t stream_max_tokens(const BenchCall& call) {
  return std::max<std::int64_t>(std::int64_t{call.decode_tokens} * call.repeat, call.context / 8) +
         1;
}

Result<void> time_decode(engine::Engine& engine, const BenchCall& call, Yardsticks* yardsticks,
                         Bench& out) {
  HOLDFAST_CHECKED(add_sequences(engine, call.streams, call.context, stream_max_tokens(call)));
  const std::int64_t prompts = std::int64_t{call.streams} * call.context;
  const double start = seconds_now();
  HOLDFAST_CHECKED(run_prompts(engine, prompts));
  if (!call.assume_context) {
    out.fill_tok_s = static_cast<double>(prompts) / (seconds_now() - start);
  }
  for (std::int32_t s = 0; s < call.streams; ++s) {
    engine.pause(static_cast<engine::SequenceKey>(s) + 1, false);
  }
  const std::uint32_t barriers = engine.usage().barriers;
  for (std::int32_t i = 0; i < call.repeat; ++i) {
    const double peak = yardsticks != nullptr ? yardsticks->decode_heavy.tops() : 0;
    const double memory = yardsticks != nullptr ? yardsticks->memory.gb_s() : 0;
    HOLDFAST_TRY(const double took, run_steps(engine, call.decode_tokens));
    out.decode_tok_s.push_back(static_cast<double>(call.streams) * call.decode_tokens / took);
    out.decode_gb_s.push_back(out.bytes_per_token * call.decode_tokens / took / 1e9);
    if (yardsticks == nullptr) continue;
    out.stream_gb_s.push_back((memory + yardsticks->memory.gb_s()) / 2);
    out.decode_peak_tops.push_back((peak + yardsticks->decode_heavy.tops()) / 2);
  }
  out.barriers_per_step = static_cast<double>(engine.usage().barriers - barriers) /
                          (static_cast<double>(call.repeat) * call.decode_tokens);
  for (std::int32_t s = 0; s < call.streams; ++s) {
    engine.cancel(static_cast<engine::SequenceKey>(s) + 1);
  }
  return {};
}

Result<model::Work> work_in(const std::string& path, std::int32_t streams) {
  HOLDFAST_TRY(const auto file, huggingface::open_model(path));
  HOLDFAST_TRY(const plan::ModelShape shape, plan::read_shape(*file));
  HOLDFAST_TRY(const model::Program program, model::build_program(*file, shape));
  return model::work_of(program, streams,
                        [](const model::Op& op) { return cpu::takes_int8(op.kind, op.layer); });
}

engine::EngineOptions bench_options(const BenchCall& call) {
  engine::EngineOptions options = engine_options(call.engine);
  options.slots = call.streams;
  options.context =
      std::max<std::int64_t>(call.prompt_tokens, call.context + stream_max_tokens(call)) + 1;
  options.prefill_chunk = call.prefill_chunk;
  options.prefix_cache = false;  // the cost of a computed token, not of a cached or drafted one
  options.drafts = 0;
  options.assume_prompts = call.assume_context;
  return options;
}

}  // namespace

static Result<void> check_call(const BenchCall& call) {
  if (call.prompt_tokens < 0 || call.decode_tokens < 0 || call.streams < 1 || call.context < 1 ||
      call.repeat < 1) {
    return Error{Errc::kUsage,
                 "bench: tokens must be 0 or more, streams, context and repeat 1 or more"};
  }
  if (call.assume_context && call.prompt_tokens > 0) {
    return Error{Errc::kUsage,
                 "bench: with --assume-context no prompt is computed, so there is no prefill to "
                 "time; say --prompt-tokens 0, or leave --assume-context out"};
  }
  return {};
}

Result<Bench> run_bench(const BenchCall& call) {
  HOLDFAST_CHECKED(check_call(call));
  Bench out;
  const double start = seconds_now();
  HOLDFAST_TRY(const auto engine, open_chosen(call.engine, bench_options(call)));
  out.load_s = seconds_now() - start;
  const wire::LoadedModel model = engine->describe();
  HOLDFAST_TRY(const model::Work work, work_in(call.engine.file, call.streams));
  out.bytes_per_token = work.step_bytes;
  out.prefill_work = work.of_one_in(prompt_rows(call)).all;
  out.decode_work = work.of_one_in(1).all;
  out.numerics_class = model.numerics_class;
  out.kernels = out.numerics_class.substr(out.numerics_class.find('/') + 1);
  out.kernels = out.kernels.substr(0, out.kernels.find('/'));
  HOLDFAST_TRY(const auto yardsticks, make_yardsticks(call, out, work));
  if (call.prompt_tokens > 0) HOLDFAST_CHECKED(time_prefill(*engine, call, yardsticks.get(), out));
  if (call.decode_tokens > 0) HOLDFAST_CHECKED(time_decode(*engine, call, yardsticks.get(), out));
  show_share("decode", 1);
  return out;
}

}  // namespace holdfast::cli
