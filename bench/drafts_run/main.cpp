// bench/drafts: what guessing tokens is worth for texts that are known (replay.h).

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

struct Wish {
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
    if (++n > kGuessesMost || end == one.c_str() || *end != '\0' || !(cost >= 1)) return false;
    costs[n] = cost;
  }
  return n == kGuessesMost;
}

bool take(Wish& wish, int option, const char* value) {
  switch (option) {
    case 'a':
      return wish.answers.emplace_back(value), true;
    case 'c':
      return take_costs(value, wish.costs);
    case 'e':
      return wish.edits.emplace_back(value), wish.edits.back().find(':') != std::string::npos;
    case 's':
      return !(wish.schema = value).empty();
    default:
      return wish.halves.emplace_back(value), true;
  }
}

Result<std::string> contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  if (!file) return Error{Errc::kIo, path + ": cannot be read"};
  return text;
}

/// Reads texts and replays them, each a figure.
class Replays {
 public:
  Replays(const Wish& wish, const text::Tokenizer& tokenizer, Report& report)
      : wish_(wish), tokenizer_(tokenizer), report_(report) {}

  Result<void> halves() {
    for (const std::string& path : wish_.halves) {
      HF_TRY(const std::string text, contents(path));
      const std::size_t half = text.size() / 2;
      HF_CHECKED(add("half." + name_of(path), text.substr(0, half), text.substr(half)));
    }
    return {};
  }
  Result<void> edits() {
    for (const std::string& both : wish_.edits) {
      const std::size_t colon = both.find(':');
      const std::string path = both.substr(colon + 1);
      HF_TRY(const std::string before, contents(both.substr(0, colon)));
      HF_TRY(const std::string text, contents(path));
      HF_CHECKED(add("edit." + name_of(path), before, text));
    }
    return {};
  }
  Result<void> answers() {
    if (wish_.answers.empty()) return {};
    HF_TRY(const std::string schema, contents(wish_.schema));
    HF_TRY(const grammar::GrammarPtr grammar, grammar::compile_json_schema(schema));
    const auto table = grammar::TokenTable::make(tokenizer_);
    for (const std::string& path : wish_.answers) {
      HF_TRY(const std::string text, contents(path));
      HF_TRY(masks_, grammar::TokenMasks::make(grammar, table));
      HF_CHECKED(add("answer." + name_of(path), "", text));
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
    HF_TRY(one.before, tokenizer_.encode(before, plain));
    HF_TRY(one.tokens, tokenizer_.encode(text, plain));
    if (one.tokens.size() < 2) {
      return Error{Errc::kFileInvalid, name + ": at least two tokens are wanted"};
    }
    one.masks = masks_;
    const Result<Replayed> done = replay(one, wish_.costs);
    if (!done) return Error{done.error().code, name + ": " + done.error().what};
    Figure figure;
    figure.name = name;
    figure.value = done->gain();
    figure.unit = "times";
    figure.better = Better::kHigher;
    figure.note = std::to_string(done->tokens) + " tokens, " + std::to_string(done->steps) +
                  " steps, " + std::to_string(done->right) + " of " +
                  std::to_string(done->guessed) + " guesses right";
    report_.add(std::move(figure));
    return {};
  }

  const Wish& wish_;
  const text::Tokenizer& tokenizer_;
  Report& report_;
  std::shared_ptr<grammar::TokenMasks> masks_;
};

Result<void> replay_all(const Wish& wish, const Place& place, Report& report) {
  HF_TRY(const auto file, gguf::File::open(place.model));
  HF_TRY(const auto tokenizer, text::Tokenizer::load(*file));
  report.fact("vocabulary", std::filesystem::path(place.model).filename().string());
  std::string costs;
  for (std::size_t n = 1; n <= kGuessesMost; ++n) {
    char one[32];
    std::snprintf(one, sizeof one, "%s%g", n > 1 ? "," : "", wish.costs[n]);
    costs += one;
  }
  report.fact("costs", costs);
  Replays replays(wish, *tokenizer, report);
  HF_CHECKED(replays.halves());
  HF_CHECKED(replays.edits());
  return replays.answers();
}

bool run(const Wish& wish, const Place& place, Report& report) {
  if (wish.halves.empty() && wish.edits.empty() && wish.answers.empty()) return false;
  if (wish.schema.empty() != wish.answers.empty()) return false;
  if (const Result<void> done = replay_all(wish, place, report); !done) {
    report.problem(done.error().what);
  }
  return true;
}

}  // namespace
}  // namespace holdfast::bench

int main(int argc, char** argv) {
  using namespace holdfast::bench;
  Wish wish;
  Program program;
  program.name = "drafts";
  program.usage = kUsage;
  program.options = {{"half", required_argument, nullptr, 'h'},
                     {"edit", required_argument, nullptr, 'e'},
                     {"answer", required_argument, nullptr, 'a'},
                     {"schema", required_argument, nullptr, 's'},
                     {"costs", required_argument, nullptr, 'c'}};
  program.take = [&](int option, const char* value) { return take(wish, option, value); };
  program.run = [&](const Place& place, Report& report) { return run(wish, place, report); };
  return run_program(argc, argv, program);
}
