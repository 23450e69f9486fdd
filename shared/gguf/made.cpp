#include "shared/gguf/made.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>

namespace holdfast::gguf {
namespace {

Error no_memory(std::size_t bytes, const char* step) {
  return {Errc::kMemoryExhausted, "put a tensor of " + std::to_string(bytes) +
                                      " bytes together: " + step + ": " + std::strerror(errno)};
}

}  // namespace

Result<std::unique_ptr<const MadeBytes>> MadeBytes::create(std::size_t bytes, Make make) {
  CHECK(bytes > 0);
  void* at = ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) return no_memory(bytes, "mmap");
  return std::unique_ptr<const MadeBytes>(
      new MadeBytes(static_cast<std::byte*>(at), bytes, std::move(make)));
}

MadeBytes::~MadeBytes() {
  ::munmap(at_, bytes_);
}

Result<void> MadeBytes::hold() const {
  const std::lock_guard lock(mutex_);
  if (holds_ == 0) {
    if (::mprotect(at_, bytes_, PROT_READ | PROT_WRITE) != 0) return no_memory(bytes_, "mprotect");
    const Result<void> made = make_(at_);
    if (!made) {
      CHECK(::madvise(at_, bytes_, MADV_DONTNEED) == 0);
      CHECK(::mprotect(at_, bytes_, PROT_NONE) == 0);
      return made;
    }
    if (::mprotect(at_, bytes_, PROT_READ) != 0) return no_memory(bytes_, "mprotect");
  }
  ++holds_;
  return {};
}

void MadeBytes::release() const {
  const std::lock_guard lock(mutex_);
  CHECK(holds_ > 0);
  if (--holds_ > 0) return;
  CHECK(::madvise(at_, bytes_, MADV_DONTNEED) == 0);
  CHECK(::mprotect(at_, bytes_, PROT_NONE) == 0);
}

Result<Held> Held::of(const TensorInfo& tensor) {
  if (tensor.made == nullptr) return Held();
  HOLDFAST_CHECKED(tensor.made->hold());
  return Held(tensor.made);
}

}  // namespace holdfast::gguf
