#pragma once
// A list of patterns, each of which cuts the segments of the earlier ones into matches and the text
// between them. PCRE2 in UTF and UCP mode, with JIT where the host allows it.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "shared/base/result.h"

namespace holdfast::text {

/// Makes patterns be interpreted from now on, for a process that may not generate code: five times
/// slower at cutting text, 10 MB/s, with the same cuts.
void interpret_patterns();

/// Splits text by patterns. Immutable: safe from any thread.
class RegexSplitter {
 public:
  /// Compiles our own patterns; one that does not compile is a bug (CHECKed).
  explicit RegexSplitter(const std::vector<std::string_view>& patterns);
  /// Compiles the patterns of a file. kFileInvalid names the one that does not compile, or is too
  /// long.
  static Result<std::unique_ptr<const RegexSplitter>> compile(
      const std::vector<std::string_view>& patterns);
  ~RegexSplitter();
  RegexSplitter(const RegexSplitter&) = delete;
  RegexSplitter& operator=(const RegexSplitter&) = delete;

  /// Appends word ends. kInvalidRequest if a match exceeds the limits (10 M steps, 64 MiB).
  Result<void> split(std::string_view text, std::vector<std::uint32_t>& ends) const;

 private:
  RegexSplitter() = default;
  struct Compiled;
  std::vector<std::unique_ptr<Compiled>> patterns_;
};

}  // namespace holdfast::text
