#include "control/replication/shipping_disk.h"

#include <cstdlib>
#include <cstring>
#include <new>

namespace holdfast::replication {

/// One open file of SQLite, with that of the disk's VFS in the memory after it. The functions have
/// the signatures of sqlite3_io_methods.
struct ShippedFile {
  sqlite3_file base;
  ShippingDisk* disk;  // nullptr: this file is not shipped
  DatabaseFile kind;

  static ShippedFile* of(sqlite3_file* file) { return reinterpret_cast<ShippedFile*>(file); }
  static sqlite3_file* real(sqlite3_file* file) {
    return reinterpret_cast<sqlite3_file*>(of(file) + 1);
  }
  static ChangeSink* sink(sqlite3_file* file) {
    return of(file)->disk != nullptr ? of(file)->disk->sink_ : nullptr;
  }

  static int close(sqlite3_file* file) {
    if (of(file)->disk != nullptr) {
      of(file)->disk->open_[static_cast<std::size_t>(of(file)->kind)] = nullptr;
    }
    return real(file)->pMethods->xClose(real(file));
  }
  static int read(sqlite3_file* file, void* to, int bytes, sqlite3_int64 at) {
    return real(file)->pMethods->xRead(real(file), to, bytes, at);
  }
  static int write(sqlite3_file* file, const void* from, int bytes, sqlite3_int64 at) {
    const int rc = real(file)->pMethods->xWrite(real(file), from, bytes, at);
    ChangeSink* to = sink(file);
    if (rc == SQLITE_OK && to != nullptr) {
      to->written(of(file)->kind, at,
                  {static_cast<const char*>(from), static_cast<std::size_t>(bytes)});
    }
    return rc;
  }
  static int truncate(sqlite3_file* file, sqlite3_int64 size) {
    const int rc = real(file)->pMethods->xTruncate(real(file), size);
    ChangeSink* to = sink(file);
    if (rc == SQLITE_OK && to != nullptr) to->truncated(of(file)->kind, size);
    return rc;
  }
  static int sync(sqlite3_file* file, int flags) {
    if (ChangeSink* to = sink(file)) to->sync_begins();
    return real(file)->pMethods->xSync(real(file), flags);
  }
  static int size(sqlite3_file* file, sqlite3_int64* bytes) {
    return real(file)->pMethods->xFileSize(real(file), bytes);
  }
  static int lock(sqlite3_file* file, int level) {
    return real(file)->pMethods->xLock(real(file), level);
  }
  static int unlock(sqlite3_file* file, int level) {
    return real(file)->pMethods->xUnlock(real(file), level);
  }
  static int check_lock(sqlite3_file* file, int* out) {
    return real(file)->pMethods->xCheckReservedLock(real(file), out);
  }
  static int control(sqlite3_file* file, int what, void* argument) {
    return real(file)->pMethods->xFileControl(real(file), what, argument);
  }
  static int sector(sqlite3_file* file) { return real(file)->pMethods->xSectorSize(real(file)); }
  static int device(sqlite3_file* file) {
    return real(file)->pMethods->xDeviceCharacteristics(real(file));
  }
  static int map_shared(sqlite3_file* file, int page, int bytes, int extend,
                        void volatile** memory) {
    return real(file)->pMethods->xShmMap(real(file), page, bytes, extend, memory);
  }
  static int lock_shared(sqlite3_file* file, int offset, int n, int flags) {
    return real(file)->pMethods->xShmLock(real(file), offset, n, flags);
  }
  static void barrier_shared(sqlite3_file* file) { real(file)->pMethods->xShmBarrier(real(file)); }
  static int unmap_shared(sqlite3_file* file, int remove) {
    return real(file)->pMethods->xShmUnmap(real(file), remove);
  }

