#pragma once
// Logging for every Holdfast program: one JSON object a line on stderr (or text on a terminal).
// spdlog does the work behind this header, so that callers do not pay for its templates.

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

namespace holdfast::log {

/// The severity of a line. Lines below the level of HOLDFAST_LOG are dropped.
enum class Level : std::uint8_t { kDebug, kInfo, kWarn, kError };

/// A named value of a log line.
struct Field {
  std::string_view key;
  std::string value;
  Field(std::string_view k, std::string_view v) : key(k), value(v) {}
  Field(std::string_view k, const char* v) : key(k), value(v) {}
  Field(std::string_view k, const std::string& v) : key(k), value(v) {}
  Field(std::string_view k, std::int64_t v) : key(k), value(std::to_string(v)) {}
  Field(std::string_view k, std::uint64_t v) : key(k), value(std::to_string(v)) {}
  Field(std::string_view k, int v) : key(k), value(std::to_string(v)) {}
  Field(std::string_view k, double v) : key(k), value(std::to_string(v)) {}
};

/// Sets up logging; called once, from main(). Each line has the program's name. `json` = false
/// writes text. HOLDFAST_LOG=debug|info|warn|error sets the level (default info).
void init(std::string_view program, bool json);

/// Writes a line. Thread-safe. `event` is a short constant phrase; what varies goes into the
/// fields. Lines are cut at 8 KiB. Before init() lines go to stderr as text.
void write(Level level, std::string_view event, std::initializer_list<Field> fields = {});

/// Writes a line of the level that the name says, as write() does: debug for developers, info for
/// what an operator may want to know, warn for what works but needs a look, error for what failed.
inline void debug(std::string_view e, std::initializer_list<Field> f = {}) {
  write(Level::kDebug, e, f);
}
inline void info(std::string_view e, std::initializer_list<Field> f = {}) {
  write(Level::kInfo, e, f);
}
inline void warn(std::string_view e, std::initializer_list<Field> f = {}) {
  write(Level::kWarn, e, f);
}
inline void error(std::string_view e, std::initializer_list<Field> f = {}) {
  write(Level::kError, e, f);
}

}  // namespace holdfast::log
