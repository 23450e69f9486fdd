#pragma once
// Unicode normal forms of text, where a model's own tokenizer requires one.

#include <cstdint>
#include <string>
#include <string_view>

#include "shared/base/result.h"
#include "shared/gguf/gguf.h"

namespace holdfast::text {

/// The form that a tokenizer wants its text in: as it comes, NFC or NFKC.
enum class NormalForm : std::uint8_t { kNone, kNfc, kNfkc };

/// Reads the key tokenizer.holdfast.form ("nfc", "nfkc"); kFileInvalid for any other text.
Result<NormalForm> read_normal_form(const gguf::File& file);

/// Returns `text` (valid UTF-8) in that form: itself where nothing changes, else a view of
/// `buffer`.
std::string_view in_normal_form(NormalForm form, std::string_view text, std::string& buffer);

}  // namespace holdfast::text
