#include "tests/simulation/lib/sim_vfs.h"

#include <sqlite3.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "shared/base/check.h"

namespace holdfast::simulation {
namespace {

constexpr std::int64_t kSectorBytes = 512;

/// The memory that SQLite allocates for an open file: its base class, then our pointers.
struct Handle {
  sqlite3_file base;
  SimDisk* disk;
  std::shared_ptr<SimDisk::File>* file;  // owned; freed in close
  std::uint64_t generation;
  bool delete_on_close;
};

Handle* handle_of(sqlite3_file* f) {
  return reinterpret_cast<Handle*>(f);
}
bool dead(const Handle* h) {
  return h->generation != h->disk->generation();
}

int x_close(sqlite3_file* f) {
  Handle* h = handle_of(f);
  if (h->file != nullptr) {
    if (--(*h->file)->handles == 0) (*h->file)->old_shm.clear();
    delete h->file;
    h->file = nullptr;
  }
  return SQLITE_OK;
}
int x_read(sqlite3_file* f, void* out, int n, sqlite3_int64 offset) {
  Handle* h = handle_of(f);
  if (dead(h)) return SQLITE_IOERR_READ;
  return h->disk->do_read(**h->file, out, n, offset);
}
int x_write(sqlite3_file* f, const void* data, int n, sqlite3_int64 offset) {
  Handle* h = handle_of(f);
  if (dead(h)) return SQLITE_IOERR_WRITE;
  return h->disk->do_write(**h->file, data, n, offset);
}
int x_truncate(sqlite3_file* f, sqlite3_int64 size) {
  Handle* h = handle_of(f);
  if (dead(h)) return SQLITE_IOERR_TRUNCATE;
  return h->disk->do_truncate(**h->file, size);
}
int x_sync(sqlite3_file* f, int) {
  Handle* h = handle_of(f);
  if (dead(h)) return SQLITE_IOERR_FSYNC;
  return h->disk->do_sync(**h->file);
}
int x_file_size(sqlite3_file* f, sqlite3_int64* size) {
  Handle* h = handle_of(f);
  if (dead(h)) return SQLITE_IOERR_FSTAT;
  *size = static_cast<sqlite3_int64>((*h->file)->content.size());
  return SQLITE_OK;
}
// One simulated process at a time owns the disk, so locks always succeed.
int x_lock(sqlite3_file* f, int) {
  return dead(handle_of(f)) ? SQLITE_IOERR_LOCK : SQLITE_OK;
}
int x_unlock(sqlite3_file*, int) {
  return SQLITE_OK;
}
int x_check_reserved(sqlite3_file*, int* out) {
  *out = 0;
  return SQLITE_OK;
}
int x_file_control(sqlite3_file*, int, void*) {
  return SQLITE_NOTFOUND;
}
int x_sector_size(sqlite3_file*) {
  return static_cast<int>(kSectorBytes);
}
int x_device(sqlite3_file*) {
  return 0;
}  // promises nothing: no atomic, no safe append
int x_shm_map(sqlite3_file* f, int region, int bytes, int extend, void volatile** out) {
  Handle* h = handle_of(f);
  if (dead(h)) return SQLITE_IOERR_SHMMAP;
  auto& shm = (*h->file)->shm;
  while (static_cast<int>(shm.size()) <= region) {
    if (extend == 0) {
      *out = nullptr;
      return SQLITE_OK;
    }
    shm.push_back(std::make_unique<std::string>(static_cast<std::size_t>(bytes), '\0'));
  }
  *out = shm[static_cast<std::size_t>(region)]->data();
  return SQLITE_OK;
}
int x_shm_lock(sqlite3_file* f, int, int, int) {
  return dead(handle_of(f)) ? SQLITE_IOERR_LOCK : SQLITE_OK;
}
void x_shm_barrier(sqlite3_file*) {}
int x_shm_unmap(sqlite3_file* f, int delete_flag) {
  Handle* h = handle_of(f);
  if (delete_flag != 0 && h->file != nullptr) (*h->file)->shm.clear();
  return SQLITE_OK;
}

const sqlite3_io_methods kMethods = {2,           x_close,          x_read,         x_write,
                                     x_truncate,  x_sync,           x_file_size,    x_lock,
                                     x_unlock,    x_check_reserved, x_file_control, x_sector_size,
                                     x_device,    x_shm_map,        x_shm_lock,     x_shm_barrier,
                                     x_shm_unmap, nullptr,          nullptr};

SimDisk* disk_of(sqlite3_vfs* vfs) {
  return static_cast<SimDisk*>(vfs->pAppData);
}

int x_open(sqlite3_vfs* vfs, const char* path, sqlite3_file* f, int flags, int* out_flags) {
  Handle* h = handle_of(f);
  std::memset(h, 0, sizeof *h);
  SimDisk* disk = disk_of(vfs);
  const bool log = (flags & (SQLITE_OPEN_WAL | SQLITE_OPEN_MAIN_JOURNAL)) != 0;
  const std::string name = path != nullptr ? path : "temp-" + std::to_string(disk->random().next());
  auto file = disk->open_file(name, (flags & SQLITE_OPEN_CREATE) != 0 || path == nullptr);
  if (file == nullptr) return SQLITE_CANTOPEN;
  file->log = log;
  ++file->handles;
  h->disk = disk;
  h->file = new std::shared_ptr<SimDisk::File>(std::move(file));
  h->generation = disk->generation();
  h->base.pMethods = &kMethods;
  if (out_flags != nullptr) *out_flags = flags;
  return SQLITE_OK;
}
int x_delete(sqlite3_vfs* vfs, const char* path, int) {
  return disk_of(vfs)->remove_file(path);
}
int x_access(sqlite3_vfs* vfs, const char* path, int, int* out) {
  *out = disk_of(vfs)->exists(path) ? 1 : 0;
  return SQLITE_OK;
}
int x_full_pathname(sqlite3_vfs*, const char* path, int n, char* out) {
  sqlite3_snprintf(n, out, "%s", path);
  return SQLITE_OK;
}
int x_randomness(sqlite3_vfs* vfs, int n, char* out) {
  for (int i = 0; i < n; ++i) out[i] = static_cast<char>(disk_of(vfs)->random().next());
  return n;
}
int x_sleep(sqlite3_vfs*, int us) {
  return us;
}
int x_current_time(sqlite3_vfs*, double* out) {
  *out = 2460000.5;
  return SQLITE_OK;
}
int x_last_error(sqlite3_vfs*, int, char*) {
  return 0;
}

/// Configures SQLite before its first use in this process, which has one thread: no mutexes,
/// nothing counted, and pages from one piece of memory.
bool configure_sqlite() {
  constexpr int kPages = 2048;
  constexpr int kPageBytes = 4096 + 512;
  static std::unique_ptr<char[]> pages(new char[std::size_t{kPages} * kPageBytes]);
  return sqlite3_config(SQLITE_CONFIG_SINGLETHREAD) == SQLITE_OK &&
         sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0) == SQLITE_OK &&
         sqlite3_config(SQLITE_CONFIG_PAGECACHE, pages.get(), kPageBytes, kPages) == SQLITE_OK;
}

std::uint64_t next_disk_number() {
  static const bool configured = configure_sqlite();
  CHECK_MSG(configured, "SQLite was used in this process before its first simulated disk");
  static std::uint64_t number = 0;
  return ++number;
}

}  // namespace

