// Goal: the unit files that are shipped, of the server and of a node, harden their service. Method:
// reads them as systemd does, and lets systemd-analyze judge them where that is installed.

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <string>

namespace holdfast::sandbox::unit_file_test {
namespace {

constexpr const char* kUnits[] = {"holdfast", "holdfast-node"};

std::string path_of(const std::string& unit) {
  return HOLDFAST_SOURCE_DIR "/ops/systemd/" + unit + ".service";
}

/// Reads values by "Section.Key"; those of a repeated key are joined by blanks.
std::map<std::string, std::string> read_unit(const std::string& name) {
  std::ifstream file(path_of(name));
  std::map<std::string, std::string> out;
  std::string section;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    if (line[0] == '[') {
      section = line.substr(1, line.find(']') - 1);
      continue;
    }
    const std::size_t equals = line.find('=');
    EXPECT_NE(equals, std::string::npos) << line;
    std::string& value = out[section + "." + line.substr(0, equals)];
    value += (value.empty() ? "" : " ") + line.substr(equals + 1);
  }
  return out;
}

class UnitFile : public testing::TestWithParam<const char*> {};

INSTANTIATE_TEST_SUITE_P(Units, UnitFile, testing::ValuesIn(kUnits),
                         [](const testing::TestParamInfo<const char*>& info) {
                           return std::string(info.param) == "holdfast" ? "Server" : "Node";
                         });

TEST_P(UnitFile, UnitFile_HasEachHardeningOption) {
  std::map<std::string, std::string> unit = read_unit(GetParam());
  const std::map<std::string, std::string> expected = {
      {"User", "holdfast"},
      {"NoNewPrivileges", "yes"},
      {"ProtectSystem", "strict"},
      {"ProtectHome", "yes"},
      {"PrivateTmp", "yes"},
      {"PrivateDevices", "yes"},
      {"UMask", "0077"},
      {"StateDirectory", GetParam()},
      {"StateDirectoryMode", "0700"},
      {"MemoryDenyWriteExecute", "yes"},
      {"CapabilityBoundingSet", ""},
      {"RestrictNamespaces", "yes"},
      {"RestrictAddressFamilies", "AF_UNIX AF_INET AF_INET6 AF_NETLINK"},
      {"SystemCallArchitectures", "native"},
      {"Restart", "always"},
  };
  for (const auto& [key, value] : expected) {
    ASSERT_EQ(unit.count("Service." + key), 1u) << key;
    EXPECT_EQ(unit["Service." + key], value) << key;
  }
  const std::string calls = unit["Service.SystemCallFilter"];
  for (const char* needed : {"@system-service", "seccomp", "landlock_create_ruleset",
                             "landlock_add_rule", "landlock_restrict_self"}) {
    EXPECT_NE(calls.find(needed), std::string::npos) << needed;
  }
  EXPECT_EQ(calls.find('~'), std::string::npos) << "a list of what is allowed";
}

/// Returns the command's output; empty if the command does not exist.
std::string output_of(const std::string& command, int* code) {
  FILE* pipe = popen((command + " 2>&1").c_str(), "re");
  std::string out;
  char buffer[4096];
  while (pipe != nullptr) {
    const std::size_t n = std::fread(buffer, 1, sizeof buffer, pipe);
    if (n == 0) break;
    out.append(buffer, n);
  }
  const int status = pipe == nullptr ? -1 : pclose(pipe);
  *code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return out;
}

/// Seconds that `holdfast node` takes at most from SIGTERM to its end: ops/node/node.cpp drains for
/// ten, ends workers within three, and says farewell within two.
constexpr int kNodeStopS = 15;

TEST(NodeUnit, Node_WhenStopped_HasTimeToDrain) {
  std::map<std::string, std::string> unit = read_unit("holdfast-node");
  EXPECT_GE(std::stoi(unit["Service.TimeoutStopSec"]), kNodeStopS + 5);
  // Workers that got the signal of their node themselves would end before it has told the daemon.
  EXPECT_EQ(unit["Service.KillMode"], "mixed");
  std::ifstream file(HOLDFAST_SOURCE_DIR "/ops/node/node.cpp");
  const std::string source((std::istreambuf_iterator<char>(file)), {});
  for (const char* constant : {"kDrainMs = 10'000;", "kStopMs = 3'000;", "kFarewellMs = 2'000;"}) {
    EXPECT_NE(source.find(constant), std::string::npos) << constant;
  }
}

TEST(NodeUnit, Node_WithoutAKey_IsNotStarted) {
  std::map<std::string, std::string> unit = read_unit("holdfast-node");
  const std::string key = "/etc/holdfast/node.key";
  EXPECT_EQ(unit["Unit.ConditionPathExists"], key);
  EXPECT_NE(unit["Service.ExecStart"].find("--key " + key + " "), std::string::npos);
  EXPECT_EQ(unit["Service.TimeoutStartSec"], "infinity") << "a daemon that is down is waited for";
}

TEST_P(UnitFile, UnitFile_WhenCheckedBySystemdAnalyze_PassesWithLowExposure) {
  int code = 0;
  if (output_of("command -v systemd-analyze", &code).empty()) GTEST_SKIP() << "no systemd here";
  char folder[] = "/tmp/holdfast-unit-XXXXXX";
  ASSERT_NE(mkdtemp(folder), nullptr);
  const std::string copy = std::string(folder) + "/" + GetParam() + ".service";
  std::ifstream in(path_of(GetParam()));
  std::ofstream out(copy);
  for (std::string line; std::getline(in, line);) {  // the program is not installed here
    out << (line.rfind("ExecStart=", 0) == 0 ? "ExecStart=/bin/true" : line) << '\n';
  }
  out.close();
  EXPECT_EQ(output_of("systemd-analyze verify " + copy, &code), "");
  EXPECT_EQ(code, 0);
  const std::string judged =
      output_of("systemd-analyze security --offline=true --threshold=25 " + copy, &code);
  EXPECT_EQ(code, 0) << judged;
  std::remove(copy.c_str());
  std::remove(folder);
}

}  // namespace
}  // namespace holdfast::sandbox::unit_file_test
