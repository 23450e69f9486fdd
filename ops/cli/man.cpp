// Manual pages in roff, made from the verb table: holdfast(1), and holdfast-VERB(1) for each verb.

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <span>
#include <string>
#include <utility>

#include "ops/cli/verb_functions.h"
#include "ops/cli/verbs.h"
#include "ops/terminal/output.h"
#include "shared/base/version.h"

namespace holdfast::cli {
namespace {

std::string escaped_character(char c) {
  switch (c) {
    case '\\':
      return "\\e";
    case '-':
      return "\\-";
    case '`':
      return "\\(ga";
    case '\'':
      return "\\(aq";
    case '^':
      return "\\(ha";
    case '~':
      return "\\(ti";
    default:
      return std::string(1, c);
  }
}

/// Text as roff shows it: no escape, no hyphen where a minus stands, no request at a line's start.
std::string escaped(const std::string& text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text.compare(i, 3, "…") == 0) {
      out += "...";
      i += 2;
    } else if (text[i] == '.' && (i == 0 || text[i - 1] == '\n')) {
      out += "\\&.";
    } else {
      out += escaped_character(text[i]);
    }
  }
  return out;
}

std::string bold(const std::string& text) {
  return "\\fB" + escaped(text) + "\\fR";
}

std::string italic(const std::string& text) {
  return "\\fI" + escaped(text) + "\\fR";
}

/// "models add" as the name of its page: "holdfast-models-add".
std::string page_name(std::string path) {
  for (char& c : path) c = c == ' ' ? '-' : c;
  return "holdfast-" + path;
}

std::string header(const std::string& name, const std::string& help) {
  std::string upper = name;
  for (char& c : upper) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return ".TH " + escaped(upper) + " 1 \"\" \"holdfast " + kVersion +
         "\" \"Holdfast\"\n.SH NAME\n" + escaped(name) + " \\- " + escaped(help) + "\n";
}

std::string value_name(const Argument& argument) {
  switch (argument.kind) {
    case Kind::kSwitch:
      return "";
    case Kind::kInteger:
      return "N";
    case Kind::kReal:
    case Kind::kOptionalReal:
      return "X";
    default:
      return "TEXT";
  }
}

/// "--name TEXT" or "NAME" in the fonts of a manual page.
std::string format_argument(const Argument& argument) {
  if (argument.name[0] != '-') return italic(argument.name);
  std::string names = argument.name;
  const std::size_t comma = names.find(',');
  std::string out = comma == std::string::npos
                        ? bold(names)
                        : bold(names.substr(0, comma)) + ", " + bold(names.substr(comma + 1));
  const std::string value = value_name(argument);
  if (argument.kind == Kind::kOptionalReal) return out + " [" + italic(value) + "]";
  return value.empty() ? out : out + " " + italic(value);
}

std::string synopsis(const Verb& verb) {
  std::string out = ".SH SYNOPSIS\n.B holdfast\n[" + bold("--state") + " " + italic("DIR") + "] [" +
                    bold("--json") + "] " + bold(verb.path);
  for (const Argument& argument : verb.arguments) {
    const std::string more = argument.kind == Kind::kList ? "..." : "";
    out += argument.optional ? " [" + format_argument(argument) + "]" + more
                             : " " + format_argument(argument) + more;
  }
  return out + "\n";
}

std::string paragraphs(const std::string& text) {
  std::string out;
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t end = std::min(text.find("\n\n", at), text.size());
    out += (at == 0 ? "" : ".PP\n") + escaped(text.substr(at, end - at)) + "\n";
    at = end + 2;
  }
  return out;
}

std::string item(const std::string& term, const std::string& text) {
  return ".TP\n" + term + "\n" + escaped(text) + "\n";
}

std::string examples(const std::vector<Example>& list) {
  std::string out = ".SH EXAMPLES\n";
  for (const Example& example : list) {
    out += ".TP\n" + bold(example.command) + "\n";
    out += example.what[0] == '\0' ? "\\&\n" : escaped(example.what) + "\n";
  }
  return out;
}

const std::pair<const char*, const char*> kExitStatus[] = {
    {"0", "done"},
    {"1", "failed"},
    {"2", "wrong use of the command line"},
    {"3", "what was named does not exist"},
    {"4", "refused, with a typed reason on stderr and, with --json, on stdout"},
    {"69", "no daemon answers where one is needed"},
};
const std::pair<const char*, const char*> kEnvironment[] = {
    {"HOLDFAST_STATE", "the state directory where --state is not given"},
    {"HOLDFAST_URL",
     "http(s)://HOST:PORT of a Holdfast elsewhere, asked where neither --state nor HOLDFAST_STATE "
     "names a directory"},
    {"HOLDFAST_API_KEY", "the API key for it"},
    {"HOLDFAST_API_KEY_FILE", "a file with that key"},
    {"HOLDFAST_CA_FILE",
     "a PEM file of the authorities that its certificate is checked by (else SSL_CERT_FILE, else "
     "the system's)"},
    {"HOLDFAST_GROUP_NAME",
     "a knob group.name for the next start of serve (HOLDFAST_QUEUE_MAX_REQUESTS); it becomes a "
     "version of the configuration when it has changed since the last start"},
    {"COLUMNS",
     "how wide tables may be; else as wide as the terminal, and where there is none as wide as "
     "they "
     "are"},
    {"NO_COLOR", "no colours on a terminal if it is set"},
};
const std::pair<const char*, const char*> kFiles[] = {
    {"STATE/control.db", "everything that must not be lost"},
    {"STATE/holdfast.conf", "settings, a line NAME = VALUE each, read at the start"},
    {"STATE/control.mark", "how many synced groups control.db must have at least"},
    {"STATE/run/", "sockets, supervisor.json with the pids"},
    {"STATE/logs/", "a log file of each process"},
    {"STATE/keys/", "keys, for their owner alone"},
};

