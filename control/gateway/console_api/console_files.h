#pragma once
// The console's page, built into the program. control/console/embed.cmake writes the table.

#include <span>
#include <string_view>

namespace holdfast::gateway {

/// One file of the console. Its etag is a hash of the body, so that a browser asks again after an
/// update.
struct ConsoleFile {
  std::string_view name;  // "index.html"
  std::string_view content_type;
  std::string_view etag;  // with its quotes
  std::string_view body;
};

/// Returns all files of the console, in no order that matters; defined in the generated source.
std::span<const ConsoleFile> console_files();

}  // namespace holdfast::gateway
