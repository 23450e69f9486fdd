#pragma once
// Encodes columns that are not plain numbers: token ids, prompts, the parameters of a request.

#include <string>
#include <string_view>
#include <vector>

#include "control/core/rows.h"
#include "shared/base/result.h"

namespace holdfast::store {

/// Encodes token ids, 4 bytes each, little-endian.
std::string encode_ids(const std::vector<core::TokenId>& ids);
/// Decodes token ids, 4 bytes each. kCorrupt if the size is not a whole number of ids.
Result<std::vector<core::TokenId>> decode_ids(std::string_view bytes);

/// Encodes the ids of every prompt, and reads them back. kCorrupt: the lengths do not add up.
std::string encode_prompts(const std::vector<std::vector<core::TokenId>>& prompts);
Result<std::vector<std::vector<core::TokenId>>> decode_prompts(std::string_view bytes);

/// Encodes sampling, stops and echo as JSON.
std::string encode_params(const core::PayloadRow& payload);
struct Params {
  wire::Sampling sampling;
  std::vector<std::string> stops;
  bool echo = false;
};

/// Decodes what encode_params() made. kCorrupt: the text is no such object.
Result<Params> decode_params(std::string_view json);

/// Encodes a configuration version as JSON: settings, imports, change, who.
std::string encode_config(const core::ConfigVersion& version);
Result<core::ConfigVersion> decode_config(std::string_view json);

/// Encodes strings as a JSON array; bytes that are not UTF-8 survive.
std::string encode_strings(const std::vector<std::string>& strings);
Result<std::vector<std::string>> decode_strings(std::string_view json);

}  // namespace holdfast::store
