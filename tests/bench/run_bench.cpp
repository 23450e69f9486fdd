#include "tests/bench/run_bench.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <nlohmann/json.hpp>

namespace holdfast::bench {

using nlohmann::json;

json run_bench(const std::string& program, const std::string& flags, int* status) {
  const std::string command =
      std::string(HOLDFAST_BIN_DIR) + "/" + program + " --json " + flags + " 2>/dev/null";
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return json();
  std::string text;
  char buffer[4096];
  for (std::size_t n = 0; (n = fread(buffer, 1, sizeof buffer, pipe)) > 0;) text.append(buffer, n);
  const int ended = pclose(pipe);
  if (status != nullptr) *status = ended;
  return json::parse(text, nullptr, false);
}

double figure(const json& report, const std::string& name) {
  for (const json& one : report["figures"]) {
    if (one["name"] == name) return one["value"].get<double>();
  }
  ADD_FAILURE() << "no figure " << name;
  return -1;
}

}  // namespace holdfast::bench
