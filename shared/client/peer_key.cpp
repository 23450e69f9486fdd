#include "shared/client/peer_key.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "shared/base/environment.h"
#include "shared/base/json_text.h"
#include "shared/wire/curve.h"

namespace holdfast::client {
namespace {

using nlohmann::json;

constexpr std::size_t kNameMax = 63;
constexpr std::size_t kFileBytesMax = 4096;
constexpr int kFormat = 1;
constexpr std::string_view kListenerScheme = "tcp://";

constexpr std::pair<PeerRole, std::string_view> kRoles[] = {{PeerRole::kNode, "node"},
                                                            {PeerRole::kClient, "client"},
                                                            {PeerRole::kGateway, "gateway"},
                                                            {PeerRole::kOperator, "operator"},
                                                            {PeerRole::kStandby, "standby"}};

/// A member that is a text; empty if it is missing or something else.
std::string text_of(const json& object, const char* name) {
  const auto it = object.find(name);
  return it != object.end() && it->is_string() ? it->get<std::string>() : std::string();
}

std::int64_t number_of(const json& object, const char* name) {
  const auto it = object.find(name);
  return it != object.end() && it->is_number_integer() ? it->get<std::int64_t>() : 0;
}

Error not_a_key(const std::string& path, const std::string& why) {
  return {Errc::kInvalidRequest, "key file " + path + ": " + why +
                                     "; expected a file that `holdfast keys node create` or "
                                     "`holdfast keys client create` has written"};
}

Error io_error(const std::string& what) {
  return {Errc::kIo, what + ": " + std::strerror(errno)};
}

/// Reads at most kFileBytesMax bytes, if only the owner may.
Result<std::string> read_private(const std::string& path) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) return io_error("key file " + path);
  if ((info.st_mode & 077) != 0) {
    return Error{Errc::kUnauthorized,
                 "key file " + path + ": others than its owner may read it; chmod 600 " + path};
  }
  if (info.st_size > static_cast<off_t>(kFileBytesMax)) {
    return not_a_key(path, "has " + std::to_string(info.st_size) + " bytes");
  }
  std::ifstream in(path, std::ios::binary);
  std::string text(std::istreambuf_iterator<char>(in), {});
  if (!in.good() && !in.eof()) return io_error("key file " + path);
  return text;
}

}  // namespace

std::string_view peer_role_name(PeerRole role) {
  const auto row = std::find_if(std::begin(kRoles), std::end(kRoles),
                                [role](const auto& candidate) { return candidate.first == role; });
  return row->second;
}

std::optional<PeerRole> parse_peer_role(std::string_view name) {
  const auto row = std::find_if(std::begin(kRoles), std::end(kRoles),
                                [name](const auto& candidate) { return candidate.second == name; });
  if (row == std::end(kRoles)) return std::nullopt;
  return row->first;
}

std::string peer_key_id(PeerRole role, const std::string& name) {
  return (role == PeerRole::kNode ? "node." : "client.") + name;
}

std::optional<PeerKey> read_peer_key(const std::string& id, std::string_view body) {
  const json object = try_parse_json<json>(body);
  if (!object.is_object()) return std::nullopt;
  const auto role = parse_peer_role(text_of(object, "role"));
  PeerKey key;
  key.public_key = text_of(object, "public_key");
  if (!role || wire::curve_key_bytes(key.public_key).empty()) return std::nullopt;
  key.id = id;
  key.name = text_of(object, "name");
  key.role = *role;
  key.tenant = text_of(object, "tenant");
  key.expires_ms = number_of(object, "expires_ms");
  key.revoked_ms = number_of(object, "revoked_ms");
  if (key.id != peer_key_id(key.role, key.name)) return std::nullopt;
  return key;
}

json peer_key_body(const PeerKey& key) {
  return {{"name", key.name},
          {"role", peer_role_name(key.role)},
          {"tenant", key.tenant},
          {"public_key", key.public_key},
          {"expires_ms", key.expires_ms},
          {"revoked_ms", key.revoked_ms}};
}

Result<void> write_key_file(const std::string& path, const PeerKeyFile& key) {
  const json document = {{"holdfast_key", kFormat},          {"name", key.name},
                         {"role", peer_role_name(key.role)}, {"public_key", key.public_key},
                         {"secret_key", key.secret_key},     {"server_key", key.server_key}};
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0 && errno == EEXIST) {
    return Error{Errc::kConflict, "key file " + path +
                                      ": there is a file already; name another with --out, or "
                                      "remove it"};
  }
  if (fd < 0) return io_error("key file " + path);
  const std::string text = document.dump(2) + "\n";
  const bool written =
      write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size()) && fsync(fd) == 0;
  const int cause = errno;
  close(fd);
  if (written) return {};
  unlink(path.c_str());
  errno = cause;
  return io_error("key file " + path);
}

