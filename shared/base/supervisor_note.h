#pragma once
// The note that `holdfast serve` leaves in its folder of sockets: its own process and its children.

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace holdfast {

/// A child of the supervisor.
struct SupervisedChild {
  std::string role;      // "worker", "gateway", …
  std::string name;      // "worker-0"
  std::int64_t pid = 0;  // 0: it does not run now
  std::int64_t restarts = 0;
};

/// The note as it was read.
struct SupervisorNote {
  pid_t pid = 0;  // 0: there is no note
  std::vector<SupervisedChild> children;
};

/// Reads STATE/run/supervisor.json. What cannot be read is left out.
SupervisorNote read_supervisor_note(const std::string& run_dir);

}  // namespace holdfast
