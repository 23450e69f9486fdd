// Goal: what a worker calls its memory is what the kernel lets it have. Method: control groups as
// files in a folder of their own, and the machine's real ones for the plain sanity of the report.
#include "worker/link/host.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

#include "shared/base/cgroup.h"
#include "shared/base/processors.h"

namespace holdfast::worker {
namespace {

namespace fs = std::filesystem;

struct GroupTest : testing::Test {
  std::string root;
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "hf-group-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    root = pattern;
  }
  void TearDown() override { fs::remove_all(root); }
  void put(const std::string& path, const std::string& text) const {
    fs::create_directories(fs::path(root + path).parent_path());
    std::ofstream(root + path) << text;
  }
};

TEST_F(GroupTest, TheTightestLimitOnTheWayUpCounts) {
  put("/proc/self/cgroup", "1:name=systemd:/x\n0::/service/holdfast\n");
  EXPECT_EQ(group_memory(root).limit, 0);
  put("/sys/fs/cgroup/service/holdfast/memory.max", "max\n");
  EXPECT_EQ(group_memory(root).limit, 0);
  put("/sys/fs/cgroup/service/memory.max", "2147483648\n");
  put("/sys/fs/cgroup/service/memory.current", "1000\n");
  EXPECT_EQ(group_memory(root).limit, 2'147'483'648);
  EXPECT_EQ(group_memory(root).used, 1000);
  put("/sys/fs/cgroup/service/holdfast/memory.max", "1073741824\n");
  put("/sys/fs/cgroup/service/holdfast/memory.current", "77\n");
  EXPECT_EQ(group_memory(root).limit, 1'073'741'824);
  EXPECT_EQ(group_memory(root).used, 77);
}

TEST_F(GroupTest, WithoutGroupsThereIsNoLimit) {
  EXPECT_EQ(group_memory(root).limit, 0);
  put("/proc/self/cgroup", "0::/\n");
  EXPECT_EQ(group_memory(root).limit, 0);
  put("/sys/fs/cgroup/memory.max", "4096\n");  // as a container sees its own
  EXPECT_EQ(group_memory(root).limit, 4096);
}

TEST_F(GroupTest, TheTightestQuotaOfProcessorsCounts) {
  EXPECT_EQ(group_processors(root), 0);
  put("/proc/self/cgroup", "0::/service/holdfast\n");
  put("/sys/fs/cgroup/service/holdfast/cpu.max", "max 100000\n");
  EXPECT_EQ(group_processors(root), 0);
  put("/sys/fs/cgroup/service/cpu.max", "150000 100000\n");
  EXPECT_EQ(group_processors(root), 1.5);
  EXPECT_EQ(usable_processors(root), 1);  // nobody waits for the half of a thread
  put("/sys/fs/cgroup/service/holdfast/cpu.max", "20000 50000\n");
  EXPECT_EQ(group_processors(root), 0.4);
  EXPECT_EQ(usable_processors(root), 1);
  put("/sys/fs/cgroup/service/holdfast/cpu.max", "garbage\n");
  put("/sys/fs/cgroup/service/cpu.max", "409600000 100000\n");
  EXPECT_GE(usable_processors(root), usable_processors());  // more than there are
}

TEST(Host, MemoryIsWithinTheMachinesAndTheGroups) {
  const wire::MemoryReport report = host_memory();
  EXPECT_GT(report.total, 0);
  EXPECT_LE(report.free, report.total);
  const GroupMemory group = group_memory();
  if (group.limit > 0) {
    EXPECT_LE(report.total, group.limit);
  }
}

}  // namespace
}  // namespace holdfast::worker
