#pragma once
// Keys of other machines: what a node, a client, a gateway or an operator elsewhere
// proves to be who it is with (CURVE). The database has the public half, an object of the kind
// "peer_key" (schema/protocol.md): {"name", "role", "tenant", "public_key", "expires_ms",
// "revoked_ms"}. The secret half is in the owner's key file alone.

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "shared/base/result.h"
#include "shared/client/client.h"

namespace holdfast::client {

inline constexpr const char* kPeerKeyKind = "peer_key";

/// The business of a peer.
enum class PeerRole : std::uint8_t {
  kNode,      // a machine with workers
  kClient,    // the work of its tenant alone
  kGateway,   // HTTP for all tenants
  kOperator,  // everything
  kStandby,   // the whole database, as it changes
};
/// Returns "node", "client", "gateway", "operator" or "standby".
std::string_view peer_role_name(PeerRole role);
std::optional<PeerRole> parse_peer_role(std::string_view name);

/// The public half of a key, as the database has it.
struct PeerKey {
  std::string id;  // of the object: "node.NAME", "client.NAME"
  std::string name;
  PeerRole role = PeerRole::kClient;
  std::string tenant;      // of a client
  std::string public_key;  // Z85
  std::int64_t expires_ms = 0;
  std::int64_t revoked_ms = 0;

  /// True at this time of the wall clock, if it was not revoked and is not over.
  bool is_valid(std::int64_t now_ms) const {
    return revoked_ms == 0 && (expires_ms == 0 || now_ms < expires_ms);
  }
};
/// Returns the id of a name's key: nodes have names of their own, all other roles share theirs.
std::string peer_key_id(PeerRole role, const std::string& name);
/// Reads an object's body; nullopt if it is none of a key.
std::optional<PeerKey> read_peer_key(const std::string& id, std::string_view body);
nlohmann::json peer_key_body(const PeerKey& key);

/// The content of a key file: what a peer needs to reach its server.
struct PeerKeyFile {
  std::string name;
  PeerRole role = PeerRole::kClient;
  std::string public_key, secret_key;  // Z85
  std::string server_key;              // public, of the server
};
/// Writes a new file that its owner alone may read (0600). kConflict if there is one already.
Result<void> write_key_file(const std::string& path, const PeerKeyFile& key);
/// Reads a key file. kIo; kUnauthorized if others than its owner may read it; kInvalidRequest if it
/// is no key file, with what is wrong.
Result<PeerKeyFile> read_key_file(const std::string& path);
/// Does the same for a key of one role. kUsage if it is of another one; `where` names the source of
/// the path in the error ("--key").
Result<PeerKeyFile> read_key_file_of(const std::string& path, PeerRole role,
                                     const std::string& where);
/// Returns the options of a connection with this key.
Options options_with_key(const PeerKeyFile& key);

/// True for "tcp://…": a server elsewhere that is asked with a key file, not over HTTP.
bool is_listener_url(std::string_view url);
/// The parts of "tcp://HOST:PORT". An IPv6 address stands without its brackets.
struct ListenerUrl {
  std::string host, port;
};
/// kUsage for anything else; `where` names the source of the text in the error.
Result<ListenerUrl> split_listener_url(const std::string& url, const std::string& where);
/// Splits "tcp://A:PORT,tcp://B:PORT", the machines of which one is the primary. kUsage as above.
Result<std::vector<std::string>> split_listener_list(const std::string& urls,
                                                     const std::string& where);
/// Returns the options of connections to such a server, with the key file that HOLDFAST_KEY_FILE
/// names. kUsage if it names none; errors of read_key_file().
Result<Options> listener_options(const std::string& url);

/// Returns an empty text if a peer may have this name, else what is wrong: 1 to 63 of a-z, 0-9, "."
/// and "-", a letter or digit first and last.
std::string wrong_peer_name(std::string_view name);

}  // namespace holdfast::client
