#pragma once
// Recognises files that are not GGUF: the usual results of a download that went wrong, and models
// in other formats.

#include <string_view>

#include "shared/base/bytes.h"

namespace holdfast::gguf {

/// Returns what a file is, by its first bytes, and what to do about it, as the end of a message:
/// "this is a Git LFS pointer, …". Empty if unknown. Never contains bytes of the file.
std::string_view lookalike(ByteSpan file);

/// Returns true if a file begins like safetensors: eight bytes of a length, then a JSON header.
bool looks_like_safetensors(ByteSpan file);

}  // namespace holdfast::gguf
