#pragma once
// main() of the simulator's programs: runs seeds where the command line names them, else the tests.

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "tests/simulation/lib/runner.h"

namespace holdfast::simulation {

inline int test_main(int argc, char** argv, bool has_bugs) {
  setenv("HOLDFAST_LOG", "off", /*overwrite=*/0);  // thousands of standbys have much to say
  if (argc > 1 && std::string(argv[1]).rfind("--seed", 0) == 0) {
    const int code = command_line(argc, argv, has_bugs);
    if (code == 2) {
      std::fprintf(stderr, "usage: --seed N | --seeds A..B [--jobs J] [--verbose] [--stop]%s\n",
                   has_bugs ? " [--bug NAME]" : "; simulation_planted_test has --bug NAME");
    }
    return code;
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}

}  // namespace holdfast::simulation
