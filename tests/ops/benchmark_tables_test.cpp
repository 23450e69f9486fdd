// Goal: docs/benchmarks.md says what the records say. Method: ops/benchmark-tables over the tree,
// and over a copy in which a figure, the page or the list of records was changed by hand.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/ops/run_command.h"

namespace holdfast::ops::benchmark_tables_test {
namespace {

namespace fs = std::filesystem;

const std::string kTool = HOLDFAST_SOURCE_DIR "/ops/benchmark-tables";

/// A copy of the page and the records.
class BenchmarkTables : public testing::Test {
 protected:
  void SetUp() override {
    if (run_command("python3 --version 2>&1").status != 0) GTEST_SKIP() << "no python3 on PATH";
    root_ = testing::TempDir() + "benchmark-tables-" +
            testing::UnitTest::GetInstance()->current_test_info()->name();
    fs::remove_all(root_);
    fs::create_directories(root_ + "/docs");
    fs::create_directories(root_ + "/bench");
    fs::copy(HOLDFAST_SOURCE_DIR "/docs/benchmarks.md", root_ + "/docs/benchmarks.md");
    fs::copy(HOLDFAST_SOURCE_DIR "/bench/records", root_ + "/bench/records",
             fs::copy_options::recursive);
  }
  void TearDown() override { fs::remove_all(root_); }

  void replace(const std::string& file, const std::string& from, const std::string& to) const {
    const std::string path = root_ + "/" + file;
    std::ifstream in(path);
    std::string text{std::istreambuf_iterator<char>(in), {}};
    in.close();
    const std::size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    std::ofstream(path) << text.replace(at, from.size(), to);
  }
  CommandResult run_tool(const std::string& flags) const {
    return run_command(kTool + " --root " + root_ + flags + " 2>&1");
  }

 private:
  std::string root_;
};

TEST_F(BenchmarkTables, Page_OfTheTree_IsWhatTheRecordsSay) {
  const CommandResult result = run_command(kTool + " --check 2>&1");
  EXPECT_EQ(result.status, 0) << result.out;
}

TEST_F(BenchmarkTables, Page_WhenAFigureOfARecordChanged_IsFoundAndRewritten) {
  replace("bench/records/peers-granite-q4km-amx-2026-11-26.json", "5.948", "6.948");
  const CommandResult found = run_tool(" --check");
  EXPECT_EQ(found.status, 1);
  EXPECT_NE(found.out.find("run ops/benchmark-tables"), std::string::npos) << found.out;
  EXPECT_EQ(run_tool("").status, 0);
  EXPECT_EQ(run_tool(" --check").status, 0);
}

TEST_F(BenchmarkTables, Page_WhenACellWasChangedByHand_IsFound) {
  replace("docs/benchmarks.md", "**5.95**", "**9.95**");
  EXPECT_EQ(run_tool(" --check").status, 1);
}

TEST_F(BenchmarkTables, List_WithARecordThatIsNotThere_IsRefusedByName) {
  replace("bench/records/tables.json", "peers-granite-q4km-amx-2026-11-26", "no-such-record");
  const CommandResult result = run_tool("");
  EXPECT_EQ(result.status, 1);
  EXPECT_NE(result.out.find("no-such-record"), std::string::npos) << result.out;
}

}  // namespace
}  // namespace holdfast::ops::benchmark_tables_test
