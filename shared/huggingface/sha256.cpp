#include "shared/huggingface/sha256.h"

#include <openssl/evp.h>

#include "shared/base/bytes.h"
#include "shared/base/check.h"

namespace holdfast::huggingface {

struct Sha256::State {
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context{EVP_MD_CTX_new(),
                                                                  &EVP_MD_CTX_free};
};

Sha256::Sha256() : state_(std::make_unique<State>()) {
  CHECK(state_->context != nullptr &&
        EVP_DigestInit_ex(state_->context.get(), EVP_sha256(), nullptr) == 1);
}

Sha256::~Sha256() = default;

void Sha256::add(const void* bytes, std::size_t n) {
  CHECK(EVP_DigestUpdate(state_->context.get(), bytes, n) == 1);
}

std::string Sha256::end() {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  CHECK(EVP_DigestFinal_ex(state_->context.get(), digest, &size) == 1 && size == kBytes);
  return {reinterpret_cast<const char*>(digest), size};
}

std::string Sha256::end_hex() {
  const std::string digest = end();
  return to_hex(ByteSpan(reinterpret_cast<const std::byte*>(digest.data()), digest.size()));
}

}  // namespace holdfast::huggingface
