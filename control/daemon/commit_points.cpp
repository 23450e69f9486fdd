#include "control/daemon/commit_points.h"

#include <optional>

#include "shared/base/crash_point.h"

namespace holdfast::daemon {
namespace {

std::optional<CrashPoint> kind_of(const core::EndAttempt& ended) {
  if (ended.reason.rfind("worker lost", 0) != 0) return std::nullopt;
  return CrashPoint::kDaemonCommitRequeueBefore;
}

std::optional<CrashPoint> kind_of(const core::UpdateRequest& changed) {
  if (changed.state == core::RequestState::kCancelled) return CrashPoint::kDaemonCommitCancelBefore;
  if (wire::is_terminal(changed.state)) return CrashPoint::kDaemonCommitEndBefore;
  return std::nullopt;
}

/// The crash point before the commit of a row change, by its meaning to the outside. The point
/// after the commit is the next enumerator.
std::optional<CrashPoint> kind_of(const core::RowChange& row) {
  if (std::holds_alternative<core::InsertRequest>(row)) {
    return CrashPoint::kDaemonCommitAcceptBefore;
  }
  if (std::holds_alternative<core::InsertChunk>(row)) return CrashPoint::kDaemonCommitTokensBefore;
  if (const auto* begun = std::get_if<core::BeginAttempt>(&row)) {
    return begun->adopted ? CrashPoint::kDaemonCommitAdoptBefore
                          : CrashPoint::kDaemonCommitDispatchBefore;
  }
  if (const auto* ended = std::get_if<core::EndAttempt>(&row)) return kind_of(*ended);
  if (const auto* changed = std::get_if<core::UpdateRequest>(&row)) return kind_of(*changed);
  if (std::holds_alternative<core::PutModel>(row) || std::holds_alternative<core::PutLoad>(row)) {
    return CrashPoint::kDaemonCommitModelBefore;
  }
  return std::nullopt;
}

CrashPoint after(CrashPoint before) {
  return static_cast<CrashPoint>(static_cast<int>(before) + 1);
}

static_assert(static_cast<int>(CrashPoint::kDaemonCommitAcceptBefore) + 1 ==
              static_cast<int>(CrashPoint::kDaemonCommitAcceptAfter));
static_assert(static_cast<int>(CrashPoint::kDaemonCommitModelBefore) + 1 ==
              static_cast<int>(CrashPoint::kDaemonCommitModelAfter));

}  // namespace

void pass_commit_points(std::span<const core::RowChange> rows, bool before) {
  std::uint64_t passed = 0;  // a group passes a point once, however many rows have it
  for (const core::RowChange& row : rows) {
    const auto kind = kind_of(row);
    if (!kind) continue;
    const std::uint64_t bit = std::uint64_t{1} << static_cast<int>(*kind);
    if ((passed & bit) != 0) continue;
    passed |= bit;
    crash_point(before ? *kind : after(*kind));
  }
}

}  // namespace holdfast::daemon
