#include "control/daemon/prefix_root.h"

#include <sodium.h>

#include "shared/base/check.h"

namespace holdfast::daemon {

std::string prefix_root(std::string_view secret, std::string_view scope) {
  CHECK(secret.size() >= crypto_generichash_KEYBYTES_MIN);
  CHECK(secret.size() <= crypto_generichash_KEYBYTES_MAX);
  std::string root(16, '\0');
  const auto bytes = [](std::string_view text) {
    return reinterpret_cast<const unsigned char*>(text.data());
  };
  const int rc = crypto_generichash(reinterpret_cast<unsigned char*>(root.data()), root.size(),
                                    bytes(scope), scope.size(), bytes(secret), secret.size());
  CHECK(rc == 0);
  return root;
}

}  // namespace holdfast::daemon
