#pragma once
// The lying disk as a standby sees it: real faults hit its writes and syncs.

#include <memory>
#include <optional>
#include <string>

#include "control/replication/state_files.h"
#include "tests/simulation/lib/sim_vfs.h"

namespace holdfast::simulation {

class SimStateFiles final : public replication::StateFiles {
 public:
  explicit SimStateFiles(SimDisk& disk) : disk_(disk) {}

  Result<void> begin_folder(const std::string& folder) override;
  Result<std::unique_ptr<replication::CopyFile>> make_file(const std::string& path) override;
  bool exists(const std::string& path) override { return disk_.exists(path); }
  Result<void> remove(const std::string& path) override;
  Result<void> rename(const std::string& from, const std::string& to) override;
  Result<void> sync_file(const std::string& path) override;
  Result<void> sync_directory(const std::string& folder) override;
  std::optional<std::string> read(const std::string& path) override;
  std::string boot_id() override { return "boot " + std::to_string(boots_); }

  /// The machine has started again: nothing that was not synced is there.
  void rebooted() { ++boots_; }

 private:
  SimDisk& disk_;
  int boots_ = 0;
};

}  // namespace holdfast::simulation
