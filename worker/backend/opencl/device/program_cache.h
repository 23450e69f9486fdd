#pragma once
// Built programs on disk, one file each, named by the SHA-256 of all that they were built from. A
// file is either whole or absent (written under a temporary name, then renamed); a damaged one
// counts as absent.

#include <optional>
#include <string>
#include <vector>

namespace holdfast::opencl {

/// A key of 64 hexadecimal digits. The parts stay distinct: ("ab", "c") is another key than ("a",
/// "bc").
std::string cache_key(const std::vector<std::string>& parts);

/// A folder of built programs. Thread-safe, and safe against other processes.
class ProgramCache {
 public:
  /// Empty folder name: nothing is read or written. The folder is made by the first write.
  explicit ProgramCache(std::string folder) : folder_(std::move(folder)) {}

  /// The binary that was written under `key`; nullopt if there is none, or if it is damaged.
  std::optional<std::string> read(const std::string& key) const;
  /// Best effort: a full or read-only disk costs the next start a build, nothing else. Failures are
  /// logged.
  void write(const std::string& key, const std::string& binary) const;

 private:
  std::string path_of(const std::string& key) const;
  std::string folder_;
};

}  // namespace holdfast::opencl
