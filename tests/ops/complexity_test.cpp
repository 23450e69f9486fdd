// Goal: ops/complexity names functions with too many branches and takes those with a reason; the
// tree has none. Method: runs it over sources made up here, and over the tree.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/ops/run_command.h"

namespace holdfast::ops::complexity_test {
namespace {

namespace fs = std::filesystem;

const std::string kTool = HOLDFAST_SOURCE_DIR "/ops/complexity";

/// Runs a command of the shell.
CommandResult run(const std::string& command) {
  return run_command(command + " 2>&1");
}

/// A function of that complexity: one more than it has branches.
std::string function(const std::string& name, int figure) {
  std::string text = "int " + name + "(int a) {\n";
  for (int i = 1; i < figure; ++i) text += "  if (a == " + std::to_string(i) + ") return 1'0;\n";
  return text + "  return 0;\n}\n";
}

/// A folder with a source and a list of exceptions, removed at the end.
class Complexity : public testing::Test {
 protected:
  void SetUp() override {
    if (run("python3 --version").status != 0) GTEST_SKIP() << "no python3 on PATH";
    if (run("command -v pmccabe").status != 0) GTEST_SKIP() << "no pmccabe on PATH";
    fs::create_directories(folder_);
    except("");
  }
  void TearDown() override { fs::remove_all(folder_); }

  void write(const std::string& functions) {
    std::ofstream(source()) << "namespace made::up {\nnamespace {\n" << functions << "}\n}\n";
  }
  void except(const std::string& rows) {
    std::ofstream(folder_ / "exceptions.tsv") << "function\tfigure\treason\n" << rows;
  }
  CommandResult check() const {
    return run(kTool + " --exceptions " + (folder_ / "exceptions.tsv").string() + " " + source());
  }
  void write_kernel(const std::string& functions) { std::ofstream(kernel()) << functions; }
  CommandResult check_kernel() const {
    return run(kTool + " --exceptions " + (folder_ / "exceptions.tsv").string() + " " + kernel());
  }
  std::string kernel() const { return (folder_ / "made_up.inc").string(); }
  std::string source() const { return (folder_ / "made_up.cpp").string(); }

 private:
  const fs::path folder_ =
      fs::path(testing::TempDir()) /
      (std::string("complexity-") + testing::UnitTest::GetInstance()->current_test_info()->name());
};

TEST_F(Complexity, Function_AboveTheMost_IsNamedEvenIfItIsExcepted) {
  write(function("plain", 3) + function("tangled", 16));
  except(source() + ":tangled\t16\tit was always so\n");
  const CommandResult result = check();
  EXPECT_EQ(result.status, 1) << result.out;
  EXPECT_NE(result.out.find("made_up.cpp:tangled (line 8): 16, expected at most 15"),
            std::string::npos)
      << result.out;
}

TEST_F(Complexity, LoopOfAKernel_AboveTheMost_NeedsAReason) {
  write_kernel(function("loop", 18));
  EXPECT_EQ(check_kernel().status, 1);
  except(kernel() + ":loop\t18\tit stays in registers\n");
  const CommandResult result = check_kernel();
  EXPECT_EQ(result.status, 0) << result.out;
}

TEST_F(Complexity, Functions_OfTenOrMore_NeedAReasonBeyondTheShare) {
  write(function("many", 12));
  EXPECT_EQ(check().status, 1);
  except(source() + ":many\t11\ta list\n");
  EXPECT_EQ(check().status, 1);
  except(source() + ":many\t12\ta list\n");
  const CommandResult result = check();
  EXPECT_EQ(result.status, 0) << result.out;
}

TEST_F(Complexity, Functions_OfTenOrMoreWithinTheShare_NeedNoReason) {
  std::string functions = function("many", 12);
  for (int i = 0; i < 60; ++i) functions += function("plain_" + std::to_string(i), 2);
  write(functions);
  const CommandResult result = check();
  EXPECT_EQ(result.status, 0) << result.out;
}

TEST_F(Complexity, Exceptions_WithoutAReason_AreRefused) {
  write(function("plain", 3));
  except(source() + ":many\t12\n");
  const CommandResult result = check();
  EXPECT_EQ(result.status, 2);
  EXPECT_NE(result.out.find("expected function, figure and reason"), std::string::npos);
}

TEST_F(Complexity, Functions_OfTheTree_AreWithinBounds) {
  const CommandResult result = run(kTool);
  EXPECT_EQ(result.status, 0) << result.out;
}

}  // namespace
}  // namespace holdfast::ops::complexity_test
