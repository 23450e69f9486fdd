#pragma once
// The console's page, built into the program. control/console/embed.cmake writes the table.

#include <span>
#include <string_view>

namespace holdfast::gateway {

struct ConsoleFile {
  std::string_view name;  // "index.html"
  std::string_view content_type;
  std::string_view etag;  // with its quotes
  std::string_view body;
};

std::span<const ConsoleFile> console_files();

}  // namespace holdfast::gateway