SimDisk::SimDisk(std::uint64_t seed)
    : name_("sim-" + std::to_string(next_disk_number())),
      vfs_(std::make_unique<sqlite3_vfs>()),
      random_(seed) {
  sqlite3_vfs& v = *vfs_;
  std::memset(&v, 0, sizeof v);
  v.iVersion = 1;
  v.szOsFile = sizeof(Handle);
  v.mxPathname = 512;
  v.zName = name_.c_str();
  v.pAppData = this;
  v.xOpen = x_open;
  v.xDelete = x_delete;
  v.xAccess = x_access;
  v.xFullPathname = x_full_pathname;
  v.xRandomness = x_randomness;
  v.xSleep = x_sleep;
  v.xCurrentTime = x_current_time;
  v.xGetLastError = x_last_error;
  CHECK(sqlite3_vfs_register(&v, 0) == SQLITE_OK);
}

SimDisk::~SimDisk() {
  for (const auto& [path, file] : files_) CHECK_MSG(file->handles == 0, path.c_str());
  sqlite3_vfs_unregister(vfs_.get());
}

std::shared_ptr<SimDisk::File> SimDisk::open_file(const std::string& path, bool create) {
  const auto it = files_.find(path);
  if (it != files_.end()) return it->second;
  if (!create) return nullptr;
  return files_[path] = std::make_shared<File>();
}

std::shared_ptr<SimDisk::File> SimDisk::make_file(const std::string& path) {
  auto file = std::make_shared<File>();
  file->inode = ++last_inode_;
  return files_[path] = std::move(file);
}

std::uint64_t SimDisk::inode(const std::string& path) const {
  const auto it = files_.find(path);
  return it == files_.end() ? 0 : it->second->inode;
}

