#pragma once
// Files as they are kept: kind "file", the body says what OpenAI's file object says.

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "control/gateway/keeper.h"

namespace holdfast::gateway {

inline constexpr const char* kFileKind = "file";

struct FileFacts {
  std::string filename;
  std::string purpose;          // "batch", "batch_output", "assistants", …
  std::string hash;             // of the whole content, if it was uploaded
  bool whole = true;            // false: more of it is to come
  std::int64_t id_version = 0;  // how its id was derived; 0: it was not
};
std::string file_body(const FileFacts& facts);
FileFacts file_facts(const Kept& kept);
/// The body of a file of which no more is to come, with what else it says.
std::string whole_file_body(const std::string& body);

/// OpenAI's file object; null while it is uploaded.
nlohmann::ordered_json file_json(const Kept& kept);

}  // namespace holdfast::gateway
