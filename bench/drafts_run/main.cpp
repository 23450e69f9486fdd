// bench/drafts: what draft tokens are worth for given texts (replay.h).

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <utility>

#include "bench/drafts_run/replay.h"
#include "bench/lib/program.h"
#include "shared/grammar/request.h"
#include "shared/text/tokenizer.h"

namespace holdfast::bench {
namespace {

constexpr char kUsage[] =
    "usage: holdfast-bench-drafts [--half FILE]… [--edit OLD:NEW]…\n"
    "                             [--schema FILE --answer FILE…] [--costs C,C,C,C,C,C,C]\n"
    "                             [--model GGUF] [--json] [--record FILE]\n"
    "Replays texts as if a model wrote them, with the engine's own guesses, and says how many\n"
    "times as fast that is as without guesses. No model runs: of --model (the demo model) the\n"
    "vocabulary is taken. --half: the second half of a file behind its first. --edit: a file\n"
    "behind its old version. --answer: an answer that follows the JSON schema, behind nothing.\n"
    "--costs: what a step with 1 to 7 guesses takes, as multiples of one without (those of the\n"
    "0.5B shape, Q4_K_M, on two cores of a Zen 4).\n";

struct DraftsOptions {
  std::vector<std::string> halves, edits, answers;
  std::string schema;
  StepCosts costs = {1, 1.04, 1.12, 1.19, 1.27, 1.35, 1.43, 1.52};
};

bool take_costs(const std::string& text, StepCosts& costs) {
  std::istringstream in(text);
  std::size_t n = 0;
  for (std::string one; std::getline(in, one, ',');) {
    char* end = nullptr;
    const double cost = std::strtod(one.c_str(), &end);
    if (++n > kDraftTokensMax || end == one.c_str() || *end != '\0' || !(cost >= 1)) return false;
    costs[n] = cost;
  }
  return n == kDraftTokensMax;
}

bool take(DraftsOptions& options, int option, const char* value) {
  switch (option) {
    case 'a':
      return options.answers.emplace_back(value), true;
    case 'c':
      return take_costs(value, options.costs);
    case 'e':
      return options.edits.emplace_back(value), options.edits.back().find(':') != std::string::npos;
    case 's':
      return !(options.schema = value).empty();
    default:
      return options.halves.emplace_back(value), true;
  }
}

Result<std::string> contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  if (!file) return Error{Errc::kIo, path + ": cannot be read"};
  return text;
}

/// Reads texts and replays each as a figure.
class Replays {
 public:
  Replays(const DraftsOptions& options, const text::Tokenizer& tokenizer, Report& report)
      : options_(options), tokenizer_(tokenizer), report_(report) {}

  Result<void> halves() {
    for (const std::string& path : options_.halves) {
      HOLDFAST_TRY(const std::string text, contents(path));
      const std::size_t half = text.size() / 2;
      HOLDFAST_CHECKED(add("half." + name_of(path), text.substr(0, half), text.substr(half)));
    }
    return {};
  }
  Result<void> edits() {
    for (const std::string& both : options_.edits) {
      const std::size_t colon = both.find(':');
      const std::string path = both.substr(colon + 1);
      HOLDFAST_TRY(const std::string before, contents(both.substr(0, colon)));
      HOLDFAST_TRY(const std::string text, contents(path));
      HOLDFAST_CHECKED(add("edit." + name_of(path), before, text));
    }
    return {};
  }
  Result<void> answers() {
    if (options_.answers.empty()) return {};
    HOLDFAST_TRY(const std::string schema, contents(options_.schema));
    HOLDFAST_TRY(const grammar::GrammarPtr grammar, grammar::compile_json_schema(schema));
    const auto table = grammar::TokenTable::make(tokenizer_);
    for (const std::string& path : options_.answers) {
      HOLDFAST_TRY(const std::string text, contents(path));
      HOLDFAST_TRY(masks_, grammar::TokenMasks::make(grammar, table));
      HOLDFAST_CHECKED(add("answer." + name_of(path), "", text));
    }
    return {};
  }

 private:
  static std::string name_of(const std::string& path) {
    return std::filesystem::path(path).filename().string();
  }
  Result<void> add(const std::string& name, const std::string& before, const std::string& text) {
    text::EncodeOptions plain;
    plain.add_special = false;
    ReplayText one;
    HOLDFAST_TRY(one.before, tokenizer_.encode(before, plain));
    HOLDFAST_TRY(one.tokens, tokenizer_.encode(text, plain));
    if (one.tokens.size() < 2) {
      return Error{Errc::kFileInvalid, name + ": at least two tokens are wanted"};
    }
    one.masks = masks_;
    const Result<Replayed> done = replay(one, options_.costs);
    if (!done) return Error{done.error().code, name + ": " + done.error().what};
    Figure figure;
    figure.name = name;
    figure.value = done->gain();
    figure.unit = "times";
    figure.better = Better::kHigher;
    figure.note = std::to_string(done->tokens) + " tokens, " + std::to_string(done->steps) +
                  " steps, " + std::to_string(done->accepted) + " of " +
                  std::to_string(done->drafted) + " guesses right";
    report_.add(std::move(figure));
    return {};
  }

  const DraftsOptions& options_;
  const text::Tokenizer& tokenizer_;
  Report& report_;
  std::shared_ptr<grammar::TokenMasks> masks_;
};

Result<void> replay_all(const DraftsOptions& options, const RunPaths& paths, Report& report) {
  HOLDFAST_TRY(const auto file, gguf::File::open(paths.model));
  HOLDFAST_TRY(const auto tokenizer, text::Tokenizer::load(*file));
  report.fact("vocabulary", std::filesystem::path(paths.model).filename().string());
  std::string costs;
  for (std::size_t n = 1; n <= kDraftTokensMax; ++n) {
    char one[32];
    std::snprintf(one, sizeof one, "%s%g", n > 1 ? "," : "", options.costs[n]);
    costs += one;
  }
  report.fact("costs", costs);
  Replays replays(options, *tokenizer, report);
  HOLDFAST_CHECKED(replays.halves());
  HOLDFAST_CHECKED(replays.edits());
  return replays.answers();
}

bool run(const DraftsOptions& options, const RunPaths& paths, Report& report) {
  if (options.halves.empty() && options.edits.empty() && options.answers.empty()) return false;
  if (options.schema.empty() != options.answers.empty()) return false;
  if (const Result<void> done = replay_all(options, paths, report); !done) {
    report.problem(done.error().what);
  }
  return true;
}

}  // namespace
}  // namespace holdfast::bench

int main(int argc, char** argv) {
  using namespace holdfast::bench;
  DraftsOptions options;
  Program program;
  program.name = "drafts";
  program.usage = kUsage;
  program.options = {{"half", required_argument, nullptr, 'h'},
                     {"edit", required_argument, nullptr, 'e'},
                     {"answer", required_argument, nullptr, 'a'},
                     {"schema", required_argument, nullptr, 's'},
                     {"costs", required_argument, nullptr, 'c'}};
  program.take = [&](int option, const char* value) { return take(options, option, value); };
  program.run = [&](const RunPaths& paths, Report& report) { return run(options, paths, report); };
  return run_program(argc, argv, program);
}
