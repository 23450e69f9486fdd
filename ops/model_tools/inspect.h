#pragma once
// The contents of a model file and the memory that it would need, without loading it.

#include <cstdint>
#include <string>

#include "shared/base/result.h"

namespace holdfast::cli {

/// One JSON object: file, bytes, version, alignment, metadata (arrays as type, count and their
/// first elements), tensors, types (count and bytes of each), and `model` with `memory` (each KV
/// type's envelope), or `model_error` {code, message} where the file is no model that we can run.
/// context and streams: 0 = default. Errors: those of gguf::File::open.
Result<std::string> inspect_json(const std::string& path, std::int64_t context,
                                 std::int32_t streams);

/// The same for people: lines and tables, every string of the file escaped.
Result<std::string> inspect_text(const std::string& path, std::int64_t context,
                                 std::int32_t streams);

}  // namespace holdfast::cli
