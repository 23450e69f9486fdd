// Goal: the unit file that is shipped hardens the service. Method: reads it as systemd does, and
// lets systemd-analyze judge it where that is installed.

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <string>

namespace holdfast::sandbox::unit_file_test {
namespace {

const std::string kUnit = HOLDFAST_SOURCE_DIR "/ops/systemd/holdfast.service";

/// Reads values by "Section.Key"; those of a repeated key are joined by blanks.
std::map<std::string, std::string> read_unit() {
  std::ifstream file(kUnit);
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

TEST(UnitFile, UnitFile_HasEachHardeningOption) {
  std::map<std::string, std::string> unit = read_unit();
  const std::map<std::string, std::string> expected = {
      {"User", "holdfast"},
      {"NoNewPrivileges", "yes"},
      {"ProtectSystem", "strict"},
      {"ProtectHome", "yes"},
      {"PrivateTmp", "yes"},
      {"PrivateDevices", "yes"},
      {"UMask", "0077"},
      {"StateDirectory", "holdfast"},
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

TEST(UnitFile, UnitFile_WhenCheckedBySystemdAnalyze_PassesWithLowExposure) {
  int code = 0;
  if (output_of("command -v systemd-analyze", &code).empty()) GTEST_SKIP() << "no systemd here";
  char folder[] = "/tmp/holdfast-unit-XXXXXX";
  ASSERT_NE(mkdtemp(folder), nullptr);
  const std::string copy = std::string(folder) + "/holdfast.service";
  std::ifstream in(kUnit);
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
