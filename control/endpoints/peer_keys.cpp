#include "control/endpoints/peer_keys.h"

#include <optional>
#include <utility>

namespace holdfast::daemon {

void PeerKeys::load(const std::vector<core::ObjectRow>& rows) {
  by_public_key_.clear();
  for (const core::ObjectRow& row : rows) {
    if (auto key = client::read_peer_key(row.id, row.body)) {
      std::string public_key = key->public_key;
      by_public_key_.insert_or_assign(std::move(public_key), std::move(*key));
    }
  }
}

const client::PeerKey* PeerKeys::find(const std::string& public_key, std::int64_t now_ms) const {
  const auto key = by_public_key_.find(public_key);
  if (key == by_public_key_.end() || !key->second.is_valid(now_ms)) return nullptr;
  return &key->second;
}

std::string PeerKeys::reason_to_refuse(const std::string& public_key, std::int64_t now_ms) const {
  const auto key = by_public_key_.find(public_key);
  if (key == by_public_key_.end()) return "has a key that is not of this server";
  if (key->second.is_valid(now_ms)) return {};
  const bool revoked = key->second.revoked_ms != 0;
  return "has the key " + key->second.id + (revoked ? ", which was revoked" : ", which is over");
}

}  // namespace holdfast::daemon
