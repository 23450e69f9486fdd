// Goal: the crash points are what docs/durability.md says, each is passed somewhere in the code,
// and each place of a first start (migrations included) can be died at without harm. Method: the
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

#include "tests/process/house.h"

namespace holdfast::process::crash_points_test {
namespace {

namespace fs = std::filesystem;

/// Sets an environment variable for as long as it lives.
class Env {
 public:
  Env(const char* name, const std::string& value) : name_(name) { setenv(name, value.c_str(), 1); }
  ~Env() { unsetenv(name_); }
  Env(const Env&) = delete;

 private:
  const char* name_;
};

TEST(CrashPoints, TheDocumentHasAllOfThemAndNoOthers) {
  std::map<std::string, std::string> documented;
  std::istringstream lines(read_file(std::string(HOLDFAST_SOURCE_DIR) + "/docs/durability.md"));
  bool here = false;  // the page has other tables too
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind("## ", 0) == 0) here = line == "## Crash points";
    if (!here || line.rfind("| `", 0) != 0) continue;
    const std::size_t name_end = line.find("` | ", 3);
    const std::size_t place_end = line.find(" | ", name_end + 4);
    ASSERT_NE(place_end, std::string::npos) << line;
    documented[line.substr(3, name_end - 3)] = line.substr(name_end + 4, place_end - name_end - 4);
  }
  std::map<std::string, std::string> coded;
  for (const CrashPointInfo& info : crash_points()) {
    coded[std::string(info.name)] = std::string(info.place);
  }
  EXPECT_EQ(coded.size(), crash_points().size()) << "two points with one name";
  EXPECT_EQ(documented, coded);
  EXPECT_GE(coded.size(), 40U);
}

TEST(CrashPoints, EachIsPassedSomewhere) {
  std::set<std::string> named;  // enumerators that stand in a source file
  for (const char* room : {"control", "worker", "ops"}) {
    const fs::path root = fs::path(HOLDFAST_SOURCE_DIR) / room;
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
#define HOLDFAST_CRASH_POINT(id, name, place) {#id, name},
#include "shared/base/crash_points.inc"
#undef HOLDFAST_CRASH_POINT
  };
  for (const auto& [id, name] : enumerators) {
    // The ones after a commit are reached from those before it.
    std::string wanted = id;
    const std::size_t after = id.rfind("After");
    if (name.rfind("daemon.commit_", 0) == 0 && after != std::string::npos) {
      wanted = id.substr(0, after) + "Before";
    }
    EXPECT_EQ(named.count(wanted), 1U) << name << " is nowhere";
  }
}

TEST(CrashPoints, WhatCannotBeMeantIsSaid) {
  const TempDir dir;
  for (const char* wrong : {"daemon.no_such", "daemon.start.locked:0", "daemon.start.locked:x"}) {
    const Env env("HOLDFAST_CRASH_AT", wrong);
    const Ended ended = run_program({"holdfastd", "--state", dir.path() + "/state"});
    EXPECT_EQ(ended.code, 64) << wrong;
    EXPECT_NE(ended.err.find(wrong), std::string::npos) << ended.err;
  }
}

TEST(CrashPoints, OnlyTheProgramOfThePointDiesAndItsPassesAreCounted) {
  const TempDir dir;
  const std::string state = dir.path() + "/state";
  {
    const Env env("HOLDFAST_CRASH_AT", "daemon.start.locked");
    EXPECT_EQ(run_program({"holdfastd", "--state", state}).code, -SIGKILL);
    // The CLI takes the same lock by the same code, and is none of our business.
    EXPECT_GE(run_program({"holdfast", "--state", state, "models", "list"}).code, 0);
  }
  const Env env("HOLDFAST_CRASH_AT", "daemon.migrate.after:1000");
  House house(state);
  EXPECT_TRUE(house.start({})) << house.errors();
  EXPECT_EQ(house.restarts_of("daemon"), 0);
  EXPECT_EQ(house.stop(), 0);
}

// Three deaths at each place of a first start, each on a state directory of its own.
TEST(CrashPoints, AFirstStartCanBeDiedAtAnywhere) {
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
      House house(dir.path() + "/state");
      ASSERT_TRUE(house.start({"--model", "demo=" + demo_model()})) << house.errors();
      EXPECT_EQ(house.restarts_of("daemon"), 1) << house.errors();
      EXPECT_FALSE(fs::exists(file + ".daemon"));
      EXPECT_EQ(read_file(file + ".fired").rfind(name + " ", 0), 0U) << read_file(file + ".fired");
      const auto client = house.client();
      const Heard heard = hear(*client, make_submit("To be", 4, 1));
      EXPECT_EQ(heard.failure, "");
      EXPECT_EQ(heard.ids.size(), 4U);
      EXPECT_EQ(house.stop(), 0);
      ++fired[name];
    }
  }
  for (const auto& [name, times] : fired) std::printf("%-28s died %d times\n", name.c_str(), times);
}

}  // namespace
}  // namespace holdfast::process::crash_points_test
