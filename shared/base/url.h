#pragma once
// Parts of a URL, for judging where it leads.

#include <string_view>

namespace holdfast {

/// Returns the host of "SCHEME://HOST[:PORT]…", without port and brackets.
std::string_view url_host(std::string_view url);

/// Returns true if the URL's host is this machine: localhost, an address of 127.0.0.0/8 or ::1. A
/// name that merely begins alike ("127.example.com") is not.
bool is_loopback_url(std::string_view url);

}  // namespace holdfast
