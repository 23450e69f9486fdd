// bench/control: how fast the control plane is, measured on the real programs with the fake engine.

#include "bench/control_plane/cases.h"

namespace holdfast::bench {
namespace {

constexpr char kUsage[] =
    "usage: holdfast-bench-control [--json] [--quick] [--only CASE[,CASE…]] [--dir DIR]\n"
    "                              [--model FILE.gguf] [--record FILE]\n"
    "Starts daemon, workers (fake engine) and clients on a new state directory below DIR and\n"
    "measures. Cases: disk, admission, tokens, restart, failures, cancel, burst, and\n"
    "suspicion, which takes ten minutes.\n";

}  // namespace
}  // namespace holdfast::bench

int main(int argc, char** argv) {
  using namespace holdfast::bench;
  return run_cases(argc, argv, "control", kUsage, all_cases());
}
