// Matrix products of one thread, with weights within reach of the caches.

#include <benchmark/benchmark.h>

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "bench/kernels_run/cases.h"
#include "tests/kernels/random_matrix.h"

namespace holdfast::bench {
namespace {

using namespace cpu;

constexpr std::int64_t kOut = 4864, kIn = 1024;

/// The weights of a type, made once.
const TestMatrix& matrix_of(gguf::TensorType type) {
  static std::map<gguf::TensorType, std::unique_ptr<TestMatrix>> made;
  std::unique_ptr<TestMatrix>& m = made[type];
  if (!m) m = std::make_unique<TestMatrix>(random_matrix(type, kOut, kIn, 64, 7));
  return *m;
}

/// A product ready to be computed, its activations quantized where the family requires it.
struct Product {
  Product(const Kernels& kernels, const TestMatrix& m, std::int64_t rows, bool int8)
      : x(normal_values(rows * kIn, 9)),
        y(static_cast<std::size_t>(rows * m.packed.panels * kLanes)),
        scratch(Region::take(kUnpackFloats * sizeof(float), "bench").value()) {
    args.w = &m.packed;
    args.p1 = m.packed.panels;
    args.x = x.data();
    args.x_stride = kIn;
    if (const ActivationFormat* activation_format =
            kernels.activation_format(m.packed.format, int8);
        activation_format != nullptr) {
      args.q_stride = (kIn / kActivationBlock + 1) * activation_format->block_bytes;
      q.resize(static_cast<std::size_t>(rows * args.q_stride));
      for (std::int64_t r = 0; r < rows; ++r) {
        activation_format->make(x.data() + r * args.x_stride, kIn, q.data() + r * args.q_stride);
      }
      args.q = q.data();
    }
    args.rows = rows;
    args.int8 = int8;
    args.y = y.data();
    args.y_stride = m.packed.panels * kLanes;
    args.scratch = scratch.floats();
  }
  std::vector<float> x, y;
  std::vector<std::uint8_t> q;
  Region scratch;
  MatmulArgs args;
};

/// The scalar family's results, which take seconds for many rows: a row's bits are the same among
/// any others.
const std::vector<float>& expected_rows(gguf::TensorType type, bool int8) {
  static std::map<std::pair<gguf::TensorType, bool>, std::vector<float>> made;
  std::vector<float>& y = made[{type, int8}];
  if (y.empty()) {
    Product p(scalar_kernels(), matrix_of(type), 4, int8);
    scalar_kernels().matmul(p.args);
    y = p.y;
  }
  return y;
}

void run(benchmark::State& state, const Kernels* kernels, gguf::TensorType type, bool int8) {
  const std::int64_t rows = state.range(0);
  const TestMatrix& m = matrix_of(type);
  Product p(*kernels, m, rows, int8);
  kernels->matmul(p.args);
  const std::vector<float>& expected = expected_rows(type, int8);
  const std::size_t compared = std::min(expected.size(), p.y.size());
  const auto middle = static_cast<std::ptrdiff_t>(compared);
  if (!agrees(*kernels, {p.y.begin(), p.y.begin() + middle},
              {expected.begin(), expected.begin() + middle})) {
    return state.SkipWithError("not what the scalar family computes");
  }
  for ([[maybe_unused]] auto _ : state) {
    kernels->matmul(p.args);
    benchmark::DoNotOptimize(p.y.data());
  }
  const auto count = static_cast<double>(state.iterations());
  using benchmark::Counter;
  state.counters["flop/s"] =
      Counter(2.0 * static_cast<double>(kOut * kIn * rows) * count, Counter::kIsRate);
  state.counters["weights_bytes/s"] =
      Counter(static_cast<double>(m.packed.bytes()) * count, Counter::kIsRate);
}

void register_product(const Kernels* kernels, gguf::TensorType type, bool int8) {
  const std::string name = std::string(int8 ? "matmul_coarse/" : "matmul/") + kernels->name + "/" +
                           std::string(gguf::type_traits(type)->name);
  auto* one = benchmark::RegisterBenchmark(
      name.c_str(), [=](benchmark::State& state) { run(state, kernels, type, int8); });
  for (const std::int64_t rows : {1, 4, 8, 16, 128, 512}) {
    if (kernels == &scalar_kernels() && rows > 4) continue;  // takes seconds, and is of no interest
    one->Arg(rows)->Unit(benchmark::kMicrosecond);
  }
}

/// True if rows of 8 bits differ from those of 15.
bool has_int8(const Kernels* kernels, cpu::Format format) {
  return kernels->activation_format(format, true) != kernels->activation_format(format, false);
}

}  // namespace

void register_products() {
  using T = gguf::TensorType;
  for (const Kernels* kernels : runnable_kernels()) {
    for (const T type : {T::kQ4_0, T::kQ4_K, T::kQ5_0, T::kQ6_K, T::kQ8_0, T::kF16, T::kBF16}) {
      register_product(kernels, type, false);
      if (has_int8(kernels, *format_of(type))) register_product(kernels, type, true);
    }
  }
}

}  // namespace holdfast::bench
