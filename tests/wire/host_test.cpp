// Goal: the memory that a worker reports is the memory that the kernel lets it have. Method:
// control groups as files in a folder of their own, and the machine's real ones.
#include "worker/link/host.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "shared/base/cgroup.h"
#include "shared/base/host_memory.h"
#include "shared/base/processors.h"
#include "worker/link/claims.h"

namespace holdfast::worker::host_test {
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

TEST_F(GroupTest, CgroupMemory_WhenAncestorsHaveLimits_UsesTheTightest) {
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

TEST_F(GroupTest, CgroupMemory_WithoutCgroups_HasNoLimit) {
  EXPECT_EQ(group_memory(root).limit, 0);
  put("/proc/self/cgroup", "0::/\n");
  EXPECT_EQ(group_memory(root).limit, 0);
  put("/sys/fs/cgroup/memory.max", "4096\n");  // as a container sees its own
  EXPECT_EQ(group_memory(root).limit, 4096);
}

TEST_F(GroupTest, CgroupCpuQuota_WhenAncestorsHaveQuotas_UsesTheTightest) {
  EXPECT_EQ(group_processors(root), 0);
  put("/proc/self/cgroup", "0::/service/holdfast\n");
  put("/sys/fs/cgroup/service/holdfast/cpu.max", "max 100000\n");
  EXPECT_EQ(group_processors(root), 0);
  put("/sys/fs/cgroup/service/cpu.max", "150000 100000\n");
  EXPECT_EQ(group_processors(root), 1.5);
  EXPECT_EQ(usable_processors(root), 1);  // no thread waits for half a processor
  put("/sys/fs/cgroup/service/holdfast/cpu.max", "20000 50000\n");
  EXPECT_EQ(group_processors(root), 0.4);
  EXPECT_EQ(usable_processors(root), 1);
  put("/sys/fs/cgroup/service/holdfast/cpu.max", "garbage\n");
  put("/sys/fs/cgroup/service/cpu.max", "409600000 100000\n");
  EXPECT_GE(usable_processors(root), usable_processors());  // more than there are
}

TEST_F(GroupTest, CgroupLimits_WithCgroupV1_AreRead) {
  put("/proc/self/cgroup", "5:memory:/docker/a\n4:cpu,cpuacct:/docker/a\n0::/\n");
  put("/sys/fs/cgroup/cpu/docker/a/cpu.cfs_quota_us", "-1\n");
  put("/sys/fs/cgroup/cpu/docker/a/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(group_processors(root), 0);
  put("/sys/fs/cgroup/cpu/docker/a/cpu.cfs_quota_us", "765000\n");
  EXPECT_EQ(group_processors(root), 7.65);
  // A container sees its own group as the mount, whatever its path is outside.
  put("/proc/self/cgroup", "5:memory:/docker/b\n4:cpu,cpuacct:/docker/b\n");
  put("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "50000\n");
  put("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(group_processors(root), 0.5);
  EXPECT_EQ(usable_processors(root), 1);
  put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(group_memory(root).limit, 0);
  put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "4096\n");
  put("/sys/fs/cgroup/memory/memory.usage_in_bytes", "11\n");
  EXPECT_EQ(group_memory(root).limit, 4096);
  EXPECT_EQ(group_memory(root).used, 11);
}

TEST_F(GroupTest, MemoryPools_WhenCgroupsHaveLimits_HaveOnePoolEach) {
  put("/proc/meminfo", "MemTotal: 1000 kB\nMemFree: 100 kB\nMemAvailable: 700 kB\n");
  put("/proc/sys/kernel/random/boot_id", "boot\n");
  put("/proc/pressure/memory", "some avg10=9.00 total=1\nfull avg10=1.25 avg60=0.00 total=1\n");
  put("/proc/self/cgroup", "4:memory:/pod/a\n0::/service/holdfast\n");
  put("/sys/fs/cgroup/service/memory.max", "512000\n");
  put("/sys/fs/cgroup/service/memory.current", "500000\n");
  put("/sys/fs/cgroup/service/memory.stat", "anon 1\ninactive_file 100000\nactive_file 40000\n");
  put("/sys/fs/cgroup/service/memory.pressure", "full avg10=12.00 avg60=0.00 total=1\n");
  put("/sys/fs/cgroup/service/holdfast/memory.max", "max\n");
  put("/sys/fs/cgroup/service/holdfast/memory.high", "400000\n");
  put("/sys/fs/cgroup/service/holdfast/memory.current", "100000\n");
  put("/sys/fs/cgroup/memory/pod/a/memory.limit_in_bytes", "9223372036854771712\n");
  put("/sys/fs/cgroup/memory/pod/memory.limit_in_bytes", "300000\n");
  put("/sys/fs/cgroup/memory/pod/memory.usage_in_bytes", "290000\n");
  put("/sys/fs/cgroup/memory/pod/memory.stat", "total_inactive_file 50000\n");
  const std::vector<MemoryPool> pools = host_memory_pools(root);
  ASSERT_EQ(pools.size(), 4u);
  EXPECT_EQ(pools[0].key, "boot");
  EXPECT_EQ(pools[0].total, 1'024'000);
  EXPECT_EQ(pools[0].available, 716'800);
  EXPECT_EQ(pools[0].stall, 125);
  std::map<std::int64_t, MemoryPool> groups;
  for (std::size_t i = 1; i < pools.size(); ++i) {
    EXPECT_EQ(pools[i].key.rfind("boot:", 0), 0u);
    groups[pools[i].total] = pools[i];
  }
  ASSERT_EQ(groups.size(), 3u);
  EXPECT_EQ(groups.at(512'000).available, 132'000);
  EXPECT_EQ(groups.at(512'000).stall, 1200);
  EXPECT_EQ(groups.at(400'000).available, 300'000);
  EXPECT_EQ(groups.at(300'000).available, 60'000);
  EXPECT_EQ(available_memory(pools), 60'000);
}

TEST_F(GroupTest, MemoryClaims_WhenTwoLoadsDoNotFitTogether_AdmitOne) {
  const std::vector<MemoryPool> pools = {{"boot", 1000, 800}};
  Claims mine(root + "/loads");
  ASSERT_TRUE(mine.claim(500, pools).has_value());
  const pid_t child = fork();
  if (child == 0) {
    Claims theirs(root + "/loads");
    const bool refused = !theirs.claim(400, pools).has_value();
    const bool granted = theirs.claim(300, pools).has_value();
    _exit(refused && granted ? 0 : 1);  // ends without releasing: its claim must not outlive it
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  mine.release();
  EXPECT_TRUE(mine.claim(800, pools).has_value()) << "what the dead had claimed counts no more";
  const Claims nowhere(root + "/no/such/folder");
}

TEST(Host, HostMemory_WithCgroupLimit_StaysWithinIt) {
  const wire::MemoryReport report = host_memory();
  EXPECT_GT(report.total, 0);
  EXPECT_LE(report.free, report.total);
  const GroupMemory group = group_memory();
  if (group.limit > 0) {
    EXPECT_LE(report.total, group.limit);
  }
}

}  // namespace
}  // namespace holdfast::worker::host_test
