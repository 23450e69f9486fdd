#include "shared/base/url.h"

namespace holdfast {

std::string_view url_host(std::string_view url) {
  const std::size_t scheme = url.find("://");
  if (scheme != std::string_view::npos) url.remove_prefix(scheme + 3);
  url = url.substr(0, url.find_first_of("/?#"));
  if (url.starts_with('[')) return url.substr(1, url.find(']') - 1);
  return url.substr(0, url.find(':'));
}

bool is_loopback_url(std::string_view url) {
  const std::string_view host = url_host(url);
  const bool numeric = host.find_first_not_of("0123456789.") == std::string_view::npos;
  return host == "localhost" || host == "::1" || (numeric && host.starts_with("127."));
}

}  // namespace holdfast