  static int open(sqlite3_vfs* vfs, const char* name, sqlite3_file* file, int flags,
                  int* out_flags);
};

namespace {

// Version 2: without memory mapping of the files, past which writes would go.
constexpr sqlite3_io_methods kMethods = {2,
                                         ShippedFile::close,
                                         ShippedFile::read,
                                         ShippedFile::write,
                                         ShippedFile::truncate,
                                         ShippedFile::sync,
                                         ShippedFile::size,
                                         ShippedFile::lock,
                                         ShippedFile::unlock,
                                         ShippedFile::check_lock,
                                         ShippedFile::control,
                                         ShippedFile::sector,
                                         ShippedFile::device,
                                         ShippedFile::map_shared,
                                         ShippedFile::lock_shared,
                                         ShippedFile::barrier_shared,
                                         ShippedFile::unmap_shared,
                                         nullptr,
                                         nullptr};

/// The path as SQLite names an open file: absolute, links followed in its folder.
std::string absolute_path(sqlite3_vfs* vfs, const std::string& path) {
  std::string absolute(static_cast<std::size_t>(vfs->mxPathname) + 1, '\0');
  const int rc =
      vfs->xFullPathname(vfs, path.c_str(), static_cast<int>(absolute.size()), absolute.data());
  if (rc != SQLITE_OK && rc != SQLITE_OK_SYMLINK) return path;
  absolute.resize(std::strlen(absolute.c_str()));
  return absolute;
}

Error io_error(const char* what, int rc) {
  return {Errc::kIo, std::string(what) + " the database for the standby: " + sqlite3_errstr(rc)};
}

}  // namespace

int ShippedFile::open(sqlite3_vfs* vfs, const char* name, sqlite3_file* file, int flags,
                      int* out_flags) {
  auto* disk = static_cast<ShippingDisk*>(vfs->pAppData);
  auto* shipped = new (file) ShippedFile{{nullptr}, nullptr, DatabaseFile::kMain};
  std::memset(real(file), 0, static_cast<std::size_t>(disk->under_->szOsFile));
  const int rc = disk->under_->xOpen(disk->under_, name, real(file), flags, out_flags);
  if (real(file)->pMethods == nullptr) return rc;
  shipped->base.pMethods = &kMethods;
  for (const DatabaseFile kind : {DatabaseFile::kMain, DatabaseFile::kLog}) {
    const auto index = static_cast<std::size_t>(kind);
    if (rc != SQLITE_OK || name == nullptr || disk->paths_[index] != name) continue;
    shipped->disk = disk;
    shipped->kind = kind;
    disk->open_[index] = real(file);
  }
  return rc;
}

ShippingDisk::ShippingDisk(const std::string& state_dir, store::Disk& disk) : real_(disk) {
  sqlite3_initialize();
  under_ = sqlite3_vfs_find(real_.vfs());
  CHECK(under_ != nullptr);
  paths_[0] = absolute_path(under_, state_dir + "/control.db");
  paths_[1] = paths_[0] + "-wal";
  vfs_ = *under_;
  name_ = std::string("holdfast-shipping-") + under_->zName;
  vfs_.zName = name_.c_str();
  vfs_.szOsFile = static_cast<int>(sizeof(ShippedFile)) + under_->szOsFile;
  vfs_.pAppData = this;
  vfs_.pNext = nullptr;
  vfs_.xOpen = ShippedFile::open;
  // The other functions of a VFS may look at its own pAppData.
  vfs_.xDelete = [](sqlite3_vfs* vfs, const char* name, int sync) {
    sqlite3_vfs* real = static_cast<ShippingDisk*>(vfs->pAppData)->under_;
    return real->xDelete(real, name, sync);
  };
  vfs_.xAccess = [](sqlite3_vfs* vfs, const char* name, int flags, int* out) {
    sqlite3_vfs* real = static_cast<ShippingDisk*>(vfs->pAppData)->under_;
    return real->xAccess(real, name, flags, out);
  };
  vfs_.xFullPathname = [](sqlite3_vfs* vfs, const char* name, int size, char* out) {
    sqlite3_vfs* real = static_cast<ShippingDisk*>(vfs->pAppData)->under_;
    return real->xFullPathname(real, name, size, out);
  };
  vfs_.xRandomness = [](sqlite3_vfs* vfs, int size, char* out) {
    sqlite3_vfs* real = static_cast<ShippingDisk*>(vfs->pAppData)->under_;
    return real->xRandomness(real, size, out);
  };
  CHECK(sqlite3_vfs_register(&vfs_, 0) == SQLITE_OK);
}

ShippingDisk::~ShippingDisk() {
  sqlite3_vfs_unregister(&vfs_);
}

Result<std::int64_t> ShippingDisk::size(DatabaseFile file) const {
  sqlite3_file* open = open_[static_cast<std::size_t>(file)];
  if (open == nullptr) return std::int64_t{0};
  sqlite3_int64 bytes = 0;
  const int rc = open->pMethods->xFileSize(open, &bytes);
  if (rc != SQLITE_OK) return io_error("measure", rc);
  return static_cast<std::int64_t>(bytes);
}

Result<std::string> ShippingDisk::read(DatabaseFile file, std::int64_t at,
                                       std::size_t bytes) const {
  sqlite3_file* open = open_[static_cast<std::size_t>(file)];
  HOLDFAST_TRY(const std::int64_t end, size(file));
  if (open == nullptr || at >= end) return std::string();
  std::string out(std::min(bytes, static_cast<std::size_t>(end - at)), '\0');
  const int rc = open->pMethods->xRead(open, out.data(), static_cast<int>(out.size()), at);
  if (rc != SQLITE_OK) return io_error("read", rc);
  return out;
}

}  // namespace holdfast::replication
