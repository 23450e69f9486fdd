// Goal: the matrix measures every cell that it names, keeps its results, and never measures a cell
// twice; cells that would take too long are skipped with the reason; a record of another build or
// mode is left unchanged. Method: quick runs of the real program, with records that are changed by
// hand between them.

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "bench/matrix_run/cells.h"
#include "tests/bench/run_bench.h"

namespace holdfast::bench::matrix_test {
namespace {

using nlohmann::json;

TEST(MatrixCells, MatrixCells_WithStandardAxes_ContainEachCombinationOnce) {
  const auto cells = cells_of(standard_axes(), "");
  std::set<std::string> names;
  for (const Cell& cell : cells) names.insert(cell.name());
  EXPECT_EQ(cells.size(), 256u);
  EXPECT_EQ(names.size(), 256u);
  EXPECT_EQ(names.count("7B/BF16/32768/64"), 1u);
}

TEST(MatrixCells, MatrixCells_WithStandardAxes_AreGroupedByModelShortContextsFirst) {
  const auto cells = cells_of(standard_axes(), "");
  std::set<std::string> models;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (i > 0 && cells[i].model() == cells[i - 1].model()) {
      EXPECT_GE(cells[i].context, cells[i - 1].context) << cells[i].name();
    } else {
      EXPECT_TRUE(models.insert(cells[i].model()).second) << cells[i].name();
    }
  }
}

TEST(MatrixCells, MatrixCells_WithAPattern_AreFilteredByIt) {
  EXPECT_EQ(cells_of(standard_axes(), "0.5B/Q4_K_M/*").size(), 16u);
  EXPECT_EQ(cells_of(standard_axes(), "0.5B/Q8_0/512/1,7B/*/512/1").size(), 5u);
  EXPECT_TRUE(cells_of(standard_axes(), "9B/*").empty());
}

TEST(MatrixCellTimeModel, CellTimeEstimate_WhenNothingWasMeasured_IsEmpty) {
  const Cell cell = cells_of(standard_axes(), "")[0];
  EXPECT_FALSE(CellTimeModel().prefill_seconds(cell).has_value());
  EXPECT_FALSE(CellTimeModel().decode_seconds(cell).has_value());
}

TEST(MatrixCellTimeModel, CellTimeEstimate_AfterOneMeasurement_ScalesWithTokens) {
  const auto cells =
      cells_of(standard_axes(), "0.5B/Q8_0/512/1,0.5B/Q8_0/4096/1,0.5B/Q8_0/4096/64");
  CellTimeModel time_model;
  time_model.learn(cells[0], /*prefill_tok_s=*/1000, /*decode_tok_s=*/50);
  // 4,096 tokens at 1,000 a second after 512 that are not timed, and a load.
  EXPECT_NEAR(time_model.prefill_seconds(cells[1]).value(), 4.6 + 0.5, 0.1);
  // Three samples of 16 steps at 50 a second, and a load; nothing is computed before.
  EXPECT_NEAR(time_model.decode_seconds(cells[2]).value(), 0.96 + 0.5, 0.1);
  EXPECT_EQ(time_model.prefill_seconds(cells[2]).value(), 0);
}

class Matrix : public testing::Test {
 protected:
  Matrix() {
    std::string pattern = testing::TempDir() + "hf-matrix-XXXXXX";
    dir_ = mkdtemp(pattern.data());
  }
  ~Matrix() override { std::filesystem::remove_all(dir_); }

  json run(const std::string& flags, int expected = 0) {
    int status = -1;
    const json report = run_bench(
        "holdfast-bench-matrix",
        "--quick --threads 1 --dir " + dir_ + " --record " + record() + " " + flags, &status);
    EXPECT_EQ(WEXITSTATUS(status), expected) << report.dump();
    return report;
  }
  std::string record() const { return dir_ + "/record.json"; }
  json read_record() const {
    std::ifstream file(record());
    return json::parse(file, nullptr, false);
  }
  void write_record(const json& changed) { std::ofstream(record()) << changed; }
  std::string dir_;
};

TEST_F(Matrix, MatrixBench_InAQuickRun_MeasuresEveryCell) {
  const std::string markdown = dir_ + "/table.md";
  const json report = run("--markdown " + markdown);
  ASSERT_TRUE(report.is_object());
  EXPECT_EQ(report["problems"], json::array());
  for (const Cell& cell : cells_of(quick_axes(), "")) {
    EXPECT_GT(figure(report, cell.name() + ".decode"), 0);
    if (cell.times_prefill()) {
      EXPECT_GT(figure(report, cell.name() + ".prefill"), 0);
    }
  }
  for (const json& one : report["figures"]) {
    const std::string name = one["name"];
    if (name.find(".prefill") == std::string::npos && name.find(".decode") == std::string::npos) {
      continue;
    }
    EXPECT_EQ(one["samples"].size(), 3u) << one.dump();
  }
  EXPECT_EQ(read_record()["figures"], report["figures"]);
  std::ifstream file(markdown);
  const std::string table((std::istreambuf_iterator<char>(file)), {});
  EXPECT_NE(table.find("| tiny Q8_0 | 256 |"), std::string::npos) << table;
  EXPECT_EQ(table.find("–"), std::string::npos) << table;  // no cell is missing
  // The model files are deleted.
  for (const auto& left : std::filesystem::directory_iterator(dir_)) {
    EXPECT_NE(left.path().extension(), ".gguf");
    EXPECT_FALSE(left.is_directory()) << left.path();
  }
}

TEST_F(Matrix, MatrixBench_WhenResumed_MeasuresOnlyMissingCells) {
  run("--only 'tiny/Q8_0/128/*'");
  json half = read_record();
  for (json& one : half["figures"]) {
    if (one["name"] == "tiny/Q8_0/128/1.decode") one["value"] = 77;
  }
  write_record(half);
  const json report = run("--only 'tiny/Q8_0/*'");
  EXPECT_EQ(figure(report, "tiny/Q8_0/128/1.decode"), 77);  // not measured again
  EXPECT_GT(figure(report, "tiny/Q8_0/256/2.decode"), 0);
  std::set<std::string> names;
  for (const json& one : report["figures"]) {
    EXPECT_TRUE(names.insert(one["name"]).second) << one.dump();
  }
}

TEST_F(Matrix, MatrixCell_WhenEstimatedTooLong_IsSkippedWithTheReason) {
  run("--only 'tiny/Q8_0/128/1'");
  json slow = read_record();
  for (json& one : slow["figures"]) one["value"] = 0.01;  // tokens a second: hours
  write_record(slow);
  const json report = run("--only 'tiny/Q8_0/*'");
  EXPECT_EQ(report["skipped"].size(), 3u);
  EXPECT_NE(report["skipped"]["tiny/Q8_0/256/2"].get<std::string>().find("minutes"),
            std::string::npos);
  EXPECT_EQ(run("--only 'tiny/Q8_0/*'")["skipped"], report["skipped"]);
}

TEST_F(Matrix, MatrixRecord_OfAnotherBuild_IsRefusedAndUnchanged) {
  run("--only 'tiny/Q8_0/128/1'");
  json other = read_record();
  other["machine"]["kernels"] = "other";
  write_record(other);
  const json report = run("--only 'tiny/Q8_0/*'", 1);
  ASSERT_EQ(report["problems"].size(), 1u);
  EXPECT_NE(report["problems"][0].get<std::string>().find("kernels"), std::string::npos);
  EXPECT_EQ(read_record(), other);
}

}  // namespace
}  // namespace holdfast::bench::matrix_test
