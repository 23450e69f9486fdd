#pragma once
// Runs programs that print JSON: other engines, and our own command line.

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "shared/base/result.h"

namespace holdfast::bench {

/// The text as one word of a shell command.
std::string shell_word(const std::string& text);

/// `text` with every occurrence of `name` replaced by `value`.
std::string replaced(std::string text, const std::string& name, const std::string& value);

/// An ended command.
struct Ended {
  int status = 0;   // exit status; 128 + the signal
  std::string out;  // its standard output
};
/// Runs a shell command to its end. kIo: no shell.
Result<Ended> run_command(const std::string& command);

/// The last JSON object in a command's output; any line before it may be something else. Null if
/// there is none.
nlohmann::json last_json(const std::string& out);

/// Runs a command and gives its last JSON object; kIo with the end of its output where it fails or
/// prints none.
Result<nlohmann::json> json_of_command(const std::string& command);

}  // namespace holdfast::bench
