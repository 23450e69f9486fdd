// Attention over pages, operations on rows between products, and sampling.

#include <benchmark/benchmark.h>

#include <functional>
#include <numeric>
#include <string>

#include "bench/kernels_run/cases.h"
#include "worker/engine/row_passes.h"
#include "worker/engine/sampler.h"

namespace holdfast::bench {
namespace {

using namespace cpu;

constexpr std::int32_t kHeadDim = 128, kGroup = 4, kQueries = 32;

/// One KV head's pages after `context` tokens, and queries of the last `tokens` of them.
struct Attention {
  Attention(const Kernels& kernels, std::int32_t context, std::int32_t tokens)
      : pages(static_cast<std::size_t>((context + kPageTokens - 1) / kPageTokens)),
        q(normal_values(std::int64_t{tokens} * kGroup * kHeadDim, 5)),
        out(q.size()),
        scratch(static_cast<std::size_t>(attention_scratch_floats(tokens * kGroup, kHeadDim))) {
    std::iota(pages.begin(), pages.end(), 0);
    args.page_bytes = head_page_bytes(KvType::kF16, kHeadDim);
    k.resize(pages.size() * static_cast<std::size_t>(args.page_bytes));
    v.resize(k.size());
    const auto rows = normal_values(std::int64_t{context} * kHeadDim, 6);
    for (std::int32_t t = 0; t < context; ++t) {
      const std::int64_t at = t / kPageTokens * args.page_bytes;
      const auto slot = static_cast<std::int32_t>(t % kPageTokens);
      const float* row = rows.data() + std::int64_t{t} * kHeadDim;
      kernels.store_key(row, kHeadDim, slot, KvType::kF16, k.data() + at);
      kernels.store_value(row, kHeadDim, slot, KvType::kF16, v.data() + at);
    }
    args.k = k.data();
    args.v = v.data();
    args.pages = pages.data();
    args.kv = KvType::kF16;
    args.q = q.data();
    args.out = out.data();
    args.q_stride = args.out_stride = kGroup * kHeadDim;
    args.start = context - tokens;
    args.tokens = tokens;
    args.group = kGroup;
    args.head_dim = args.head_pad = kHeadDim;
    args.scale = 1 / std::sqrt(static_cast<float>(kHeadDim));
    args.scratch = scratch.data();
  }
  std::vector<std::int32_t> pages;
  std::vector<std::uint8_t> k, v;
  std::vector<float> q, out, scratch;
  AttentionArgs args;
};

void run_attention(benchmark::State& state, const Kernels* kernels) {
  const auto context = static_cast<std::int32_t>(state.range(0));
  const auto tokens = static_cast<std::int32_t>(state.range(1));
  Attention expected(scalar_kernels(), context, tokens);
  scalar_kernels().attention(expected.args);
  Attention one(*kernels, context, tokens);
  kernels->attention(one.args);
  if (!agrees(*kernels, one.out, expected.out)) {
    return state.SkipWithError("not what the scalar family computes");
  }
  for ([[maybe_unused]] auto _ : state) {
    kernels->attention(one.args);
    benchmark::DoNotOptimize(one.out.data());
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations()) * 2 * context * kHeadDim *
                          2);
}

constexpr std::int64_t kWidth = 4096;

/// An operation on a row of kWidth floats, in place or into `out`.
struct RowCase {
  const char* name;
  void (*call)(const Kernels& kernels, const float* x, const float* w, float* out);
};

const RowCase kRowCases[] = {
    {"rmsnorm", [](const Kernels& k, const float* x, const float* w,
                   float* out) { k.rmsnorm(x, w, kWidth, 1e-6f, out); }},
    {"layernorm", [](const Kernels& k, const float* x, const float* w,
                     float* out) { k.layernorm(x, w, nullptr, kWidth, 1e-6f, out); }},
    {"silu_mul",
     [](const Kernels& k, const float* x, const float* w, float* out) {
       std::copy_n(x, kWidth, out);
       k.silu_mul(out, w, kWidth);
     }},
    {"exp",
     [](const Kernels& k, const float* x, const float*, float* out) { k.exp(x, out, kWidth); }}};

void run_row(benchmark::State& state, const Kernels* kernels, const RowCase& one) {
  const std::vector<float> x = normal_values(kWidth, 3);
  const std::vector<float> w = normal_values(kWidth, 4);
  std::vector<float> out(kWidth), expected(kWidth);
  one.call(scalar_kernels(), x.data(), w.data(), expected.data());
  one.call(*kernels, x.data(), w.data(), out.data());
  if (!agrees(*kernels, out, expected)) {
    return state.SkipWithError("not what the scalar family computes");
  }
  for ([[maybe_unused]] auto _ : state) {
    one.call(*kernels, x.data(), w.data(), out.data());
    benchmark::DoNotOptimize(out.data());
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations()) * kWidth * 4);
}

