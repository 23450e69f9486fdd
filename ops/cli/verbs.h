#pragma once
// The verb table: every verb of the CLI, its arguments and its function, in one place.

#include <string>
#include <vector>

#include "ops/terminal/call.h"

namespace holdfast::cli {

/// The type of an argument's value on the command line.
enum class Kind : std::uint8_t {
  kText,
  kInteger,
  kReal,
  kOptionalReal,  // a flag that may stand without its number
  kSwitch,
  kList,
};

/// The kind of value that an argument takes, for completion. `values` lists other ones.
enum class Source : std::uint8_t {
  kNothing,
  kFile,
  kDirectory,
  kModel,  // a registered one
  kModelOrFile,
  kAlias,
  kRequest,
  kWorker,
  kKnob,
  kAssignment,  // KNOB=VALUE
  kVersion,     // of the configuration
  kShape,       // of synth
  kType,        // of weights
  kVerb,
  kKey,
  kWebhook,
  kDelivery,   // of a webhook
  kChat,       // a stored one
  kNamedFile,  // NAME=PATH
};

/// A positional argument ("NAME", required unless `optional`) or a flag ("--name" or "-n,--name").
struct Argument {
  const char* name;  // flags: with dashes. Read it by its last name without dashes.
  Kind kind = Kind::kText;
  const char* help = "";
  bool optional = true;
  Source source = Source::kNothing;
  const char* values = "";  // the valid ones, separated by blanks
};

/// A row of the table: one verb with its help, its arguments and its function.
struct Verb {
  const char* path;  // "models list"
  const char* help;  // one line
  std::vector<Argument> arguments;
  int (*run)(const Call&);  // returns an exit code; prints its own errors
  bool hidden = false;      // in no help
};

/// Returns all verbs, hidden ones too, in the order of the help.
const std::vector<Verb>& verb_table();

/// A use of a verb, and what it does.
struct Example {
  const char* command;  // "holdfast …"
  const char* what;
};
/// Examples of a verb, at least one, from manual.cpp.
const std::vector<Example>& examples_of(const std::string& path);
/// More than the one line of help, as paragraphs separated by empty lines; may be empty.
const char* description_of(const std::string& path);

/// The row of a path; nullptr if there is none.
const Verb* find_verb(const std::string& path);

/// Names of verbs' groups, each once, in the order of the table.
std::vector<std::string> verb_groups();

/// Help of a group of verbs ("models"), for `holdfast --help`.
const char* group_help(const std::string& group);

/// The name by which Call knows an argument: "-p,--prompt-tokens" -> "prompt-tokens".
std::string argument_key(const char* name);

/// Parses and runs a command line; returns the exit code. Errors of use are one line on stderr,
/// exit 2.
int run_cli(int argc, char** argv);

}  // namespace holdfast::cli
