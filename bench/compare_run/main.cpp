// bench/compare: what became slower between two records of a bench.

#include <getopt.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "bench/compare_run/compare.h"

namespace {

using namespace holdfast::bench;

constexpr char kUsage[] =
    "usage: holdfast-bench-compare OLD NEW [--threshold PERCENT] [--all] [--json]\n"
    "Compares two records of bench/matrix, bench/peers or bench/serve figure by figure: new / old\n"
    "with the middle 95 % of what the ratio of the medians is when the samples are drawn again. A\n"
    "regression is a figure that is worse by more than --threshold (5) with all of that interval\n"
    "on the bad side. --all: also figures that did not change, and those that cannot be judged\n"
    "for want of three samples on each side. Only records of one machine and one mode say\n"
    "something. Exit status: 0 none became worse, 1 a regression, 2 wrong arguments or no such\n"
    "record.\n";

struct Arguments {
  double threshold = 0.05;
  bool all = false, json = false, help = false;
};

bool parse(int argc, char** argv, Arguments& a) {
  const option options[] = {{"threshold", required_argument, nullptr, 't'},
                            {"all", no_argument, nullptr, 'a'},
                            {"json", no_argument, nullptr, 'j'},
                            {"help", no_argument, nullptr, 'h'},
                            {nullptr, 0, nullptr, 0}};
  int c = 0;
  while ((c = getopt_long(argc, argv, "", options, nullptr)) != -1) {
    if (c == '?') return false;
    a.all |= c == 'a';
    a.json |= c == 'j';
    a.help |= c == 'h';
    if (c != 't') continue;
    char* end = nullptr;
    a.threshold = std::strtod(optarg, &end) / 100;
    if (end == optarg || *end != '\0' || a.threshold < 0 || a.threshold >= 1) return false;
  }
  return a.help || argc - optind == 2;
}

/// What differs between the runs themselves: then the figures may differ for that.
void warn_of_differences(const Report& before, const Report& after) {
  for (const auto& old : before.facts()) {
    for (const auto& now : after.facts()) {
      const bool moment = old.name == "load_before" || old.name == "build";
      if (old.name != now.name || old.value == now.value || moment) continue;
      std::fprintf(stderr, "note: %s was \"%s\", now \"%s\"\n", old.name.c_str(), old.value.c_str(),
                   now.value.c_str());
    }
  }
}

int fail(const std::string& why) {
  std::fprintf(stderr, "compare: %s\n", why.c_str());
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  Arguments a;
  if (!parse(argc, argv, a)) return std::fputs(kUsage, stderr), 2;
  if (a.help) return std::fputs(kUsage, stdout), 0;
  const auto before = read_report(argv[optind]);
  const auto after = read_report(argv[optind + 1]);
  if (!before) return fail(before.error().what);
  if (!after) return fail(after.error().what);
  if (before->kind() != after->kind()) {
    return fail("one is a record of \"" + before->kind() + "\", the other of \"" + after->kind() +
                "\"; expected two of one kind");
  }
  warn_of_differences(*before, *after);
  const auto figures = compare(*before, *after, a.threshold);
  const auto regressions = std::count_if(figures.begin(), figures.end(), [](const Compared& c) {
    return c.verdict == Verdict::kRegression;
  });
  std::fputs((a.json ? compare_json(figures) + "\n" : compare_text(figures, a.all)).c_str(),
             stdout);
  std::fprintf(stderr, "%td of %zu figures became worse\n", regressions, figures.size());
  return regressions > 0 ? 1 : 0;
}
