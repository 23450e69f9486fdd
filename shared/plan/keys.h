#pragma once
// Reads keys of a header and checks their ranges. Internal to shared/plan.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "shared/gguf/gguf.h"

namespace holdfast::plan {

/// The range of a key; far above real models, so that products stay small.
struct Range {
  std::int64_t least;
  std::int64_t most;
};
inline constexpr Range kLayers{1, 1024};
inline constexpr Range kWidth{1, 1 << 20};
inline constexpr Range kFf{1, 1 << 22};
inline constexpr Range kHeads{1, 4096};
inline constexpr Range kHeadDim{2, 1024};
inline constexpr Range kContext{1, 1 << 30};
inline constexpr Range kVocab{1, 1 << 24};
inline constexpr Range kExperts{0, 4096};
inline constexpr Range kExpertGroups{0, 64};
inline constexpr Range kStateHeads{1, 1024};
inline constexpr Range kStateDim{1, 1024};
inline constexpr Range kConvTaps{2, 16};

/// The keys of one file; suffixes are below "ARCHITECTURE.". Errors start with "read model FILE: ".
class KeyReader {
 public:
  explicit KeyReader(const gguf::File& file) : file_(file) {}
  void set_architecture(std::string architecture) { architecture_ = std::move(architecture); }

  Error fail(Errc code, const std::string& what) const;
  Error invalid(const std::string& what) const { return fail(Errc::kFileInvalid, what); }
  Error unsupported(const std::string& what) const { return fail(Errc::kUnsupported, what); }
  std::string key(const char* suffix) const { return architecture_ + "." + suffix; }

  /// Reads a number, or an array of equal numbers (one for each layer).
  Result<std::optional<std::int64_t>> find_int(const char* suffix, Range range) const;
  /// Reads a number for each of `n` layers, or one for all of them; empty if the key is missing.
  Result<std::vector<std::int64_t>> find_each(const char* suffix, Range range,
                                              std::int64_t n) const;
  /// Reads a number. kFileInvalid if it is missing.
  Result<std::int64_t> need_int(const char* suffix, Range range) const;
  /// Reads a finite number of at least 0.
  Result<double> find_float(const char* suffix, double fallback) const;
  Result<bool> find_bool(const char* suffix, bool fallback) const;

 private:
  /// Returns the number that a list has for every layer.
  Result<std::int64_t> common_value(const char* suffix,
                                    const std::vector<std::int64_t>& list) const;

  const gguf::File& file_;
  std::string architecture_;
};

}  // namespace holdfast::plan
