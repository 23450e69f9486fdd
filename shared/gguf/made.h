#pragma once
// Tensor bytes that no file has in GGUF's order: experts that a model folder stores one by one,
// rows in another order, transposed matrices. They are made when they are held and freed
// afterwards, so that a model costs the memory of one such tensor and not of all.

#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>

#include "shared/base/bytes.h"
#include "shared/base/result.h"
#include "shared/gguf/gguf.h"

namespace holdfast::gguf {

/// The bytes of one tensor. They have their addresses from the start and a content while they are
/// held; a read at any other time ends the process, as it would give wrong numbers. Safe from any
/// thread.
class MadeBytes {
 public:
  /// Writes all bytes of the tensor, the same ones each time. An error: what they are made of is no
  /// tensor.
  using Make = std::function<Result<void>(std::byte* out)>;
  /// Reserves the addresses; `bytes` is above 0. kMemoryExhausted: no addresses left.
  static Result<std::unique_ptr<const MadeBytes>> create(std::size_t bytes, Make make);
  ~MadeBytes();
  MadeBytes(const MadeBytes&) = delete;
  MadeBytes& operator=(const MadeBytes&) = delete;

  ByteSpan span() const { return {at_, bytes_}; }
  /// Makes the bytes at the first hold. Each hold is matched by a release; the last one frees the
  /// bytes. kMemoryExhausted, or the error of making them: then nothing is held.
  Result<void> hold() const;
  void release() const;

 private:
  MadeBytes(std::byte* at, std::size_t bytes, Make make)
      : at_(at), bytes_(bytes), make_(std::move(make)) {}

  std::byte* at_;
  std::size_t bytes_;
  Make make_;
  mutable std::mutex mutex_;
  mutable std::size_t holds_ = 0;
};

/// Returns the memory that holding a tensor takes: 0 for one in a mapping.
inline std::size_t made_bytes(const TensorInfo& tensor) {
  return tensor.made == nullptr ? 0 : tensor.data.size();
}

/// Holds the bytes of a tensor as long as it lives; does nothing for tensors in a mapping. The File
/// must outlive it.
class Held {
 public:
  Held() = default;
  static Result<Held> of(const TensorInfo& tensor);
  ~Held() {
    if (made_ != nullptr) made_->release();
  }
  Held(Held&& other) noexcept : made_(std::exchange(other.made_, nullptr)) {}
  Held& operator=(Held&& other) noexcept {
    std::swap(made_, other.made_);
    return *this;
  }

 private:
  explicit Held(const MadeBytes* made) : made_(made) {}
  const MadeBytes* made_ = nullptr;
};

}  // namespace holdfast::gguf
