// The completion scripts, made from the verb table. Both shells share the part that walks the words
// and the tables (functions of `case`); only what offers the candidates differs.

#include <cstdio>
#include <string>

#include "ops/cli/verb_functions.h"
#include "ops/cli/verbs.h"
#include "ops/terminal/output.h"

namespace holdfast::cli {
namespace {

/// The name of a source in the scripts: "@models" is asked of `holdfast complete`, "=a,b" is a
/// list, "@none" takes a value that cannot be completed.
std::string source_name(const Argument& argument) {
  const std::string values = argument.values;
  if (!values.empty()) {
    std::string list = "=";
    for (const char c : values) list += c == ' ' ? ',' : c;
    return list;
  }
  switch (argument.source) {
    case Source::kFile:
      return "@file";
    case Source::kDirectory:
      return "@dir";
    case Source::kModel:
      return "@models";
    case Source::kModelOrFile:
      return "@model_or_file";
    case Source::kAlias:
      return "@aliases";
    case Source::kRequest:
      return "@requests";
    case Source::kWorker:
      return "@workers";
    case Source::kKnob:
      return "@knobs";
    case Source::kAssignment:
      return "@assignment";
    case Source::kVersion:
      return "@versions";
    case Source::kShape:
      return "@shapes";
    case Source::kType:
      return "@types";
    case Source::kVerb:
      return "@verbs";
    case Source::kKey:
      return "@keys";
    case Source::kWebhook:
      return "@webhooks";
    case Source::kDelivery:
      return "@deliveries";
    case Source::kChat:
      return "@chats";
    case Source::kNamedFile:
      return "@named_file";
    case Source::kNothing:
      return "@none";
  }
  return "@none";
}

bool is_flag(const Argument& argument) {
  return argument.name[0] == '-';
}

/// "-p,--prompt-tokens" as "-p" and "--prompt-tokens", with `between` between them.
std::string flag_names(const Argument& argument, const std::string& between) {
  std::string names = argument.name;
  const std::size_t comma = names.find(',');
  if (comma != std::string::npos) names.replace(comma, 1, between);
  return names;
}

std::string line(const std::string& pattern, const std::string& source) {
  return "    " + pattern + ") source='" + source + "' ;;\n";
}

/// Cases of the scripts.
struct Tables {
  std::string values, positions, options;
};

void add_verb(const Verb& verb, Tables& all) {
  const std::string path = verb.path;
  std::string flags = "--state --url --json --quiet --help";
  int at = 0;
  for (const Argument& argument : verb.arguments) {
    if (!is_flag(argument)) {
      const bool repeats = argument.kind == Kind::kList;
      all.positions += line("'" + path + " " + (repeats ? "'*" : std::to_string(at) + "'"),
                            source_name(argument));
      ++at;
      continue;
    }
    flags += " " + flag_names(argument, " ");
    if (argument.kind == Kind::kSwitch) continue;
    const std::string names = flag_names(argument, "' | '" + path + " ");
    all.values += line("'" + path + " " + names + "'", source_name(argument));
  }
  all.options += "    '" + path + "') options='" + flags + "' ;;\n";
}

std::string subverbs_of(const std::string& group) {
  std::string names;
  for (const Verb& verb : verb_table()) {
    const std::string path = verb.path;
    if (path.starts_with(group + " ")) {
      names += (names.empty() ? "=" : ",") + path.substr(group.size() + 1);
    }
  }
  return names;
}

/// Tables of the scripts: sources of options' values and of positional arguments, options of each
/// verb.
std::string tables() {
  Tables all;
  for (const Verb& verb : verb_table()) {
    if (!verb.hidden) add_verb(verb, all);
  }
  std::string groups, subverbs;
  for (const std::string& group : verb_groups()) {
    groups += (groups.empty() ? "" : " | ") + group;
    subverbs += line(group, subverbs_of(group));
  }
  return "_holdfast_value() {\n  source=\n  case \"$1 $2\" in\n    *' --state') source=@dir ;;\n   "
         " *' --url') source=@none ;;\n" +
         all.values + "  esac\n}\n_holdfast_position() {\n  source=\n  case \"$1 $2\" in\n" +
         all.positions +
         "  esac\n}\n_holdfast_options() {\n  options='--state --url --json --quiet --help'\n" +
         "  case $1 in\n" + all.options + "  esac\n}\n_holdfast_subverbs() {\n  source=\n" +
         "  case $1 in\n" + subverbs + "  esac\n}\n_holdfast_is_group() {\n  case $1 in\n    " +
         groups + ") return 0 ;;\n  esac\n  return 1\n}\n";
}

/// The first words: verbs that stand alone, and groups.
std::string first_words() {
  std::string words;
  for (const Verb& verb : verb_table()) {
    const std::string path = verb.path;
    if (!verb.hidden && path.find(' ') == std::string::npos) words += path + ",";
  }
  for (const std::string& group : verb_groups()) words += group + ",";
  words.pop_back();
  return words;
}

/// The words before the cursor, one after the other, as the program would get them. Leaves in
/// `source` what the next word may be.
constexpr const char* kWalk = R"sh(
_holdfast_walk() {
  local word option= at=0
  verb= source= state=
  for word in "$@"; do
    if [[ -n $source ]]; then  # the value of the option before
      [[ $option == --state ]] && state=$word
      source=
      continue
    fi
    if [[ $word == --*=* ]]; then
      [[ $word == --state=* ]] && state=${word#*=}
    elif [[ $word == -?* ]]; then
      option=$word
      _holdfast_value "$verb" "$word"
    elif [[ -z $verb ]]; then
      verb=$word
    elif _holdfast_is_group "$verb"; then
      verb="$verb $word"
    else
      at=$((at + 1))
    fi
  done
  [[ -n $source ]] && return
  if [[ -z $verb ]]; then
    source="=$_holdfast_first"
  elif _holdfast_is_group "$verb"; then
    _holdfast_subverbs "$verb"
  else
    _holdfast_position "$verb" "$at"
  fi
}
_holdfast_names() {
  if [[ -n $state ]]; then
    "$program" --state "$state" complete "$1" 2>/dev/null
  else
    "$program" complete "$1" 2>/dev/null
  fi
}
_holdfast_served() {  # what a request may name
  _holdfast_names models
  _holdfast_names aliases
}
)sh";

constexpr const char* kBash = R"sh(
# Bash cuts words at "=" and ":". Here they are whole again, without quotes and backslashes: `words`
# before the cursor, `cur` at it, and `quote` is the quote that `cur` begins with.
_holdfast_words() {
  local rest=$COMP_LINE word raw= i glue= all=() marks="[\"']"
  for ((i = 0; i <= COMP_CWORD; i++)); do
    word=${COMP_WORDS[i]}
    if [[ -n $COMP_LINE ]]; then
      [[ $rest == [[:space:]]* ]] && glue=
      rest=${rest#"${rest%%[![:space:]]*}"}
      rest=${rest#"$word"}
    elif [[ $i -gt 0 && ( $word == [=:] || $raw == *[=:] ) ]]; then
      glue=1
    else
      glue=
    fi
    if [[ -n $glue ]]; then
      raw+=$word
      all[${#all[@]} - 1]=$raw
    else
      raw=$word
      all+=("$raw")
    fi
    glue=1
  done
  quote=
  [[ $raw == $marks* ]] && quote=${raw:0:1}
  words=()
  for word in "${all[@]}"; do
    word="${word//$marks/}"
    words+=("${word//\\/}")
  done
  cur=${words[-1]}
  unset 'words[-1]'
}
# What bash keeps of the word that is typed; the rest is replaced.
_holdfast_keep() {
  local signs=
  [[ $COMP_WORDBREAKS == *=* ]] && signs+==
  [[ $COMP_WORDBREAKS == *:* ]] && signs+=:
  kept=
  [[ -n $signs && -z $quote ]] && kept=${cur%"${cur##*[$signs]}"}
}
# Offers the lines of stdin that begin as the word does, with $1 behind each.
_holdfast_fit() {
  local line
  while IFS= read -r line; do
    [[ $line == "$cur"* ]] || continue
    line=$lead$line
    line=${line#"$kept"}
    [[ -n $quote ]] || printf -v line %q "$line"
    COMPREPLY+=("$line$1")
  done
}
_holdfast_files() {
  local file
  while IFS= read -r file; do
    file=$lead$file
    COMPREPLY+=("${file#"$kept"}")
  done < <(compgen "$1" -- "$cur")
  compopt -o filenames 2>/dev/null
}
# What follows the first "=" of the word.
_holdfast_behind() {
  lead=$lead${cur%%=*}=
  cur=${cur#*=}
}
_holdfast_offer() {
  case $1 in
    '' | @none) ;;
    @file) _holdfast_files -f ;;
    @dir) _holdfast_files -d ;;
    @named_file)
      if [[ $cur == *=* ]]; then
        _holdfast_behind
        _holdfast_files -f
      else
        _holdfast_fit = < <(_holdfast_names models)
        compopt -o nospace 2>/dev/null
      fi ;;
    @model_or_file)
      _holdfast_fit '' < <(_holdfast_served)
      _holdfast_files -f ;;
    @assignment)
      _holdfast_fit = < <(_holdfast_names knobs)
      compopt -o nospace 2>/dev/null ;;
    @*) _holdfast_fit '' < <(_holdfast_names "${1#@}") ;;
    '='*) local list=${1#=}; _holdfast_fit '' <<<"${list//,/$'\n'}" ;;
  esac
}
_holdfast() {
  local program=$1 cur quote words kept lead= verb source state options
  COMPREPLY=()
  _holdfast_words
  _holdfast_keep
  _holdfast_walk "${words[@]:1}"
  if [[ $cur == --*=* ]]; then
    _holdfast_value "$verb" "${cur%%=*}"
    _holdfast_behind
    _holdfast_offer "$source"
  elif [[ $cur == -* ]]; then
    _holdfast_options "$verb"
    _holdfast_fit '' <<<"${options// /$'\n'}"
  else
    _holdfast_offer "$source"
  fi
}
complete -F _holdfast holdfast
)sh";

