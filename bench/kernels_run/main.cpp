// bench/kernels: single kernels, one thread, all families that run here, by Google Benchmark.

#include <benchmark/benchmark.h>

#include "bench/kernels_run/cases.h"

namespace holdfast::bench {

std::vector<const cpu::Kernels*> runnable_kernels() {
  std::vector<const cpu::Kernels*> out;
  for (const std::string& name : cpu::runnable_families()) {
    const auto found = cpu::select_family(name);
    // A family with prefill-heavy kernels of another one is measured as those two.
    if (found && (*found)->prefill_heavy == nullptr) out.push_back(*found);
  }
  return out;
}

}  // namespace holdfast::bench

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  holdfast::bench::register_products();
  holdfast::bench::register_attention();
  holdfast::bench::register_rows();
  holdfast::bench::register_sampling();
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
