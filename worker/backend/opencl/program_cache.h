#pragma once
// Built programs on disk, one file each, under the SHA-256 of all that they were built from. A file
// is either whole or not there (written beside, then renamed); a damaged one counts as absent.

#include <optional>
#include <string>
#include <vector>

namespace holdfast::opencl {

/// 64 hexadecimal digits. Parts are kept apart: ("ab", "c") is another key than ("a", "bc").
std::string cache_key(const std::vector<std::string>& parts);

class ProgramCache {
 public:
  /// Empty: nothing is read and nothing written. The folder is made when it is first written to.
  explicit ProgramCache(std::string folder) : folder_(std::move(folder)) {}

  /// The binary that was kept under `key`; nullopt if there is none, or if it is damaged.
  std::optional<std::string> read(const std::string& key) const;
  /// A wish: a full or read-only disk costs the next start a build, nothing else. Logged.
  void write(const std::string& key, const std::string& binary) const;

 private:
  std::string path_of(const std::string& key) const;
  std::string folder_;
};

}  // namespace holdfast::opencl
