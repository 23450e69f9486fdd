#include "ops/serve/child_end.h"

#include <cstdio>

#include "shared/base/progress.h"

namespace holdfast::cli {

std::string how_it_ended(const ChildExit& exit) {
  std::string text = exit.name + " (pid " + std::to_string(exit.pid) + ") ";
  if (exit.oom) return text + "was killed: the machine is out of memory";
  if (exit.signal == 0 && exit.status == kExitStuck) return text + "was stuck in a step and ended";
  if (exit.signal == 0 && exit.status == kExitDeviceFailed)
    return text + "lost its device and ended";
  if (exit.signal != 0) return text + "was killed by signal " + std::to_string(exit.signal);
  return text + "exited with status " + std::to_string(exit.status);
}

void say_started_again(const ChildExit& exit) {
  const std::string when =
      exit.restart_in_ms > 0 ? " in " + std::to_string(exit.restart_in_ms) + " ms" : "";
  std::fprintf(stderr, "holdfast: %s; starting it again%s\n", how_it_ended(exit).c_str(),
               when.c_str());
}

}  // namespace holdfast::cli