Result<PeerKeyFile> read_key_file(const std::string& path) {
  HOLDFAST_TRY(const std::string text, read_private(path));
  const json object = try_parse_json<json>(text);
  if (!object.is_object()) return not_a_key(path, "is not a JSON object");
  if (number_of(object, "holdfast_key") != kFormat) {
    return not_a_key(path, "has no member holdfast_key with the value 1");
  }
  PeerKeyFile key;
  key.name = text_of(object, "name");
  const auto role = parse_peer_role(text_of(object, "role"));
  if (!role) return not_a_key(path, "role: expected node, client, gateway or operator");
  key.role = *role;
  const std::pair<const char*, std::string*> keys[] = {{"public_key", &key.public_key},
                                                       {"secret_key", &key.secret_key},
                                                       {"server_key", &key.server_key}};
  for (const auto& [member, value] : keys) {
    *value = text_of(object, member);
    if (wire::curve_key_bytes(*value).empty()) {
      return not_a_key(path, std::string(member) + ": expected 40 characters of Z85");
    }
  }
  return key;
}

namespace {

/// The verb that makes a key of the role.
std::string verb_of(PeerRole role) {
  const std::string name(peer_role_name(role));
  const bool own = role == PeerRole::kNode || role == PeerRole::kGateway;
  return own ? name + " create" : "client create NAME --role " + name;
}

}  // namespace

Result<PeerKeyFile> read_key_file_of(const std::string& path, PeerRole role,
                                     const std::string& where) {
  HOLDFAST_TRY(PeerKeyFile key, read_key_file(path));
  if (key.role == role) return key;
  return Error{Errc::kUsage, where + " " + path + ": is of the role " +
                                 std::string(peer_role_name(key.role)) +
                                 "; expected one of `holdfast keys " + verb_of(role) + "`"};
}

Options options_with_key(const PeerKeyFile& key) {
  Options options;
  options.server_key = key.server_key;
  options.public_key = key.public_key;
  options.secret_key = key.secret_key;
  return options;
}

bool is_listener_url(std::string_view url) {
  return url.starts_with(kListenerScheme);
}

Result<ListenerUrl> split_listener_url(const std::string& url, const std::string& where) {
  const std::size_t colon = url.rfind(':');
  const bool good =
      is_listener_url(url) && colon > kListenerScheme.size() && colon + 1 < url.size();
  if (!good) {
    return Error{Errc::kUsage,
                 where + " " + url + ": expected tcp://HOST:PORT, as in tcp://10.0.0.1:7070"};
  }
  ListenerUrl parts;
  parts.host = url.substr(kListenerScheme.size(), colon - kListenerScheme.size());
  parts.port = url.substr(colon + 1);
  const bool bracketed = parts.host.starts_with('[') && parts.host.ends_with(']');
  if (bracketed) parts.host = parts.host.substr(1, parts.host.size() - 2);
  return parts;
}

Result<std::vector<std::string>> split_listener_list(const std::string& urls,
                                                     const std::string& where) {
  std::vector<std::string> list;
  for (std::size_t from = 0; from <= urls.size();) {
    const std::size_t end = std::min(urls.find(',', from), urls.size());
    list.push_back(urls.substr(from, end - from));
    HOLDFAST_CHECKED(split_listener_url(list.back(), where));
    from = end + 1;
  }
  return list;
}

Result<Options> listener_options(const std::string& url) {
  const std::string path = environment("HOLDFAST_KEY_FILE");
  if (path.empty()) {
    return Error{Errc::kUsage,
                 url +
                     ": is asked with a key file; expected HOLDFAST_KEY_FILE=FILE, one "
                     "of `holdfast keys client create` on the server's machine"};
  }
  HOLDFAST_CHECKED(split_listener_list(url, "--url"));
  HOLDFAST_TRY(const PeerKeyFile key, read_key_file(path));
  return options_with_key(key);
}

std::string wrong_peer_name(std::string_view name) {
  const auto is_plain = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); };
  const bool good = !name.empty() && name.size() <= kNameMax && is_plain(name.front()) &&
                    is_plain(name.back()) && std::all_of(name.begin(), name.end(), [&](char c) {
                      return is_plain(c) || c == '.' || c == '-';
                    });
  if (good) return {};
  return "name \"" + std::string(name) +
         "\": expected 1 to 63 of a-z, 0-9, . and -, a letter or digit first and last";
}

}  // namespace holdfast::client
