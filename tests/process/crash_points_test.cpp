// Goal: the crash points are those of docs/inside/durability.md, each is passed somewhere in the
// code, and a death at any point of a first start (migrations included) does no harm. Method: the
// table of the document and the sources as text; real processes with HOLDFAST_CRASH_AT.

#include "shared/base/crash_point.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>

#include "tests/process/test_server.h"

namespace holdfast::process::crash_points_test {
namespace {

namespace fs = std::filesystem;

/// An environment variable that is set while this object exists.
class Env {
 public:
  Env(const char* name, const std::string& value) : name_(name) { setenv(name, value.c_str(), 1); }
  ~Env() { unsetenv(name_); }
  Env(const Env&) = delete;

 private:
  const char* name_;
};

TEST(CrashPoints, CrashPoints_InTheDocument_MatchTheCode) {
  std::map<std::string, std::string> documented;
  std::istringstream lines(
      read_file(std::string(HOLDFAST_SOURCE_DIR) + "/docs/inside/durability.md"));
  bool here = false;  // the page has other tables too
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind("## ", 0) == 0) here = line == "## Crash points";
    if (!here || line.rfind("| `", 0) != 0) continue;
    const std::size_t name_end = line.find("` | ", 3);
    const std::size_t description_end = line.find(" | ", name_end + 4);
    ASSERT_NE(description_end, std::string::npos) << line;
    documented[line.substr(3, name_end - 3)] =
        line.substr(name_end + 4, description_end - name_end - 4);
  }
  std::map<std::string, std::string> coded;
  for (const CrashPointInfo& info : crash_points()) {
    coded[std::string(info.name)] = std::string(info.description);
  }
  EXPECT_EQ(coded.size(), crash_points().size()) << "two points with one name";
  EXPECT_EQ(documented, coded);
  EXPECT_GE(coded.size(), 40U);
}

TEST(CrashPoints, CrashPoints_AreAllUsedInTheSources) {
  std::set<std::string> named;  // enumerators that stand in a source file
  for (const char* folder : {"control", "worker", "ops"}) {
    const fs::path root = fs::path(HOLDFAST_SOURCE_DIR) / folder;
    for (const auto& entry : fs::recursive_directory_iterator(root)) {
      if (entry.path().extension() != ".cpp") continue;
      const std::string text = read_file(entry.path().string());
      const std::string mark = "CrashPoint::k";
      for (std::size_t at = 0; (at = text.find(mark, at)) != std::string::npos; at += mark.size()) {
        std::size_t end = at + mark.size();
        while (std::isalnum(static_cast<unsigned char>(text[end])) != 0) ++end;
        named.insert(text.substr(at + mark.size() - 1, end - at - mark.size() + 1));
      }
    }
  }
  const std::map<std::string, std::string> enumerators = {
#define HOLDFAST_CRASH_POINT(id, name, description) {#id, name},
#include "shared/base/crash_points.inc"
#undef HOLDFAST_CRASH_POINT
  };
  for (const auto& [id, name] : enumerators) {
    // Points after a commit are reached from those before it.
    std::string expected_id = id;
    const std::size_t after = id.rfind("After");
    if (name.rfind("daemon.commit_", 0) == 0 && after != std::string::npos) {
      expected_id = id.substr(0, after) + "Before";
    }
    EXPECT_EQ(named.count(expected_id), 1U) << name << " is nowhere";
  }
}

TEST(CrashPoints, CrashAt_WithAnInvalidValue_IsRefused) {
  const TempDir dir;
  for (const char* wrong : {"daemon.no_such", "daemon.start.locked:0", "daemon.start.locked:x"}) {
    const Env env("HOLDFAST_CRASH_AT", wrong);
    const Ended ended = run_program({"holdfastd", "--state", dir.path() + "/state"});
    EXPECT_EQ(ended.code, 64) << wrong;
    EXPECT_NE(ended.err.find(wrong), std::string::npos) << ended.err;
  }
}

TEST(CrashPoints, CrashPoint_WhenReachedOftenEnough_KillsOnlyItsProgram) {
  const TempDir dir;
  const std::string state = dir.path() + "/state";
  {
    const Env env("HOLDFAST_CRASH_AT", "daemon.start.locked");
    EXPECT_EQ(run_program({"holdfastd", "--state", state}).code, -SIGKILL);
    // The CLI takes the same lock by the same code, and is not tested here.
    EXPECT_GE(run_program({"holdfast", "--state", state, "models", "list"}).code, 0);
  }
  const Env env("HOLDFAST_CRASH_AT", "daemon.migrate.after:1000");
  TestServer server(state);
  EXPECT_TRUE(server.start({})) << server.errors();
  EXPECT_EQ(server.restarts_of("daemon"), 0);
  EXPECT_EQ(server.stop(), 0);
}

// Three deaths at each point of a first start, each on a state directory of its own.
TEST(CrashPoints, FirstStart_WhenKilledAtAnyCrashPoint_SucceedsAfterwards) {
  std::map<std::string, int> fired;
  for (const CrashPointInfo& info : crash_points()) {
    const std::string name(info.name);
    const bool first_start =
        name.rfind("daemon.start.", 0) == 0 || name.rfind("daemon.migrate.", 0) == 0;
    for (int i = 0; first_start && i < 3; ++i) {
      SCOPED_TRACE(name);
      const TempDir dir;
      const std::string file = dir.path() + "/crash";
      dir.write("crash.daemon", name + "\n");
      const Env env("HOLDFAST_CRASH_AT", "@" + file);
      TestServer server(dir.path() + "/state");
      ASSERT_TRUE(server.start({"--model", "demo=" + demo_model()})) << server.errors();
      EXPECT_EQ(server.restarts_of("daemon"), 1) << server.errors();
      EXPECT_FALSE(fs::exists(file + ".daemon"));
      EXPECT_EQ(read_file(file + ".fired").rfind(name + " ", 0), 0U) << read_file(file + ".fired");
      const auto client = server.client();
      const StreamResult result = submit_and_stream(*client, make_submit("To be", 4, 1));
      EXPECT_EQ(result.failure, "");
      EXPECT_EQ(result.ids.size(), 4U);
      EXPECT_EQ(server.stop(), 0);
      ++fired[name];
    }
  }
  for (const auto& [name, times] : fired) std::printf("%-28s died %d times\n", name.c_str(), times);
}

}  // namespace
}  // namespace holdfast::process::crash_points_test
