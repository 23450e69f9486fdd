#pragma once
// Exit statuses by which a program tells the one that started it whether another start can help.
// 64 to 78 have the meanings of sysexits.h. Statuses of workers are in progress.h.

namespace holdfast::exit_status {

inline constexpr int kUsage = 64;
inline constexpr int kDamaged = 70;  // the database is damaged, or of a newer version
inline constexpr int kStorage = 74;
inline constexpr int kOwned = 75;  // another process has the state directory, or another machine
inline constexpr int kKeyRefused = 77;
/// A daemon that served, or was about to, found that another machine is the primary now. The next
/// start finds what this machine is to be, so it is none of the final ones, however short the
/// daemon has lived.
inline constexpr int kOtherPrimary = 79;

/// True for a status of a program that has not served yet and would end the same at its next start.
constexpr bool is_final(int status) {
  constexpr int kFirst = 64, kLast = 78;
  return status >= kFirst && status <= kLast;
}
static_assert(is_final(kUsage) && is_final(kDamaged) && is_final(kStorage) && is_final(kOwned));
static_assert(!is_final(kOtherPrimary));

}  // namespace holdfast::exit_status
