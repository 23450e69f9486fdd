// bench/peers: this engine beside another one on the same file, in one run: pairs A B B A, so that
// what else the machine does hits both, and the median of the pairs' ratios with an interval.

#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <random>

#include "bench/lib/program.h"
#include "shared/base/result.h"

namespace holdfast::bench {
namespace {

constexpr char kUsage[] =
    "usage: holdfast-bench-peers --model FILE.gguf --peer-cmd CMD [--pairs N] [--prompt N]\n"
    "                            [--decode N] [--threads N] [--kernels NAME] [--json]\n"
    "                            [--record FILE]\n"
    "Runs `holdfast bench` and the peer in turn (A B B A). CMD is a shell command in which "
    "{file},\n"
    "{prompt}, {decode} and {threads} are replaced; its last line of output is a JSON object with\n"
    "prefill_tok_s and decode_tok_s (0: not measured). bench/peers.mjs is one for the npm package\n"
    "node-llama-cpp. Defaults: 15 pairs, 512 tokens of prefill, 64 of decode, 2 threads.\n";

struct Wish {
  std::string peer, kernels;
  int pairs = 15, prompt = 512, decode = 64, threads = 2;
};

struct Rates {
  double prefill = 0, decode = 0;
};

std::string replaced(std::string text, const std::string& name, const std::string& value) {
  for (std::size_t at = 0; (at = text.find(name, at)) != std::string::npos; at += value.size()) {
    text.replace(at, name.size(), value);
  }
  return text;
}

std::string quoted(const std::string& text) {
  return "'" + replaced(text, "'", "'\\''") + "'";
}

/// The last JSON object that a shell command prints.
Result<Rates> measure(const std::string& command) {
  std::FILE* pipe = popen(command.c_str(), "re");
  if (pipe == nullptr) return Error{Errc::kIo, "cannot run " + command};
  std::string out;
  std::array<char, 4096> buffer;
  for (std::size_t n = 0; (n = std::fread(buffer.data(), 1, buffer.size(), pipe)) > 0;) {
    out.append(buffer.data(), n);
  }
  const int status = pclose(pipe);
  const auto refuse = [&](const std::string& why) {
    return Error{Errc::kIo,
                 command + ": " + why + ": " + out.substr(out.size() > 200 ? out.size() - 200 : 0)};
  };
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) return refuse("failed");
  const std::size_t last = out.rfind("\n{");
  const std::string text = last == std::string::npos ? out : out.substr(last + 1);
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object()) return refuse("its last output is no JSON object");
  return Rates{json.value("prefill_tok_s", 0.0), json.value("decode_tok_s", 0.0)};
}

double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return v.empty() ? 0 : (v[(v.size() - 1) / 2] + v[v.size() / 2]) / 2;
}

/// The middle 95 % of the medians of samples drawn with replacement.
std::pair<double, double> bootstrap(const std::vector<double>& ratios) {
  std::mt19937 random(1);
  std::vector<double> medians;
  for (int i = 0; i < 2'000; ++i) {
    std::vector<double> drawn;
    for (std::size_t k = 0; k < ratios.size(); ++k)
      drawn.push_back(ratios[random() % ratios.size()]);
    medians.push_back(median(drawn));
  }
  std::sort(medians.begin(), medians.end());
  return {medians[50], medians[1'949]};
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
  const auto [low, high] = bootstrap(ratios);
  char note[64];
  std::snprintf(note, sizeof note, "95 %%: %.3f to %.3f, %zu pairs", low, high, ratios.size());
  report.add(name + ".ours", median(mine), "tokens/s");
  report.add(name + ".theirs", median(other), "tokens/s");
  report.add(name + ".ratio", median(ratios), "x", std::nullopt, note);
}

bool run(const Wish& wish, const Place& place, Report& report) {
  const auto filled = [&](std::string text) {
    text = replaced(text, "{file}", quoted(place.model));
    text = replaced(text, "{prompt}", std::to_string(wish.prompt));
    text = replaced(text, "{decode}", std::to_string(wish.decode));
    return replaced(text, "{threads}", std::to_string(wish.threads));
  };
  const std::string ours =
      filled(quoted(place.programs + "/holdfast") +
             " --json bench {file} --prompt-tokens {prompt} --decode-tokens {decode} --threads "
             "{threads}" +
             (wish.kernels.empty() ? "" : " --kernels " + quoted(wish.kernels)));
  const std::string theirs = filled(wish.peer);
  std::vector<Rates> a, b;
  const CpuTicks before = read_cpu_ticks();
  for (int pair = 0; pair < wish.pairs; ++pair) {
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
  add_ratio(report, "prefill", a, b, &Rates::prefill);
  add_ratio(report, "decode", a, b, &Rates::decode);
  report.add("steal", steal_percent(before, read_cpu_ticks()), "%");
  return true;
}

bool take(Wish& wish, int option, const char* value) {
  const auto number = [&](int* out, int least) { return (*out = std::atoi(value)) >= least; };
  switch (option) {
    case 'c':
      return !(wish.peer = value).empty();
    case 'k':
      return !(wish.kernels = value).empty();
    case 'n':
      return number(&wish.pairs, 1);
    case 'p':
      return number(&wish.prompt, 0);
    case 'd':
      return number(&wish.decode, 0);
    default:
      return number(&wish.threads, 1);
  }
}

}  // namespace
}  // namespace holdfast::bench

int main(int argc, char** argv) {
  using namespace holdfast::bench;
  Wish wish;
  Program program;
  program.name = "peers";
  program.usage = kUsage;
  program.options = {
      {"peer-cmd", required_argument, nullptr, 'c'}, {"kernels", required_argument, nullptr, 'k'},
      {"pairs", required_argument, nullptr, 'n'},    {"prompt", required_argument, nullptr, 'p'},
      {"decode", required_argument, nullptr, 'd'},   {"threads", required_argument, nullptr, 't'}};
  program.take = [&](int option, const char* value) { return take(wish, option, value); };
  program.run = [&](const Place& place, Report& report) {
    return !wish.peer.empty() && run(wish, place, report);
  };
  return run_program(argc, argv, program);
}