std::string items(const char* title, std::span<const std::pair<const char*, const char*>> rows) {
  std::string out = std::string(".SH ") + title + "\n";
  for (const auto& [term, text] : rows) out += item(bold(term), text);
  return out;
}

std::string page(const Verb& verb) {
  std::string out = header(page_name(verb.path), verb.help) + synopsis(verb);
  out += ".SH DESCRIPTION\n" + escaped(std::string(verb.help)) + ".\n";
  const std::string more = description_of(verb.path);
  if (!more.empty()) out += ".PP\n" + paragraphs(more);
  out += ".SH OPTIONS\n";
  for (const Argument& argument : verb.arguments)
    out += item(format_argument(argument), argument.help);
  out += item(bold("--state") + " " + italic("DIR"),
              "state directory (else $HOLDFAST_STATE, else ./holdfast-state if there is one, else "
              "/var/lib/holdfast for root, else ~/.local/state/holdfast)");
  out += item(bold("--url") + " " + italic("URL"),
              "a Holdfast elsewhere, asked over HTTP (else $HOLDFAST_URL; its key is in "
              "$HOLDFAST_API_KEY)");
  out += item(bold("--json"), "one JSON document on stdout");
  out += item(bold("--quiet"), "nothing but what was asked for, and errors");
  out += items("EXIT STATUS", kExitStatus) + examples(examples_of(verb.path));
  return out + ".SH SEE ALSO\n.BR holdfast (1)\n";
}

/// `holdfast-models(1)`: the verbs of one group.
std::string group_page(const std::string& group) {
  const std::string what = "the verbs of holdfast " + group;
  std::string out = header(page_name(group), what);
  out += ".SH SYNOPSIS\n.B holdfast\n" + bold(group) + " " + italic("VERB") + " ...\n.SH VERBS\n";
  for (const Verb& verb : verb_table()) {
    if (verb.hidden || !std::string(verb.path).starts_with(group + " ")) continue;
    out += item(bold(verb.path), std::string(verb.help) + "; see " + page_name(verb.path) + "(1)");
  }
  return out + items("EXIT STATUS", kExitStatus) + ".SH SEE ALSO\n.BR holdfast (1)\n";
}

std::string main_page() {
  std::string out = header("holdfast",
                           "serves language models; an accepted request is finished "
                           "exactly once");
  out += ".SH SYNOPSIS\n.B holdfast\n[" + bold("--state") + " " + italic("DIR") + "] [" +
         bold("--json") + "] " + italic("VERB") + " ...\n.br\n.B holdfast\n" + bold("--version") +
         " | " + bold("--help") + "\n.SH DESCRIPTION\n";
  out += paragraphs(
      "Holdfast serves language models on one machine or several. What was accepted is finished "
      "exactly once, each client sees each token exactly once and in order, and the text is that "
      "of an uninterrupted run, whichever process is killed, whenever.\n\n"
      "`holdfast serve` runs everything; the other verbs talk to it through the state directory. "
      "Most of them also work while nothing runs.");
  out += ".SH VERBS\n";
  for (const Verb& verb : verb_table()) {
    if (verb.hidden) continue;
    out += item(bold(verb.path), std::string(verb.help) + "; see " + page_name(verb.path) + "(1)");
  }
  out += items("EXIT STATUS", kExitStatus) + items("ENVIRONMENT", kEnvironment) +
         items("FILES", kFiles) + examples(examples_of("serve"));
  return out;
}

}  // namespace

int man(const Call& call) {
  std::string path;
  for (const std::string& word : call.list("VERB")) path += (path.empty() ? "" : " ") + word;
  if (path.empty()) {
    std::fputs(main_page().c_str(), stdout);
  } else if (const Verb* verb = find_verb(path); verb != nullptr && !verb->hidden) {
    std::fputs(page(*verb).c_str(), stdout);
  } else if (const auto groups = verb_groups();
             std::find(groups.begin(), groups.end(), path) != groups.end()) {
    std::fputs(group_page(path).c_str(), stdout);
  } else {
    return report_error(call, Errc::kNotFound,
                        "man " + path + ": no such verb; `holdfast --help` lists them");
  }
  std::fflush(stdout);
  return kExitDone;
}

}  // namespace holdfast::cli
