#pragma once
// Texts that a verb takes: as an argument, as a file, or on stdin.

#include <string>
#include <string_view>

#include "ops/terminal/call.h"
#include "shared/base/result.h"

namespace holdfast::cli {

/// The argument of a verb, or stdin if it is "-", or if there is none and stdin is no terminal. The
/// line break at the end of stdin is left out: `echo` appends it. kUsage without either.
Result<std::string> text_argument(const Call& call, std::string_view name);

/// The text of the file that a flag names, byte for byte, or of stdin if that is "-", or if the
/// flag was not given and stdin is no terminal. kUsage without either.
Result<std::string> file_text_argument(const Call& call, std::string_view flag);

/// Reads all of stdin, byte for byte. kInvalidRequest for more than 64 MiB.
Result<std::string> read_stdin();

}  // namespace holdfast::cli