Result<void> SimDisk::rename(const std::string& from, const std::string& to) {
  if (dies_now()) {
    process_death();
    return Error{Errc::kIo, "rename " + from};
  }
  const auto it = files_.find(from);
  CHECK_MSG(it != files_.end(), from.c_str());
  const auto before = files_.find(to);
  renames_.push_back({from, to, before == files_.end() ? nullptr : before->second});
  files_[to] = it->second;
  files_.erase(from);
  return {};
}

/// The newest renames may not have reached the platter.
void SimDisk::take_back_renames() {
  const std::size_t stay = random_.below(renames_.size() + 1);
  while (renames_.size() > stay) {
    const Rename last = std::move(renames_.back());
    renames_.pop_back();
    if (files_.count(last.to) == 0) continue;  // it was removed since
    ++counts_.names_lost;
    files_[last.from] = files_[last.to];
    files_.erase(last.to);
    if (last.replaced != nullptr) files_[last.to] = last.replaced;
  }
  renames_.clear();
}

void SimDisk::lose_all() {
  process_death();
  files_.clear();
  renames_.clear();
}

Result<void> SimDisk::rewrite(const std::string& path) {
  const auto it = files_.find(path);
  if (it == files_.end()) return {};
  const std::shared_ptr<File> file = it->second;
  const std::string all = file->content;
  constexpr std::size_t kChunkBytes = 1 << 16;
  for (std::size_t at = 0; at < all.size(); at += kChunkBytes) {
    const auto n = static_cast<int>(std::min(kChunkBytes, all.size() - at));
    if (do_write(*file, all.data() + at, n, static_cast<std::int64_t>(at)) != SQLITE_OK) {
      return Error{Errc::kIo, "rewrite " + path};
    }
  }
  if (do_sync(*file) != SQLITE_OK) return Error{Errc::kIo, "sync " + path};
  return {};
}

std::string SimDisk::peek(const std::string& path, std::int64_t at, std::size_t bytes) const {
  const auto it = files_.find(path);
  if (it == files_.end() || at >= static_cast<std::int64_t>(it->second->content.size())) return {};
  return it->second->content.substr(static_cast<std::size_t>(at), bytes);
}

void SimDisk::poke(const std::string& path, std::int64_t at, std::string_view bytes) {
  const std::shared_ptr<File> file = open_file(path, true);
  Write write{at, 0, std::string(bytes)};
  apply(file->content, write, 0, write.length());
  file->pending.push_back(std::move(write));
}

void SimDisk::settle(const std::string& path) {
  const std::shared_ptr<File> file = open_file(path, true);
  for (const Write& write : file->pending) apply(file->synced, write, 0, write.length());
  file->pending.clear();
}

void SimDisk::sync_names() {
  for (auto& [path, file] : files_) file->named = true;
  renames_.clear();
}

SimDisk::Image SimDisk::image() const {
  Image image;
  for (const auto& [path, file] : files_) image[path] = file->content;
  return image;
}

std::vector<std::string> SimDisk::paths() const {
  std::vector<std::string> paths;
  for (const auto& [path, file] : files_) paths.push_back(path);
  return paths;
}

void SimDisk::load_image(const Image& image) {
  for (const auto& [path, content] : image) {
    auto file = std::make_shared<File>();
    file->content = file->synced = content;
    file->named = true;
    files_[path] = std::move(file);
  }
}

bool SimDisk::dies_now() {
  if (operations_left_ == 0 || --operations_left_ > 0) return false;
  ++counts_.deaths_inside;
  died_ = true;
  return true;
}

int SimDisk::remove_file(const std::string& path) {
  const auto it = files_.find(path);
  if (it == files_.end()) return SQLITE_IOERR_DELETE_NOENT;
  it->second->deleted = true;
  files_.erase(it);
  return SQLITE_OK;
}

int SimDisk::do_read(File& file, void* out, int n, std::int64_t offset) {
  ++counts_.reads;
  if (hit(faults_.read_eio)) {
    ++counts_.eio_read;
    return SQLITE_IOERR_READ;
  }
  const auto size = static_cast<std::int64_t>(file.content.size());
  const std::int64_t have = std::clamp<std::int64_t>(size - offset, 0, n);
  if (have > 0) std::memcpy(out, file.content.data() + offset, static_cast<std::size_t>(have));
  if (have == n) return SQLITE_OK;
  std::memset(static_cast<char*>(out) + have, 0, static_cast<std::size_t>(n - have));
  return SQLITE_IOERR_SHORT_READ;
}

