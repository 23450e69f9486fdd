#pragma once
// A list of patterns, each of which cuts what the ones before it left into matches and the text
// between them. PCRE2 in UTF and UCP mode, with JIT where the host allows it.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "shared/base/result.h"

namespace holdfast::text {

/// From now on patterns are interpreted, for a process that may make no code: five times slower at
/// cutting text, 10 MB/s, and the same cuts.
void interpret_patterns();

/// Immutable: safe from any thread.
class RegexSplitter {
 public:
  /// A pattern that does not compile is a bug of ours (CHECKed).
  explicit RegexSplitter(const std::vector<std::string_view>& patterns);
  /// Patterns of a file. kFileInvalid names the one that does not compile, or
  /// is too long.
  static Result<std::unique_ptr<const RegexSplitter>> compile(
      const std::vector<std::string_view>& patterns);
  ~RegexSplitter();
  RegexSplitter(const RegexSplitter&) = delete;
  RegexSplitter& operator=(const RegexSplitter&) = delete;

  /// Appends word ends. kInvalidRequest if a match passes the limits (10 M steps, 64 MiB).
  Result<void> split(std::string_view text, std::vector<std::uint32_t>& ends) const;

 private:
  RegexSplitter() = default;
  struct Compiled;
  std::vector<std::unique_ptr<Compiled>> patterns_;
};

}  // namespace holdfast::text
