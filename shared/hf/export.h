#pragma once
// A GGUF file as the files of a model folder: what config.json and tokenizer.json would say. The
// inverse of open_model's reading.

#include <nlohmann/json_fwd.hpp>

#include "shared/base/result.h"
#include "shared/gguf/gguf.h"

namespace holdfast::hf {

/// tokenizer.json. kUnsupported for a kind of tokenizer that only GGUF files have here.
Result<nlohmann::json> keys_to_tokenizer(const gguf::File& file);
/// tokenizer_config.json, chat template included.
nlohmann::json keys_to_tokenizer_config(const gguf::File& file);

}  // namespace holdfast::hf
