#pragma once
// A disk with a tap on it: each write to control.db and its log is told to a sink, in
// order, after the file has it. SQLite writes through a sqlite3_vfs of its own that passes every
// call on to that of the disk.

#include <sqlite3.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "control/replication/change_list.h"
#include "control/store/disk.h"

namespace holdfast::replication {

/// Receives the changes of a database's files, on the store's thread.
class ChangeSink {
 public:
  virtual void written(DatabaseFile file, std::int64_t at, std::string_view bytes) = 0;
  virtual void truncated(DatabaseFile file, std::int64_t size) = 0;
  /// A sync begins: what was told before may be sent meanwhile.
  virtual void sync_begins() = 0;

 protected:
  ~ChangeSink() = default;
};

/// The disk of one state directory, of which only one may exist at a time; it must outlive the
/// store that uses it. Not thread-safe.
class ShippingDisk final : public store::Disk {
 public:
  /// `state_dir` as the store gets it: its files are known by their paths. `disk` must outlive
  /// this.
  explicit ShippingDisk(const std::string& state_dir, store::Disk& disk = store::real_disk());
  ~ShippingDisk();
  ShippingDisk(const ShippingDisk&) = delete;
  ShippingDisk& operator=(const ShippingDisk&) = delete;

  /// Sets who is told of changes; nullptr: nobody.
  void set_sink(ChangeSink* sink) { sink_ = sink; }

  /// Returns the size of an open file; 0 if it is not open.
  Result<std::int64_t> size(DatabaseFile file) const;
  /// Reads bytes of an open file as they are now. A descriptor of our own would not do: closing it
  /// would give up SQLite's locks. kIo.
  Result<std::string> read(DatabaseFile file, std::int64_t at, std::size_t bytes) const;

  const char* vfs() const override { return vfs_.zName; }
  bool is_machines() const override { return real_.is_machines(); }
  Result<void> rewrite(const std::string& path) override { return real_.rewrite(path); }
  Result<void> sync_directory(const std::string& dir) override { return real_.sync_directory(dir); }
  std::int64_t free_bytes(const std::string& dir) override { return real_.free_bytes(dir); }
  std::int64_t growth_allowed(const std::string& path) override {
    return real_.growth_allowed(path);
  }
  bool remove(const std::string& path) override { return real_.remove(path); }
  void allocate(const std::string& path, std::int64_t bytes) override {
    real_.allocate(path, bytes);
  }
  std::unique_ptr<store::DiskFile> open_file(const std::string& path, std::int64_t bytes) override {
    return real_.open_file(path, bytes);
  }
  std::uint64_t inode(const std::string& path) override { return real_.inode(path); }
  void pause_ms(int ms) override { real_.pause_ms(ms); }
  std::int64_t wall_ms() override { return real_.wall_ms(); }
  std::string boot_id() override { return real_.boot_id(); }

 private:
  friend struct ShippedFile;  // the C functions of the VFS
  store::Disk& real_;
  std::string paths_[2];          // by DatabaseFile, absolute
  sqlite3_file* open_[2] = {};    // of the disk's VFS
  sqlite3_vfs* under_ = nullptr;  // the disk's
  std::string name_;
  sqlite3_vfs vfs_{};
  ChangeSink* sink_ = nullptr;
};

}  // namespace holdfast::replication
