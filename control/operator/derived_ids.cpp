#include "control/operator/derived_ids.h"

#include <sodium.h>

#include <array>
#include <nlohmann/json.hpp>

#include "shared/base/bytes.h"
#include "shared/base/check.h"
#include "shared/base/json_text.h"

namespace holdfast::daemon {
namespace {

using nlohmann::json;

constexpr std::size_t kIdDigits = 26;
constexpr std::size_t kSecretBytes = 32;
constexpr std::size_t kTextBytesMax = 256;

const unsigned char* bytes_of(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

/// Kinds of marks that exist before the object that they announce: "batch.open" before its batch.
constexpr const char* kMarks[] = {"batch.open"};

Result<bool> has_public_one(const std::string& id, const std::string& kind,
                            const std::string& tenant, store::Store& store) {
  const auto is_theirs = [&](const std::string& of_kind) -> Result<bool> {
    HOLDFAST_TRY(const auto object, store.find_object(of_kind, id));
    return object && object->owner == tenant;
  };
  HOLDFAST_TRY(bool theirs, is_theirs(kind));
  for (const char* mark : kMarks) {
    if (theirs) break;
    HOLDFAST_TRY(theirs, is_theirs(mark));
  }
  if (theirs) return true;
  HOLDFAST_TRY(const auto request, store.find_by_id(id));
  return request && request->row.tenant == tenant;
}

}  // namespace

std::string derived_id(IdVersion version, std::string_view secret, std::string_view tenant,
                       std::string_view prefix, std::string_view key) {
  std::string name(tenant);
  name.append(1, '\0').append(prefix).append(1, '\0').append(key);
  const bool keyed = version == IdVersion::kSecret;
  CHECK(!keyed || secret.size() == kSecretBytes);
  std::array<std::byte, 32> digest{};
  CHECK(crypto_generichash(reinterpret_cast<unsigned char*>(digest.data()), digest.size(),
                           bytes_of(name), name.size(), keyed ? bytes_of(secret) : nullptr,
                           keyed ? secret.size() : 0) == 0);
  return std::string(prefix) + to_hex(digest).substr(0, kIdDigits);
}

namespace {

/// A text of the arguments; empty if there is none of that name.
std::string argument_text(const json& args, const char* name) {
  const auto it = args.find(name);
  return it != args.end() && it->is_string() ? it->get<std::string>() : std::string();
}

}  // namespace

Result<std::string> derive_document(const std::string& args_text, const std::string& tenant,
                                    store::Store& store) {
  const json args = try_parse_json<json>(args_text);
  const std::string kind = argument_text(args, "kind");
  const std::string prefix = argument_text(args, "prefix");
  const std::string key = argument_text(args, "key");
  if (tenant.empty() || kind.empty() || key.empty() || key.size() > kTextBytesMax ||
      prefix.size() > kTextBytesMax) {
    return Error{Errc::kUsage, "ids.derive: expected a tenant, kind, prefix and key"};
  }
  const std::string open = derived_id(IdVersion::kPublic, {}, tenant, prefix, key);
  HOLDFAST_TRY(const bool exists, has_public_one(open, kind, tenant, store));
  if (exists) return json{{"id", open}, {"version", IdVersion::kPublic}}.dump();
  HOLDFAST_TRY(const std::string secret, store.secret("ids"));
  if (secret.size() != kSecretBytes) {
    return Error{Errc::kCorrupt, "secrets: \"ids\" is not there as 32 bytes; see db check"};
  }
  const std::string id = derived_id(IdVersion::kSecret, secret, tenant, prefix, key);
  return json{{"id", id}, {"version", IdVersion::kSecret}}.dump();
}

}  // namespace holdfast::daemon
