#pragma once
// What each process says of its confinement, for `holdfast doctor`: Landlock shows nowhere in
// /proc.

#include <cstdint>
#include <optional>
#include <string>

#include "shared/sandbox/confine.h"

namespace holdfast::sandbox {

/// Confines this process (confine.h), logs what is in force and writes it to RUN_DIR/sandbox/PID,
/// which is opened before. Removes what processes that are no more have left there. Empty
/// `run_dir`: no file.
Confinement confine_and_report(const Wish& wish, const std::string& run_dir);

struct Reported {
  std::string profile;
  bool calls = false;
  bool relaxed = false;
  int landlock_abi = 0;
};
/// What process `pid` wrote.
std::optional<Reported> read_report(const std::string& run_dir, std::int64_t pid);

}  // namespace holdfast::sandbox
