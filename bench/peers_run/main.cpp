// bench/peers: compares this engine with another one on the same file, in one run: pairs A B B A,
// so that other load on the machine affects both, and the median of the pairs' ratios with an
// interval.

#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "bench/lib/command.h"
#include "bench/lib/program.h"
#include "shared/base/result.h"

namespace holdfast::bench {
namespace {

constexpr char kUsage[] =
    "usage: holdfast-bench-peers --model FILE.gguf --peer-cmd CMD [--pairs N] [--prompt N]\n"
    "                            [--decode N] [--streams N] [--context N] [--threads N]\n"
    "                            [--kernels NAME] [--note TEXT] [--json] [--record FILE]\n"
    "Runs `holdfast bench` and the peer in turn (A B B A). CMD is a shell command in which "
    "{file},\n"
    "{prompt}, {decode}, {streams}, {context} and {threads} are replaced; its last line of output\n"
    "is a JSON object with prefill_tok_s and decode_tok_s (0: not measured; decoding is summed "
    "over\n"
    "the streams, each of which has the context when it begins). bench/peers.mjs is one for the "
    "npm\n"
    "package node-llama-cpp. --note says in the record who the peer is.\n"
    "Defaults: 15 pairs, 512 tokens of prefill, 64 of decode, 1 stream, context 1, 2 threads.\n";

struct PeersOptions {
  std::string peer, kernels, note;
  int pairs = 15, prompt = 512, decode = 64, streams = 1, context = 1, threads = 2;
};

struct Rates {
  double prefill = 0, decode = 0;
  std::string numerics_class;  // ours
};

Result<Rates> measure(const std::string& command) {
  HOLDFAST_TRY(const nlohmann::json json, json_of_command(command));
  Rates rates{json.value("prefill_tok_s", 0.0), json.value("decode_tok_s", 0.0),
              json.value("class", "")};
  return rates;
}

void add_ratio(Report& report, const std::string& name, const std::vector<Rates>& ours,
               const std::vector<Rates>& theirs, double Rates::*rate) {
  std::vector<double> ratios, mine, other;
  for (std::size_t i = 0; i < ours.size(); ++i) {
    if (ours[i].*rate <= 0 || theirs[i].*rate <= 0) return;
    mine.push_back(ours[i].*rate);
    other.push_back(theirs[i].*rate);
    ratios.push_back(mine.back() / other.back());
  }
  if (ratios.empty()) return;
  const Interval middle = median_interval(ratios);
  char note[64];
  std::snprintf(note, sizeof note, "95 %%: %.3f to %.3f, %zu pairs", middle.low, middle.high,
                ratios.size());
  report.add_samples(name + ".ours", mine, "tokens/s", Better::kHigher);
  report.add_samples(name + ".theirs", other, "tokens/s", Better::kHigher);
  report.add_samples(name + ".ratio", ratios, "x", Better::kHigher, std::nullopt, note);
}

bool run(const PeersOptions& options, const RunPaths& paths, Report& report) {
  const auto filled = [&](std::string text) {
    text = replaced(text, "{file}", shell_word(paths.model));
    text = replaced(text, "{streams}", std::to_string(options.streams));
    text = replaced(text, "{context}", std::to_string(options.context));
    text = replaced(text, "{prompt}", std::to_string(options.prompt));
    text = replaced(text, "{decode}", std::to_string(options.decode));
    return replaced(text, "{threads}", std::to_string(options.threads));
  };
  const std::string ours =
      filled(shell_word(paths.programs + "/holdfast") +
             " --json bench {file} --prompt-tokens {prompt} --decode-tokens {decode} --threads "
             "{threads} --streams {streams} --context {context}" +
             (options.kernels.empty() ? "" : " --kernels " + shell_word(options.kernels)));
  const std::string theirs = filled(options.peer);
  std::vector<Rates> a, b;
  const CpuTicks before = read_cpu_ticks();
  for (int pair = 0; pair < options.pairs; ++pair) {
    const bool ours_first = pair % 2 == 0;
    for (const bool mine : {ours_first, !ours_first}) {
      const Result<Rates> rates = measure(mine ? ours : theirs);
      if (!rates) {
        report.problem(rates.error().what);
        return true;
      }
      (mine ? a : b).push_back(*rates);
    }
    std::fprintf(stderr, "pair %d: prefill %.1f and %.1f, decode %.2f and %.2f tokens/s\n", pair,
                 a.back().prefill, b.back().prefill, a.back().decode, b.back().decode);
  }
  // "cpu/FAMILY/…": the family that was measured, and its revision.
  report.fact("class", a.back().numerics_class);
  report.fact("threads", std::to_string(options.threads));
  report.fact("streams", std::to_string(options.streams));
  report.fact("context", std::to_string(options.context));
  report.fact("file", paths.model.substr(paths.model.rfind('/') + 1));
  if (!options.note.empty()) report.fact("peer", options.note);
  add_ratio(report, "prefill", a, b, &Rates::prefill);
  add_ratio(report, "decode", a, b, &Rates::decode);
  report.add("steal", steal_percent(before, read_cpu_ticks()), "%");
  return true;
}

bool take(PeersOptions& options, int option, const char* value) {
  const auto number = [&](int* out, int least) { return (*out = std::atoi(value)) >= least; };
  switch (option) {
    case 'c':
      return !(options.peer = value).empty();
    case 'k':
      return !(options.kernels = value).empty();
    case 'n':
      return number(&options.pairs, 1);
    case 'p':
      return number(&options.prompt, 0);
    case 'd':
      return number(&options.decode, 0);
    case 's':
      return number(&options.streams, 1);
    case 'x':
      return number(&options.context, 1);
    case 'o':
      return !(options.note = value).empty();
    default:
      return number(&options.threads, 1);
  }
}

}  // namespace
}  // namespace holdfast::bench

int main(int argc, char** argv) {
  using namespace holdfast::bench;
  PeersOptions options;
  Program program;
  program.name = "peers";
  program.usage = kUsage;
  program.options = {
      {"peer-cmd", required_argument, nullptr, 'c'}, {"kernels", required_argument, nullptr, 'k'},
      {"pairs", required_argument, nullptr, 'n'},    {"prompt", required_argument, nullptr, 'p'},
      {"decode", required_argument, nullptr, 'd'},   {"threads", required_argument, nullptr, 't'},
      {"streams", required_argument, nullptr, 's'},  {"context", required_argument, nullptr, 'x'},
      {"note", required_argument, nullptr, 'o'}};
  program.take = [&](int option, const char* value) { return take(options, option, value); };
  program.run = [&](const RunPaths& paths, Report& report) {
    return !options.peer.empty() && run(options, paths, report);
  };
  return run_program(argc, argv, program);
}
