// Goal: on a machine with several memory nodes each thread stays on its own node, and all bits are
// the same. Method: this machine's processors said to be nodes of one each; affinities as the
// kernel tells them.

#include <gtest/gtest.h>
#include <sched.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "tests/engine/family_runs.h"

namespace holdfast::nodes_test {
namespace {

namespace fs = std::filesystem;

/// The processors that a thread may use, as the kernel lists them.
std::string cpus_of(const fs::path& thread) {
  std::ifstream status(thread / "status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("Cpus_allowed_list:\t")) return line.substr(19);
  }
  return "";
}

/// The number of threads of this process that may use just these processors.
std::map<std::string, int> threads_by_cpus() {
  std::map<std::string, int> out;
  for (const auto& thread : fs::directory_iterator("/proc/self/task")) ++out[cpus_of(thread)];
  return out;
}

TEST(Nodes, WorkerThreads_WithTwoNumaNodes_AreBoundAndChangeNoBit) {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  ASSERT_EQ(sched_getaffinity(0, sizeof allowed, &allowed), 0);
  std::vector<std::string> cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE && cpus.size() < 2; ++cpu) {
    if (CPU_ISSET(cpu, &allowed)) cpus.push_back(std::to_string(cpu));
  }
  if (cpus.size() < 2) GTEST_SKIP() << "this process may use one processor alone";
  const FamilyModel m = make_family("llama", 0, 70, "q8_0");
  RunOptions options;
  options.threads = 2;
  const std::vector<float> plain = run_family(m, options);

  const fs::path folder = fs::path(testing::TempDir()) / "two-nodes";
  for (std::size_t i = 0; i < 2; ++i) {
    const fs::path node = folder / ("node" + std::to_string(i));
    fs::create_directories(node);
    std::ofstream(node / "cpulist") << cpus[i] << "\n";
  }
  // A sanitizer may have a thread of its own; this one is among those that are bound to nodes.
  std::map<std::string, int> expected = threads_by_cpus();
  const std::string main_cpus = cpus_of("/proc/thread-self");
  if (--expected[main_cpus] == 0) expected.erase(main_cpus);
  for (const std::string& cpu : cpus) ++expected[cpu];
  setenv("HOLDFAST_TEST_NODES", folder.c_str(), 1);
  auto executor = backend::load(options.device, m.program, load_options(m, options));
  unsetenv("HOLDFAST_TEST_NODES");
  fs::remove_all(folder);
  ASSERT_TRUE(executor.has_value()) << executor.error().what;
  EXPECT_EQ(run_on(**executor, m, options), plain);
  EXPECT_EQ(threads_by_cpus(), expected);
}

}  // namespace
}  // namespace holdfast::nodes_test
