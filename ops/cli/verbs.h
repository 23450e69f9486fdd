#pragma once
// The verb table: every verb of the CLI, its arguments and the function that does it, in one place.

#include <string>
#include <vector>

#include "ops/cli/call.h"

namespace holdfast::cli {

enum class Kind : std::uint8_t { kText, kInteger, kReal, kSwitch, kList };

/// A positional argument ("NAME", required unless `optional`) or a flag ("--name" or "-n,--name").
struct Argument {
  const char* name;  // flags: with dashes. Read it by its last name without dashes.
  Kind kind = Kind::kText;
  const char* help = "";
  bool optional = true;
};

struct Verb {
  const char* path;  // "models list"
  const char* help;  // one line
  std::vector<Argument> arguments;
  int (*run)(const Call&);  // returns an exit code; prints its own errors
};

const std::vector<Verb>& verb_table();

/// Help of a group of verbs ("models"), for `holdfast --help`.
const char* group_help(const std::string& group);

/// The name by which Call knows an argument: "-p,--prompt-tokens" -> "prompt-tokens".
std::string argument_key(const char* name);

/// Parses, runs, returns the exit code. Errors of use are one line on stderr, exit 2.
int run_cli(int argc, char** argv);

}  // namespace holdfast::cli
