#pragma once
// Going through all objects of a kind, of every tenant, on a thread that may block.

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "control/gateway/common/await.h"
#include "control/gateway/common/object_store.h"

namespace holdfast::gateway {

/// The order in which objects are visited, by the time at which they were made.
enum class Order : std::uint8_t { kOldestFirst, kNewestFirst };

/// Calls visit(objects) for one page after the other until it returns false or `objects_max` have
/// been listed. Returns false if the daemon did not answer: then what was visited is not all.
/// Blocks: never on the SDK's own thread.
template <class Visit>
bool each_page(ObjectStore& object_store, const std::string& kind, Order order,
               std::int64_t objects_max, const Visit& visit) {
  ObjectListQuery query;
  query.kind = kind;
  query.newest_first = order == Order::kNewestFirst;
  for (std::int64_t listed = 0; listed < objects_max;) {
    const auto answer = await<ObjectStore::Page>(
        [&](auto done) { object_store.list(client::AllTenants::local(), query, std::move(done)); });
    const auto* page = std::get_if<ObjectStore::Page>(&answer);
    if (page == nullptr) return false;
    if (!visit(page->objects) || !page->more || page->objects.empty()) return true;
    listed += std::ssize(page->objects);
    query.from = page->objects.back().seq;
  }
  return true;
}

}  // namespace holdfast::gateway
