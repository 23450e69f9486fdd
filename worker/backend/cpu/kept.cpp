#include "worker/backend/cpu/kept.h"

#include <sys/mman.h>
#include <unistd.h>

#include <utility>

#include "shared/images/image.h"

namespace holdfast::cpu {

Result<KeptImage::Taken> KeptImage::take(std::size_t bytes, const std::string& layout,
                                         const backend::LoadOptions& options) {
  Taken taken;
  const std::size_t rounded = Region::rounded(bytes);
  images::Client* client = options.image_key.empty() ? nullptr : options.images;
  if (client == nullptr || !client->connected()) {
    HF_TRY(taken.region, Region::take(bytes, "weights"));
    return taken;
  }
  const std::string key = layout + "/" + options.image_key;
  int fd = client->find(key, rounded);
  if (fd >= 0 && images::is_sealed_image(fd, rounded)) {
    taken.image.reset(new KeptImage(client, key, fd));
    HF_TRY(taken.region, Region::attach(fd, rounded, "weights"));
    taken.full = true;
    return taken;
  }
  if (fd >= 0) close(fd);
  const Result<int> made = images::make_image(rounded);
  if (!made) {
    HF_TRY(taken.region, Region::take(bytes, "weights"));
    return taken;
  }
  taken.image.reset(new KeptImage(client, key, made.value()));
  HF_TRY(taken.region, Region::share(made.value(), rounded, "weights"));
  return taken;
}

KeptImage::~KeptImage() {
  close(fd_);
  client_->release(key_);
}

void KeptImage::keep(const Region& region) {
  // An image that was not read whole is nobody's.
  if (gguf::ReadGuard::losses() != losses_) return;
  if (mprotect(region.data(), region.bytes(), PROT_READ) != 0 || !images::seal_image(fd_)) return;
  client_->keep(key_, region.bytes(), fd_);
}

}  // namespace holdfast::cpu
