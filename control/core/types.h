#pragma once
// Small types that every part of the machine shares.

#include <cstdint>
#include <string>
#include <string_view>

#include "shared/wire/messages.h"

namespace holdfast::core {

using domain::Fence;
using domain::FinishReason;
using domain::PriorityClass;
using domain::RequestState;
using domain::TokenId;
using domain::TokenRun;

/// The instant of a step. Deadlines are compared on `mono_us`; `wall_ms` is for rows and people.
struct Now {
  std::int64_t mono_us = 0;
  std::int64_t wall_ms = 0;
};

/// A connection, numbered by the shell; a reconnect has a new number. 0 = none.
using PeerId = std::uint64_t;
/// Rowid of a request: the order of acceptance.
using Seq = std::int64_t;

/// One choice of one request.
struct ChoiceRef {
  Seq seq = 0;
  std::int32_t choice = 0;
  auto operator<=>(const ChoiceRef&) const = default;
};

/// Durability that the rows of a group need, the strongest of them: kFull is synced before anything
/// leaves.
enum class Durability : std::uint8_t { kNone, kNormal, kFull };

/// State of a model as it is stored.
enum class ModelState : std::uint8_t {
  kRegistered,
  kPlacing,
  kLoading,
  kWarming,
  kReady,
  kDraining,
  kUnloaded,
  kFailed,
};
std::string_view model_state_name(ModelState state);  // "registered", …
/// kFailed for an unknown name.
ModelState model_state_from_name(std::string_view name);

}  // namespace holdfast::core
