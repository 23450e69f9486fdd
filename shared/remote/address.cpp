#include "shared/remote/address.h"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "shared/base/environment.h"

namespace holdfast::remote {
namespace {

constexpr std::size_t kUrlBytesMax = 2'048;
constexpr std::size_t kKeyBytesMax = 1'024;
constexpr const char* kUrlForm = "expected http://HOST:PORT or https://HOST:PORT";

bool is_visible(char c) {
  return c > 0x20 && c < 0x7f;
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

/// Splits off ":PORT". False: it is not one.
bool take_port(std::string_view& host) {
  const std::size_t colon = host.rfind(':');
  if (colon == std::string_view::npos || host.ends_with(']')) return true;
  const std::string_view port = host.substr(colon + 1);
  host = host.substr(0, colon);
  return !port.empty() && port.size() <= 5 && std::ranges::all_of(port, is_digit) &&
         std::atoi(std::string(port).c_str()) <= 65'535;
}

bool is_address_byte(char c) {
  return std::isxdigit(static_cast<unsigned char>(c)) != 0 || c == ':' || c == '.';
}

bool is_name_byte(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '.' || c == '_';
}

bool is_host(std::string_view host) {
  if (!host.starts_with('[')) return !host.empty() && std::ranges::all_of(host, is_name_byte);
  return host.size() > 2 && host.ends_with(']') &&
         std::ranges::all_of(host.substr(1, host.size() - 2), is_address_byte);
}

Result<std::string> checked_key(std::string key, const std::string& where) {
  const bool good =
      !key.empty() && key.size() <= kKeyBytesMax && std::ranges::all_of(key, is_visible);
  if (good) return key;
  return Error{Errc::kUsage, where + ": expected a key as `holdfast keys create` prints it"};
}

/// Reads the key of the environment; empty without one.
Result<std::string> find_key() {
  if (std::string key = environment("HOLDFAST_API_KEY"); !key.empty()) {
    return checked_key(std::move(key), "HOLDFAST_API_KEY");
  }
  const std::string path = environment("HOLDFAST_API_KEY_FILE");
  if (path.empty()) return std::string();
  std::ifstream file(path);
  std::string line;
  if (!file || (!std::getline(file, line) && !file.eof())) {
    return Error{Errc::kIo, "HOLDFAST_API_KEY_FILE " + path + ": " +
                                (errno != 0 ? std::strerror(errno) : "cannot be read")};
  }
  while (!line.empty() && std::isspace(static_cast<unsigned char>(line.back())) != 0) {
    line.pop_back();
  }
  return checked_key(std::move(line), "HOLDFAST_API_KEY_FILE " + path);
}

}  // namespace

Result<std::string> parse_url(std::string_view text, const std::string& where) {
  const Error wrong{Errc::kUsage, where + ": " + kUrlForm};  // it may have a password: not shown
  std::string_view rest = text;
  if (text.starts_with("http://")) {
    rest.remove_prefix(7);
  } else if (text.starts_with("https://")) {
    rest.remove_prefix(8);
  } else {
    return wrong;
  }
  const bool plain = text.size() <= kUrlBytesMax && std::ranges::all_of(text, is_visible) &&
                     text.find_first_of("@?#\\\"") == std::string_view::npos;
  std::string_view host = rest.substr(0, rest.find('/'));
  if (!plain || !take_port(host) || !is_host(host)) return wrong;
  while (text.ends_with('/')) text.remove_suffix(1);
  return std::string(text);
}

Result<Address> read_address(std::string_view url, const std::string& where) {
  Address address;
  HOLDFAST_TRY(address.url, parse_url(url, where));
  HOLDFAST_TRY(address.key, find_key());
  address.ca_file = environment("HOLDFAST_CA_FILE");
  if (address.ca_file.empty()) address.ca_file = environment("SSL_CERT_FILE");
  return address;
}

Result<std::optional<Address>> find_address(const std::string& url_flag, bool state_named) {
  const std::string url = environment("HOLDFAST_URL");
  const bool flag = !url_flag.empty();
  if (!flag && (state_named || url.empty())) return std::optional<Address>();
  HOLDFAST_TRY(Address address,
               read_address(flag ? url_flag : url, flag ? "--url" : "HOLDFAST_URL"));
  return std::optional<Address>(std::move(address));
}

}  // namespace holdfast::remote
