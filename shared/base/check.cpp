#include "shared/base/check.h"

#include <cstdio>
#include <cstdlib>

namespace holdfast {

void check_failed(const char* expression, const char* file, int line, const char* note) {
  std::fprintf(stderr, "CHECK failed: %s (%s:%d)%s%s\n", expression, file, line,
               note != nullptr ? ": " : "", note != nullptr ? note : "");
  std::fflush(stderr);
  std::abort();
}

}  // namespace holdfast
