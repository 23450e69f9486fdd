#pragma once
// What tells that a model on the disk is not the one that was registered: size, time of change,
// hash.

#include <cstdint>
#include <string>

#include "shared/base/result.h"

namespace holdfast::hf {

/// OpenSSL reads its configuration at its first use; afterwards it reads none, and hashing works in
/// a process that can open nothing.
void prepare_hashing();

struct Stamp {
  std::int64_t size = 0;      // of all files that open_model reads
  std::int64_t mtime_ns = 0;  // of the one that was changed last
  /// Place and time of the last change of each: device, inode, ctime. Nobody can give another file
  /// this one, or change it and set it back; a copy elsewhere has another one.
  std::string identity;
  bool operator==(const Stamp&) const = default;
};

/// Of a file, of the parts of one, or of the files of a folder. kIo; kFileInvalid (no regular file,
/// empty).
Result<Stamp> stamp_of(const std::string& path);

/// Hexadecimal SHA-256 of a file's bytes. Of a folder: of each file's name, a zero byte, its size
/// as eight little-endian bytes and its bytes, in the order of files_of. Of parts of a file the
/// same with the end of their names, "00001-of-00003.gguf".
Result<std::string> sha256_of(const std::string& path);

}  // namespace holdfast::hf
