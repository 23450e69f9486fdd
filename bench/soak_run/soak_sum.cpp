#include "bench/soak_run/soak_sum.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace holdfast::bench {
namespace {

constexpr const char* kSummed[] = {"soak.submitted",    "soak.succeeded",         "soak.errors",
                                   "soak.other_tokens", "soak.seconds",           "soak.kills",
                                   "soak.daemon_kills", "soak.unexpected_deaths", "soak.refused"};
constexpr const char* kWorst[] = {"soak.rss_max",   "soak.descriptors_max", "soak.wal_max",
                                  "soak.queue_max", "soak.request_ms.max",  "soak.p99_over_p50"};

std::string tokens_path(const std::string& state_dir) {
  return state_dir + "/soak-first-tokens.txt";
}

double value_of(const Report& report, const std::string& name) {
  const Figure* figure = report.find(name);
  return figure == nullptr ? 0 : figure->value;
}

std::string fact_of(const Report& report, const std::string& name) {
  for (const Report::Fact& fact : report.facts()) {
    if (fact.name == name) return fact.value;
  }
  return {};
}

void add_facts(const Report& before, const Report& run, Report& sum) {
  for (const Report::Fact& fact : run.facts()) {
    if (fact.name != "build") sum.fact(fact.name, fact.value);
  }
  std::string builds = fact_of(before, "builds");
  const std::string build = fact_of(run, "build");
  if (!build.empty() && (" " + builds + " ").find(" " + build + " ") == std::string::npos) {
    builds += (builds.empty() ? "" : " ") + build;
  }
  sum.fact("builds", builds);
}

}  // namespace

Result<FirstTokens> read_first_tokens(const std::string& state_dir) {
  FirstTokens first;
  std::ifstream file(tokens_path(state_dir));
  if (!file) return first;
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    std::istringstream words(line);
    std::int64_t kind = 0;
    if (!(words >> kind)) {
      return Error{Errc::kFileInvalid, tokens_path(state_dir) + " line " + std::to_string(number) +
                                           ": expected a kind and its tokens"};
    }
    std::vector<wire::TokenId>& ids = first[kind];
    for (wire::TokenId id = 0; words >> id;) ids.push_back(id);
  }
  return first;
}

Result<void> write_first_tokens(const std::string& state_dir, const FirstTokens& first) {
  const std::string path = tokens_path(state_dir), aside = path + ".new";
  std::ofstream file(aside);
  for (const auto& [kind, ids] : first) {
    file << kind;
    for (const wire::TokenId id : ids) file << ' ' << id;
    file << '\n';
  }
  file.close();
  std::error_code failed;
  if (file) std::filesystem::rename(aside, path, failed);
  if (!file || failed) return Error{Errc::kIo, "write " + path + ": cannot be written"};
  return {};
}

Result<void> add_to_sum(const Report& run, const std::string& path) {
  Report before("soak-sum");
  if (std::filesystem::exists(path)) {
    HOLDFAST_TRY(before, read_report(path));
  }
  Report sum("soak-sum");
  add_facts(before, run, sum);
  for (const char* name : kSummed) {
    const Figure* figure = run.find(name);
    if (figure == nullptr) continue;
    sum.add(name, value_of(before, name) + figure->value, figure->unit, figure->goal);
  }
  for (const char* name : kWorst) {
    const Figure* figure = run.find(name);
    if (figure == nullptr) continue;
    sum.add(name, std::max(value_of(before, name), figure->value), figure->unit, figure->goal,
            "the worst of all runs");
  }
  const double submitted = value_of(sum, "soak.submitted");
  const double good = value_of(sum, "soak.succeeded") - value_of(sum, "soak.other_tokens");
  sum.add("soak.availability", submitted == 0 ? 0 : 100 * good / submitted, "%",
          Goal{99, Better::kHigher});
  sum.add("soak.hours", value_of(sum, "soak.seconds") / 3600, "h", Goal{24, Better::kHigher});
  sum.add("soak.runs", value_of(before, "soak.runs") + 1, "runs");
  for (const std::string& problem : before.problems()) sum.problem(problem);
  for (const std::string& problem : run.problems()) sum.problem(problem);
  return write_report(sum, path);
}

}  // namespace holdfast::bench
