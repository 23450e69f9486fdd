#include "shared/client/webhook.h"

#include <arpa/inet.h>
#include <sodium.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>

#include "shared/base/base64.h"
#include "shared/base/check.h"

namespace holdfast::client {
namespace {

constexpr std::string_view kPrefix = "whsec_";

struct Range {
  const char* network;
  int bits;
};
// Special-purpose addresses that are not globally reachable (IANA's registries), multicast, and
// IPv4 anycast that relays.
constexpr Range kNotPublic[] = {{"0.0.0.0", 8},      {"10.0.0.0", 8},     {"100.64.0.0", 10},
                                {"127.0.0.0", 8},    {"169.254.0.0", 16}, {"172.16.0.0", 12},
                                {"192.0.0.0", 24},   {"192.0.2.0", 24},   {"192.88.99.0", 24},
                                {"192.168.0.0", 16}, {"198.18.0.0", 15},  {"198.51.100.0", 24},
                                {"203.0.113.0", 24}, {"224.0.0.0", 4},    {"240.0.0.0", 4}};
// In IPv6 only global unicast is public, except addresses that hold an IPv4 address or are no
// host's.
constexpr Range kGlobal6 = {"2000::", 3};
constexpr Range kNotPublic6[] = {
    {"2001::", 23}, {"2001:db8::", 32}, {"2002::", 16}, {"3fff::", 20}};

template <std::size_t N>
bool within(const std::array<unsigned char, N>& address, int family, const Range& range) {
  std::array<unsigned char, N> network{};
  CHECK(inet_pton(family, range.network, network.data()) == 1);
  for (int bit = 0; bit < range.bits; ++bit) {
    const auto byte = static_cast<std::size_t>(bit / 8);
    const int mask = 0x80 >> (bit % 8);
    if (((address[byte] ^ network[byte]) & mask) != 0) return false;
  }
  return true;
}

bool is_public4(const std::array<unsigned char, 4>& address) {
  return std::none_of(std::begin(kNotPublic), std::end(kNotPublic),
                      [&](const Range& range) { return within(address, AF_INET, range); });
}

bool is_address(const std::string& host) {
  std::array<unsigned char, 16> bytes{};
  return inet_pton(AF_INET, host.c_str(), bytes.data()) == 1 ||
         inet_pton(AF_INET6, host.c_str(), bytes.data()) == 1;
}

Error bad_url(const char* why) {
  return {Errc::kUsage, std::string("webhook URL: ") + why};
}

bool good_host(std::string_view host) {
  constexpr std::string_view kAllowed =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_:";
  return !host.empty() && host.size() <= 253 &&
         host.find_first_not_of(kAllowed) == std::string_view::npos;
}

bool is_visible_ascii(std::string_view url) {
  return std::all_of(url.begin(), url.end(), [](char c) {
    return c > 0x20 && c < 0x7f && c != '#' && c != '\\' && c != '"';
  });
}

/// Takes https:// or http:// from the front; false if there is neither.
bool take_scheme(std::string_view& url, WebhookUrl& out) {
  if (url.starts_with("https://")) {
    url.remove_prefix(8);
    return true;
  }
  if (!url.starts_with("http://")) return false;
  out.https = false;
  out.port = 80;
  url.remove_prefix(7);
  return true;
}

/// Reads the host; returns the text behind it, empty or the port with its colon.
Result<std::string_view> read_host(std::string_view authority, WebhookUrl& out) {
  const bool bracketed = authority.starts_with('[');
  std::string_view port;
  if (bracketed) {
    const std::size_t close = authority.find(']');
    if (close == std::string_view::npos) return bad_url("expected ] behind an IPv6 address");
    out.host = authority.substr(1, close - 1);
    port = authority.substr(close + 1);
    if (out.host.find(':') == std::string::npos) return bad_url("expected an IPv6 address in []");
  } else {
    const std::size_t colon = authority.find(':');
    out.host = authority.substr(0, colon);
    if (colon != std::string_view::npos) port = authority.substr(colon);
  }
  out.numeric = is_address(out.host);
  if (!good_host(out.host) || (bracketed && !out.numeric)) return bad_url("the host is none");
  return port;
}

Result<void> read_port(std::string_view port, WebhookUrl& out) {
  if (port.empty()) return {};
  const auto r = std::from_chars(port.data() + 1, port.data() + port.size(), out.port);
  const bool is_number = r.ec == std::errc() && r.ptr == port.data() + port.size();
  if (port[0] != ':' || !is_number || out.port == 0) {
    return bad_url("expected a port from 1 to 65535");
  }
  return {};
}

}  // namespace

std::string new_webhook_secret() {
  CHECK(sodium_init() >= 0);
  std::string bytes(32, '\0');
  randombytes_buf(bytes.data(), bytes.size());
  return std::string(kPrefix) + to_base64(bytes);
}

Result<std::string> sign_webhook(std::string_view secret, std::string_view id,
                                 std::int64_t timestamp_s, std::string_view body) {
  CHECK(sodium_init() >= 0);
  const auto key = secret.starts_with(kPrefix) ? from_base64(secret.substr(kPrefix.size()))
                                               : std::optional<std::string>();
  if (!key || key->empty()) return Error{Errc::kInvalidRequest, "webhook: the secret is none"};
  const std::string head = std::string(id) + "." + std::to_string(timestamp_s) + ".";
  std::string digest(crypto_auth_hmacsha256_BYTES, '\0');
  crypto_auth_hmacsha256_state state;
  const auto bytes = [](std::string_view text) {
    return reinterpret_cast<const unsigned char*>(text.data());
  };
  crypto_auth_hmacsha256_init(&state, bytes(*key), key->size());
  crypto_auth_hmacsha256_update(&state, bytes(head), head.size());
  crypto_auth_hmacsha256_update(&state, bytes(body), body.size());
  crypto_auth_hmacsha256_final(&state, reinterpret_cast<unsigned char*>(digest.data()));
  return "v1," + to_base64(digest);
}

Result<WebhookUrl> parse_webhook_url(std::string_view url) {
  WebhookUrl out;
  if (!is_visible_ascii(url) || url.size() > 2048) {
    return bad_url("expected at most 2048 visible ASCII characters, no # and no \\");
  }
  if (!take_scheme(url, out)) return bad_url("expected https://HOST[:PORT]/PATH");
  const std::size_t end = std::min(url.find('/'), url.find('?'));
  const std::string_view authority = url.substr(0, end);
  out.path = end == std::string_view::npos ? "/" : std::string(url.substr(end));
  if (out.path[0] == '?') out.path = "/" + out.path;
  if (authority.find('@') != std::string_view::npos) return bad_url("expected no user in it");
  HOLDFAST_TRY(const std::string_view port, read_host(authority, out));
  HOLDFAST_CHECKED(read_port(port, out));
  return out;
}

bool is_public_address(const std::string& address) {
  std::array<unsigned char, 4> four{};
  if (inet_pton(AF_INET, address.c_str(), four.data()) == 1) return is_public4(four);
  std::array<unsigned char, 16> six{};
  if (inet_pton(AF_INET6, address.substr(0, address.find('%')).c_str(), six.data()) != 1) {
    return false;
  }
  return within(six, AF_INET6, kGlobal6) &&
         std::none_of(std::begin(kNotPublic6), std::end(kNotPublic6),
                      [&](const Range& range) { return within(six, AF_INET6, range); });
}

}  // namespace holdfast::client
