#include "control/core/alias.h"

#include <algorithm>
#include <charconv>

namespace holdfast::core {
namespace {

constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15ull;

/// Finalizer of SplitMix64 (Steele, Lea, Flood 2014): every bit of the result depends on every bit
/// of x.
std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

/// FNV-1a, 64 bits.
std::uint64_t text_hash(std::string_view text, std::uint64_t h = 0xcbf29ce484222325ull) {
  for (const char c : text) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
  return h;
}

std::uint64_t draw(std::int64_t alias_id, std::string_view what, std::string_view model,
                   std::uint64_t key) {
  const std::uint64_t salt = text_hash(model, text_hash(what));
  return mix(key ^ mix(salt + kGolden * static_cast<std::uint64_t>(alias_id)));
}

Error bad_targets(const std::string& why) {
  return Error{Errc::kUsage, "alias targets: " + why + "; expected MODEL[=WEIGHT],…"};
}

}  // namespace

std::string targets_text(const AliasTargets& targets) {
  std::string text;
  for (const AliasTarget& target : targets) {
    text += (text.empty() ? "" : ",") + target.model + "=" + std::to_string(target.weight);
  }
  return text;
}

Result<AliasTargets> parse_targets(std::string_view text) {
  AliasTargets targets;
  for (bool more = true; more;) {
    const std::size_t comma = text.find(',');
    more = comma != std::string_view::npos;
    const std::string_view item = text.substr(0, comma);
    if (more) text.remove_prefix(comma + 1);
    const std::size_t equals = item.find('=');
    AliasTarget target;
    target.model = item.substr(0, equals);
    if (target.model.empty()) return bad_targets("a model's name is missing");
    if (equals != std::string_view::npos) {
      const std::string_view weight = item.substr(equals + 1);
      const auto [end, error] =
          std::from_chars(weight.data(), weight.data() + weight.size(), target.weight);
      if (error != std::errc() || end != weight.data() + weight.size() || target.weight < 1 ||
          target.weight > kAliasWeightMax) {
        return bad_targets("weight \"" + std::string(weight) + "\" of " + target.model +
                           " is not a whole number from 1 to " + std::to_string(kAliasWeightMax));
      }
    }
    const bool twice = std::any_of(targets.begin(), targets.end(), [&](const AliasTarget& other) {
      return other.model == target.model;
    });
    if (twice) return bad_targets(target.model + " is named twice");
    targets.push_back(std::move(target));
  }
  if (targets.size() > kAliasTargetsMax) {
    return bad_targets("more than " + std::to_string(kAliasTargetsMax) + " models");
  }
  return targets;
}

std::uint64_t route_key(std::string_view sticky) {
  return std::max<std::uint64_t>(mix(text_hash(sticky)), 1);
}

const AliasTarget* choose_target(const AliasRow& alias, std::uint64_t key,
                                 const std::function<bool(const std::string&)>& usable) {
  const bool any = std::any_of(alias.targets.begin(), alias.targets.end(),
                               [&](const AliasTarget& target) { return usable(target.model); });
  const AliasTarget* best = nullptr;
  std::uint64_t highest = 0;
  for (const AliasTarget& target : alias.targets) {
    if (any && !usable(target.model)) continue;
    const std::uint64_t base = draw(alias.id, "target/", target.model, key);
    for (std::int64_t i = 0; i < target.weight; ++i) {
      const std::uint64_t drawn = mix(base + kGolden * static_cast<std::uint64_t>(i));
      if (best != nullptr && drawn <= highest) continue;
      best = &target;
      highest = drawn;
    }
  }
  return best;
}

bool falls_to_canary(std::int64_t alias_id, std::string_view model, std::uint64_t key,
                     std::int64_t percent) {
  const std::uint64_t drawn = draw(alias_id, "canary/", model, key) >> 32;  // below 2^32
  return static_cast<std::int64_t>(drawn * 10'000 >> 32) < percent * 100;
}

}  // namespace holdfast::core
