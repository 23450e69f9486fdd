#pragma once
// The address of a Holdfast elsewhere, which the command line and the client libraries reach over
// HTTP: HOLDFAST_URL, --url or what a program names, and the key from HOLDFAST_API_KEY or the file
// of HOLDFAST_API_KEY_FILE.

#include <optional>
#include <string>
#include <string_view>

#include "shared/base/result.h"

namespace holdfast::remote {

/// A gateway and what it takes to speak to it.
struct Address {
  std::string url;      // "https://HOST:PORT", without a slash at its end
  std::string key;      // of the API; empty: none
  std::string ca_file;  // PEM of authorities in place of the system's; empty: those
};

/// Reads "http(s)://HOST[:PORT][/PATH]"; slashes at its end are left out. kUsage for anything else,
/// also for a name and password, a query or a fragment: these would be sent, or shown in errors.
/// `where` names its source in the error.
Result<std::string> parse_url(std::string_view text, const std::string& where);

/// Reads a URL as parse_url() does, with the key and the authorities of the environment. kUsage for
/// a wrong URL or key; kIo for a key file that cannot be read.
Result<Address> read_address(std::string_view url, const std::string& where);

/// Returns the address to ask, or nullopt if the socket of a state directory is meant. In this
/// order: `url_flag` (empty: not given), `state_named` (by --state or HOLDFAST_STATE),
/// HOLDFAST_URL. Errors are those of read_address().
Result<std::optional<Address>> find_address(const std::string& url_flag, bool state_named);

}  // namespace holdfast::remote
