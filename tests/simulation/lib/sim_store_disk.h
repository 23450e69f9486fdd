#pragma once
// The lying disk as the store sees it.

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "control/store/disk.h"
#include "tests/simulation/lib/sim_vfs.h"

namespace holdfast::simulation {

/// The state directory on each simulated disk, and the database in it.
inline constexpr const char* kStateDir = "sim";
inline constexpr const char* kPath = "sim/control.db";

/// A small file next to the simulated database, until its process dies.
class StoreFile final : public store::DiskFile {
 public:
  StoreFile(SimDisk& disk, std::string path)
      : disk_(disk), path_(std::move(path)), generation_(disk.generation()) {}
  std::string read(std::int64_t at, std::size_t bytes) override {
    return disk_.peek(path_, at, bytes);
  }
  bool write(std::int64_t at, std::string_view bytes) override {
    if (generation_ == disk_.generation()) disk_.poke(path_, at, bytes);
    return generation_ == disk_.generation();
  }
  bool sync() override {
    if (generation_ == disk_.generation()) disk_.settle(path_);
    return generation_ == disk_.generation();
  }

 private:
  SimDisk& disk_;
  std::string path_;
  std::uint64_t generation_;
};

class StoreDisk final : public store::Disk {
 public:
  explicit StoreDisk(SimDisk& disk) : disk_(disk) {}
  const char* vfs() const override { return disk_.name(); }
  Result<void> rewrite(const std::string& path) override { return disk_.rewrite(path); }
  Result<void> sync_directory(const std::string&) override {
    disk_.sync_names();
    return {};
  }
  std::int64_t free_bytes(const std::string&) override { return free_bytes_; }
  bool remove(const std::string&) override { return false; }
  void allocate(const std::string&, std::int64_t) override {}
  std::unique_ptr<store::DiskFile> open_file(const std::string& path, std::int64_t) override {
    return std::make_unique<StoreFile>(disk_, path);
  }
  std::uint64_t inode(const std::string& path) override { return disk_.inode(path); }
  void pause_ms(int) override {}
  std::string boot_id() override { return boot_id_; }
  std::string boot_id_ = "boot";
  std::int64_t free_bytes_ = 1LL << 40;

 private:
  SimDisk& disk_;
};

}  // namespace holdfast::simulation
