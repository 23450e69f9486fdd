#include "control/gateway/objects/files.h"

#include <nlohmann/json.hpp>

#include "shared/base/json_text.h"

namespace holdfast::gateway {

std::string file_body(const FileFacts& facts) {
  nlohmann::json body = {{"filename", facts.filename}, {"purpose", facts.purpose}};
  if (!facts.hash.empty()) body["hash"] = facts.hash;
  if (!facts.whole) body["partial"] = true;
  if (facts.id_version > 0) body["id_version"] = facts.id_version;
  return body.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string whole_file_body(const std::string& body) {
  auto whole = try_parse_json<nlohmann::json>(body);
  if (!whole.is_object()) return body;
  whole.erase("partial");
  return whole.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

FileFacts file_facts(const StoredObject& stored) {
  const auto body = try_parse_json<nlohmann::json>(stored.body);
  FileFacts facts;
  if (!body.is_object()) return facts;
  facts.filename = body.value("filename", "");
  facts.purpose = body.value("purpose", "");
  facts.hash = body.value("hash", "");
  facts.whole = !body.value("partial", false);
  return facts;
}

nlohmann::ordered_json file_json(const StoredObject& stored) {
  const FileFacts facts = file_facts(stored);
  nlohmann::ordered_json out;
  if (!facts.whole) return out;
  out["id"] = stored.id;
  out["object"] = "file";
  out["bytes"] = stored.bytes;
  out["created_at"] = stored.created_ms / 1000;
  out["expires_at"] = stored.expires_ms > 0 ? nlohmann::ordered_json(stored.expires_ms / 1000)
                                            : nlohmann::ordered_json();
  out["filename"] = facts.filename;
  out["purpose"] = facts.purpose;
  out["status"] = "processed";
  return out;
}

}  // namespace holdfast::gateway
