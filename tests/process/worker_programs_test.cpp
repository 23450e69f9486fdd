// Goal: the worker program that a numerics class needs is found among those that are installed.
// Method: scripts that answer as workers do, answer wrongly, or do not answer.
#include "ops/serve/worker_programs.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "ops/serve/bound_workers.h"
#include "tests/process/test_server.h"

namespace holdfast::process::worker_programs_test {
namespace {

using cli::WorkerPrograms;
using Words = std::vector<std::string>;

struct Folder {
  TempDir dir;
  std::string add(const std::string& name, const std::string& script) const {
    std::filesystem::create_directories(dir.path() + "/" + name);
    const std::string path = dir.write(name + "/holdfast-worker", "#!/bin/sh\n" + script + "\n");
    chmod(path.c_str(), 0755);
    return path;
  }
};

TEST(WorkerPrograms, Revisions_InNumericsClasses_AreThoseOfEachBackend) {
  EXPECT_EQ(cli::revisions_in("cpu/avx512/r4"), Words{"cpu/r4"});
  EXPECT_EQ(cli::revisions_in("cpu/amx/r4:16"), Words{"cpu/r4"});
  EXPECT_EQ(cli::revisions_in("opencl/t2.H200.570/r2"), Words{"opencl/r2"});
  EXPECT_EQ(cli::revisions_in("opencl/t2.H200.570/r2:16+cpu/avx512/r4"),
            (Words{"opencl/r2", "cpu/r4"}));
  EXPECT_EQ(cli::revisions_in("opencl/t2.A/r2:4+t1.B/r2:4"), Words{"opencl/r2"});
  EXPECT_EQ(cli::revisions_in("class-a"), Words{});
  EXPECT_EQ(cli::revisions_in(""), Words{});
}

TEST(WorkerPrograms, Program_ForAClass_IsThisVersionsOrAStoredOne) {
  const Folder folder;
  const std::string now = folder.add(".", "echo cpu/r5 opencl/r2");
  const std::string older = folder.add("workers/cpu-r4", "echo cpu/r4 opencl/r2");
  folder.add("workers/broken", "exit 1");
  folder.add("workers/old", "echo usage >&2; exit 2");
  WorkerPrograms programs(folder.dir.path());
  EXPECT_EQ(programs.current().revisions, (Words{"cpu/r5", "opencl/r2"}));
  EXPECT_EQ(programs.older().size(), 3U);
  EXPECT_EQ(programs.find("cpu/avx2/r4"), older);
  EXPECT_EQ(programs.find("cpu/avx2/r5"), folder.dir.path() + "/holdfast-worker") << now;
  EXPECT_EQ(programs.find("opencl/t0.X/r2:4+cpu/avx2/r4"), older);
  EXPECT_EQ(programs.find("cpu/avx2/r3"), "");
  EXPECT_EQ(programs.find("class-a"), "");
}

TEST(WorkerPrograms, BoundClasses_OfADocument_AreNeededWhereNobodyElseHasThem) {
  const Folder folder;
  folder.add(".", "echo cpu/r5");
  const std::string older = folder.add("workers/cpu-r4", "echo cpu/r4");
  WorkerPrograms programs(folder.dir.path());
  const auto bound = cli::read_bound(
      R"({"bound": [
        {"model": "a", "class": "cpu/avx2/r4", "requests": 2, "served": false, "loaded": false},
        {"model": "b", "class": "cpu/avx2/r4", "requests": 3, "served": false, "loaded": true},
        {"model": "a", "class": "cpu/avx2/r5", "requests": 1, "served": true, "loaded": true},
        {"model": "c", "class": "cpu/amx/r5", "requests": 1, "served": false, "loaded": false},
        {"model": "d", "class": "cpu/amx/r3", "requests": 1, "served": false, "loaded": true}]})",
      programs);
  ASSERT_EQ(bound.size(), 4U);
  EXPECT_EQ(bound[0].class_start, "cpu/amx/r3");
  EXPECT_TRUE(bound[0].needed);
  EXPECT_EQ(bound[0].program, "");
  EXPECT_FALSE(bound[1].needed) << "amx/r5: our own worker may be about to load it";
  EXPECT_EQ(bound[2].requests, 5);
  EXPECT_TRUE(bound[2].needed);
  EXPECT_EQ(bound[2].program, older);
  EXPECT_FALSE(bound[3].needed);
  for (const char* wrong : {"", "[]", "{}", R"({"bound": 3})", R"({"bound": [1, null]})"}) {
    EXPECT_TRUE(cli::read_bound(wrong, programs).empty()) << wrong;
  }
}

}  // namespace
}  // namespace holdfast::process::worker_programs_test
