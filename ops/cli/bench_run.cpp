// What `bench` times: the serving engine itself, one step after the other.

#include <algorithm>
#include <memory>

#include "ops/cli/engine_open.h"
#include "ops/cli/memory_rate.h"
#include "ops/cli/product_rate.h"
#include "shared/base/clock.h"
#include "shared/hf/folder.h"
#include "worker/backend/cpu/family.h"
#include "worker/backend/cpu/load.h"
#include "worker/model/work.h"

namespace holdfast::cli {
namespace {

double seconds_now() {
  return static_cast<double>(system_clock().monotonic_us()) / 1e6;
}

/// `streams` sequences with a prompt of `context` tokens each, greedy, to end after `tokens`.
Result<void> add_sequences(engine::Engine& engine, std::int32_t streams, std::int32_t context,
                           std::int64_t tokens) {
  for (std::int32_t s = 0; s < streams; ++s) {
    engine::SequenceSpec spec;
    spec.key = static_cast<engine::SequenceKey>(s) + 1;
    for (std::int32_t i = 0; i < context; ++i) spec.prompt.push_back(3 + (i * 7 + s) % 200);
    spec.sampling.temperature = 0;
    spec.sampling.ignore_eos = true;
    spec.max_tokens = tokens;
    HF_CHECKED(engine.add(std::move(spec)));
  }
  return {};
}

/// Steps until nothing is left to do; each sequence is held back behind its first token.
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

/// What the processor could do in the moment of a sample.
struct Yardsticks {
  /// `reading_coarse`, `writing_coarse`: parts of their products with coarse rows.
  Yardsticks(int threads, const cpu::Kernels& kernels, gguf::TensorType type,
             double reading_coarse, double writing_coarse)
      : memory(threads),
        reading(threads, kernels.reading != nullptr ? *kernels.reading : kernels, type,
                reading_coarse),
        writing(threads, kernels, type, writing_coarse) {}
  MemoryRate memory;
  ProductRate reading;  // by the kernels of prompts
  ProductRate writing;
};

/// Tokens of the prompt, of which one's logits are wanted; 1 where there is none.
std::int32_t prompt_rows(const BenchCall& call) {
  return std::max(call.prompt_tokens, 1);
}

/// Of kernels of the processor; null for devices.
Result<std::unique_ptr<Yardsticks>> make_yardsticks(const BenchCall& call, const Bench& bench,
                                                    const model::Work& work) {
  const auto coarse = [](const model::Work::Part& part) { return part.marked / part.all; };
  if (call.engine.device != "cpu") return std::unique_ptr<Yardsticks>();
  HF_TRY(const cpu::Kernels* const kernels, cpu::select_family(bench.kernels));
  return std::make_unique<Yardsticks>(call.engine.threads, *kernels, work.type,
                                      coarse(work.of_one_in(prompt_rows(call))),
                                      coarse(work.of_one_in(1)));
}

/// Behind one prompt that is not timed: a processor takes a while to run at its rate.
Result<void> time_prefill(engine::Engine& engine, const BenchCall& call, Yardsticks* yardsticks,
                          Bench& out) {
  const std::int32_t first = std::min(call.prompt_tokens, 512);
  HF_CHECKED(add_sequences(engine, 1, first, 1));
  HF_CHECKED(run_prompts(engine, first));
  for (std::int32_t i = 0; i < call.repeat; ++i) {
    const double before = yardsticks != nullptr ? yardsticks->reading.tops() : 0;
    HF_CHECKED(add_sequences(engine, 1, call.prompt_tokens, 1));
    const double start = seconds_now();
    HF_CHECKED(run_prompts(engine, call.prompt_tokens));
    out.prefill_tok_s.push_back(call.prompt_tokens / (seconds_now() - start));
    if (yardsticks == nullptr) continue;
    out.prefill_peak_tops.push_back((before + yardsticks->reading.tops()) / 2);
  }
  return {};
}

/// Steps of all streams, a token of each: drafts are off.
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

/// Tokens that a stream may generate: at least those of the samples, and so many that it does not
/// count as one that reads much and writes little (engine: reads_mostly), with kernels for reading.
std::int64_t tokens_wanted(const BenchCall& call) {
  return std::max<std::int64_t>(std::int64_t{call.decode_tokens} * call.repeat, call.context / 8) +
         1;
}

Result<void> time_decode(engine::Engine& engine, const BenchCall& call, Yardsticks* yardsticks,
                         Bench& out) {
  HF_CHECKED(add_sequences(engine, call.streams, call.context, tokens_wanted(call)));
  const std::int64_t prompts = std::int64_t{call.streams} * call.context;
  const double start = seconds_now();
  HF_CHECKED(run_prompts(engine, prompts));
  if (!call.assume_context) {
    out.fill_tok_s = static_cast<double>(prompts) / (seconds_now() - start);
  }
  for (std::int32_t s = 0; s < call.streams; ++s) {
    engine.pause(static_cast<engine::SequenceKey>(s) + 1, false);
  }
  const std::uint32_t barriers = engine.usage().barriers;
  for (std::int32_t i = 0; i < call.repeat; ++i) {
    const double peak = yardsticks != nullptr ? yardsticks->writing.tops() : 0;
    const double memory = yardsticks != nullptr ? yardsticks->memory.gb_s() : 0;
    HF_TRY(const double took, run_steps(engine, call.decode_tokens));
    out.decode_tok_s.push_back(static_cast<double>(call.streams) * call.decode_tokens / took);
    out.decode_gb_s.push_back(out.bytes_per_token * call.decode_tokens / took / 1e9);
    if (yardsticks == nullptr) continue;
    out.stream_gb_s.push_back((memory + yardsticks->memory.gb_s()) / 2);
    out.decode_peak_tops.push_back((peak + yardsticks->writing.tops()) / 2);
  }
  out.barriers_per_step = static_cast<double>(engine.usage().barriers - barriers) /
                          (static_cast<double>(call.repeat) * call.decode_tokens);
  for (std::int32_t s = 0; s < call.streams; ++s) {
    engine.cancel(static_cast<engine::SequenceKey>(s) + 1);
  }
  return {};
}

Result<model::Work> work_in(const std::string& path, std::int32_t streams) {
  HF_TRY(const auto file, hf::open_model(path));
  HF_TRY(const plan::ModelShape shape, plan::read_shape(*file));
  HF_TRY(const model::Program program, model::build_program(*file, shape));
  return model::work_of(program, streams, [](const model::Op& op) {
    return cpu::is_coarse(op.kind, op.layer);
  });
}

engine::EngineOptions bench_options(const BenchCall& call) {
  engine::EngineOptions options = engine_options(call.engine);
  options.slots = call.streams;
  options.context =
      std::max<std::int64_t>(call.prompt_tokens, call.context + tokens_wanted(call)) + 1;
  options.prefill_chunk = call.prefill_chunk;
  options.prefix_cache = false;  // the cost of a token, not of one that is known or guessed
  options.drafts = 0;
  options.assume_prompts = call.assume_context;
  return options;
}

}  // namespace

Result<Bench> run_bench(const BenchCall& call) {
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
  Bench out;
  const double start = seconds_now();
  HF_TRY(const auto engine, open_chosen(call.engine, bench_options(call)));
  out.load_s = seconds_now() - start;
  const wire::LoadedModel model = engine->describe();
  HF_TRY(const model::Work work, work_in(call.engine.file, call.streams));
  out.bytes_per_token = work.step_bytes;
  out.prefill_work = work.of_one_in(prompt_rows(call)).all;
  out.decode_work = work.of_one_in(1).all;
  out.numerics_class = model.numerics_class;
  out.kernels = out.numerics_class.substr(out.numerics_class.find('/') + 1);
  out.kernels = out.kernels.substr(0, out.kernels.find('/'));
  HF_TRY(const auto yardsticks, make_yardsticks(call, out, work));
  if (call.prompt_tokens > 0) HF_CHECKED(time_prefill(*engine, call, yardsticks.get(), out));
  if (call.decode_tokens > 0) HF_CHECKED(time_decode(*engine, call, yardsticks.get(), out));
  show_share("decode", 1);
  return out;
}

}  // namespace holdfast::cli
