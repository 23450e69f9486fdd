// The verb `bench compare`: rates that became lower between two records of a bench.

#include <algorithm>
#include <cstdio>

#include "bench/compare_run/compare.h"
#include "ops/cli/verb_functions.h"
#include "ops/terminal/output.h"
#include "ops/terminal/width.h"

namespace holdfast::cli {
namespace {

using namespace holdfast::bench;

/// Warns of differences between the runs themselves: the figures may differ for that reason.
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

}  // namespace

int bench_compare(const Call& call) {
  const double threshold = call.real("threshold", 5) / 100;
  if (threshold < 0 || threshold >= 1) {
    return report_error(call, Errc::kUsage, "bench compare: --threshold is from 0 to 99 percent");
  }
  const auto before = read_report(call.text("OLD"));
  const auto after = read_report(call.text("NEW"));
  // Exit status 1 is a regression, so what cannot be read is an error of use.
  if (!before) return report_error(call, Errc::kUsage, before.error().what);
  if (!after) return report_error(call, Errc::kUsage, after.error().what);
  if (before->kind() != after->kind()) {
    return report_error(call, Errc::kUsage,
                        "bench compare: one is a record of \"" + before->kind() +
                            "\", the other of \"" + after->kind() + "\"; expected two of one kind");
  }
  warn_of_differences(*before, *after);
  const auto figures = compare(*before, *after, threshold);
  const auto regressions = std::count_if(figures.begin(), figures.end(), [](const Compared& c) {
    return c.verdict == Verdict::kRegression;
  });
  if (call.json) {
    std::printf("%s\n", compare_json(figures).c_str());
  } else {
    print_lines(compare_text(figures, call.has("all")));
  }
  std::fprintf(stderr, "%td of %zu figures became worse\n", regressions, figures.size());
  return regressions > 0 ? kExitFailed : kExitDone;
}

}  // namespace holdfast::cli
