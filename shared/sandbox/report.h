#pragma once
// The confinement that each process reports, for `holdfast doctor`: /proc does not show Landlock.

#include <cstdint>
#include <optional>
#include <string>

#include "shared/sandbox/confine.h"

namespace holdfast::sandbox {

/// Confines this process (confine.h), logs what is in force and writes it to RUN_DIR/sandbox/PID,
/// which is opened before. Removes the files of processes that have ended. Empty `run_dir`: no
/// file.
Confinement confine_and_report(const Policy& policy, const std::string& run_dir);

/// The confinement in a process's report.
struct Reported {
  std::string profile;
  bool calls = false;
  bool relaxed = false;
  int landlock_abi = 0;
};
/// Returns the report of process `pid`.
std::optional<Reported> read_report(const std::string& run_dir, std::int64_t pid);

}  // namespace holdfast::sandbox
