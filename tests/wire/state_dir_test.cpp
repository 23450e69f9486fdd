// Goal: the state directory of somebody who names none is the one that the machine's conventions
// say, and the one that was in use before stays in use. Method: default_state_dir() in child
// processes with an environment, a folder and a user of their own.
#include "shared/base/state_dir.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>

namespace holdfast::state_dir_test {
namespace {

namespace fs = std::filesystem;

class StateDir : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "hf-default-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
    chmod(name.c_str(), 0755);
  }
  void TearDown() override { fs::remove_all(folder_); }

  /// The answer in `folder_` with these variables and no others that matter.
  std::string answer(const std::map<std::string, std::string>& variables, bool as_root) {
    int fds[2];
    EXPECT_EQ(pipe(fds), 0);
    const pid_t child = fork();
    if (child == 0) {
      for (const char* name : {"HOLDFAST_STATE", "STATE_DIRECTORY", "XDG_STATE_HOME", "HOME"}) {
        unsetenv(name);
      }
      for (const auto& [name, value] : variables) setenv(name.c_str(), value.c_str(), 1);
      if (chdir(folder_.c_str()) != 0 || (!as_root && geteuid() == 0 && setuid(65534) != 0))
        _exit(1);
      const std::string said = default_state_dir();
      const bool written = write(fds[1], said.data(), said.size()) > 0;
      _exit(written ? 0 : 1);
    }
    close(fds[1]);
    std::string said(4096, '\0');
    const ssize_t size = read(fds[0], said.data(), said.size());
    said.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
    close(fds[0]);
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
    return said;
  }
  std::string folder_;
};

TEST_F(StateDir, StateDir_OfAUser_IsWhereTheConventionsSay) {
  EXPECT_EQ(answer({{"HOME", "/home/ann"}}, false), "/home/ann/.local/state/holdfast");
  EXPECT_EQ(answer({{"HOME", "/home/ann"}, {"XDG_STATE_HOME", "/srv/ann"}}, false),
            "/srv/ann/holdfast");
  EXPECT_EQ(answer({{"HOME", "/home/ann"}, {"XDG_STATE_HOME", "relative"}}, false),
            "/home/ann/.local/state/holdfast");
  EXPECT_EQ(answer({}, false), "./holdfast-state");
}

TEST_F(StateDir, StateDir_WhenNamedOrGiven_IsThat) {
  EXPECT_EQ(answer({{"HOME", "/home/ann"}, {"HOLDFAST_STATE", "mine"}}, false), "mine");
  EXPECT_EQ(answer({{"STATE_DIRECTORY", "/var/lib/holdfast:/var/lib/other"}}, false),
            "/var/lib/holdfast");
  EXPECT_EQ(answer({{"HOLDFAST_STATE", ""}, {"HOME", "/home/ann"}}, false),
            "/home/ann/.local/state/holdfast");
}

TEST_F(StateDir, StateDir_NextToADatabase_IsTheOneInUse) {
  fs::create_directory(folder_ + "/holdfast-state");
  EXPECT_EQ(answer({{"HOME", "/home/ann"}}, false), "/home/ann/.local/state/holdfast");
  std::ofstream(folder_ + "/holdfast-state/control.db") << "x";
  EXPECT_EQ(answer({{"HOME", "/home/ann"}}, false), "./holdfast-state");
}

TEST_F(StateDir, StateDir_OfRoot_IsTheServices) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can ask as root";
  EXPECT_EQ(answer({{"HOME", "/root"}}, true), "/var/lib/holdfast");
}

}  // namespace
}  // namespace holdfast::state_dir_test
