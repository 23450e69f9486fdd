#include "shared/base/progress.h"

#include <atomic>

namespace holdfast {
namespace {

std::atomic<std::uint64_t> g_count{0};

}  // namespace

void note_progress() {
  g_count.fetch_add(1, std::memory_order_relaxed);
}

std::uint64_t progress_count() {
  return g_count.load(std::memory_order_relaxed);
}

}  // namespace holdfast