constexpr const char* kZsh = R"sh(
_holdfast_offer() {
  case $1 in
    '' | @none) ;;
    @file) _files ;;
    @dir) _files -/ ;;
    @model_or_file) compadd -- ${(f)"$(_holdfast_served)"}; _files ;;
    @named_file)
      if [[ $cur == *=* ]]; then
        compset -P '*='
        _files
      else
        compadd -S = -- ${(f)"$(_holdfast_names models)"}
      fi ;;
    @assignment) compadd -S = -- ${(f)"$(_holdfast_names knobs)"} ;;
    @*) compadd -- ${(f)"$(_holdfast_names ${1#@})"} ;;
    '='*) compadd -- ${(s:,:)${1#=}} ;;
  esac
}
_holdfast() {
  local program=${words[1]} cur=${words[CURRENT]} verb source state options
  _holdfast_walk "${(@Q)words[2,CURRENT-1]}"
  if [[ $cur == --*=* ]]; then
    _holdfast_value "$verb" "${cur%%=*}"
    compset -P 1 '*='
    cur=${cur#*=}
    _holdfast_offer "$source"
  elif [[ $cur == -* ]]; then
    _holdfast_options "$verb"
    compadd -- ${(s: :)options}
  else
    _holdfast_offer "$source"
  fi
}
if [[ ${funcstack[1]} == _holdfast ]]; then
  _holdfast "$@"
else
  compdef _holdfast holdfast
fi
)sh";

}  // namespace

int completion(const Call& call) {
  const std::string shell = call.text("SHELL");
  if (shell != "bash" && shell != "zsh") {
    return report_error(call, Errc::kUsage, "completion \"" + shell + "\": expected bash or zsh");
  }
  std::string script = shell == "zsh" ? "#compdef holdfast\n" : "";
  script += "# Completion of holdfast for " + shell + ", made by `holdfast completion " + shell +
            "`.\n_holdfast_first='" + first_words() + "'\n" + tables() + kWalk +
            (shell == "zsh" ? kZsh : kBash);
  std::fwrite(script.data(), 1, script.size(), stdout);
  std::fflush(stdout);
  return kExitDone;
}

}  // namespace holdfast::cli
