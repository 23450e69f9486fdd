#pragma once
// A disk that lies: an in-memory sqlite3_vfs on which power can fail. What SQLite wrote since a
// file's last successful sync is pending; a power failure keeps an arbitrary subset of it, in any
// order, torn at sector borders. The death of the process alone keeps everything.

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "shared/base/result.h"
#include "tests/simulation/lib/sim_random.h"

struct sqlite3_vfs;

namespace holdfast::simulation {

/// Disk faults of a seed. Probabilities are of 1 << 16 per operation.
struct DiskFaults {
  std::uint32_t write_eio = 0;
  std::uint32_t sync_eio = 0;  // the sync fails once; reads show its writes, the platter may not
  std::uint32_t read_eio = 0;
  std::uint32_t disk_full = 0;       // SQLITE_FULL on a write
  std::int64_t capacity_bytes = -1;  // all files together; -1 = no limit
};

struct DiskCounts {
  std::uint64_t writes = 0, syncs = 0, reads = 0;
  std::uint64_t eio_write = 0, eio_sync = 0, eio_read = 0, full = 0;
  std::uint64_t power_failures = 0, writes_lost = 0, writes_torn = 0, writes_persisted_unsynced = 0;
  std::uint64_t deaths_inside = 0, names_lost = 0, bits_flipped = 0;
};

/// Owns the registered vfs `name()` and all files in it. One thread. Every database connection on
/// it must be closed before it is destroyed, and is useless after power_failure()/process_death().
class SimDisk {
 public:
  explicit SimDisk(std::uint64_t seed);
  ~SimDisk();
  SimDisk(const SimDisk&) = delete;
  SimDisk& operator=(const SimDisk&) = delete;

  /// The name for sqlite3_open_v2(..., name()).
  const char* name() const { return name_.c_str(); }
  void set_faults(const DiskFaults& faults) { faults_ = faults; }
  const DiskCounts& counts() const { return counts_; }

  /// Makes every operation on an open handle fail with an I/O error from now on, as for a process
  /// that is gone; files keep what was written.
  void process_death();
  /// Does what process_death() does, and each file keeps its synced content plus a random part of
  /// the rest.
  void power_failure();
  /// The process dies inside the `operations`-th write, sync or truncation from now (1 = the next),
  /// after a part of it. 0 calls it off.
  void die_after(std::int64_t operations) { operations_left_ = operations; }
  /// True if the process has died since the last call of start_process().
  bool died() const { return died_; }
  void start_process() { died_ = false; }
  /// Does what Disk::rewrite does.
  Result<void> rewrite(const std::string& path);
  /// Access to a file next to the database. No fault hits these, but a power failure takes what is
  /// not synced.
  std::string peek(const std::string& path, std::int64_t at, std::size_t bytes) const;
  void poke(const std::string& path, std::int64_t at, std::string_view bytes);
  void settle(const std::string& path);
  /// Puts the names of new files, and of renamed ones, on the platter.
  void sync_names();
  /// Gives a file another name, in place of any file that has it. A power failure may take this
  /// back, and whatever was renamed later, until sync_names(). kIo: the process dies before it.
  Result<void> rename(const std::string& from, const std::string& to);
  /// Removes a file for good.
  void remove(const std::string& path) { files_.erase(path); }
  /// Everything is gone, as with a machine that does not come back.
  void lose_all();
  /// A number that tells a file from its copies; 0: there is no such file.
  std::uint64_t inode(const std::string& path) const;
  /// Contents of all files; load_image() makes a disk that has them, synced.
  using Image = std::map<std::string, std::string>;
  Image image() const;
  void load_image(const Image& image);
  /// Bytes of all files now.
  std::int64_t used_bytes() const;
  /// Flips one random bit of a file's synced content (bit rot). False if there is no such byte.
  bool flip_bit(const std::string& file);
  bool exists(const std::string& file) const { return files_.count(file) != 0; }
  std::vector<std::string> paths() const;

  // For the vfs methods only.
  struct Write {
    std::int64_t offset;  // -1: truncate to `size`
    std::int64_t size = 0;
    std::string data;
    std::int64_t length() const { return static_cast<std::int64_t>(data.size()); }
  };
  struct File {
    std::string content;         // as seen by reads
    std::string synced;          // as after the last sync
    std::vector<Write> pending;  // since then, in order
    bool deleted = false;
    bool log = false;    // SQLite's own vfs syncs the directory with the first sync of these
    bool named = false;  // its name is on the platter
    std::vector<std::unique_ptr<std::string>> shm;  // wal-index regions, lost with the process
    std::vector<std::unique_ptr<std::string>> old_shm;
    int handles = 0;
    std::uint64_t inode = 1;
  };
  int do_read(File& file, void* out, int n, std::int64_t offset);
  int do_write(File& file, const void* data, int n, std::int64_t offset);
  int do_truncate(File& file, std::int64_t size);
  int do_sync(File& file);
  std::shared_ptr<File> open_file(const std::string& path, bool create);
  /// Makes a file anew, with an inode of its own.
  std::shared_ptr<File> make_file(const std::string& path);
  int remove_file(const std::string& path);
  std::uint64_t generation() const { return generation_; }
  SimRandom& random() { return random_; }

 private:
  bool hit(std::uint32_t probability) {
    return probability != 0 && random_.below(1u << 16) < probability;
  }
  bool dies_now();
  static void apply(std::string& content, const Write& write, std::int64_t from, std::int64_t to);

  std::string name_;
  std::unique_ptr<sqlite3_vfs> vfs_;
  struct Rename {
    std::string from, to;
    std::shared_ptr<File> replaced;  // nullptr: none had that name
  };
  void take_back_renames();
  std::map<std::string, std::shared_ptr<File>> files_;
  std::vector<Rename> renames_;  // since the names were synced, in order
  std::uint64_t last_inode_ = 1;
  DiskFaults faults_;
  DiskCounts counts_;
  SimRandom random_;
  std::int64_t operations_left_ = 0;
  bool died_ = false;
  std::uint64_t generation_ = 1;  // raised by a death: older handles are dead
};

}  // namespace holdfast::simulation
