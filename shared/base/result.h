#pragma once
// Result<T>: a value or a typed error. Neither compiler of Debian 12 has std::expected in C++20.

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "shared/base/check.h"

namespace holdfast {

/// Every error of Holdfast. The names (errc_name) are the typed codes that users see in the CLI's
/// JSON, in HTTP error bodies and on the wire; they never change their meaning.
enum class Errc : std::uint8_t {
  // refusals of a request (DESIGN: "Refusals are typed")
  kQueueFull,
  kContextExceeded,
  kMemoryExhausted,
  kRateLimited,
  kDeadlineUnreachable,
  kModelNotFound,
  kModelFailed,
  kPlacementUnsupported,
  kNoChatTemplate,
  kQuarantined,
  kInvalidRequest,
  kUnauthorized,
  kDraining,
  kStorageFull,
  kNoStandby,            // no machine has what an answer would promise
  kIdempotencyMismatch,  // same key, other body
  // lookups and arguments
  kNotFound,
  kUsage,
  kConflict,  // e.g. a name that is taken, a second daemon on one state directory
  // files and formats
  kIo,           // open, read, write; what() names the path and errno
  kFileInvalid,  // a file's content is not what its format says
  kUnsupported,  // well-formed, but not something that we can do
  // storage of the daemon
  kStorage,  // SQLite I/O error: fatal for the daemon
  kCorrupt,  // the database is damaged
  kDiskFull,
  kVersionNewer,  // database or protocol newer than the program
  // execution
  kUnreachable,  // daemon or peer does not answer
  kTimeout,
  kCancelled,
  kExpired,
  kWorkerLost,
  kNumericsNan,           // a NaN or infinity in the logits
  kDeterminismViolation,  // the same token index came with two different ids
  kDeterminismClassUnavailable,
  kStaleFence,
  kInternal,
};

/// Returns "queue_full", "context_exceeded", … (snake_case, stable).
std::string_view errc_name(Errc code);
/// Returns the code of a name; kInternal for an unknown one.
Errc errc_from_name(std::string_view name);

/// An error: its typed code, and what it is about.
struct Error {
  Errc code = Errc::kInternal;
  std::string what;  // one line: "operation object: cause; what was expected; what to do"
};

template <class T>
class [[nodiscard]] Result {  // member names as in std::expected
 public:
  Result(T value) : v_(std::in_place_index<0>, std::move(value)) {}      // NOLINT
  Result(Error error) : v_(std::in_place_index<1>, std::move(error)) {}  // NOLINT
  /// True for a value, false for an error.
  bool has_value() const { return v_.index() == 0; }
  explicit operator bool() const { return has_value(); }
  /// The value. Calling it on an error is a bug and ends the process with the error's text.
  T& value() & {
    CHECK_MSG(has_value(), has_value() ? nullptr : std::get_if<1>(&v_)->what.c_str());
    return *std::get_if<0>(&v_);
  }
  const T& value() const& {
    CHECK_MSG(has_value(), has_value() ? nullptr : std::get_if<1>(&v_)->what.c_str());
    return *std::get_if<0>(&v_);
  }
  T&& value() && {
    CHECK_MSG(has_value(), has_value() ? nullptr : std::get_if<1>(&v_)->what.c_str());
    return std::move(*std::get_if<0>(&v_));
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  /// The error. Calling it on a value is a bug and ends the process.
  const Error& error() const {
    CHECK(!has_value());
    return *std::get_if<1>(&v_);
  }

 private:
  std::variant<T, Error> v_;
};

/// The result of an operation that has no value: `return {};` is success.
template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : failed_(true), error_(std::move(error)) {}  // NOLINT
  /// True for success, false for an error.
  bool has_value() const { return !failed_; }
  explicit operator bool() const { return !failed_; }
  /// The error. Calling it on success is a bug and ends the process.
  const Error& error() const {
    CHECK(failed_);
    return error_;
  }

 private:
  bool failed_ = false;
  Error error_;
};

}  // namespace holdfast

#define HOLDFAST_CONCAT_INNER(a, b) a##b
#define HOLDFAST_CONCAT(a, b) HOLDFAST_CONCAT_INNER(a, b)
/// HOLDFAST_TRY(auto x, expression) sets x to the value, or returns the error from this function.
#define HOLDFAST_TRY(declaration, expression)                      \
  auto HOLDFAST_CONCAT(holdfast_result_, __LINE__) = (expression); \
  if (!HOLDFAST_CONCAT(holdfast_result_, __LINE__).has_value())    \
    return HOLDFAST_CONCAT(holdfast_result_, __LINE__).error();    \
  declaration = std::move(HOLDFAST_CONCAT(holdfast_result_, __LINE__)).value()
/// HOLDFAST_CHECKED(expression) returns the error of a Result<void> from this function.
#define HOLDFAST_CHECKED(expression)                                  \
  do {                                                                \
    auto holdfast_result = (expression);                              \
    if (!holdfast_result.has_value()) return holdfast_result.error(); \
  } while (false)
