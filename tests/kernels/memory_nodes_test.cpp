// Goal: threads are dealt to memory nodes as the system describes them, and not at all where it
// describes one or none.
// Method: folders like /sys/devices/system/node, with the processors that this test may use.

#include "shared/base/memory_nodes.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <filesystem>
#include <fstream>

namespace holdfast::memory_nodes_test {
namespace {

namespace fs = std::filesystem;

TEST(MemoryNodes, ParseNumberList_WithRanges_ReadsOrRefusesThem) {
  EXPECT_EQ(parse_number_list("0\n"), (std::vector<int>{0}));
  EXPECT_EQ(parse_number_list("0-2,8,10-11"), (std::vector<int>{0, 1, 2, 8, 10, 11}));
  for (const char* wrong : {"", "\n", "a", "1-", "-1", "3-1", "0,,1", "1,x", "0-99999999"}) {
    EXPECT_TRUE(parse_number_list(wrong).empty()) << wrong;
  }
}

TEST(MemoryNodes, NodesOfWorkers_WhenNodeSizesDiffer_AreInProportion) {
  const auto dealt = [](std::vector<std::size_t> cpus, int workers) {
    std::vector<MemoryNode> nodes;
    for (const std::size_t n : cpus) {
      nodes.push_back({static_cast<int>(nodes.size()), std::vector<int>(n)});
    }
    return nodes_of_workers(nodes, workers);
  };
  using Nodes = std::vector<std::size_t>;
  EXPECT_EQ(dealt({1, 1}, 2), (Nodes{0, 1}));
  EXPECT_EQ(dealt({4, 4}, 4), (Nodes{0, 0, 1, 1}));
  EXPECT_EQ(dealt({6, 2}, 4), (Nodes{0, 0, 0, 1}));
  EXPECT_EQ(dealt({2, 2}, 8), (Nodes{0, 0, 0, 0, 1, 1, 1, 1}));
  EXPECT_EQ(dealt({4, 4}, 1), (Nodes{1}));
  EXPECT_EQ(dealt({2, 2, 4}, 4), (Nodes{0, 1, 2, 2}));
}

TEST(MemoryNodes, MemoryNodes_WithoutAProcessorForThisProcess_AreOmitted) {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  ASSERT_EQ(sched_getaffinity(0, sizeof allowed, &allowed), 0);
  int cpu = 0;
  while (!CPU_ISSET(cpu, &allowed)) ++cpu;
  const fs::path folder = fs::path(testing::TempDir()) / "nodes";
  fs::remove_all(folder);
  const auto node = [&](const char* name, const std::string& list) {
    fs::create_directories(folder / name);
    std::ofstream(folder / name / "cpulist") << list << "\n";
  };
  node("node3", std::to_string(cpu));
  node("node1", "");
  node("node2", "1000-1003");
  node("power", std::to_string(cpu));
  const auto nodes = memory_nodes(folder);
  ASSERT_EQ(nodes.size(), 1u);
  EXPECT_EQ(nodes[0].number, 3);
  EXPECT_EQ(nodes[0].cpus, std::vector<int>{cpu});
  fs::remove_all(folder);
  EXPECT_TRUE(memory_nodes(folder).empty());
}

}  // namespace
}  // namespace holdfast::memory_nodes_test