void run_quantize(benchmark::State& state, const ActivationFormat* activation_format) {
  const std::vector<float> x = normal_values(kWidth, 3);
  std::vector<std::uint8_t> out(static_cast<std::size_t>(kWidth / kActivationBlock + 1) *
                                sizeof(ActivationBlock));
  for ([[maybe_unused]] auto _ : state) {
    activation_format->make(x.data(), kWidth, out.data());
    benchmark::DoNotOptimize(out.data());
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations()) * kWidth * 4);
}

constexpr std::int32_t kVocab = 151'936;

void run_sampling(benchmark::State& state, float temperature, std::int32_t top_k, float top_p) {
  const std::vector<float> logits = normal_values(kVocab, 8);
  std::vector<float> maxima(static_cast<std::size_t>(backend::logit_blocks(kVocab)));
  engine::block_maxima(logits.data(), kVocab, maxima.data());  // as an executor gives them
  engine::Sampler sampler(kVocab, {});
  wire::Sampling sampling;
  sampling.temperature = temperature;
  sampling.top_k = top_k;
  sampling.top_p = top_p;
  const std::vector<engine::TokenId> tokens = {1, 2, 3};
  engine::SampleInput input;
  input.sampling = &sampling;
  input.tokens = tokens.data();
  input.prompt_n = 3;
  for ([[maybe_unused]] auto _ : state) {
    benchmark::DoNotOptimize(sampler.sample({logits.data(), maxima.data()}, input));
  }
}

void add(const std::string& name, std::function<void(benchmark::State&)> body) {
  benchmark::RegisterBenchmark(name.c_str(), std::move(body))->Unit(benchmark::kMicrosecond);
}

}  // namespace

void register_attention() {
  for (const Kernels* kernels : runnable_kernels()) {
    benchmark::RegisterBenchmark((std::string("attention/") + kernels->name).c_str(),
                                 [=](benchmark::State& state) { run_attention(state, kernels); })
        ->ArgNames({"context", "tokens"})
        ->Args({512, 1})
        ->Args({4096, 1})
        ->Args({512, kQueries / kGroup})
        ->Args({4096, kQueries / kGroup})
        ->Unit(benchmark::kMicrosecond);
  }
}

void register_rows() {
  for (const Kernels* kernels : runnable_kernels()) {
    for (const RowCase& one : kRowCases) {
      add(std::string(one.name) + "/" + kernels->name,
          [=, &one](benchmark::State& state) { run_row(state, kernels, one); });
    }
    for (const bool int8 : {false, true}) {
      const ActivationFormat* activation_format = kernels->activation_format(Format::kQ8_0, int8);
      add(std::string(int8 ? "quantize_coarse/" : "quantize/") + kernels->name,
          [=](benchmark::State& state) { run_quantize(state, activation_format); });
    }
  }
}

void register_sampling() {
  add("sample/greedy", [](benchmark::State& state) { run_sampling(state, 0, 0, 1); });
  add("sample/temperature", [](benchmark::State& state) { run_sampling(state, 0.8f, 0, 1); });
  add("sample/top_k_40", [](benchmark::State& state) { run_sampling(state, 0.8f, 40, 1); });
  add("sample/top_p_95", [](benchmark::State& state) { run_sampling(state, 0.8f, 0, 0.95f); });
}

}  // namespace holdfast::bench
