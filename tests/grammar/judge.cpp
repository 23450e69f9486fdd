#include "judge.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

namespace holdfast::grammar::tests {

std::vector<std::string> judge(const std::vector<Judged>& cases) {
  const std::string base = ::testing::TempDir() + "holdfast_schemas_" + std::to_string(::getpid());
  {
    std::ofstream out(base + ".in");
    for (const Judged& c : cases) {
      out << nlohmann::json{{"schema", nlohmann::json::parse(c.schema)}, {"docs", c.documents}}
          << "\n";
    }
  }
  const std::string command = "python3 -W ignore " HOLDFAST_SOURCE_DIR
                              "/tests/grammar/validate.py < " +
                              base + ".in > " + base + ".out";
  const int status = std::system(command.c_str());
  std::vector<std::string> verdicts;
  std::ifstream in(base + ".out");
  for (std::string line; std::getline(in, line);) verdicts.push_back(line);
  std::remove((base + ".in").c_str());
  std::remove((base + ".out").c_str());
  if (status != 0) verdicts.clear();
  return verdicts;
}

std::uint64_t setting(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
}

std::string refusal(const std::string& what) {
  if (what.find("no text") != std::string::npos) return "unsatisfiable";
  const std::size_t quote = what.find('\'');
  return what.substr(quote, what.find('\'', quote + 1) - quote + 1);
}

}  // namespace holdfast::grammar::tests
