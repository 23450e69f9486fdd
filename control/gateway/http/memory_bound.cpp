#include "control/gateway/http/memory_bound.h"

#include <malloc.h>
#include <pthread.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

namespace holdfast::gateway {
namespace {

// More arenas retain more freed memory: a burst on one thread would stay with it.
constexpr int kArenas = 4;
// Freed blocks of this size go back to the kernel at once.
constexpr int kMappedFromBytes = 256 * 1024;

}  // namespace

Result<void> bound_memory(std::int64_t bytes) {
  mallopt(M_ARENA_MAX, kArenas);
  mallopt(M_MMAP_THRESHOLD, kMappedFromBytes);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, kThreadStackBytes);
  const int rc = pthread_setattr_default_np(&attributes);
  pthread_attr_destroy(&attributes);
  if (rc != 0) return Error{Errc::kInternal, std::string("stack size: ") + std::strerror(rc)};
  rlimit limit{};
  if (::getrlimit(RLIMIT_DATA, &limit) != 0) {
    return Error{Errc::kInternal, std::string("getrlimit RLIMIT_DATA: ") + std::strerror(errno)};
  }
  limit.rlim_cur = std::min(static_cast<rlim_t>(bytes), limit.rlim_max);
  if (::setrlimit(RLIMIT_DATA, &limit) == 0) return {};
  return Error{Errc::kInternal, std::string("setrlimit RLIMIT_DATA: ") + std::strerror(errno)};
}

}  // namespace holdfast::gateway
