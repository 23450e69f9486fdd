#pragma once
// A disk that lies: an in-memory sqlite3_vfs on which power can fail. What SQLite wrote since a
// file's last successful sync is pending; a power failure keeps an arbitrary subset of it, in any
// order, torn at sector borders. The death of the process alone keeps everything.

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/simulation/sim_random.h"

struct sqlite3_vfs;

namespace holdfast::simulation {

/// What a seed may do to the disk. Probabilities are of 1 << 16 per operation.
struct DiskFaults {
  std::uint32_t write_eio = 0;
  std::uint32_t sync_eio = 0;  // the sync fails, its writes stay pending (fsyncgate)
  std::uint32_t read_eio = 0;
  std::uint32_t disk_full = 0;       // SQLITE_FULL on a write
  std::int64_t capacity_bytes = -1;  // all files together; -1 = no limit
};

struct DiskCounts {
  std::uint64_t writes = 0, syncs = 0, reads = 0;
  std::uint64_t eio_write = 0, eio_sync = 0, eio_read = 0, full = 0;
  std::uint64_t power_failures = 0, writes_lost = 0, writes_torn = 0, writes_kept_unsynced = 0;
};

/// Owns the registered vfs `name()` and all files in it. One thread. Every database connection on
/// it must be closed before it is destroyed, and is useless after power_failure()/process_death().
class SimDisk {
 public:
  explicit SimDisk(std::uint64_t seed);
  ~SimDisk();
  SimDisk(const SimDisk&) = delete;
  SimDisk& operator=(const SimDisk&) = delete;

  /// For sqlite3_open_v2(..., name()).
  const char* name() const { return name_.c_str(); }
  void set_faults(const DiskFaults& faults) { faults_ = faults; }
  const DiskCounts& counts() const { return counts_; }

  /// From now on every operation on a handle that is open fails with an I/O error, as for a process
  /// that is gone; files keep what was written.
  void process_death();
  /// As process_death(), and each file keeps its synced content plus a random part of the rest.
  void power_failure();
  /// Bytes of all files now.
  std::int64_t used_bytes() const;
  /// Flips one random bit of a file's synced content (bit rot). False if there is no such byte.
  bool flip_bit(const std::string& file);
  bool exists(const std::string& file) const { return files_.count(file) != 0; }

  // For the vfs methods only.
  struct Write {
    std::int64_t offset;  // -1: truncate to `size`
    std::int64_t size = 0;
    std::string data;
  };
  struct File {
    std::string content;         // as seen by reads
    std::string synced;          // as after the last sync
    std::vector<Write> pending;  // since then, in order
    bool deleted = false;
    std::vector<std::unique_ptr<std::string>> shm;  // wal-index regions, lost with the process
    int handles = 0;
  };
  int do_read(File& file, void* out, int n, std::int64_t offset);
  int do_write(File& file, const void* data, int n, std::int64_t offset);
  int do_truncate(File& file, std::int64_t size);
  int do_sync(File& file);
  std::shared_ptr<File> open_file(const std::string& path, bool create);
  int remove_file(const std::string& path);
  std::uint64_t generation() const { return generation_; }
  SimRandom& random() { return random_; }

 private:
  bool hit(std::uint32_t probability) { return random_.below(1u << 16) < probability; }
  static void apply(std::string& content, const Write& write, std::int64_t from, std::int64_t to);

  std::string name_;
  std::unique_ptr<sqlite3_vfs> vfs_;
  std::map<std::string, std::shared_ptr<File>> files_;
  DiskFaults faults_;
  DiskCounts counts_;
  SimRandom random_;
  std::uint64_t generation_ = 1;  // raised by a death: older handles are dead
};

}  // namespace holdfast::simulation
