#include "control/fetch/file_hash.h"

#include <openssl/evp.h>

#include <array>

#include "shared/base/check.h"

namespace holdfast::fetch {

struct FileHash::State {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
};

FileHash::FileHash(Kind kind, std::int64_t bytes) : state_(std::make_unique<State>()) {
  const EVP_MD* digest = kind == Kind::kSha256 ? EVP_sha256() : EVP_sha1();
  CHECK(state_->context != nullptr);
  CHECK(EVP_DigestInit_ex(state_->context, digest, nullptr) == 1);
  if (kind == Kind::kSha256) return;
  const std::string head = "blob " + std::to_string(bytes);
  add(std::string_view(head.c_str(), head.size() + 1));  // with the zero byte
}

FileHash::~FileHash() {
  EVP_MD_CTX_free(state_->context);
}

void FileHash::add(std::string_view bytes) {
  CHECK(EVP_DigestUpdate(state_->context, bytes.data(), bytes.size()) == 1);
}

std::string FileHash::hex() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned length = 0;
  CHECK(EVP_DigestFinal_ex(state_->context, digest.data(), &length) == 1);
  constexpr const char* kDigits = "0123456789abcdef";
  std::string text;
  for (unsigned i = 0; i < length; ++i) {
    text += {kDigits[digest[i] >> 4], kDigits[digest[i] & 15]};
  }
  return text;
}

}  // namespace holdfast::fetch
