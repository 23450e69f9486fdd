// Goal: ops/slurm/holdfast-nodes.sbatch is a script that Slurm takes and that says what it misses;
// three nodes of Slurm on this machine run it as docs/run/slurm.md says. Method: bash and
// shellcheck read it; it is run without what it needs; ops/slurm/try runs it in a Slurm of its own.
#include <gtest/gtest.h>

#include <string>

#include "tests/ops/run_command.h"

namespace holdfast::ops::slurm_test {
namespace {

const std::string kSbatch = HOLDFAST_SOURCE_DIR "/ops/slurm/holdfast-nodes.sbatch";
const std::string kTry = HOLDFAST_SOURCE_DIR "/ops/slurm/try";

/// The end of the script with these variables and no others of Slurm's or Holdfast's.
CommandResult run_task(const std::string& variables) {
  return run_command("env -i PATH=$PATH " + variables + " bash " + kSbatch + " 2>&1");
}

TEST(Slurm, Scripts_ReadByBash_HaveNoErrors) {
  for (const std::string& script : {kSbatch, kTry}) {
    EXPECT_EQ(run_command("bash -n " + script).status, 0) << script;
  }
}

TEST(Slurm, Scripts_ReadByShellcheck_HaveNoFindings) {
  if (run_command("command -v shellcheck").status != 0) GTEST_SKIP() << "no shellcheck on PATH";
  for (const std::string& script :
       {kSbatch, std::string(HOLDFAST_SOURCE_DIR "/ops/helm/holdfast/files/make-keys.sh")}) {
    const CommandResult checked = run_command("shellcheck " + script + " 2>&1");
    EXPECT_EQ(checked.status, 0) << checked.out;
  }
}

TEST(Slurm, Task_WithoutWhatItNeeds_SaysWhat) {
  const std::string array = "SLURM_ARRAY_TASK_ID=3 SLURM_ARRAY_JOB_ID=7 SLURM_CPUS_ON_NODE=1 ";
  const std::string join = array + "HOLDFAST_JOIN=tcp://127.0.0.1:1 ";
  const std::pair<std::string, std::string> cases[] = {
      {"", "expected sbatch --array"},
      {array, "HOLDFAST_JOIN is not set"},
      {join, "HOLDFAST_KEYS is not set"},
      {join + "HOLDFAST_KEYS=/nonexistent HOLDFAST_NODE=rack",
       "holdfast keys node create rack-3 --out /nonexistent/rack-3.key"},
  };
  for (const auto& [variables, why] : cases) {
    const CommandResult ended = run_task(variables);
    EXPECT_EQ(ended.status, 2) << ended.out;
    EXPECT_NE(ended.out.find(why), std::string::npos) << ended.out;
  }
}

TEST(Slurm, Array_OfThreeOnThreeNodes_JoinsDrainsAndOutlivesAMachine) {
  const CommandResult tried = run_command(
      kTry + " --bin " HOLDFAST_BIN_DIR " --tools " HOLDFAST_BUILD_DIR "/tools/slurm 2>&1");
  if (tried.status == 77) GTEST_SKIP() << tried.out;
  EXPECT_EQ(tried.status, 0) << tried.out;
}

}  // namespace
}  // namespace holdfast::ops::slurm_test
