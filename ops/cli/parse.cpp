// Parsing of the command line, with CLI11 in this file alone: the verb table becomes parsers, the
// arguments a Call. Global options are declared on every verb, not inherited: CLI11's fall-through
// would take a prompt that reads "status" for a verb.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "ops/cli/reach.h"
#include "ops/cli/suggest.h"
#include "ops/cli/verbs.h"
#include "ops/terminal/output.h"
#include "shared/base/state_dir.h"
#include "shared/base/version.h"

namespace holdfast::cli {
namespace {

constexpr std::size_t kColumns = 96;

struct Parser {
  CLI::App app{"Holdfast serves language models; an accepted request is finished exactly once."};
  Call call;
  const Verb* chosen = nullptr;
  std::map<std::string, CLI::App*> groups;
};

void add_globals(CLI::App& app, Call& call) {
  app.add_option("--state", call.state_dir,
                 "state directory (else $HOLDFAST_STATE, ./holdfast-state if there is one, "
                 "/var/lib/holdfast for root, ~/.local/state/holdfast)")
      ->type_name("DIR");
  app.add_option("--url", call.url,
                 "a Holdfast elsewhere, over HTTP (else $HOLDFAST_URL; its key is in "
                 "$HOLDFAST_API_KEY), or tcp://HOST:PORT (key file: $HOLDFAST_KEY_FILE)")
      ->type_name("URL");
  app.add_flag("--json", call.json, "one JSON document on stdout");
  app.add_flag("--quiet", call.quiet, "nothing but what was asked for, and errors");
}

void set_type(CLI::Option* option, const Argument& argument) {
  if (argument.kind == Kind::kInteger) {
    option->check(CLI::TypeValidator<std::int64_t>("INT"))->type_name("N");
  } else if (argument.kind == Kind::kOptionalReal) {
    option->default_str("2")->check(CLI::Number)->type_name("X");
  } else if (argument.kind == Kind::kReal) {
    option->check(CLI::Number)->type_name("X");
  } else {
    option->type_name(argument.source == Source::kFile        ? "FILE"
                      : argument.source == Source::kDirectory ? "DIR"
                                                              : "TEXT");
  }
}

void add_argument(CLI::App& app, const Argument& argument, std::vector<std::string>& into) {
  const bool flag = argument.name[0] == '-';
  if (argument.kind == Kind::kSwitch) {
    app.add_flag_callback(
        argument.name, [&into] { into.assign(1, "true"); }, argument.help);
    return;
  }
  CLI::Option* option = app.add_option(argument.name, into, argument.help);
  option->expected(argument.kind == Kind::kOptionalReal ? 0 : 1, 1);
  if (argument.kind == Kind::kList) {
    option->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    if (!flag) option->expected(1, CLI::detail::expected_max_vector_size);
  } else {
    option->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  }
  // A positional list takes all that follows.
  option->allow_extra_args(argument.kind == Kind::kList && !flag);
  set_type(option, argument);
  if (!argument.optional) option->required();
}

CLI::App* group_of(Parser& parser, const std::string& path) {
  const std::size_t space = path.find(' ');
  if (space == std::string::npos) return &parser.app;
  const std::string name = path.substr(0, space);
  CLI::App*& group = parser.groups[name];
  if (group == nullptr) {
    group = parser.app.add_subcommand(name, group_help(name));
    group->require_subcommand(1);
  }
  return group;
}

/// Lines of at most 96 columns; line breaks stay.
std::string wrapped(const std::string& text) {
  std::string out;
  std::size_t column = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find_first_of(" \n", at), text.size());
    if (column > 0 && column + end - at > kColumns) {
      out.back() = '\n';
      column = 0;
    }
    out += text.substr(at, end - at);
    column += end - at + 1;
    if (end < text.size()) out += text[end];
    if (end < text.size() && text[end] == '\n') column = 0;
    at = end + 1;
  }
  return out;
}

/// More words and examples, as they stand below the options.
std::string footer_of(const Verb& verb) {
  std::string text = wrapped(description_of(verb.path));
  if (!text.empty()) text += "\n\n";
  text += "Examples:";
  for (const Example& example : examples_of(verb.path)) {
    text += std::string("\n  ") + example.command;
    if (example.what[0] != '\0') text += std::string("\n      ") + example.what;
  }
  return text;
}

constexpr const char* kFooter =
    "`holdfast VERB --help` has options and examples of a verb, `holdfast man | man -l -` the "
    "manual.\n"
    "Exit codes: 0 done, 1 failed, 2 usage, 3 not found, 4 refused, 69 no daemon answers.\n"
    "Start: holdfast serve --model NAME=FILE.gguf, then holdfast status.\n"
    "Elsewhere: HOLDFAST_URL=https://HOST:PORT and HOLDFAST_API_KEY make verbs ask that server.";

