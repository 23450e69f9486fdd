#pragma once
// Which model a request gets that asked for an alias. Pure functions of the alias and of a key that
// is the same for all requests of a conversation; integers alone, so the same everywhere.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "control/core/alias_rows.h"
#include "shared/base/result.h"

namespace holdfast::core {

inline constexpr std::int64_t kAliasWeightMax = 1000;
inline constexpr std::size_t kAliasTargetsMax = 16;

/// "m1=3,m2=1"
std::string targets_text(const AliasTargets& targets);
/// Reads the same; a weight that is left out is 1. kUsage: no target, a name twice, a weight out of
/// 1 to kAliasWeightMax, more than kAliasTargetsMax.
Result<AliasTargets> parse_targets(std::string_view text);

/// What is stored of the key; never 0.
std::uint64_t route_key(std::string_view sticky);

/// Weighted rendezvous hashing: a target of weight w draws w numbers from (alias, key, model) and
/// the highest of all wins. So each gets its share, and a change of one weight moves only what that
/// target gains or loses. Targets that are not `usable` are passed over unless none is; nullptr
/// only without targets. Cost: one hash a unit of weight.
const AliasTarget* choose_target(const AliasRow& alias, std::uint64_t key,
                                 const std::function<bool(const std::string&)>& usable);

/// Whether the key is among the `percent` of all that a canary of this model gets. Who is among
/// them stays so when the share grows.
bool falls_to_canary(std::int64_t alias_id, std::string_view model, std::uint64_t key,
                     std::int64_t percent);

}  // namespace holdfast::core
