#include "bench/compare_run/compare.h"

#include <cstdio>
#include <nlohmann/json.hpp>

namespace holdfast::bench {
namespace {

std::optional<Better> better_of(const Figure& figure) {
  return figure.goal ? std::optional<Better>(figure.goal->better) : figure.better;
}

Verdict judge(const Compared& c, Better better, double threshold) {
  const bool lower = c.interval.high < 1;
  const bool higher = c.interval.low > 1;
  const bool worse = better == Better::kHigher ? lower : higher;
  if (!worse) return lower || higher ? Verdict::kBetter : Verdict::kSame;
  // The factor by which it is worse, whichever direction is the bad one.
  const double times = better == Better::kHigher ? 1 / c.ratio : c.ratio;
  return times > 1 / (1 - threshold) ? Verdict::kRegression : Verdict::kSame;
}

Compared compared(const Figure& old, const Figure& now, double threshold) {
  Compared c{old.name, old.unit, old.value, now.value, 0, {}, Verdict::kUnjudged};
  if (old.value > 0 && now.value > 0) c.ratio = now.value / old.value;
  const auto better = better_of(now);
  const bool enough = old.samples.size() >= kSamplesLeast && now.samples.size() >= kSamplesLeast;
  if (c.ratio <= 0 || !better || !enough) return c;
  c.interval = ratio_interval(now.samples, old.samples);
  c.verdict = judge(c, *better, threshold);
  return c;
}

const char* name_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::kSame:
      return "same";
    case Verdict::kBetter:
      return "better";
    case Verdict::kRegression:
      return "REGRESSION";
    case Verdict::kOnlyOld:
      return "only in OLD";
    case Verdict::kOnlyNew:
      return "only in NEW";
    default:
      return "not judged";
  }
}

}  // namespace

std::vector<Compared> compare(const Report& before, const Report& after, double threshold) {
  std::vector<Compared> out;
  for (const Figure& old : before.figures()) {
    const Figure* now = after.find(old.name);
    if (now != nullptr) {
      out.push_back(compared(old, *now, threshold));
    } else {
      out.push_back({old.name, old.unit, old.value, 0, 0, {}, Verdict::kOnlyOld});
    }
  }
  for (const Figure& now : after.figures()) {
    if (before.find(now.name) != nullptr) continue;
    out.push_back({now.name, now.unit, 0, now.value, 0, {}, Verdict::kOnlyNew});
  }
  return out;
}

std::string compare_text(const std::vector<Compared>& figures, bool all) {
  char line[256];
  std::snprintf(line, sizeof line, "%-36s %12s %12s  %-7s %-18s %s\n", "figure", "old", "new",
                "new/old", "95 %", "verdict");
  std::string out = line;
  for (const Compared& c : figures) {
    const bool quiet = c.verdict == Verdict::kSame || c.verdict == Verdict::kUnjudged;
    if (quiet && !all) continue;
    char interval[32] = "";
    if (c.interval.high > 0) {
      std::snprintf(interval, sizeof interval, "%.3f to %.3f", c.interval.low, c.interval.high);
    }
    std::snprintf(line, sizeof line, "%-36s %12.4g %12.4g  %-7.3f %-18s %s\n", c.name.c_str(),
                  c.before, c.after, c.ratio, interval, name_of(c.verdict));
    out += line;
  }
  return out;
}

std::string compare_json(const std::vector<Compared>& figures) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Compared& c : figures) {
    list.push_back({{"name", c.name},
                    {"unit", c.unit},
                    {"old", c.before},
                    {"new", c.after},
                    {"ratio", c.ratio},
                    {"low", c.interval.low},
                    {"high", c.interval.high},
                    {"verdict", name_of(c.verdict)}});
  }
  return nlohmann::ordered_json{{"figures", list}}.dump(1);
}

}  // namespace holdfast::bench
