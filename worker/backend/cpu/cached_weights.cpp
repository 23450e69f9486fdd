#include "worker/backend/cpu/cached_weights.h"

#include <sys/mman.h>
#include <unistd.h>

#include <utility>

#include "shared/weight_cache/memfd.h"

namespace holdfast::cpu {

Result<CachedWeights::Taken> CachedWeights::take(std::size_t bytes, const std::string& layout,
                                                 const backend::LoadOptions& options) {
  Taken taken;
  const std::size_t rounded = Region::rounded(bytes);
  weight_cache::Client* client = options.weight_cache_key.empty() ? nullptr : options.weight_cache;
  if (client == nullptr || !client->connected()) {
    HOLDFAST_TRY(taken.region, Region::take(bytes, "weights"));
    return taken;
  }
  const std::string key = layout + "/" + options.weight_cache_key;
  int fd = client->find(key, rounded);
  if (fd >= 0 && weight_cache::is_sealed_memfd(fd, rounded)) {
    taken.weights.reset(new CachedWeights(client, key, fd));
    HOLDFAST_TRY(taken.region, Region::attach(fd, rounded, "weights"));
    taken.full = true;
    return taken;
  }
  if (fd >= 0) close(fd);
  const Result<int> made = weight_cache::create_memfd(rounded);
  if (!made) {
    HOLDFAST_TRY(taken.region, Region::take(bytes, "weights"));
    return taken;
  }
  taken.weights.reset(new CachedWeights(client, key, made.value()));
  HOLDFAST_TRY(taken.region, Region::share(made.value(), rounded, "weights"));
  return taken;
}

CachedWeights::~CachedWeights() {
  close(fd_);
  client_->release(key_);
}

void CachedWeights::publish(const Region& region) {
  // Weights that were not read whole are not published.
  if (gguf::ReadGuard::losses() != losses_) return;
  if (mprotect(region.data(), region.bytes(), PROT_READ) != 0 || !weight_cache::seal_memfd(fd_))
    return;
  client_->put(key_, region.bytes(), fd_);
}

}  // namespace holdfast::cpu
