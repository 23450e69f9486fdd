#include "shared/base/processors.h"

#include <sched.h>

#include <algorithm>

#include "shared/base/cgroup.h"

namespace holdfast {

int usable_processors(const std::string& root) {
  cpu_set_t set;
  CPU_ZERO(&set);
  int usable = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
  const double group = group_processors(root);
  if (group > 0) usable = std::min(usable, static_cast<int>(group));
  return std::max(usable, 1);
}

}  // namespace holdfast
