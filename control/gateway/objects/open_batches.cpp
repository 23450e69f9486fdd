#include "control/gateway/objects/open_batches.h"

#include <algorithm>
#include <utility>

#include "shared/base/check.h"

namespace holdfast::gateway {

void OpenBatches::look(std::vector<OpenBatch> open) {
  open_ = std::move(open);
  tried_.clear();
  std::set<std::string> owners;
  for (const OpenBatch& batch : open_) owners.insert(batch.owner);
  std::erase_if(tenants_, [&](const auto& tenant) {
    return tenant.second.threads == 0 && !owners.contains(tenant.first);
  });
  update_waiting();
}

std::optional<OpenBatch> OpenBatches::take(std::int64_t now_ms) {
  const OpenBatch* best = nullptr;
  std::pair<int, std::uint64_t> best_rank;
  for (const OpenBatch& batch : open_) {
    if (!is_free(batch)) continue;
    const auto tenant = tenants_.find(batch.owner);
    const std::pair<int, std::uint64_t> rank =
        tenant == tenants_.end() ? std::pair<int, std::uint64_t>()
                                 : std::make_pair(tenant->second.threads, tenant->second.served);
    if (best != nullptr && rank >= best_rank) continue;
    best = &batch;
    best_rank = rank;
  }
  if (best == nullptr) return std::nullopt;
  taken_[best->id] = now_ms;
  Tenant& tenant = tenants_[best->owner];
  ++tenant.threads;
  tenant.served = ++takes_;
  update_waiting();
  return *best;
}

void OpenBatches::leave(const OpenBatch& batch) {
  const std::size_t erased = taken_.erase(batch.id);
  CHECK_MSG(erased == 1, "a batch that is left was taken");
  tried_.insert(batch.id);
  --tenants_.at(batch.owner).threads;
  update_waiting();
}

int OpenBatches::threads_of(const std::string& owner) const {
  const auto tenant = tenants_.find(owner);
  return tenant == tenants_.end() ? 0 : tenant->second.threads;
}

bool OpenBatches::gives_way(const OpenBatch& batch, std::int64_t now_ms,
                            std::int64_t slice_ms) const {
  const auto taken = taken_.find(batch.id);
  CHECK_MSG(taken != taken_.end(), "only a batch that is worked on can give way");
  return tenant_waits_ && (threads_of(batch.owner) > 1 || now_ms - taken->second >= slice_ms);
}

void OpenBatches::update_waiting() {
  tenant_waits_ = std::any_of(open_.begin(), open_.end(), [this](const OpenBatch& batch) {
    return is_free(batch) && threads_of(batch.owner) == 0;
  });
}

}  // namespace holdfast::gateway
