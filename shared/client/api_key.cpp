#include "shared/client/api_key.h"

#include <sodium.h>

#include "shared/base/bytes.h"
#include "shared/base/check.h"

namespace holdfast::client {

std::string new_api_key() {
  CHECK(sodium_init() >= 0);
  unsigned char random[32];
  randombytes_buf(random, sizeof random);
  constexpr int kForm = sodium_base64_VARIANT_URLSAFE_NO_PADDING;
  std::string text(sodium_base64_ENCODED_LEN(sizeof random, kForm), '\0');
  sodium_bin2base64(text.data(), text.size(), random, sizeof random, kForm);
  text.resize(text.find('\0'));
  return "hf_" + text;
}

std::string hash_api_key(std::string_view key) {
  CHECK(sodium_init() >= 0);
  unsigned char digest[32];
  CHECK(crypto_generichash(digest, sizeof digest,
                           reinterpret_cast<const unsigned char*>(key.data()), key.size(), nullptr,
                           0) == 0);
  return to_hex(ByteSpan(reinterpret_cast<const std::byte*>(digest), sizeof digest));
}

}  // namespace holdfast::client
