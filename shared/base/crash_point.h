#pragma once
// Named places where a test makes a process die as if by kill -9. In production none is armed, and
// a crash point costs one load and one branch that is never taken.
//
//   HOLDFAST_CRASH_AT=NAME:N  The process kills itself with SIGKILL when it passes NAME for the
//                             N-th time (N from 1; ":N" may be left out).
//   HOLDFAST_CRASH_AT=NAME:N! The same by SIGABRT: a crash of its own, where SIGKILL comes from
//                             outside.
//   HOLDFAST_CRASH_AT=@FILE   FILE.PROGRAM holds NAME:N. The first process of the program that
//                             starts and unlinks the file is armed; it appends "NAME PID" to
//                             FILE.fired before it dies. One file is one death, however many
//                             processes are started afterwards.
//
// crash_points.inc lists the names; docs/inside/durability.md says what must hold at each of them.

#include <cstdint>
#include <span>
#include <string_view>

namespace holdfast {

/// The places at which a test can make a process die: the lines of crash_points.inc.
enum class CrashPoint : std::uint8_t {
#define HOLDFAST_CRASH_POINT(id, name, description) id,
#include "shared/base/crash_points.inc"
#undef HOLDFAST_CRASH_POINT
};

/// A crash point with its name and description.
struct CrashPointInfo {
  CrashPoint point;
  std::string_view name;         // "daemon.commit_tokens.before": the first part is the program
  std::string_view description;  // what has happened and what has not
};
/// Returns all crash points in the order of their enumerators.
std::span<const CrashPointInfo> crash_points();

/// Reads HOLDFAST_CRASH_AT; called once, first in main(). `program` is the first part of the names
/// that belong to this process ("daemon", "worker", "ingress", "gateway", "supervisor"). An unknown
/// name ends the process with status 64, so that a test that kills nothing does not pass.
void arm_crash_points(std::string_view program);

namespace crash_detail {
extern bool armed;  // written only by arm_crash_points(), before there are threads
/// Counts one pass and, if the armed count is reached, writes FILE.fired and kills the process.
/// Thread-safe.
void pass(CrashPoint point);
}  // namespace crash_detail

/// Returns true if any crash point is armed, for work that is only needed to know whether one is
/// reached.
inline bool crash_points_armed() {
  return __builtin_expect(crash_detail::armed, 0) != 0;
}

/// Dies here if the point is armed and its count is reached. Thread-safe.
inline void crash_point(CrashPoint point) {
  if (crash_points_armed()) crash_detail::pass(point);
}

}  // namespace holdfast
