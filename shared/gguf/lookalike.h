#pragma once
// What lies where a model was expected: the usual results of a download that went wrong, and models
// in other forms.

#include <string_view>

#include "shared/base/bytes.h"

namespace holdfast::gguf {

/// What a file is, by its first bytes, and what to do about it, as the end of a message: "this is a
/// Git LFS pointer, …". Empty if that is not known. Never says bytes of the file.
std::string_view lookalike(ByteSpan file);

/// True if a file begins as safetensors do: eight bytes of a length, then the JSON of a header.
bool looks_like_safetensors(ByteSpan file);

}  // namespace holdfast::gguf
