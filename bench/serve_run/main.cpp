// bench/serve: what clients of an OpenAI-compatible server get: tokens a second, time to the first
// token, gaps between tokens, over how many ask at once and how long their prompts are; of two
// servers in turn, so that what else the machine does hits both.

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <mutex>
#include <random>
#include <sstream>
#include <thread>

#include "bench/lib/program.h"
#include "bench/serve_run/chart.h"
#include "bench/serve_run/endpoint.h"

namespace holdfast::bench {
namespace {

constexpr char kUsage[] =
    "usage: holdfast-bench-serve --url http://127.0.0.1:PORT [--against URL] [--concurrency "
    "1,4,16]\n"
    "                            [--prompts 64,1024,mixed] [--max-tokens N] [--rounds N]\n"
    "                            [--vocab N] [--svg FILE] [--json] [--record FILE]\n"
    "Streams completions of random ids from servers that run already, on this machine. Prompts "
    "are\n"
    "lengths in tokens, or `mixed` (64, 256 and 1,024 in turn). --rounds: requests of each client\n"
    "in a block (2). --against: another server; blocks go A B B A, and ratios are those of pairs.\n"
    "--vocab: ids are below it (32000). A key is taken from HOLDFAST_API_KEY.\n";

struct Wish {
  std::string url, against, svg;
  std::vector<std::string> concurrency = {"1", "4", "16"};
  std::vector<std::string> prompts = {"64", "1024", "mixed"};
  int max_tokens = 128, rounds = 2, vocab = 32'000;
};

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> out;
  std::istringstream in(text);
  for (std::string one; std::getline(in, one, ',');) out.push_back(one);
  return out;
}

std::int64_t prompt_length(const std::string& kind, int number) {
  constexpr std::int64_t kMixed[] = {64, 256, 1024};
  return kind == "mixed" ? kMixed[number % 3] : std::atoll(kind.c_str());
}

/// Ids that no request before has begun with: nothing is known of them.
std::vector<std::int32_t> random_prompt(std::int64_t n, int vocab) {
  static std::mt19937 random(std::random_device{}());
  std::vector<std::int32_t> ids;
  for (std::int64_t i = 0; i < n; ++i) {
    ids.push_back(static_cast<std::int32_t>(10 + random() % static_cast<unsigned>(vocab - 10)));
  }
  return ids;
}

/// What the clients of one block got, all together.
struct Block {
  std::vector<double> first_ms, gap_ms;
  std::int64_t tokens = 0, prompt_tokens = 0;
  double seconds = 0;
  std::string failure;
  double rate() const { return seconds > 0 ? static_cast<double>(tokens) / seconds : 0; }
};

Block run_block(const Endpoint& to, const Wish& wish, const std::string& kind, int clients) {
  Block block;
  std::mutex mutex;
  std::vector<std::vector<std::vector<std::int32_t>>> prompts(static_cast<std::size_t>(clients));
  for (int c = 0; c < clients; ++c) {
    for (int r = 0; r < wish.rounds; ++r) {
      prompts[static_cast<std::size_t>(c)].push_back(
          random_prompt(prompt_length(kind, c + r), wish.vocab));
    }
  }
  std::vector<std::thread> threads;
  const std::int64_t begin = now_us();
  for (const auto& mine : prompts) {
    threads.emplace_back([&] {
      for (const auto& prompt : mine) {
        const Result<Answered> answered = complete(to, prompt, wish.max_tokens);
        const std::lock_guard<std::mutex> lock(mutex);
        if (!answered) {
          block.failure = answered.error().what;
          return;
        }
        block.first_ms.push_back(answered->first_ms);
        block.gap_ms.insert(block.gap_ms.end(), answered->gap_ms.begin(), answered->gap_ms.end());
        block.tokens += answered->tokens;
        block.prompt_tokens += answered->prompt_tokens;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  block.seconds = static_cast<double>(now_us() - begin) / 1e6;
  return block;
}

void join(Block& all, const Block& more) {
  all.first_ms.insert(all.first_ms.end(), more.first_ms.begin(), more.first_ms.end());
  all.gap_ms.insert(all.gap_ms.end(), more.gap_ms.begin(), more.gap_ms.end());
  all.tokens += more.tokens;
  all.prompt_tokens += more.prompt_tokens;
  all.seconds += more.seconds;
}

void add_figures(Report& report, const std::string& name, const Block& block) {
  report.add(name + ".rate", block.rate(), "tokens/s");
  report.add(name + ".prompt_rate", static_cast<double>(block.prompt_tokens) / block.seconds,
             "prompt tokens/s");
  report.add(name + ".first_ms", summarize(block.first_ms), "ms");
  report.add(name + ".gap_ms", summarize(block.gap_ms), "ms");
}

struct Charts {
  Chart rate{"tokens a second", {}, {}}, first{"time to the first token, p95, ms", {}, {}},
      gap{"gap between tokens, p95, ms", {}, {}};
};

void add_point(Charts& charts, const std::string& line, const Block& block) {
  const auto add = [&](Chart& chart, double value) {
    auto at = std::find_if(chart.lines.begin(), chart.lines.end(),
                           [&](const ChartLine& l) { return l.name == line; });
    if (at == chart.lines.end()) at = chart.lines.insert(at, {line, {}});
    at->values.push_back(value);
  };
  add(charts.rate, block.rate());
  add(charts.first, summarize(block.first_ms).p95);
  add(charts.gap, summarize(block.gap_ms).p95);
}

/// All blocks of one setting, A B B A with two servers. False: one failed.
bool run_setting(const std::vector<Endpoint>& servers, const Wish& wish, const std::string& kind,
                 int clients, Report& report, Charts& charts) {
  const std::string name = "p" + kind + ".c" + std::to_string(clients);
  const std::vector<std::size_t> order =
      servers.size() == 2 ? std::vector<std::size_t>{0, 1, 1, 0} : std::vector<std::size_t>{0};
  std::vector<Block> all(servers.size());
  std::vector<std::vector<double>> rates(servers.size());
  for (const std::size_t i : order) {
    const Block block = run_block(servers[i], wish, kind, clients);
    std::fprintf(stderr, "%s, prompt %s, %d clients: %.1f tokens/s\n", servers[i].name.c_str(),
                 kind.c_str(), clients, block.rate());
    if (!block.failure.empty()) {
      report.problem(name + ": " + block.failure);
      return false;
    }
    join(all[i], block);
    rates[i].push_back(block.rate());
  }
  for (std::size_t i = 0; i < servers.size(); ++i) {
    add_figures(report, servers[i].name + "." + name, all[i]);
    add_point(charts, servers[i].name + ", " + kind, all[i]);
  }
  if (servers.size() == 2) {
    const double ratios[] = {rates[0][0] / rates[1][0], rates[0][1] / rates[1][1]};
    report.add("ratio." + name + ".rate", (ratios[0] + ratios[1]) / 2, "x", std::nullopt,
               "pairs " + std::to_string(ratios[0]) + " and " + std::to_string(ratios[1]));
    report.add("ratio." + name + ".first_p95",
               summarize(all[0].first_ms).p95 / summarize(all[1].first_ms).p95, "x");
  }
  return true;
}

bool run(const Wish& wish, Report& report) {
  const char* key = std::getenv("HOLDFAST_API_KEY");
  std::vector<Endpoint> servers;
  for (const auto& [name, url] : {std::pair{"a", wish.url}, std::pair{"b", wish.against}}) {
    if (url.empty()) continue;
    Result<Endpoint> server = open_endpoint(name, url, key != nullptr ? key : "");
    if (!server) {
      report.problem(server.error().what);
      return true;
    }
    report.fact(std::string("server_") + name, server->model);
    servers.push_back(std::move(server).value());
  }
  Charts charts;
  for (const std::string& clients : wish.concurrency) charts.rate.steps.push_back(clients);
  charts.first.steps = charts.gap.steps = charts.rate.steps;
  const CpuTicks before = read_cpu_ticks();
  for (const std::string& kind : wish.prompts) {
    for (const std::string& clients : wish.concurrency) {
      if (!run_setting(servers, wish, kind, std::atoi(clients.c_str()), report, charts))
        return true;
    }
  }
  report.add("steal", steal_percent(before, read_cpu_ticks()), "%");
  if (!wish.svg.empty()) {
    std::ofstream(wish.svg) << svg_of({charts.rate, charts.first, charts.gap});
  }
  return true;
}

bool positive(const char* value, int* out) {
  return (*out = std::atoi(value)) > 0;
}

bool whole_numbers(const std::vector<std::string>& list, bool mixed) {
  return !list.empty() && std::all_of(list.begin(), list.end(), [&](const std::string& one) {
    return (mixed && one == "mixed") || std::atoi(one.c_str()) > 0;
  });
}

bool take(Wish& wish, int option, const char* value) {
  switch (option) {
    case 'u':
      return !(wish.url = value).empty();
    case 'a':
      return !(wish.against = value).empty();
    case 'c':
      return whole_numbers(wish.concurrency = split(value), false);
    case 'p':
      return whole_numbers(wish.prompts = split(value), true);
    case 'm':
      return positive(value, &wish.max_tokens);
    case 'r':
      return positive(value, &wish.rounds);
    case 'v':
      return positive(value, &wish.vocab) && wish.vocab > 10;
    default:
      return !(wish.svg = value).empty();
  }
}

}  // namespace
}  // namespace holdfast::bench

int main(int argc, char** argv) {
  using namespace holdfast::bench;
  Wish wish;
  Program program;
  program.name = "serve";
  program.usage = kUsage;
  program.options = {{"url", required_argument, nullptr, 'u'},
                     {"against", required_argument, nullptr, 'a'},
                     {"concurrency", required_argument, nullptr, 'c'},
                     {"prompts", required_argument, nullptr, 'p'},
                     {"max-tokens", required_argument, nullptr, 'm'},
                     {"rounds", required_argument, nullptr, 'r'},
                     {"vocab", required_argument, nullptr, 'v'},
                     {"svg", required_argument, nullptr, 's'}};
  program.take = [&](int option, const char* value) { return take(wish, option, value); };
  program.run = [&](const Place&, Report& report) {
    return !wish.url.empty() && run(wish, report);
  };
  return run_program(argc, argv, program);
}
