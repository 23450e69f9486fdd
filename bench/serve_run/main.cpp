// bench/serve: what clients of an OpenAI-compatible server get: tokens a second, time to the first
// token, gaps between tokens, by the number of clients and the length of their prompts; of two
// servers in turn, so that other load on the machine affects both.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "bench/lib/program.h"
#include "bench/serve_run/block.h"
#include "bench/serve_run/chart.h"
#include "bench/serve_run/rates.h"

namespace holdfast::bench {
namespace {

constexpr char kUsage[] =
    "usage: holdfast-bench-serve --url http://127.0.0.1:PORT [--against URL] [--concurrency "
    "1,4,16]\n"
    "                            [--prompts 64,1024,mixed] [--max-tokens N] [--rounds N] "
    "[--pairs N]\n"
    "                            [--rate 50,80] [--requests N] [--vocab N] [--note TEXT]\n"
    "                            [--svg FILE] [--json] [--record FILE]\n"
    "Streams completions of random ids from servers that run already, on this machine. Prompts "
    "are\n"
    "lengths in tokens, or `mixed` (64, 256 and 1,024 in turn). --rounds: requests of each client\n"
    "in a block (2). --pairs: blocks of each server (2). --against: another server; blocks go\n"
    "A B B A, and ratios are those of pairs. --note says in the record what the servers are.\n"
    "--rate: instead, requests at random times at these percents of what the server was found to\n"
    "do with so many clients (the first of --concurrency) at once; --requests in a block (64),\n"
    "--pairs blocks of each.\n"
    "--vocab: ids are below it (32000). A key is taken from HOLDFAST_API_KEY.\n";

struct ServeOptions {
  std::string url, against, svg, note;
  std::vector<std::string> concurrency = {"1", "4", "16"};
  std::vector<std::string> prompts = {"64", "1024", "mixed"};
  std::vector<std::string> rates;
  int max_tokens = 128, rounds = 2, vocab = 32'000, pairs = 2, requests = 64;
  Workload workload(const std::string& prompt) const { return {prompt, max_tokens, vocab}; }
};

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> out;
  std::istringstream in(text);
  for (std::string one; std::getline(in, one, ',');) out.push_back(one);
  return out;
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

double first_p95(const Block& block) {
  return summarize(block.first_ms).p95;
}

/// Adds the ratios of the pairs of blocks, the first server over the second.
void add_ratios(Report& report, const std::string& name, const std::vector<Block>& a,
                const std::vector<Block>& b) {
  std::vector<double> rates, firsts;
  for (std::size_t i = 0; i < a.size(); ++i) {
    rates.push_back(a[i].rate() / b[i].rate());
    firsts.push_back(first_p95(a[i]) / first_p95(b[i]));
  }
  const auto note = [](const std::vector<double>& ratios) {
    const Interval middle = median_interval(ratios);
    char text[64];
    std::snprintf(text, sizeof text, "95 %%: %.3f to %.3f, %zu pairs", middle.low, middle.high,
                  ratios.size());
    return std::string(text);
  };
  report.add_samples("ratio." + name + ".rate", rates, "x", Better::kHigher, std::nullopt,
                     note(rates));
  report.add_samples("ratio." + name + ".first_p95", firsts, "x", Better::kLower, std::nullopt,
                     note(firsts));
}

/// Runs all blocks of one setting, A B B A with two servers. False: one failed.
bool run_setting(const std::vector<Endpoint>& servers, const ServeOptions& options,
                 const std::string& kind, int clients, Report& report, Charts& charts) {
  const std::string name = "p" + kind + ".c" + std::to_string(clients);
  std::vector<std::vector<Block>> blocks(servers.size());
  for (int pair = 0; pair < options.pairs; ++pair) {
    for (std::size_t turn = 0; turn < servers.size(); ++turn) {
      const std::size_t i = pair % 2 == 0 ? turn : servers.size() - 1 - turn;
      Block block = closed_block(servers[i], options.workload(kind), clients, options.rounds);
      std::fprintf(stderr, "%s, prompt %s, %d clients: %.1f tokens/s, first p95 %.0f ms\n",
                   servers[i].name.c_str(), kind.c_str(), clients, block.rate(), first_p95(block));
      if (!block.failure.empty()) {
        report.problem(name + ": " + block.failure);
        return false;
      }
      blocks[i].push_back(std::move(block));
    }
  }
  for (std::size_t i = 0; i < servers.size(); ++i) {
    add_figures(report, servers[i].name + "." + name, blocks[i]);
    Block all;
    for (const Block& block : blocks[i]) all.join(block);
    add_point(charts, servers[i].name + ", " + kind, all);
  }
  if (servers.size() == 2) add_ratios(report, name, blocks[0], blocks[1]);
  return true;
}

RatesOptions rates_options(const ServeOptions& options) {
  RatesOptions out;
  for (const std::string& one : options.rates) out.percents.push_back(std::atoi(one.c_str()));
  out.clients = std::atoi(options.concurrency[0].c_str());
  out.rounds = options.rounds;
  out.requests = options.requests;
  out.blocks = options.pairs;
  return out;
}

/// Opens the servers that are named. Returns false after a problem.
bool open_servers(const ServeOptions& options, Report& report, std::vector<Endpoint>& servers) {
  const char* key = std::getenv("HOLDFAST_API_KEY");
  for (const auto& [name, url] : {std::pair{"a", options.url}, std::pair{"b", options.against}}) {
    if (url.empty()) continue;
    Result<Endpoint> server = open_endpoint(name, url, key != nullptr ? key : "");
    if (!server) {
      report.problem(server.error().what);
      return false;
    }
    // Some servers name a model by its file: folders do not belong in a record.
    report.fact(std::string("server_") + name, server->model.substr(server->model.rfind('/') + 1));
    servers.push_back(std::move(server).value());
  }
  return true;
}

bool run(const ServeOptions& options, Report& report) {
  std::vector<Endpoint> servers;
  if (!open_servers(options, report, servers)) return true;
  if (!options.note.empty()) report.fact("servers", options.note);
  const CpuTicks before = read_cpu_ticks();
  if (!options.rates.empty()) {
    run_rates(servers[0], options.workload(options.prompts[0]), rates_options(options), report);
    report.add("steal", steal_percent(before, read_cpu_ticks()), "%");
    return true;
  }
  Charts charts;
  for (const std::string& clients : options.concurrency) charts.rate.steps.push_back(clients);
  charts.first.steps = charts.gap.steps = charts.rate.steps;
  for (const std::string& kind : options.prompts) {
    for (const std::string& clients : options.concurrency) {
      if (!run_setting(servers, options, kind, std::atoi(clients.c_str()), report, charts))
        return true;
    }
  }
  report.add("steal", steal_percent(before, read_cpu_ticks()), "%");
  if (!options.svg.empty()) {
    std::ofstream(options.svg) << svg_of({charts.rate, charts.first, charts.gap});
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

bool take(ServeOptions& options, int option, const char* value) {
  switch (option) {
    case 'u':
      return !(options.url = value).empty();
    case 'a':
      return !(options.against = value).empty();
    case 'c':
      return whole_numbers(options.concurrency = split(value), false);
    case 'p':
      return whole_numbers(options.prompts = split(value), true);
    case 'm':
      return positive(value, &options.max_tokens);
    case 'r':
      return positive(value, &options.rounds);
    case 'n':
      return positive(value, &options.pairs);
    case 'q':
      return positive(value, &options.requests);
    case 'e':
      return whole_numbers(options.rates = split(value), false);
    case 'o':
      return !(options.note = value).empty();
    case 'v':
      return positive(value, &options.vocab) && options.vocab > 10;
    default:
      return !(options.svg = value).empty();
  }
}

}  // namespace
}  // namespace holdfast::bench

int main(int argc, char** argv) {
  using namespace holdfast::bench;
  ServeOptions options;
  Program program;
  program.name = "serve";
  program.usage = kUsage;
  program.options = {{"url", required_argument, nullptr, 'u'},
                     {"against", required_argument, nullptr, 'a'},
                     {"concurrency", required_argument, nullptr, 'c'},
                     {"prompts", required_argument, nullptr, 'p'},
                     {"max-tokens", required_argument, nullptr, 'm'},
                     {"rounds", required_argument, nullptr, 'r'},
                     {"pairs", required_argument, nullptr, 'n'},
                     {"rate", required_argument, nullptr, 'e'},
                     {"requests", required_argument, nullptr, 'q'},
                     {"note", required_argument, nullptr, 'o'},
                     {"vocab", required_argument, nullptr, 'v'},
                     {"svg", required_argument, nullptr, 's'}};
  program.take = [&](int option, const char* value) { return take(options, option, value); };
  program.run = [&](const RunPaths&, Report& report) {
    return !options.url.empty() && run(options, report);
  };
  return run_program(argc, argv, program);
}
