#pragma once
// The keys of peers elsewhere, as the database has them (shared/client/peer_key.h): who a
// connection over the network is, and whether it may still be there.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "control/core/rows.h"
#include "shared/client/peer_key.h"

namespace holdfast::daemon {

/// All keys in memory. Not thread-safe.
class PeerKeys {
 public:
  /// Takes in the keys of the database, instead of those before. Rows that are no keys are left
  /// out.
  void load(const std::vector<core::ObjectRow>& rows);
  /// Returns the key with this public half if it is valid at that time, else nullptr. The pointer
  /// is good until the next load().
  const client::PeerKey* find(const std::string& public_key, std::int64_t now_ms) const;
  /// Returns why a key is refused, a sentence without its subject; empty if it is valid.
  std::string reason_to_refuse(const std::string& public_key, std::int64_t now_ms) const;
  std::size_t size() const { return by_public_key_.size(); }

 private:
  std::map<std::string, client::PeerKey> by_public_key_;
};

}  // namespace holdfast::daemon
