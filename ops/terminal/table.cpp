// Tables, and how they are fitted to a terminal.

#include <algorithm>

#include "ops/terminal/output.h"
#include "ops/terminal/width.h"

namespace holdfast::cli {
namespace {

constexpr std::string_view kGreen = "\033[32m", kRed = "\033[31m", kYellow = "\033[33m";
constexpr std::string_view kBold = "\033[1m", kPlain = "\033[0m";
constexpr std::size_t kGap = 2;         // between columns
constexpr std::size_t kTextLeast = 10;  // of a text that is shortened
constexpr std::size_t kTitleLeast = 6;
constexpr std::size_t kNameLeast = 32;  // ids are shorter

using Row = std::vector<std::string>;

/// The colour of a state of a request, model or worker, by what it means to people.
std::string_view colour_of(std::string_view cell) {
  for (const char* good : {"ready", "succeeded", "running", "ok", "idle", "yes", "connected"}) {
    if (cell == good) return kGreen;
  }
  for (const char* bad : {"failed", "quarantined", "expired", "lost", "dead", "suspected"}) {
    if (cell == bad) return kRed;
  }
  for (const char* between :
       {"queued", "placing", "loading", "warming", "draining", "paused", "cancelled", "starting"}) {
    if (cell == between) return kYellow;
  }
  return {};
}

bool is_number(std::string_view cell) {
  return !cell.empty() && std::all_of(cell.begin(), cell.end(), [](char c) {
    return (c >= '0' && c <= '9') || c == '.' || c == '-' || c == '%';
  });
}

struct Column {
  std::size_t index = 0;
  std::size_t title = 0;  // terminal columns of its title
  std::size_t cells = 0;  // of its widest cell
  bool number = true;     // or "-" in each row
  bool says_nothing = true;
  std::size_t width = 0;

  std::size_t natural() const { return std::max(title, cells); }
  /// The least width: numbers stay whole; texts may lose their middle, those of the first column
  /// less, because other verbs name things by them.
  std::size_t least() const {
    if (index == 0) return std::min(natural(), kNameLeast);
    if (number) return std::max(cells, std::min(title, kTitleLeast));
    return std::min(natural(), kTextLeast);
  }
};

std::vector<Column> measure(const Row& header, const std::vector<Row>& rows) {
  std::vector<Column> columns(header.size());
  for (std::size_t i = 0; i < header.size(); ++i) {
    Column& column = columns[i];
    column.index = i;
    column.title = display_width(header[i]);
    for (const Row& row : rows) {
      if (i >= row.size()) continue;
      column.cells = std::max(column.cells, display_width(row[i]));
      column.number = column.number && (row[i] == "-" || is_number(row[i]));
      column.says_nothing = column.says_nothing && (row[i] == "-" || row[i].empty());
    }
    column.width = column.natural();
  }
  return columns;
}

/// Sums the columns' widths and the gaps between them.
template <class Width>
std::size_t sum_of(const std::vector<Column>& columns, Width width) {
  std::size_t sum = columns.empty() ? 0 : (columns.size() - 1) * kGap;
  for (const Column& column : columns) sum += width(column);
  return sum;
}

/// Leaves out columns that do not fit even at their least width: empty ones first, then from the
/// right. The first stays, and a state does as long as there are others.
Row leave_out(std::vector<Column>& columns, const Row& header, std::size_t width) {
  Row left_out;
  while (columns.size() > 1 && sum_of(columns, [](const Column& c) { return c.least(); }) > width) {
    auto victim = std::find_if(columns.rbegin(), columns.rend() - 1,
                               [](const Column& column) { return column.says_nothing; });
    if (victim == columns.rend() - 1) {
      victim = std::find_if(columns.rbegin(), columns.rend() - 1, [&](const Column& column) {
        return header[column.index] != "STATE" && header[column.index] != "state";
      });
    }
    if (victim == columns.rend() - 1) victim = columns.rbegin();
    left_out.push_back(header[victim->index]);
    columns.erase(std::next(victim).base());
  }
  std::reverse(left_out.begin(), left_out.end());
  return left_out;
}

/// Sets each column between its least and its natural width: the widest texts give way first.
void share(std::vector<Column>& columns, std::size_t width) {
  for (Column& column : columns) column.width = column.natural();
  while (sum_of(columns, [](const Column& c) { return c.width; }) > width) {
    Column* widest = nullptr;
    for (Column& column : columns) {
      // Among equals the last one gives way: the first column names the row.
      const bool may_give = column.width > column.least();
      if (may_give && (widest == nullptr || column.width >= widest->width)) widest = &column;
    }
    if (widest == nullptr) break;
    --widest->width;
  }
  if (columns.size() == 1) columns[0].width = std::min(columns[0].width, width);
}

/// Replaces control characters: they would move the cursor, or change the terminal.
std::string printable(std::string_view cell) {
  std::string text(cell);
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) c = '?';
  }
  return text;
}

std::string_view tint_of(const std::string& cell, bool colour, bool is_header) {
  if (!colour) return {};
  return is_header ? kBold : colour_of(cell);
}

void append_row(std::string& out, const Row& row, const std::vector<Column>& columns, bool colour,
                bool is_header) {
  for (const Column& column : columns) {
    const bool last = &column == &columns.back();
    const std::string cell = column.index < row.size() ? row[column.index] : std::string();
    const std::string text = shorten(printable(cell), column.width);
    const std::string_view tint = tint_of(cell, colour, is_header);
    const std::string blanks(column.width - std::min(column.width, display_width(text)), ' ');
    if (column.number) out += blanks;
    out += tint;
    out += text;
    if (!tint.empty()) out += kPlain;
    if (!column.number && !last) out += blanks;
    if (!last) out.append(kGap, ' ');
  }
  out += '\n';
}

}  // namespace

std::string Table::str(bool colour, std::size_t width) const {
  std::vector<Column> columns = measure(header_, rows_);
  Row left_out;
  if (width > 0) {
    left_out = leave_out(columns, header_, width);
    share(columns, width);
  }
  std::string out;
  append_row(out, header_, columns, colour, true);
  for (const Row& row : rows_) append_row(out, row, columns, colour, false);
  if (left_out.empty()) return out;
  std::string names;
  for (const std::string& name : left_out) names += (names.empty() ? "" : ", ") + name;
  return out + wrap_lines("… no room for: " + names + " (a wider terminal or --json)\n", width);
}

}  // namespace holdfast::cli
