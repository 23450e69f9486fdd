// Goal: ops/gpu-kernels says of a listing what is in it, breaks where a budget is broken and skips
// where a tool is missing. Method: runs it over a small listing written by hand
// (tests/data/gpu-kernels), whose figures are counted here; with NVIDIA's tools over the tree's
// kernels as well.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/ops/run_command.h"

namespace holdfast::ops::gpu_kernels_test {
namespace {

using nlohmann::json;

const std::string kTool = HOLDFAST_SOURCE_DIR "/ops/gpu-kernels";
const std::string kRead = " --read " HOLDFAST_SOURCE_DIR "/tests/data/gpu-kernels";
const std::string kColumns = "text\tkernel\tregisters\tspill\ttile\tflight\n";

/// A budget file of these rows, removed at the end.
class Budgets {
 public:
  explicit Budgets(const std::string& rows)
      : path_(testing::TempDir() + "budgets-" +
              testing::UnitTest::GetInstance()->current_test_info()->name() + ".tsv") {
    std::ofstream(path_) << "# a comment\n" << rows;
  }
  ~Budgets() { std::filesystem::remove(path_); }
  Budgets(const Budgets&) = delete;
  Budgets& operator=(const Budgets&) = delete;
  std::string flag() const { return " --budgets " + path_; }
  std::string text() const {
    std::ifstream file(path_);
    return {std::istreambuf_iterator<char>(file), {}};
  }

