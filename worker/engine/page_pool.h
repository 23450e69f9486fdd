#pragma once
// The fixed pool of KV pages as numbers; their memory is the backend's.

#include <cstdint>
#include <vector>

#include "shared/base/check.h"

namespace holdfast::engine {

/// Hands out page numbers [0, total). A page has as many holders as take() and share() gave it, and
/// is free again when the last one gives it back. All memory is taken in the constructor. A page
/// that was used before holds old data: its new holder reads only what it wrote itself. Not
/// thread-safe.
class PagePool {
 public:
  explicit PagePool(std::int32_t total)
      : holders_(static_cast<std::size_t>(total)), free_index_(static_cast<std::size_t>(total)) {
    free_.reserve(static_cast<std::size_t>(total));
    for (std::int32_t page = total - 1; page >= 0; --page) put(page);
  }
  std::int32_t total() const { return static_cast<std::int32_t>(holders_.size()); }
  std::int32_t free() const { return static_cast<std::int32_t>(free_.size()); }
  std::int32_t used() const { return total() - free(); }
  std::int32_t holders(std::int32_t page) const { return holders_[static_cast<std::size_t>(page)]; }

  /// Takes a page that nobody holds, or returns -1. It is the one after `after` if that is free, as
  /// memory is read faster in its order.
  std::int32_t take(std::int32_t after = -1) {
    if (free_.empty()) return -1;
    const bool next_is_free = after >= 0 && after + 1 < total() && holders(after + 1) == 0;
    const std::int32_t page = next_is_free ? after + 1 : free_.back();
    CHECK(holders(page) == 0);
    const std::int32_t index = free_index_[static_cast<std::size_t>(page)];
    free_[static_cast<std::size_t>(index)] = free_.back();
    free_index_[static_cast<std::size_t>(free_.back())] = index;
    free_.pop_back();
    holders_[static_cast<std::size_t>(page)] = 1;
    return page;
  }
  /// Adds a holder to a page that is held.
  void share(std::int32_t page) {
    CHECK(page >= 0 && page < total() && holders_[static_cast<std::size_t>(page)] > 0);
    ++holders_[static_cast<std::size_t>(page)];
  }
  /// Takes a holder from a page that is held.
  void give(std::int32_t page) {
    CHECK(page >= 0 && page < total() && holders_[static_cast<std::size_t>(page)] > 0);
    if (--holders_[static_cast<std::size_t>(page)] == 0) put(page);
  }

 private:
  void put(std::int32_t page) {
    free_index_[static_cast<std::size_t>(page)] = free();
    free_.push_back(page);
  }
  std::vector<std::int32_t> free_;
  std::vector<std::int32_t> holders_;     // by page
  std::vector<std::int32_t> free_index_;  // index in free_, by page; valid for free pages
};

}  // namespace holdfast::engine
