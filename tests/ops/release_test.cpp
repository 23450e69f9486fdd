// Goal: ops/release refuses what must not become a release, with the reason, before it builds
// anything; ops/packaging/elf-check refuses a tarball that another system may not run. Method: dry
// runs in a small git tree of its own with the files that the script reads; folders with a program
// of this machine.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/ops/run_command.h"

namespace holdfast::release_test {
namespace {

namespace fs = std::filesystem;

class Release : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "hf-release-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    dir_ = name;
    for (const char* file : {"ops/release", "ops/lib.sh"}) {
      fs::create_directories(fs::path(dir_ + "/" + file).parent_path());
      fs::copy_file(std::string(HOLDFAST_SOURCE_DIR) + "/" + file, dir_ + "/" + file);
    }
    write("shared/base/version.h", "inline constexpr const char* kVersion = \"1.2.3\";\n");
    write("CHANGELOG.md", "# Changelog\n\n## Unreleased\n\n## 1.2.3\n\n- A thing.\n\n## 1.2.2\n");
    ASSERT_EQ(git("init -q -b main").status, 0);
    commit();
  }
  void TearDown() override { fs::remove_all(dir_); }

  void write(const std::string& path, const std::string& text) const {
    fs::create_directories(fs::path(dir_ + "/" + path).parent_path());
    std::ofstream(dir_ + "/" + path) << text;
  }
  ops::CommandResult git(const std::string& arguments) const {
    return ops::run_command("cd " + dir_ + " && git -c user.name=t -c user.email=t@localhost " +
                            arguments + " 2>&1");
  }
  void commit() const {
    ASSERT_EQ(git("add -A").status, 0);
    ASSERT_EQ(git("commit -q -m c").status, 0);
  }
  ops::CommandResult release(const std::string& arguments) const {
    return ops::run_command(dir_ + "/ops/release " + arguments + " 2>&1");
  }
  /// The dry run is refused, and says `why`.
  void expect_refused(const std::string& arguments, const std::string& why) const {
    const auto result = release(arguments);
    EXPECT_EQ(result.status, 1) << result.out;
    EXPECT_NE(result.out.find(why), std::string::npos) << result.out;
  }
  std::string dir_;
};

TEST_F(Release, DryRun_OfACleanTree_SaysWhatItWouldMakeAndMakesNothing) {
  const auto result = release("1.2.3 --dry-run --tag");
  EXPECT_EQ(result.status, 0) << result.out;
  EXPECT_NE(result.out.find("the checks pass"), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("tag v1.2.3"), std::string::npos) << result.out;
  EXPECT_FALSE(fs::exists(dir_ + "/build"));
  EXPECT_EQ(git("tag").out, "");
}

TEST_F(Release, DryRun_OfWhatIsNoRelease_IsRefusedWithTheReason) {
  expect_refused("1.2.4 --dry-run", "version.h says 1.2.3, not 1.2.4");
  expect_refused("1.2.2 --dry-run", "no section '## 1.2.2' with text");
  expect_refused("1.2 --dry-run", "is no version");
  expect_refused("1.2.3 --dry-run --sign nobody@localhost", "no secret key");
  expect_refused("--dry-run", "usage");
  write("new", "file");
  expect_refused("1.2.3 --dry-run", "the tree has changes");
  commit();
  ASSERT_EQ(git("tag v1.2.3").status, 0);
  expect_refused("1.2.3 --dry-run", "v1.2.3 is there already");
  ASSERT_EQ(git("checkout -q -b other").status, 0);
  expect_refused("1.2.3 --dry-run", "releases are made of main");
}

TEST_F(Release, ElfCheck_OfAFolderWithoutItsLibraries_IsRefused) {
  const std::string check = std::string(HOLDFAST_SOURCE_DIR) + "/ops/packaging/elf-check ";
  EXPECT_NE(ops::run_command(check + dir_ + " 2>&1").status, 0) << "no program at all";
  const std::string worker = std::string(HOLDFAST_BUILD_DIR) + "/bin/holdfast-worker";
  fs::create_directories(dir_ + "/tree");
  fs::copy_file("/bin/true", dir_ + "/tree/true");
  const auto plain = ops::run_command(check + dir_ + "/tree 2>&1");
  EXPECT_EQ(plain.status, 0) << plain.out;
  fs::copy_file(worker, dir_ + "/tree/holdfast-worker");
  const auto lacking = ops::run_command(check + dir_ + "/tree 2>&1");
  EXPECT_EQ(lacking.status, 1) << lacking.out;
  EXPECT_NE(lacking.out.find("which is not brought"), std::string::npos) << lacking.out;
}

}  // namespace
}  // namespace holdfast::release_test
