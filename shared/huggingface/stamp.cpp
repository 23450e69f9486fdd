#include "shared/huggingface/stamp.h"

#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <vector>

#include "shared/base/bytes.h"
#include "shared/base/check.h"
#include "shared/base/open_files.h"
#include "shared/huggingface/folder.h"

namespace holdfast::huggingface {
namespace {

Error io_error(const std::string& path) {
  return {Errc::kIo, path + ": " + std::strerror(errno)};
}

Result<Stamp> stamp_of_file(const std::string& path) {
  struct stat st = {};
  if (::stat(path.c_str(), &st) != 0) return io_error(path);
  if (!S_ISREG(st.st_mode)) return Error{Errc::kFileInvalid, path + ": not a regular file"};
  if (st.st_size == 0) return Error{Errc::kFileInvalid, path + ": the file is empty"};
  const auto ns = [](const timespec& t) { return t.tv_sec * 1'000'000'000LL + t.tv_nsec; };
  return Stamp{st.st_size, ns(st.st_mtim),
               std::to_string(st.st_dev) + ":" + std::to_string(st.st_ino) + ":" +
                   std::to_string(ns(st.st_ctim))};
}

/// SHA-256 by OpenSSL, which uses the processor's own instructions for it: ten times libsodium's
/// rate, and a model is gigabytes.
class Sha256 {
 public:
  Sha256() : state_(EVP_MD_CTX_new(), &EVP_MD_CTX_free) {
    CHECK(state_ != nullptr && EVP_DigestInit_ex(state_.get(), EVP_sha256(), nullptr) == 1);
  }
  void add(const void* bytes, std::size_t n) {
    CHECK(EVP_DigestUpdate(state_.get(), bytes, n) == 1);
  }
  std::string end() {
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned int size = 0;
    CHECK(EVP_DigestFinal_ex(state_.get(), digest, &size) == 1);
    return to_hex(ByteSpan(reinterpret_cast<const std::byte*>(digest), size));
  }

 private:
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> state_;
};

Result<void> hash_file(const std::string& path, Sha256& sha) {
  const int fd = open_to_read(path);
  if (fd < 0) return io_error(path);
  posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
  std::vector<unsigned char> buffer(1 << 20);
  ssize_t n = 0;
  do {
    n = ::read(fd, buffer.data(), buffer.size());
    if (n > 0) sha.add(buffer.data(), static_cast<std::size_t>(n));
  } while (n > 0 || (n < 0 && errno == EINTR));
  const Error error = io_error(path);
  ::close(fd);
  if (n < 0) return error;
  return {};
}

}  // namespace

void prepare_hashing() {
  OPENSSL_init_crypto(OPENSSL_INIT_NO_LOAD_CONFIG, nullptr);
  (void)Sha256().end();
}

Result<Stamp> stamp_of(const std::string& path) {
  Stamp all;
  Sha256 identities;
  HOLDFAST_TRY(const std::vector<std::string> files, files_of(path));
  for (const std::string& file : files) {
    HOLDFAST_TRY(const Stamp one, stamp_of_file(file));
    all.size += one.size;
    all.mtime_ns = std::max(all.mtime_ns, one.mtime_ns);
    identities.add(one.identity.c_str(), one.identity.size() + 1);
    all.identity = one.identity;
  }
  if (files.size() != 1) all.identity = identities.end();
  return all;
}

Result<std::string> sha256_of(const std::string& path) {
  Sha256 sha;
  HOLDFAST_TRY(const std::vector<std::string> files, files_of(path));
  constexpr std::size_t kPartEnd = std::string_view("00001-of-00003.gguf").size();
  const bool folder = is_folder(path);
  for (const std::string& file : files) {
    if (folder || files.size() > 1) {
      HOLDFAST_TRY(const Stamp stamp, stamp_of_file(file));
      const std::string name = file.substr(folder ? path.size() + 1 : file.size() - kPartEnd);
      sha.add(name.c_str(), name.size() + 1);
      unsigned char size[8];
      for (int i = 0; i < 8; ++i) size[i] = static_cast<unsigned char>(stamp.size >> (8 * i));
      sha.add(size, sizeof size);
    }
    HOLDFAST_CHECKED(hash_file(file, sha));
  }
  return sha.end();
}

}  // namespace holdfast::huggingface
