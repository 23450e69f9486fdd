// Goal: bench/drafts says what draft tokens are worth for a given text: a text that occurs earlier
// comes several times as fast, one without repetition no faster and hardly slower, one whose
// grammar leaves few choices faster than without it; the counts are those of the steps. Method: the
// real program with the demo model's vocabulary, and replays with made-up tokens.

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>

#include "bench/drafts_run/replay.h"
#include "tests/bench/run_bench.h"

namespace holdfast::bench::drafts_test {
namespace {

using nlohmann::json;

constexpr StepCosts kCosts = {1, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7};

std::vector<std::int32_t> counted(std::int32_t from, std::size_t n) {
  std::vector<std::int32_t> ids(n);
  std::iota(ids.begin(), ids.end(), from);
  return ids;
}

TEST(DraftReplay, DraftReplay_WhenTheTextIsInThePrompt_TakesEightTokensAStep) {
  const auto text = counted(0, 801);
  const Replayed done = replay({text, text, nullptr}, kCosts).value();
  EXPECT_EQ(done.tokens, 800);
  EXPECT_LE(done.steps, 103);  // shorter drafts at first, before acceptance is known
  EXPECT_EQ(done.drafted, 800 - done.steps);
  EXPECT_EQ(done.accepted, done.drafted);
  EXPECT_NEAR(done.cost, static_cast<double>(done.steps) + 0.1 * static_cast<double>(done.drafted),
              1e-9);
  EXPECT_DOUBLE_EQ(done.gain(), 800 / done.cost);
  EXPECT_GT(done.gain(), 4.6);
}

TEST(DraftReplay, DraftReplay_WithoutRepetition_TakesOneTokenAStep) {
  const Replayed done = replay({counted(0, 50), counted(100, 101), nullptr}, kCosts).value();
  EXPECT_EQ(done.tokens, 100);
  EXPECT_EQ(done.steps, 100);
  EXPECT_EQ(done.drafted, 0);
  EXPECT_DOUBLE_EQ(done.gain(), 1);
}

TEST(DraftReplay, DraftReplay_WhenDraftTokensAreRejected_LosesALittleSpeed) {
  // The number after each 1 differs from all earlier ones.
  std::vector<std::int32_t> text;
  for (std::int32_t i = 0; i < 200; ++i) text.insert(text.end(), {1, 1000 + i});
  const Replayed done = replay({{}, text, nullptr}, kCosts).value();
  EXPECT_EQ(done.accepted, 0);
  EXPECT_GT(done.drafted, 0);
  EXPECT_EQ(done.steps, done.tokens);
  EXPECT_LT(done.gain(), 1);
  EXPECT_GT(done.gain(), 0.95);
}

class Drafts : public testing::Test {
 protected:
  Drafts() {
    std::string pattern = testing::TempDir() + "hf-drafts-XXXXXX";
    dir_ = mkdtemp(pattern.data());
  }
  ~Drafts() override { std::filesystem::remove_all(dir_); }
  std::string file(const std::string& name, const std::string& content) const {
    std::ofstream(dir_ + "/" + name) << content;
    return dir_ + "/" + name;
  }
  json run(const std::string& flags, int want = 0) const {
    int status = -1;
    json report = run_bench("holdfast-bench-drafts", flags, &status);
    EXPECT_EQ(WEXITSTATUS(status), want) << flags;
    return report;
  }
  std::string dir_;
};

constexpr char kStory[] =
    "First they went up the hill, and then they saw the river; nobody had told them of it. The "
    "water was high, the bridge was gone, and what had been a road was a row of stones.\n";

TEST_F(Drafts, DraftBench_WhenTheEditChangesNothing_IsSeveralTimesAsFast) {
  const std::string old = file("old.txt", kStory);
  const json report = run("--edit " + old + ":" + file("new.txt", kStory));
  EXPECT_GT(figure(report, "edit.new.txt"), 3);
  EXPECT_EQ(report["machine"].value("costs", ""), "1.04,1.12,1.19,1.27,1.35,1.43,1.52");
}

TEST_F(Drafts, DraftBench_WhenTheSecondHalfRepeatsTheFirst_IsFaster) {
  const json report = run("--half " + file("twice.txt", std::string(kStory) + kStory) + " --half " +
                          file("once.txt", kStory));
  EXPECT_GT(figure(report, "half.twice.txt"), 3);
  EXPECT_LT(figure(report, "half.once.txt"), 1.5);
}

TEST_F(Drafts, DraftBench_WhenAGrammarForcesTokens_ProposesThem) {
  const std::string answer =
      file("answer.json", R"({"date_of_birth": "1984-03-12", "is_active": true})");
  const std::string schema = file("schema.json", R"({"type": "object", "properties": {
      "date_of_birth": {"type": "string"}, "is_active": {"type": "boolean"}},
      "required": ["date_of_birth", "is_active"], "additionalProperties": false})");
  const std::string free = file("free.json", R"({"type": "object"})");
  const json forced = run("--schema " + schema + " --answer " + answer);
  const json open = run("--schema " + free + " --answer " + answer);
  EXPECT_GT(figure(forced, "answer.answer.json"), 1.2 * figure(open, "answer.answer.json"));
}

TEST_F(Drafts, DraftBench_WithInvalidInputOrFlags_ReportsTheProblem) {
  const std::string answer = file("answer.json", R"({"name": 3})");
  const std::string schema =
      file("schema.json", R"({"type": "object", "properties": {"name": {"type": "string"}},
                              "required": ["name"], "additionalProperties": false})");
  const json refused = run("--schema " + schema + " --answer " + answer, 1);
  EXPECT_NE(refused["problems"].dump().find("grammar allows"), std::string::npos) << refused;
  const json absent = run("--half " + dir_ + "/none.txt", 1);
  EXPECT_NE(absent["problems"].dump().find("none.txt: cannot be read"), std::string::npos);
  const json empty = run("--half " + file("empty.txt", ""), 1);
  EXPECT_NE(empty["problems"].dump().find("at least two tokens"), std::string::npos);
  const std::string half = "--half " + file("some.txt", kStory);
  EXPECT_TRUE(run("", 2).is_discarded());
  EXPECT_TRUE(run(half + " --costs 1,2,3", 2).is_discarded());
  EXPECT_TRUE(run(half + " --costs 1,1,1,1,1,1,0.5", 2).is_discarded());
  EXPECT_TRUE(run(half + " --schema " + schema, 2).is_discarded());
  EXPECT_TRUE(run("--answer " + answer, 2).is_discarded());
  EXPECT_TRUE(run("--edit one.txt", 2).is_discarded());
}

}  // namespace
}  // namespace holdfast::bench::drafts_test