void add_verb(Parser& parser, const Verb& verb) {
  const std::string path = verb.path;
  CLI::App* sub =
      group_of(parser, path)->add_subcommand(path.substr(path.find(' ') + 1), verb.help);
  add_globals(*sub, parser.call);
  if (verb.hidden) sub->group("");
  sub->footer(footer_of(verb));
  std::map<std::string, std::vector<std::string>*> slots;
  for (const Argument& argument : verb.arguments) {
    const std::string key = argument_key(argument.name);
    // The same key may belong to several verbs: one verb runs, so they may share the slot.
    add_argument(*sub, argument, parser.call.values[key]);
  }
  sub->final_callback([&parser, &verb] {
    if (parser.chosen == nullptr) parser.chosen = &verb;  // the innermost verb calls back first
  });
}

std::string one_line(std::string text) {
  for (char& c : text) {
    if (c == '\n' || c == '\r') c = ' ';
  }
  return text;
}

/// Joins the words of a verb that has two beside its group.
void join_words(std::vector<std::string>& words, std::size_t at) {
  words[at] += "-" + words[at + 1];
  words.erase(words.begin() + static_cast<std::ptrdiff_t>(at) + 1);
}

/// The arguments as they are understood: --max_tokens is --max-tokens, `bench compare` is a verb of
/// its own although the first argument of `bench` is a file, and `keys node create` is
/// keys node-create.
std::vector<std::string> words_of(int argc, char** argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  for (std::size_t i = 0; i + 1 < words.size(); ++i) {
    if (words[i].starts_with('-')) {
      if (words[i] == "--state" || words[i] == "--url") ++i;
      continue;
    }
    if (words[i] == "bench" && words[i + 1] == "compare") join_words(words, i);
    const bool peer =
        words[i] == "keys" && i + 2 < words.size() &&
        (words[i + 1] == "node" || words[i + 1] == "gateway" || words[i + 1] == "client");
    if (peer && !words[i + 2].starts_with('-')) join_words(words, i + 1);
    break;
  }
  return with_dashes(std::move(words));
}

/// Says in one line what is wrong with a command line, and what an unknown word may have meant.
std::string explain(const std::vector<std::string>& words, const CLI::ParseError& error) {
  const bool may_be_unknown = dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr ||
                              dynamic_cast<const CLI::RequiredError*>(&error) != nullptr;
  const std::string unknown = may_be_unknown ? explain_unknown(words) : std::string();
  if (!unknown.empty()) return unknown;
  const std::string path = verb_path_of(words);
  const std::string what = one_line(error.what());
  if (path.empty()) return what + " (`holdfast --help` lists the verbs)";
  if (path == "serve" && dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) {
    return "serve: " + what + "; did you mean --model NAME=FILE?";
  }
  return path + ": " + what + " (`holdfast " + path + " --help` shows how it is used)";
}

/// Runs the verb. Documents of a server elsewhere may be of any form: one that is not as expected
/// is an error.
int run_verb(const Verb& verb, const Call& call) {
  if (!call.remote) return verb.run(call);
  try {
    return verb.run(call);
  } catch (const nlohmann::json::exception& e) {
    return report_error(
        call, Errc::kUnreachable,
        call.remote->url + ": the answer is not as expected of a Holdfast (" + e.what() + ")");
  }
}

}  // namespace

std::string argument_key(const char* name) {
  std::string key = name;
  const std::size_t comma = key.rfind(',');
  if (comma != std::string::npos) key = key.substr(comma + 1);
  return key.substr(key.find_first_not_of('-'));
}

int run_cli(int argc, char** argv) {
  Parser parser;
  bool wants_json = false;  // read before parsing, so that errors of use can be JSON too
  for (int i = 1; i < argc; ++i) wants_json = wants_json || std::string_view(argv[i]) == "--json";
  add_globals(parser.app, parser.call);
  parser.app.require_subcommand(1);
  parser.app.footer(kFooter);
  parser.app.set_version_flag("-v,-V,--version", std::string("holdfast ") + kVersion);
  const std::vector<std::string> words = words_of(argc, argv);
  try {
    for (const Verb& verb : verb_table()) add_verb(parser, verb);
    parser.app.name(argv[0]);
    // CLI11 takes the last one first.
    parser.app.parse(std::vector<std::string>(words.rbegin(), words.rend()));
  } catch (const CLI::Success& e) {  // --help, --version
    return parser.app.exit(e) == 0 ? kExitDone : kExitFailed;
  } catch (const CLI::ParseError& e) {
    parser.call.json = wants_json;
    return report_error(parser.call, Errc::kUsage, explain(words, e));
  }
  if (const auto chosen = choose_server(&parser.call, parser.chosen->path); !chosen) {
    return report_error(parser.call, chosen.error());
  }
  if (parser.call.state_dir.empty()) parser.call.state_dir = default_state_dir();
  return run_verb(*parser.chosen, parser.call);
}

}  // namespace holdfast::cli
