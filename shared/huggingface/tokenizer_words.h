#pragma once
// BERT's older form of a tokenizer: vocab.txt, a token a line. Internal to shared/huggingface.

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "shared/base/result.h"

namespace holdfast::huggingface {

/// Returns the tokenizer.json that is equivalent to a vocab.txt and the switches of a
/// tokenizer_config.json (`settings`). kIo, kFileInvalid (not UTF-8, too long, a special token
/// without a line).
Result<nlohmann::json> words_to_tokenizer(const std::string& path, const nlohmann::json& settings);

}  // namespace holdfast::huggingface
