#include "shared/weight_cache/memfd.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

namespace holdfast::weight_cache {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE;

}  // namespace

Result<int> create_memfd(std::uint64_t bytes) {
  const int fd = memfd_create("holdfast-weights", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0) {
    return Error{Errc::kUnsupported, std::string("make image: memfd: ") + std::strerror(errno)};
  }
  if (ftruncate(fd, static_cast<off_t>(bytes)) == 0) return fd;
  const Error error{Errc::kMemoryExhausted,
                    "make image of " + std::to_string(bytes) + " bytes: " + std::strerror(errno)};
  close(fd);
  return error;
}

bool seal_memfd(int fd) {
  return fcntl(fd, F_ADD_SEALS, kSeals) == 0;
}

bool is_sealed_memfd(int fd, std::uint64_t bytes) {
  struct stat st {};
  const int seals = fcntl(fd, F_GET_SEALS);
  return seals >= 0 && (seals & kSeals) == kSeals && fstat(fd, &st) == 0 &&
         static_cast<std::uint64_t>(st.st_size) == bytes;
}

}  // namespace holdfast::weight_cache
