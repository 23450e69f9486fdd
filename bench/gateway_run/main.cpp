// bench/gateway: costs of the HTTP gateway, measured on the real programs with the fake engine.

#include "bench/gateway_run/cases.h"

namespace {

constexpr char kUsage[] =
    "usage: holdfast-bench-gateway [--json] [--quick] [--only CASE[,CASE…]] [--dir DIR]\n"
    "                              [--model FILE.gguf] [--record FILE]\n"
    "Cases: streams (4,096 open at once: memory, gaps between tokens), cost (processor time of a\n"
    "request and of a token).\n";

}  // namespace

int main(int argc, char** argv) {
  using namespace holdfast::bench;
  return run_cases(argc, argv, "gateway", kUsage,
                   {{"streams", &bench_streams}, {"cost", &bench_cost}});
}
