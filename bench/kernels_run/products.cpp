// Matrix products of one thread, weights in the caches' reach.

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

/// Weights are made once a type.
const TestMatrix& matrix_of(gguf::TensorType type) {
  static std::map<gguf::TensorType, std::unique_ptr<TestMatrix>> made;
  std::unique_ptr<TestMatrix>& m = made[type];
  if (!m) m = std::make_unique<TestMatrix>(random_matrix(type, kOut, kIn, 64, 7));
  return *m;
}

/// A product ready to be computed, its activations quantised where the family wants that.
struct Product {
  Product(const Kernels& kernels, const TestMatrix& m, std::int64_t rows, bool coarse)
      : x(normal_values(rows * kIn, 9)),
        y(static_cast<std::size_t>(rows * m.packed.panels * kLanes)),
        scratch(Region::take(kUnpackFloats * sizeof(float), "bench").value()) {
    args.w = &m.packed;
    args.p1 = m.packed.panels;
    args.x = x.data();
    args.x_stride = kIn;
    if (const RowForm* form = kernels.row_form(m.packed.format, coarse); form != nullptr) {
      args.q_stride = (kIn / kActivationBlock + 1) * form->block_bytes;
      q.resize(static_cast<std::size_t>(rows * args.q_stride));
      for (std::int64_t r = 0; r < rows; ++r) {
        form->make(x.data() + r * args.x_stride, kIn, q.data() + r * args.q_stride);
      }
      args.q = q.data();
    }
    args.rows = rows;
    args.coarse = coarse;
    args.y = y.data();
    args.y_stride = m.packed.panels * kLanes;
    args.scratch = scratch.floats();
  }
  std::vector<float> x, y;
  std::vector<std::uint8_t> q;
  Region scratch;
  MatmulArgs args;
};

/// The scalar family's, which takes seconds for many rows: a row's bits are the same among any.
const std::vector<float>& expected_rows(gguf::TensorType type, bool coarse) {
  static std::map<std::pair<gguf::TensorType, bool>, std::vector<float>> made;
  std::vector<float>& y = made[{type, coarse}];
  if (y.empty()) {
    Product p(scalar_kernels(), matrix_of(type), 4, coarse);
    scalar_kernels().matmul(p.args);
    y = p.y;
  }
  return y;
}

void run(benchmark::State& state, const Kernels* kernels, gguf::TensorType type, bool coarse) {
  const std::int64_t rows = state.range(0);
  const TestMatrix& m = matrix_of(type);
  Product p(*kernels, m, rows, coarse);
  kernels->matmul(p.args);
  const std::vector<float>& expected = expected_rows(type, coarse);
  const std::size_t known = std::min(expected.size(), p.y.size());
  const auto middle = static_cast<std::ptrdiff_t>(known);
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

void register_product(const Kernels* kernels, gguf::TensorType type, bool coarse) {
  const std::string name = std::string(coarse ? "matmul_coarse/" : "matmul/") + kernels->name +
                           "/" + std::string(gguf::type_traits(type)->name);
  auto* one = benchmark::RegisterBenchmark(
      name.c_str(), [=](benchmark::State& state) { run(state, kernels, type, coarse); });
  for (const std::int64_t rows : {1, 4, 8, 16, 128, 512}) {
    if (kernels == &scalar_kernels() && rows > 4) continue;  // seconds, of no interest
    one->Arg(rows)->Unit(benchmark::kMicrosecond);
  }
}

/// Whether rows of 8 bits are others than those of 15.
bool has_coarse(const Kernels* kernels, cpu::Format format) {
  return kernels->row_form(format, true) != kernels->row_form(format, false);
}

}  // namespace

void register_products() {
  using T = gguf::TensorType;
  for (const Kernels* kernels : runnable_kernels()) {
    for (const T type : {T::kQ4_0, T::kQ4_K, T::kQ5_0, T::kQ6_K, T::kQ8_0, T::kF16, T::kBF16}) {
      register_product(kernels, type, false);
      if (has_coarse(kernels, *format_of(type))) register_product(kernels, type, true);
    }
  }
}

}  // namespace holdfast::bench
