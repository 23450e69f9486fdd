#include "shared/base/version.h"

#include <cstdio>
#include <string_view>

namespace holdfast {

bool printed_version(int argc, const char* const* argv, const char* program) {
  if (argc != 2 || std::string_view(argv[1]) != "--version") return false;
  std::printf("%s %s\n", program, kVersion);
  std::fflush(stdout);
  return true;
}

}  // namespace holdfast
