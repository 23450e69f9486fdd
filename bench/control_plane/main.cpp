// bench/control: the speed of the control plane, measured on the real programs, with the fake
// engine unless --engine says otherwise.

#include "bench/control_plane/cases.h"

namespace holdfast::bench {
namespace {

constexpr char kUsage[] =
    "usage: holdfast-bench-control [--json] [--quick] [--only CASE[,CASE…]] [--dir DIR]\n"
    "                              [--model FILE.gguf] [--record FILE] [--engine fake|model]\n"
    "Starts daemon, workers and clients on a new state directory below DIR and measures. Cases:\n"
    "disk, admission, tokens, restart, failures, cancel, burst, standby, and suspicion, which "
    "takes\n"
    "ten minutes. --engine model: failures, cancel, burst and suspicion with the real engine and "
    "FILE\n"
    "(the demo model); tokens are skipped, as the fake engine alone stamps its tokens.\n";

}  // namespace
}  // namespace holdfast::bench

int main(int argc, char** argv) {
  using namespace holdfast::bench;
  return run_cases(argc, argv, "control", kUsage, all_cases(), {"engine"});
}
