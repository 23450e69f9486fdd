#pragma once
// The root of a sharing group's pages in prefix caches.

#include <string>
#include <string_view>

namespace holdfast::daemon {

/// Returns 16 bytes, the keyed BLAKE2b of `scope` (numerics class, model, sharing group) under a
/// secret of the database: the same on every worker and after every restart, and nobody without the
/// secret can compute the root of another group. `secret` is 16 to 64 bytes, CHECKed. Any thread.
std::string prefix_root(std::string_view secret, std::string_view scope);

}  // namespace holdfast::daemon
