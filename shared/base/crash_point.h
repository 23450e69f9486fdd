#pragma once
// Named places where a test lets a process die as if by kill -9. In production nothing is armed and
// a place costs one load and one branch that is never taken.
//
//   HOLDFAST_CRASH_AT=NAME:N  The process kills itself with SIGKILL when it passes NAME for the
//                             N-th time (N from 1; ":N" may be left out).
//   HOLDFAST_CRASH_AT=NAME:N! By SIGABRT: a crash of its own, where SIGKILL is one from outside.
//   HOLDFAST_CRASH_AT=@FILE   FILE.PROGRAM holds NAME:N. The first process of the program that
//                             starts and takes the file away is armed; it appends "NAME PID" to
//                             FILE.fired before it dies. One file is one death, whatever is started
//                             again afterwards.
//
// The names are in crash_points.inc; docs/durability.md says what must hold at each of them.

#include <cstdint>
#include <span>
#include <string_view>

namespace holdfast {

enum class CrashPoint : std::uint8_t {
#define HOLDFAST_CRASH_POINT(id, name, place) id,
#include "shared/base/crash_points.inc"
#undef HOLDFAST_CRASH_POINT
};

struct CrashPointInfo {
  CrashPoint point;
  std::string_view name;   // "daemon.commit_tokens.before": the program is what stands first
  std::string_view place;  // what has happened and what has not
};
/// All of them, in the order of their enumerators.
std::span<const CrashPointInfo> crash_points();

/// Once, first thing in main(): reads HOLDFAST_CRASH_AT. `program` is the first part of the names
/// that belong to this process ("daemon", "worker", "ingress", "gateway", "supervisor"). An unknown
/// name ends the process with status 64: a test that kills nobody must not look like a good one.
void arm_crash_points(std::string_view program);

namespace crash_detail {
extern bool armed;  // written only by arm_crash_points(), before there are threads
void pass(CrashPoint point);
}  // namespace crash_detail

/// True if any point is armed, for work that is only needed to know whether one was reached.
inline bool crash_points_armed() {
  return __builtin_expect(crash_detail::armed, 0) != 0;
}

/// Thread-safe.
inline void crash_point(CrashPoint point) {
  if (crash_points_armed()) crash_detail::pass(point);
}

}  // namespace holdfast
