#pragma once
// Converts a GGUF file to the files of a model folder: config.json and tokenizer.json. The inverse
// of open_model.

#include <nlohmann/json_fwd.hpp>

#include "shared/base/result.h"
#include "shared/gguf/gguf.h"

namespace holdfast::huggingface {

/// Returns tokenizer.json. kUnsupported for a kind of tokenizer that only GGUF files have here.
Result<nlohmann::json> keys_to_tokenizer(const gguf::File& file);
/// Returns tokenizer_config.json with the chat template.
nlohmann::json keys_to_tokenizer_config(const gguf::File& file);

}  // namespace holdfast::huggingface
