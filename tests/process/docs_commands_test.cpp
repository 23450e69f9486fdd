// Goal: what the pages for users tell a reader to type does what they say, and stays so: each
// fenced block of docs/use is run, or says why it is not. Method: tests/process/docs/run.py, which
// gives each page a server and a folder of its own; and its own tests, with pages that are wrong.
// `docs/contribute/testing.md` ("Commands of the pages") says what a page may say of a block.
#include <gtest/gtest.h>

#include <cstdio>
#include <string>

#include "tests/process/test_server.h"

namespace holdfast::process::docs_commands_test {
namespace {

const std::string kScripts = HOLDFAST_SOURCE_DIR "/tests/process/docs";
constexpr int kPatienceS = 300;

TEST(DocsCommands, Blocks_OfThePagesForUsers_RunOrSayWhyNot) {
  const Ended ended = run_program(
      {"/usr/bin/python3", kScripts + "/run.py", "--build", HOLDFAST_BUILD_DIR}, kPatienceS);
  std::printf("%s", ended.out.c_str());
  EXPECT_EQ(ended.code, 0) << "the end of what was printed says what to do\n" << ended.err;
  EXPECT_NE(ended.out.find(" blocks run, "), std::string::npos) << ended.err;
}

TEST(DocsCommands, Runner_WithPagesThatAreWrong_SaysWhatIsWrong) {
  const Ended ended =
      run_program({"/usr/bin/python3", kScripts + "/run_test.py", HOLDFAST_BUILD_DIR}, kPatienceS);
  EXPECT_EQ(ended.code, 0) << ended.out << ended.err;
}

}  // namespace
}  // namespace holdfast::process::docs_commands_test
