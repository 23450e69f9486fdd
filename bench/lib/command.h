#pragma once
// Programs that print JSON: other engines beside ours, and our own command line.

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "shared/base/result.h"

namespace holdfast::bench {

/// The text as one word of a shell command.
std::string shell_word(const std::string& text);

/// `text` with every `name` in it replaced.
std::string replaced(std::string text, const std::string& name, const std::string& value);

struct Ended {
  int status = 0;   // exit status; 128 + the signal
  std::string out;  // what it printed
};
/// Runs a shell command to its end. kIo: no shell.
Result<Ended> run_command(const std::string& command);

/// The last JSON object in what a command printed, each line of which may be something else before
/// it; null if there is none.
nlohmann::json last_json(const std::string& out);

/// As above; kIo with the end of its output where the command fails or prints none.
Result<nlohmann::json> json_of_command(const std::string& command);

}  // namespace holdfast::bench
