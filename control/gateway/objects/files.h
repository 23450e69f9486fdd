#pragma once
// Files as stored objects: kind "file", whose body says what OpenAI's file object says.

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "control/gateway/common/object_store.h"

namespace holdfast::gateway {

inline constexpr const char* kFileKind = "file";

/// The members of a file's body.
struct FileFacts {
  std::string filename;
  std::string purpose;          // "batch", "batch_output", "assistants", …
  std::string hash;             // of the whole content, if it was uploaded
  bool whole = true;            // false: more content is to come
  std::int64_t id_version = 0;  // how its id was derived; 0: it was not
};
/// Return the JSON that is stored for a file, and read it back, without id_version. A body that is
/// no object gives the defaults.
std::string file_body(const FileFacts& facts);
FileFacts file_facts(const StoredObject& stored);
/// Returns the body of a complete file, with its other members unchanged.
std::string whole_file_body(const std::string& body);

/// Returns OpenAI's file object; null while the file is being uploaded.
nlohmann::ordered_json file_json(const StoredObject& stored);

}  // namespace holdfast::gateway
