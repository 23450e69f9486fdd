#pragma once
// `holdfast tokenize` and `holdfast detokenize` without the command line around them: a model file
// and text or ids in, ids or text out. No daemon is needed.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "shared/base/result.h"

namespace holdfast::cli {

/// The switches of `tokenize`. By default BOS and EOS are added as the file says, and special
/// tokens are read from the text.
struct TokenizeFlags {
  bool bos = true;      // --no-bos: neither BOS nor EOS is added, whatever the file says
  bool special = true;  // --no-special: "<|im_end|>" in the text is plain text
};

/// The bytes of the file that `argument` names, or `argument` itself where it names none.
/// kIo if it names a file that cannot be read.
Result<std::string> read_text_argument(const std::string& argument);

/// "1,2,3", "1 2 3" or "[1, 2, 3]" (also over several lines). kUsage for anything else.
Result<std::vector<std::int32_t>> parse_ids(std::string_view argument);

/// Errors: those of gguf::File::open and text::Tokenizer::load; kInvalidRequest for text that is
/// not UTF-8 (with the byte offset).
Result<std::vector<std::int32_t>> tokenize_file(const std::string& model_path,
                                                std::string_view text, const TokenizeFlags& flags);

/// The text of `ids` as the start of a text (SPM's leading space is taken off). Bytes as the tokens
/// give them, so it may end in half a character: mend it before it goes into JSON. Control tokens
/// stand in it as "<s>" if `special`, else they are left out. kInvalidRequest for an id that the
/// vocabulary does not have.
Result<std::string> detokenize_file(const std::string& model_path,
                                    const std::vector<std::int32_t>& ids, bool special);

/// The same text as valid UTF-8: invalid parts as U+FFFD.
std::string mend_utf8(std::string_view bytes);

}  // namespace holdfast::cli
