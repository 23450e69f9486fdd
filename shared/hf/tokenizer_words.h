#pragma once
// BERT's older form of a tokenizer: vocab.txt, a token a line. Internal to shared/hf.

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "shared/base/result.h"

namespace holdfast::hf {

/// The tokenizer.json that stands for a vocab.txt and the switches of a tokenizer_config.json
/// (`settings`). kIo, kFileInvalid (no UTF-8, too long, a special token that is no line).
Result<nlohmann::json> words_to_tokenizer(const std::string& path, const nlohmann::json& settings);

}  // namespace holdfast::hf
