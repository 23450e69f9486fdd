#include "shared/huggingface/stamp.h"

#include <fcntl.h>
#include <openssl/crypto.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "shared/base/open_files.h"
#include "shared/huggingface/folder.h"
#include "shared/huggingface/sha256.h"

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

Result<void> hash_file(const std::string& path, Sha256& sha, const OnBytes& on_bytes,
                       std::size_t index) {
  const int fd = open_to_read(path);
  if (fd < 0) return io_error(path);
  posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
  std::vector<unsigned char> buffer(1 << 20);
  ssize_t n = 0;
  bool goes_on = true;
  do {
    n = ::read(fd, buffer.data(), buffer.size());
    if (n > 0) sha.add(buffer.data(), static_cast<std::size_t>(n));
    goes_on = n <= 0 || !on_bytes || on_bytes(index, buffer.data(), static_cast<std::size_t>(n));
  } while (goes_on && (n > 0 || (n < 0 && errno == EINTR)));
  const Error error = io_error(path);
  ::close(fd);
  if (!goes_on) return Error{Errc::kCancelled, path + ": reading it was ended"};
  if (n < 0) return error;
  return {};
}

}  // namespace

void prepare_hashing() {
  OPENSSL_init_crypto(OPENSSL_INIT_NO_LOAD_CONFIG, nullptr);
  (void)Sha256().end_hex();
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
  if (files.size() != 1) all.identity = identities.end_hex();
  return all;
}

Result<std::string> sha256_of(const std::string& path, const OnBytes& on_bytes) {
  Sha256 sha;
  HOLDFAST_TRY(const std::vector<std::string> files, files_of(path));
  constexpr std::size_t kPartEnd = std::string_view("00001-of-00003.gguf").size();
  const bool folder = is_folder(path);
  for (std::size_t index = 0; index < files.size(); ++index) {
    const std::string& file = files[index];
    if (folder || files.size() > 1) {
      HOLDFAST_TRY(const Stamp stamp, stamp_of_file(file));
      const std::string name = file.substr(folder ? path.size() + 1 : file.size() - kPartEnd);
      sha.add(name.c_str(), name.size() + 1);
      unsigned char size[8];
      for (int i = 0; i < 8; ++i) size[i] = static_cast<unsigned char>(stamp.size >> (8 * i));
      sha.add(size, sizeof size);
    }
    HOLDFAST_CHECKED(hash_file(file, sha, on_bytes, index));
  }
  return sha.end_hex();
}

}  // namespace holdfast::huggingface
