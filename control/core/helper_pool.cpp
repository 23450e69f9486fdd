#include "control/core/helper_pool.h"

#include <iterator>
#include <limits>

namespace holdfast::core {

std::map<HelperPool::Id, std::int64_t> HelperPool::remove(PeerId helper) {
  const auto node = helpers_.extract(helper);
  return node.empty() ? std::map<Id, std::int64_t>() : node.mapped().jobs;
}

/// Returns the helper with the fewest jobs that takes one more. The last helper takes no large
/// jobs. It is the same one for everybody who gives work to the same helpers, and small jobs prefer
/// it.
std::optional<PeerId> HelperPool::available_helper(bool large) const {
  std::optional<PeerId> best;
  std::size_t fewest = jobs_max_;
  for (auto it = helpers_.begin(); it != helpers_.end(); ++it) {
    const bool reserved = helpers_.size() > 1 && std::next(it) == helpers_.end();
    const Helper& helper = it->second;
    if (large && reserved) continue;
    if (helper.bytes >= kBytesMax || helper.jobs.size() >= jobs_max_) continue;
    if (helper.jobs.size() > fewest) continue;
    if (large && best && helper.jobs.size() == fewest) continue;
    best = it->first;
    fewest = helper.jobs.size();
  }
  return best;
}

std::optional<std::pair<HelperPool::Id, PeerId>> HelperPool::assign(FairLine& line) {
  if (line.size() == 0) return std::nullopt;
  const auto for_large = available_helper(true);
  const auto for_small = available_helper(false);
  if (!for_small) return std::nullopt;
  const auto job =
      line.pop_job(for_large ? std::numeric_limits<std::int64_t>::max() : kBytesMax - 1);
  if (!job) return std::nullopt;
  const PeerId to = job->cost >= kBytesMax ? *for_large : *for_small;
  Helper& helper = helpers_.at(to);
  helper.jobs.emplace(job->id, job->cost);
  helper.bytes += job->cost;
  return std::pair(job->id, to);
}

void HelperPool::leave(PeerId helper, Id job) {
  const auto it = helpers_.find(helper);
  if (it == helpers_.end()) return;
  const auto found = it->second.jobs.find(job);
  if (found == it->second.jobs.end()) return;
  it->second.bytes -= found->second;
  it->second.jobs.erase(found);
}

}  // namespace holdfast::core
