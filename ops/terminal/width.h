#pragma once
// The size of a terminal, the columns that a text takes there, and texts cut to fit.

#include <string>
#include <string_view>

namespace holdfast::cli {

/// Columns that a line may have: $COLUMNS, else those of the terminal that stdout is; 0 without
/// either: no bound.
std::size_t line_width();

/// Rows of the terminal that stdout is; 0 if it is none.
std::size_t terminal_rows();

/// Columns that a terminal shows a text in: wide characters take two, combining ones none, colours
/// (ESC [ … m) none.
std::size_t display_width(std::string_view text);

/// The text in at most `width` columns, with "…" for what is left out: in the middle of a path or
/// of one long word, at the end of a sentence.
std::string shorten(std::string_view text, std::size_t width);

/// Lines of at most `width` columns (0: as they are). The rest of a longer one goes below it, a bit
/// further to the right than its beginning, or as far as `indent` says.
std::string wrap_lines(std::string_view text, std::size_t width, std::size_t indent = 0);

/// Lines on stdout, wrapped to its line_width().
void print_lines(std::string_view text, std::size_t indent = 0);

}  // namespace holdfast::cli
