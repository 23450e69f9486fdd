#include "ops/terminal/render.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "ops/terminal/output.h"
#include "ops/terminal/width.h"

namespace holdfast::cli {
namespace {

using nlohmann::json;

constexpr std::int64_t kFirstWallMs = 1'500'000'000'000;  // 2017: a smaller "…_ms" is a duration
constexpr std::size_t kCellMax = 120;

bool ends_with(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

/// True for byte counts, which memory reports name without a suffix.
bool is_bytes(std::string_view key) {
  return ends_with(key, "_bytes") || key == "bytes" || key == "rss" || key == "weights" ||
         key == "kv" || key == "scratch" || key == "memory" || key == "memory_total" ||
         key == "memory_free";
}

/// True for a point in time, not a duration: "created_ms", "ended_ms", …
bool is_wall_time(std::string_view key) {
  return ends_with(key, "ed_ms") || ends_with(key, "_at_ms") || key == "ready_ms" ||
         key == "at_ms" || key == "since_ms";
}

std::string text_cell(const std::string& key, std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  if (ends_with(key, "sha") && text.size() > 12) return text.substr(0, 12);
  text = shorten(text, kCellMax);
  return text.empty() ? "-" : text;
}

std::string number_cell(const std::string& key, std::int64_t number) {
  if (is_bytes(key)) return number < 0 ? "-" : human_bytes(static_cast<double>(number));
  const bool wall = is_wall_time(key) && (number == 0 || number >= kFirstWallMs);
  return wall ? human_time(number) : std::to_string(number);
}

std::string cell_text(const std::string& key, const json& value) {
  if (value.is_null()) return "-";
  if (value.is_string()) return text_cell(key, value.get<std::string>());
  if (value.is_boolean()) return value.get<bool>() ? "yes" : "no";
  if (value.is_number_float()) {
    char buffer[32];
    std::snprintf(buffer, sizeof buffer, "%.2f", value.get<double>());
    return buffer;
  }
  if (value.is_number()) return number_cell(key, value.get<std::int64_t>());
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::string title_of(std::string key) {
  if (is_wall_time(key)) key.resize(key.size() - std::string_view("_ms").size());
  std::replace(key.begin(), key.end(), '_', ' ');
  return key;
}

std::string column_title(const std::string& key) {
  std::string title = title_of(key);
  for (char& c : title) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return title;
}

/// Keys in the order in which people look for them; JSON objects come sorted by name.
std::vector<std::string> reading_order(const json& object) {
  std::vector<std::string> keys;
  for (const char* first : {"id", "name", "key", "state", "model", "reason", "error_code", "error",
                            "choice", "prompt", "finish"}) {
    if (object.contains(first)) keys.emplace_back(first);
  }
  for (const auto& [key, value] : object.items()) {
    if (std::find(keys.begin(), keys.end(), key) == keys.end()) keys.push_back(key);
  }
  return keys;
}

bool is_table(const json& value) {
  return value.is_array() && !value.empty() &&
         std::all_of(value.begin(), value.end(), [](const json& e) { return e.is_object(); });
}

/// The columns that some row has; all of them if none was named or is there.
std::vector<std::string> keys_of(const json& rows, const std::vector<std::string>& columns) {
  std::vector<std::string> keys;
  for (const std::string& key : columns) {
    const bool present =
        std::any_of(rows.begin(), rows.end(), [&](const json& row) { return row.contains(key); });
    if (present) keys.push_back(key);
  }
  if (!keys.empty()) return keys;
  for (const json& row : rows) {
    for (const std::string& key : reading_order(row)) {
      if (std::find(keys.begin(), keys.end(), key) == keys.end()) keys.push_back(key);
    }
  }
  return keys;
}

std::string render_table(const json& rows, const std::vector<std::string>& columns, bool colour,
                         std::size_t width) {
  const std::vector<std::string> keys = keys_of(rows, columns);
  std::vector<std::string> header;
  for (const std::string& key : keys) header.push_back(column_title(key));
  Table table(header);
  for (const json& row : rows) {
    std::vector<std::string> cells;
    for (const std::string& key : keys) {
      cells.push_back(row.contains(key) ? cell_text(key, row[key]) : "-");
    }
    table.add(cells);
  }
  return table.str(colour, width);
}

std::string indent(const std::string& text) {
  std::string out;
  std::size_t start = 0;
  while (start < text.size()) {
    const std::size_t end = std::min(text.find('\n', start), text.size());
    out += "  " + text.substr(start, end - start) + "\n";
    start = end + 1;
  }
  return out;
}

/// The width that is left for indented text.
std::size_t inner(std::size_t width) {
  return width > 4 ? width - 2 : width;
}

/// "key  value" lines; the rest of a long value goes below its beginning.
std::string render_member(const std::string& key, const json& value, std::size_t title_width,
                          std::size_t width) {
  const std::string text = value.is_array() && value.empty() ? "none" : cell_text(key, value);
  const std::string title = title_of(key);
  const std::string line = title + std::string(title_width - title.size() + 2, ' ') + text + "\n";
  return wrap_lines(line, width, title_width + 2);
}

/// Columns that the titles of an object's plain members take.
std::size_t title_width_of(const json& object) {
  std::size_t width = 0;
  for (const auto& [key, value] : object.items()) {
    if (!value.is_object() && !is_table(value)) width = std::max(width, title_of(key).size());
  }
  return width;
}

std::string render_object(const json& object, const RenderOptions& options) {
  const std::size_t title_width = title_width_of(object);
  std::string plain;
  std::string sections;
  const std::size_t width = inner(options.width);
  for (const std::string& key : reading_order(object)) {
    const json& value = object[key];
    if (value.is_object() && !value.empty()) {
      sections +=
          title_of(key) + ":\n" + indent(render_object(value, {options.colour, width, {}, {}, {}}));
    } else if (is_table(value)) {
      sections += title_of(key) + ":\n";
      const auto columns = options.nested.find(key);
      const bool chosen = columns != options.nested.end();
      sections += indent(render_table(value, chosen ? columns->second : std::vector<std::string>(),
                                      options.colour, width));
    } else if (!value.is_object()) {
      plain += render_member(key, value, title_width, options.width);
    }
  }
  return plain + sections;
}

}  // namespace

/// True for {"models": […]}: the table alone is shown.
static bool is_list_alone(const json& value) {
  return value.is_object() && value.size() == 1 && value.begin()->is_array();
}

std::string render_human(const json& value, const RenderOptions& options) {
  if (is_list_alone(value)) return render_human(*value.begin(), options);
  if (value.is_array() && value.empty()) {
    if (options.when_empty.empty()) return "";
    return wrap_lines(options.when_empty + "\n", options.width);
  }
  if (is_table(value)) {
    return render_table(value, options.columns, options.colour, options.width);
  }
  if (value.is_object()) return render_object(value, options);
  if (value.is_null()) return "";
  return cell_text("", value) + "\n";
}

}  // namespace holdfast::cli
