#pragma once
// A mapped file that is truncated, or whose disk fails, kills the process that reads it (SIGBUS).
// While a guard lives such reads give zeros instead, and the guard reports it: the load fails, the
// process and its other models continue.

#include <cstddef>
#include <cstdint>

namespace holdfast::gguf {

/// Detects lost reads. Thread-safe; several guards may live at once, and then each reports all
/// losses. lost() must be called before the data that was read is used.
class ReadGuard {
 public:
  ReadGuard();
  ~ReadGuard();
  ReadGuard(const ReadGuard&) = delete;
  ReadGuard& operator=(const ReadGuard&) = delete;
  /// Returns true if zeros were read instead of a file since this guard was made.
  bool lost() const;
  /// Returns how often that happened in this process.
  static std::uint64_t losses();

 private:
  std::uint64_t before_;
};

/// Mappings of files that guards cover; the file's owner calls both. At most 4096 at once: further
/// ones are not guarded.
void guard_mapping(const void* at, std::size_t bytes);
void forget_mapping(const void* at);

}  // namespace holdfast::gguf
