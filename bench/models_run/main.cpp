// bench/models: loads, memory and sharing of devices, measured on the real programs.

#include "bench/models_run/cases.h"

namespace {

constexpr char kUsage[] =
    "usage: holdfast-bench-models [--json] [--quick] [--only CASE[,CASE…]] [--dir DIR]\n"
    "                             [--model FILE.gguf] [--record FILE] [--minutes M]\n"
    "                             [--spinners N]\n"
    "Cases: cycles (100 loads of FILE with the real engine: memory, first requests), spinners\n"
    "(three real models, loaded, unloaded and used for M minutes, 60, next to N spinning\n"
    "processes, 4), collide, pressure (5 minutes), balance (fake engine).\n";

}  // namespace

int main(int argc, char** argv) {
  using namespace holdfast::bench;
  return run_cases(argc, argv, "models", kUsage,
                   {{"cycles", &bench_cycles},
                    {"spinners", &bench_spinners},
                    {"collide", &bench_collide},
                    {"pressure", &bench_pressure},
                    {"balance", &bench_balance}},
                   {"minutes", "spinners"});
}
