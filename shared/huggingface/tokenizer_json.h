#pragma once
// Converts tokenizer.json of a model folder (format of huggingface/tokenizers) to tokenizer.* keys
// of GGUF. What those keys cannot express is stored in our own keys, tokenizer.holdfast.*, which
// shared/text reads.

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "shared/base/result.h"
#include "shared/gguf/writer.h"

namespace holdfast::huggingface {

/// Reads tokenizer.json, tokenizer_config.json, generation_config.json and chat_template.jinja of
/// `folder` where they exist; without a tokenizer.json nothing is written. `config` is config.json.
/// kFileInvalid names the part that is broken; kUnsupported names a kind of model, normaliser or
/// pre-tokenizer that cannot be done exactly.
Result<void> tokenizer_to_keys(const std::string& folder, const nlohmann::json& config,
                               gguf::Writer& writer);

}  // namespace holdfast::huggingface
