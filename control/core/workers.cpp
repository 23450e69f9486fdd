#include "control/core/workers.h"

namespace holdfast::core {

std::int64_t pages_for(std::int64_t tokens, std::int64_t page_tokens) {
  const std::int64_t per_page = page_tokens > 0 ? page_tokens : kPageTokens;
  return (tokens + per_page - 1) / per_page;
}

std::vector<std::string> pool_keys(const Worker& worker) {
  std::vector<std::string> keys;
  for (const MemoryPool& pool : worker.hello.memory.pools) keys.push_back(pool.key);
  return keys;
}

std::string_view worker_state_name(const Worker& worker) {
  if (worker.quarantined) return "quarantined";
  if (worker.suspect) return "suspect";
  return worker.draining ? "draining" : "ready";
}

bool fits_now(const Load& load, std::int64_t tokens, std::int64_t fewer, std::int64_t pages) {
  const auto running = static_cast<std::int64_t>(load.running.size()) - fewer;
  if (running >= load.row.slots) return false;
  // The first token needs a page too. An empty worker takes anything that admission let in.
  if (running == 0) return true;
  const std::int64_t needed = pages_for(tokens + 1, load.row.page_tokens) + running;
  return load.pages_used - pages + needed <= load.row.pages;
}

}  // namespace holdfast::core
