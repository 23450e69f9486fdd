#pragma once
// Output of the CLI: aligned tables for people, one JSON document for scripts, one line for an
// error and one for a change. Colours only on a terminal, and not if NO_COLOR is set
// (no-color.org).

#include <string>
#include <string_view>
#include <vector>

#include "ops/terminal/call.h"
#include "shared/base/result.h"
#include "shared/wire/messages.h"

namespace holdfast::cli {

/// Exit code of a typed error: lookups 3, refusals 4, an absent daemon 69, usage 2, others 1.
int exit_code(Errc code);

/// Prints "holdfast: what" on stderr; with --json also {"error": {"code", "message", numbers}} on
/// stdout. Returns the exit code.
int report_error(const Call& call, Errc code, std::string_view what);
int report_error(const Call& call, const Error& error);
int report_refusal(const Call& call, const wire::Refusal& refusal);

/// True if stdout is a terminal and colours are wanted.
bool use_colour();

/// Rows of text in aligned columns, numbers to the right (table.cpp).
class Table {
 public:
  explicit Table(std::vector<std::string> header) : header_(std::move(header)) {}
  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  bool empty() const { return rows_.empty(); }
  /// The table as text, with the header in bold and states in colour if `colour`. No line has more
  /// than `width` columns (0: no bound): texts are shortened, numbers are not; columns that do not
  /// fit even so are left out, and a last line names them. Ends with a newline.
  std::string str(bool colour, std::size_t width = 0) const;

 private:
  std::vector<std::string> header_;
  std::vector<std::vector<std::string>> rows_;
};

/// "1.2 GiB", "512 B".
std::string human_bytes(double bytes);
/// "2026-03-01 12:00:05" in local time; "-" for 0.
std::string human_time(std::int64_t wall_ms);

}  // namespace holdfast::cli
