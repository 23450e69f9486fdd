#pragma once
// Shows any JSON result of an operator verb to people: objects as aligned "key  value" lines,
// arrays of objects as tables, nested parts under their own title. Names tell units: `…_bytes`
// become GiB, `…_ms` that are wall times become dates.

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace holdfast::cli {

/// The form of the output: colours and width of the terminal, and what a verb wants of its tables.
struct RenderOptions {
  bool colour = false;
  std::size_t width = 0;             // columns of a line at most; 0: no bound
  std::vector<std::string> columns;  // of the top table: their order; empty = all
  std::string when_empty;            // one line in place of an empty table
  std::map<std::string, std::vector<std::string>> nested;  // columns of tables inside, by their key
};

/// Returns the text with its last line break; empty if there is nothing to say.
std::string render_human(const nlohmann::json& value, const RenderOptions& options);

}  // namespace holdfast::cli
