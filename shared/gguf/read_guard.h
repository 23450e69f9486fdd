#pragma once
// A mapped file whose end is cut away, or whose disk fails, kills who reads there (SIGBUS). While a
// guard lives such reads give zeros instead, and the guard says so: the load fails, the process and
// its other models go on.

#include <cstddef>
#include <cstdint>

namespace holdfast::gguf {

/// Thread-safe; several may live at once, then each hears of all. Whoever has one must ask it
/// before what was read is used.
class ReadGuard {
 public:
  ReadGuard();
  ~ReadGuard();
  ReadGuard(const ReadGuard&) = delete;
  ReadGuard& operator=(const ReadGuard&) = delete;
  /// True if zeros were read instead of a file since this guard was made.
  bool lost() const;
  /// How often that happened in this process.
  static std::uint64_t losses();

 private:
  std::uint64_t before_;
};

/// Mappings of files that guards are for; the file's owner calls both. Of more than 4096 at once
/// the others are not guarded.
void guard_mapping(const void* at, std::size_t bytes);
void forget_mapping(const void* at);

}  // namespace holdfast::gguf
