#pragma once
// Splits text into the words inside which BPE may merge, by the scheme in `tokenizer.ggml.pre`.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "shared/base/result.h"

namespace holdfast::text {

/// Defaults of the file that a pre-tokenizer's name implies.
struct PreDefaults {
  bool ignore_merges = false;  // a word that is a token becomes that token, whatever the merges are
  bool add_bos = false;        // where the file has no add_bos_token
};

/// Splits text into words. Immutable: safe from any thread.
class PreTokenizer {
 public:
  /// Makes the pre-tokenizer of a name. kUnsupported for an unknown name, with the known ones.
  /// `by_regex` never uses the hand-written splitters (tests compare the two).
  static Result<std::unique_ptr<const PreTokenizer>> create(std::string_view name,
                                                            bool by_regex = false);
  /// Makes a pre-tokenizer of a file's own patterns; those of a known name are split like that
  /// name. kFileInvalid for one that does not compile.
  static Result<std::unique_ptr<const PreTokenizer>> create_from(
      const std::vector<std::string_view>& patterns, PreDefaults defaults);
  virtual ~PreTokenizer() = default;
  /// Appends the byte offset of the end of each word; the last is text.size(). `text` is valid
  /// UTF-8 (not checked again), shorter than 2^31. kInvalidRequest if a pattern passes its limits.
  virtual Result<void> split(std::string_view text, std::vector<std::uint32_t>& ends) const = 0;
  PreDefaults defaults() const { return defaults_; }

 protected:
  PreDefaults defaults_;
};

/// Returns the names that PreTokenizer::create knows, in the order of the table.
std::vector<std::string_view> pre_tokenizer_names();

/// Returns a name with exactly these patterns and this default, so that other programs can read the
/// file too; empty if there is none.
std::string_view pre_tokenizer_name(const std::vector<std::string_view>& patterns,
                                    bool ignore_merges);

/// Returns the patterns of a known name; empty for an unknown one.
std::vector<std::string_view> pre_tokenizer_patterns(std::string_view name);

}  // namespace holdfast::text