 private:
  std::string path_;
};

class GpuKernels : public testing::Test {
 protected:
  void SetUp() override {
    if (run_command("python3 --version 2>&1").status != 0) GTEST_SKIP() << "no python3 on PATH";
  }
};

/// The figures of one kernel of the listing.
json figures(const std::string& kernel) {
  const Budgets none(kColumns);
  const CommandResult result =
      run_command(kTool + kRead + " --json --kernel '^" + kernel + "$'" + none.flag());
  EXPECT_EQ(result.status, 0) << result.out;
  const json all = json::parse(result.out, nullptr, false);
  return all.is_array() && all.size() == 1 ? all[0] : json::object();
}

TEST_F(GpuKernels, Listing_OfALoopThatWaitsTwice_HasTheBytesOfEachRoundTrip) {
  const json one = figures("one_1");
  EXPECT_EQ(one["registers"], 60);
  EXPECT_EQ(one["spill"], 0);
  EXPECT_EQ(one["shared"], 0);
  EXPECT_EQ(one["instructions"], 24);  // the branch to itself that pads it too
  EXPECT_EQ(one["loop"], 14);
  EXPECT_EQ(one["tile"], 448);  // two dots are 128 of 4,096 weights
  EXPECT_EQ(one["mix"]["IDP"], 2);
  EXPECT_EQ(one["loops"].size(), 2u);
  // 4 + 8 bytes of weights, then 2 + 1; the 16 bytes of rows come from caches.
  ASSERT_EQ(one["main_loops"].size(), 1u);
  const json& waits = one["main_loops"][0]["waits"];
  ASSERT_EQ(waits.size(), 2u);
  EXPECT_EQ(waits[0]["bytes"], 12);
  EXPECT_EQ(waits[0]["op"], "LOP3");
  EXPECT_EQ(waits[1]["bytes"], 3);
  EXPECT_EQ(one["trips"], 2);
  EXPECT_EQ(one["flight"], 7);
  EXPECT_EQ(one["cover"], 2);
}

TEST_F(GpuKernels, Listing_OfLoadsAPassAhead_CountsWhatIsInFlightAtTheirUse) {
  const json one = figures("one_8");
  EXPECT_EQ(one["spill"], 20);
  EXPECT_EQ(one["shared"], 5120);
  EXPECT_EQ(one["tile"], 112);  // two IMMA of 8 rows are a sixteenth of a tile, bytes are halves
  EXPECT_EQ(one["flight"], 16);
  EXPECT_EQ(one["trips"], 1);
  EXPECT_EQ(one["cover"], 4);
}

TEST_F(GpuKernels, Listing_OfCopiesToLocalMemory_AwaitsThemByGroups) {
  const json one = figures("tile");
  EXPECT_EQ(one["loop"], 3);
  EXPECT_EQ(one["tile"], 384);   // an HMMA of 64 rows: 2,048 / 64 / 4,096
  EXPECT_EQ(one["flight"], 32);  // two passes share a round trip: a copy of 16 bytes is ahead
  EXPECT_EQ(one["trips"], 0.5);
}

TEST_F(GpuKernels, Budgets_ThatHold_GiveZero) {
  const Budgets held(
      kColumns + "toy\tone_1\t60\t0\t448\t7\ntoy\tone_8\t76\t20\t112\t16\ntoy\ttile\t-\t-\t-\t-\n");
  EXPECT_EQ(run_command(kTool + kRead + held.flag()).status, 0);
}

TEST_F(GpuKernels, Budgets_ThatAreBroken_AreNamedWithBothNumbers) {
  const Budgets broken(kColumns + "toy\tone_1\t59\t0\t447\t8\ntoy\tone_8\t-\t19\t-\t-\n");
  const CommandResult result = run_command(kTool + kRead + broken.flag() + " 2>&1");
  EXPECT_EQ(result.status, 1);
  for (const char* message : {"toy one_1: 60 registers; the budget is at most 59",
                              "toy one_1: 448 instructions a tile; the budget is at most 447",
                              "toy one_1: 7 bytes of weights in flight; the budget is at least 8",
                              "toy one_8: 20 bytes of spills; the budget is at most 19"}) {
    EXPECT_NE(result.out.find(message), std::string::npos) << message << "\n" << result.out;
  }
}

TEST_F(GpuKernels, Budgets_OfAKernelThatIsGone_AreBroken) {
  const Budgets gone(kColumns + "toy\tone_2\t64\t0\t-\t-\n");
  const CommandResult result = run_command(kTool + kRead + gone.flag() + " 2>&1");
  EXPECT_EQ(result.status, 1);
  EXPECT_NE(result.out.find("toy one_2: a budget, but no such kernel"), std::string::npos);
}

TEST_F(GpuKernels, Budgets_ThatCannotBeRead_SayWhere) {
  for (const std::string& rows :
       {std::string("kernel\tregisters\n"), kColumns + "toy\tone_1\t6O\n"}) {
    const Budgets bad(rows);
    const CommandResult result = run_command(kTool + kRead + bad.flag() + " 2>&1");
    EXPECT_EQ(result.status, 2);
    EXPECT_NE(result.out.find("expected"), std::string::npos) << result.out;
  }
}

TEST_F(GpuKernels, Budgets_WrittenFromFigures_Hold) {
  const Budgets written("");
  EXPECT_EQ(run_command(kTool + kRead + written.flag() + " --write-budgets").status, 0);
  EXPECT_EQ(written.text(), "# a comment\n" + kColumns +
                                "toy\tone_1\t64\t0\t457\t7\n"
                                "toy\tone_8\t80\t20\t115\t16\n"
                                "toy\ttile\t128\t0\t392\t32\n");
  EXPECT_EQ(run_command(kTool + kRead + written.flag()).status, 0);
}

TEST_F(GpuKernels, Run_WithoutATool_SkipsAndSaysWhereToGetIt) {
  const CommandResult result = run_command("HOLDFAST_PTXAS=/nowhere/ptxas " + kTool + " 2>&1");
  EXPECT_EQ(result.status, 77);
  EXPECT_NE(result.out.find("HOLDFAST_PTXAS"), std::string::npos) << result.out;
}

TEST_F(GpuKernels, Kernels_OfThisTree_MeetTheirBudgets) {
  const CommandResult result = run_command(kTool + " --build " HOLDFAST_BUILD_DIR " 2>&1");
  if (result.status == 77) GTEST_SKIP() << result.out;
  EXPECT_EQ(result.status, 0) << result.out;
}

}  // namespace
}  // namespace holdfast::ops::gpu_kernels_test
