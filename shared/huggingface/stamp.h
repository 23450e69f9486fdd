#pragma once
// The identity of a registered model's files, to detect a change on the disk: size, time of change,
// hash.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "shared/base/result.h"

namespace holdfast::huggingface {

/// Lets OpenSSL read its configuration, which it does at its first use; afterwards hashing works in
/// a process that can open no files.
void prepare_hashing();

/// The identity of a model's files.
struct Stamp {
  std::int64_t size = 0;      // of all files that open_model reads
  std::int64_t mtime_ns = 0;  // of the file that changed last
  /// Device, inode and ctime of each file. No other file can get the same identity, nor can a file
  /// be changed and set back; a copy elsewhere has another one.
  std::string identity;
  bool operator==(const Stamp&) const = default;
};

/// Returns the stamp of a file, of the parts of one, or of the files of a folder. kIo; kFileInvalid
/// (not a regular file, empty).
Result<Stamp> stamp_of(const std::string& path);

/// Receives a model's bytes in their order: some of file `index` of files_of(). False ends reading.
using OnBytes = std::function<bool(std::size_t index, const unsigned char* bytes, std::size_t n)>;

/// Returns the hexadecimal SHA-256 of a file's bytes. For a folder: of each file's name, a zero
/// byte, its size as eight little-endian bytes and its bytes, in the order of files_of. For parts
/// of a file the same with the end of their names, "00001-of-00003.gguf". What is read
/// is passed on to `on_bytes`, if it is given; kCancelled if that ends it.
Result<std::string> sha256_of(const std::string& path, const OnBytes& on_bytes = {});

}  // namespace holdfast::huggingface
