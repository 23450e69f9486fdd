#pragma once
// CHECK aborts loudly on our own bugs, in every build. Faults from outside are `Result`s
// (result.h).

namespace holdfast {

/// Prints "CHECK failed: expression (file:line): note" on stderr and aborts. Thread-safe.
[[noreturn]] void check_failed(const char* expression, const char* file, int line,
                               const char* note);

}  // namespace holdfast

#define CHECK(condition)              \
  (__builtin_expect(!!(condition), 1) \
       ? static_cast<void>(0)         \
       : ::holdfast::check_failed(#condition, __FILE__, __LINE__, nullptr))

/// Like CHECK, with a C string that says what was expected.
#define CHECK_MSG(condition, note)    \
  (__builtin_expect(!!(condition), 1) \
       ? static_cast<void>(0)         \
       : ::holdfast::check_failed(#condition, __FILE__, __LINE__, note))
