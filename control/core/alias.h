#pragma once
// Routing of aliases: which model a request gets. Pure functions of the alias and of a key that is
// the same for all requests of a conversation; integers alone, so the result is the same
// everywhere.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "control/core/alias_rows.h"
#include "shared/base/result.h"

namespace holdfast::core {

inline constexpr std::int64_t kAliasWeightMax = 1000;
inline constexpr std::size_t kAliasTargetsMax = 16;

/// Targets as text: "m1=3,m2=1".
std::string targets_text(const AliasTargets& targets);
/// Reads what targets_text() writes; a weight that is left out is 1. kUsage: no target, a name
/// twice, a weight out of 1 to kAliasWeightMax, more than kAliasTargetsMax targets.
Result<AliasTargets> parse_targets(std::string_view text);

/// Hash of a conversation's key, as it is stored; never 0.
std::uint64_t route_key(std::string_view sticky);

/// Chooses a target by weighted rendezvous hashing: a target of weight w draws w numbers from
/// (alias, key, model) and the highest of all wins. So each target gets its share, and a change of
/// one weight moves only what that target gains or loses. Targets that are not `usable` are skipped
/// unless none is; nullptr only without targets. Cost: one hash per unit of weight.
const AliasTarget* choose_target(const AliasRow& alias, std::uint64_t key,
                                 const std::function<bool(const std::string&)>& usable);

/// Returns true if the key is among the `percent` of all keys that a canary of this model gets. A
/// key stays among them when the share grows.
bool falls_to_canary(std::int64_t alias_id, std::string_view model, std::uint64_t key,
                     std::int64_t percent);

}  // namespace holdfast::core