int SimDisk::do_write(File& file, const void* data, int n, std::int64_t offset) {
  ++counts_.writes;
  if (hit(faults_.write_eio)) {
    ++counts_.eio_write;
    return SQLITE_IOERR_WRITE;
  }
  const std::int64_t grow =
      std::max<std::int64_t>(0, offset + n - static_cast<std::int64_t>(file.content.size()));
  const bool over = faults_.capacity_bytes >= 0 && used_bytes() + grow > faults_.capacity_bytes;
  if (hit(faults_.disk_full) || over) {
    ++counts_.full;
    return SQLITE_FULL;
  }
  const bool dies = dies_now();
  if (dies) n = static_cast<int>(random_.below(static_cast<std::uint64_t>(n) + 1));
  Write write{offset, 0, std::string(static_cast<const char*>(data), static_cast<std::size_t>(n))};
  apply(file.content, write, 0, n);
  file.pending.push_back(std::move(write));
  if (dies) process_death();
  return dies ? SQLITE_IOERR_WRITE : SQLITE_OK;
}

int SimDisk::do_truncate(File& file, std::int64_t size) {
  if (dies_now()) {
    process_death();
    return SQLITE_IOERR_TRUNCATE;
  }
  file.content.resize(static_cast<std::size_t>(size));
  file.pending.push_back({-1, size, {}});
  return SQLITE_OK;
}

int SimDisk::do_sync(File& file) {
  ++counts_.syncs;
  if (hit(faults_.sync_eio)) {
    ++counts_.eio_sync;
    // The kernel reports it once and marks the pages clean: each write is on the platter or never
    // will be, whatever a later sync says.
    for (const Write& write : std::exchange(file.pending, {})) {
      if (random_.below(2) == 0) apply(file.synced, write, 0, write.length());
    }
    return SQLITE_IOERR_FSYNC;
  }
  if (dies_now()) {
    process_death();
    return SQLITE_IOERR_FSYNC;
  }
  for (const Write& write : file.pending) apply(file.synced, write, 0, write.length());
  file.pending.clear();
  file.named = file.named || file.log;
  return SQLITE_OK;
}

void SimDisk::apply(std::string& content, const Write& write, std::int64_t from, std::int64_t to) {
  if (write.offset < 0) {
    content.resize(static_cast<std::size_t>(write.size));
    return;
  }
  const auto end = static_cast<std::size_t>(write.offset + to);
  if (content.size() < end) content.resize(end, '\0');
  std::memcpy(content.data() + write.offset + from, write.data.data() + from,
              static_cast<std::size_t>(to - from));
}

void SimDisk::process_death() {
  ++generation_;
  // A dead connection is closed later and may still look at its index.
  for (auto& [path, file] : files_) {
    for (auto& region : file->shm) file->old_shm.push_back(std::move(region));
    file->shm.clear();
  }
}

void SimDisk::power_failure() {
  process_death();
  ++counts_.power_failures;
  if (!renames_.empty()) take_back_renames();
  for (auto it = files_.begin(); it != files_.end();) {
    if (it->second->named || random_.below(4) == 0) {
      it->second->named = true;
      ++it;
    } else {
      ++counts_.names_lost;
      it = files_.erase(it);
    }
  }
  for (auto& [path, file] : files_) {
    std::string content = file->synced;
    std::vector<Write> writes = std::move(file->pending);
    file->pending.clear();
    // Unsynced writes reach the platter in any order: shuffle, then save, lose or tear each.
    for (std::size_t i = writes.size(); i > 1; --i) {
      std::swap(writes[i - 1], writes[random_.below(i)]);
    }
    const std::uint64_t persisted_of_4 = random_.below(5);  // per file: from none to all
    for (const Write& write : writes) {
      const auto size = static_cast<std::int64_t>(write.data.size());
      if (random_.below(4) >= persisted_of_4) {
        ++counts_.writes_lost;
      } else if (size > kSectorBytes && random_.below(8) == 0) {
        const std::int64_t cut = kSectorBytes * random_.between(1, (size - 1) / kSectorBytes);
        const bool head = random_.below(2) == 0;
        apply(content, write, head ? 0 : cut, head ? cut : size);
        ++counts_.writes_torn;
      } else {
        apply(content, write, 0, size);
        ++counts_.writes_persisted_unsynced;
      }
    }
    file->content = content;
    file->synced = std::move(content);
  }
}

std::int64_t SimDisk::used_bytes() const {
  std::int64_t sum = 0;
  for (const auto& [path, file] : files_) sum += static_cast<std::int64_t>(file->content.size());
  return sum;
}

bool SimDisk::flip_bit(const std::string& path) {
  const auto it = files_.find(path);
  if (it == files_.end() || it->second->synced.empty()) return false;
  const std::size_t at = random_.below(it->second->synced.size());
  const char bit = static_cast<char>(1 << random_.below(8));
  it->second->synced[at] = static_cast<char>(it->second->synced[at] ^ bit);
  it->second->content = it->second->synced;
  ++counts_.bits_flipped;
  return true;
}

}  // namespace holdfast::simulation
