#pragma once
// Weights that outlive the process which packed them: their region is an image that a keeper
// (shared/images) holds too. A load that finds its image packs nothing and reads no tensor.

#include <memory>
#include <string>

#include "shared/gguf/read_guard.h"
#include "worker/backend/backend.h"
#include "worker/backend/cpu/memory.h"

namespace holdfast::cpu {

/// This process's part in an image; gives it back when it goes.
class KeptImage {
 public:
  /// Memory for `bytes` of weights: an image that is full already (`full`), one that is to be
  /// filled, or, where nobody keeps images, memory of this process alone (then there is no
  /// KeptImage). Errors as Region::take. `layout`: whatever the bytes depend on beside the model.
  struct Taken {
    Region region;
    std::unique_ptr<KeptImage> image;
    bool full = false;
  };
  static Result<Taken> take(std::size_t bytes, const std::string& layout,
                            const backend::LoadOptions& options);
  ~KeptImage();
  KeptImage(const KeptImage&) = delete;
  KeptImage& operator=(const KeptImage&) = delete;

  /// Filled: `region` is read-only from now on, and whoever comes next finds it.
  void keep(const Region& region);

 private:
  KeptImage(images::Client* client, std::string key, int fd)
      : client_(client), key_(std::move(key)), fd_(fd), losses_(gguf::ReadGuard::losses()) {}
  images::Client* client_;
  std::string key_;
  int fd_;
  std::uint64_t losses_;  // of reads, when it was made
};

}  // namespace holdfast::cpu
