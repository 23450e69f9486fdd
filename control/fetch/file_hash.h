#pragma once
// Hashes of files while their bytes come: SHA-256, and the SHA-1 by which git names a small file.

#include <memory>
#include <string>
#include <string_view>

#include "shared/base/result.h"

namespace holdfast::fetch {

/// A running hash. Not thread-safe.
class FileHash {
 public:
  enum class Kind : std::uint8_t { kSha256, kGitSha1 };
  /// `bytes`: the length of the whole file, which git's hash begins with.
  FileHash(Kind kind, std::int64_t bytes);
  ~FileHash();
  FileHash(const FileHash&) = delete;
  FileHash& operator=(const FileHash&) = delete;

  void add(std::string_view bytes);
  /// Returns the hash as hexadecimal digits in lower case. Once.
  std::string hex();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace holdfast::fetch
