#include "ops/cli/suggest.h"

#include <algorithm>
#include <cctype>
#include <numeric>

namespace holdfast::cli {
namespace {

/// A word of another tool, and our word for it.
struct Foreign {
  const char* word;
  const char* ours;
};

constexpr Foreign kForeignVerbs[] = {
    {"add", "`holdfast models add NAME FILE`"},
    {"alias", "`holdfast models alias`"},
    {"backup", "`holdfast db backup FILE`"},
    {"batch", "POST /v1/batches over HTTP"},
    {"cancel", "`holdfast requests cancel ID`"},
    {"check", "`holdfast doctor`, or `holdfast models verify NAME`"},
    {"cp", "`holdfast models alias NEW --to NAME`"},
    {"copy", "`holdfast models alias NEW --to NAME`"},
    {"create", "`holdfast models add NAME FILE`"},
    {"delete", "`holdfast models remove NAME`"},
    {"detokenise", "`holdfast detokenize FILE IDS`"},
    {"download", "`holdfast models add NAME FILE` with a file that is here"},
    {"embedding", "`holdfast embed FILE TEXT`"},
    {"embeddings", "`holdfast embed FILE TEXT`"},
    {"generate", "`holdfast run MODEL PROMPT`"},
    {"get", "`holdfast pull SOURCE`"},
    {"health", "`holdfast status` or `holdfast doctor`"},
    {"import", "`holdfast models add NAME FILE`"},
    {"info", "`holdfast models show NAME`, or `holdfast inspect FILE`"},
    {"install", "`holdfast pull SOURCE`, or `holdfast models add NAME FILE`"},
    {"key", "`holdfast keys create NAME`"},
    {"launch", "`holdfast serve`"},
    {"list", "`holdfast models list`"},
    {"load", "`holdfast models load NAME`"},
    {"log", "the files in STATE/logs, or `holdfast serve --verbose`"},
    {"logs", "the files in STATE/logs, or `holdfast serve --verbose`"},
    {"ls", "`holdfast models list`"},
    {"perf", "`holdfast bench FILE`"},
    {"pin", "`holdfast models pin NAME`"},
    {"ppl", "`holdfast perplexity FILE --text FILE`"},
    {"prompt", "`holdfast run MODEL PROMPT`"},
    {"ps", "`holdfast status`, or `holdfast requests list`"},
    {"push", "nothing: models stay on this machine"},
    {"register", "`holdfast models add NAME FILE`"},
    {"remove", "`holdfast models remove NAME`"},
    {"restart", "SIGTERM to `holdfast serve`, then `holdfast serve` again"},
    {"restore", "`holdfast db restore FILE`"},
    {"rm", "`holdfast models remove NAME`"},
    {"search", "`holdfast models list`"},
    {"server", "`holdfast serve`"},
    {"set", "`holdfast config set NAME=VALUE`"},
    {"show", "`holdfast models show NAME`"},
    {"start", "`holdfast serve`"},
    {"stats", "`holdfast status`"},
    {"stop", "`holdfast models unload NAME`; `holdfast serve` ends at Ctrl-C or SIGTERM"},
    {"test", "`holdfast doctor`"},
    {"tokenise", "`holdfast tokenize FILE TEXT`"},
    {"top", "`holdfast status --watch`"},
    {"unload", "`holdfast models unload NAME`"},
    {"up", "`holdfast serve`"},
    {"update", "`holdfast config set NAME=VALUE`, or `holdfast keys update ID`"},
    {"upgrade", "the package of your system: serve of the new version takes the state over"},
    {"verify", "`holdfast models verify NAME`"},
};

/// Words after a group ("models ls"); the first that the group has is meant.
constexpr Foreign kForeignSubverbs[] = {
    {"ls", "list"},        {"ps", "list"},       {"all", "list"},       {"rm", "remove"},
    {"delete", "remove"},  {"del", "remove"},    {"info", "show"},      {"get", "show"},
    {"describe", "show"},  {"inspect", "show"},  {"status", "show"},    {"create", "add"},
    {"new", "add"},        {"import", "add"},    {"register", "add"},   {"pull", "add"},
    {"install", "add"},    {"stop", "cancel"},   {"kill", "cancel"},    {"abort", "cancel"},
    {"rm", "delete"},      {"remove", "delete"}, {"add", "create"},     {"new", "create"},
    {"rm", "revoke"},      {"remove", "revoke"}, {"delete", "revoke"},  {"start", "load"},
    {"stop", "unload"},    {"check", "verify"},  {"follow", "tail"},    {"logs", "tail"},
    {"retry", "requeue"},  {"show", "list"},     {"edit", "set"},       {"reset", "unset"},
    {"dump", "backup"},    {"export", "backup"}, {"import", "restore"}, {"rotate", "secret"},
    {"unpause", "resume"}, {"stop", "pause"},    {"start", "resume"},   {"ls", "stats"},
    {"status", "stats"},   {"list", "stats"},    {"log", "history"},    {"cordon", "drain"},
};

/// Flags of other tools. Several replacements are tried in turn: the first that the verb has is
/// meant.
constexpr Foreign kForeignFlags[] = {
    {"--addr", "--http HOST:PORT"},
    {"--address", "--http HOST:PORT"},
    {"--bind", "--http HOST:PORT"},
    {"--host", "--http HOST:PORT"},
    {"--hostname", "--http HOST:PORT"},
    {"--listen", "--http HOST:PORT"},
    {"--port", "--http HOST:PORT"},
    {"-p", "--http HOST:PORT"},
    {"-H", "--http HOST:PORT"},
    {"-m", "--model NAME=FILE"},
    {"--models", "--model NAME=FILE"},
    {"--model-path", "--model NAME=FILE"},
    {"--model-file", "--model NAME=FILE"},
    {"--hf-repo", "--model NAME=FILE with a file that is here"},
    {"--served-model-name", "--model NAME=FILE"},
    {"--alias", "--model NAME=FILE"},
    {"-c", "--context N"},
    {"--ctx", "--context N"},
    {"--ctx-size", "--context N"},
    {"--context-size", "--context N"},
    {"--context-length", "--context N"},
    {"--num-ctx", "--context N"},
    {"--n-ctx", "--context N"},
    {"--max-model-len", "--context N"},
    {"--max-seq-len", "--context N"},
    {"-n", "--max-tokens N"},
    {"--n-predict", "--max-tokens N"},
    {"--predict", "--max-tokens N"},
    {"--num-predict", "--max-tokens N"},
    {"--max-new-tokens", "--max-tokens N"},
    {"--max-completion-tokens", "--max-tokens N"},
    {"--max-length", "--max-tokens N"},
    {"--temp", "--temperature X"},
    {"-t", "--temperature X"},
    {"--repeat-penalty", "--repetition-penalty X"},
    {"-t", "--threads N"},
    {"--n-threads", "--threads N"},
    {"--num-threads", "--threads N"},
    {"--cpus", "--threads N"},
    {"-s", "--seed N"},
    {"--rng-seed", "--seed N"},
    {"--stop-sequence", "--stop TEXT"},
    {"--reverse-prompt", "--stop TEXT"},
    {"-r", "--stop TEXT"},
    {"--template", "--chat"},
    {"-cnv", "--chat"},
    {"--conversation", "--chat"},
    {"--no-template", "--raw"},
    {"--logprobs", "--prompt-logprobs N"},
    {"-ngl", "--device opencl:0"},
    {"--n-gpu-layers", "--device opencl:0"},
    {"--gpu-layers", "--device opencl:0"},
    {"--num-gpu", "--device opencl:0"},
    {"--gpu", "--device opencl:0"},
    {"--gpus", "--device opencl:0"},
    {"--cuda", "--device opencl:0"},
    {"--tensor-parallel-size", "--device opencl:N,M"},
    {"--backend", "--device TEXT"},
    {"-np", "--slots N"},
    {"--parallel", "--slots N"},
    {"--max-num-seqs", "--slots N"},
    {"--parallel", "--streams N"},
    {"-np", "--streams N"},
    {"--batch-size", "--streams N"},
    {"--num-workers", "--workers N"},
    {"--replicas", "--workers N"},
    {"--cache-type-k", "--kv-type TYPE"},
    {"--cache-type-v", "--kv-type TYPE"},
    {"--kv-cache-dtype", "--kv-type TYPE"},
    {"-ctk", "--kv-type TYPE"},
    {"--ssl-certfile", "--tls-cert FILE"},
    {"--ssl-cert-file", "--tls-cert FILE"},
    {"--cert", "--tls-cert FILE"},
    {"--tls-certificate", "--tls-cert FILE"},
    {"--ssl-keyfile", "--tls-key FILE"},
    {"--ssl-key-file", "--tls-key FILE"},
    {"--key", "--tls-key FILE"},
    {"--cors", "--cors-origin ORIGIN"},
    {"--allowed-origins", "--cors-origin ORIGIN"},
    {"-c", "--config-file FILE"},
    {"--conf", "--config-file FILE"},
    {"--set", "--config NAME=VALUE"},
    {"--env", "--config NAME=VALUE"},
    {"--debug", "--verbose"},
    {"-v", "--verbose"},
    {"--log-level", "--verbose"},
    {"--log-verbose", "--verbose"},
    {"-w", "--watch"},
    {"--follow", "--watch"},
    {"--status", "--with-state STATE"},
    {"--filter", "--with-state STATE"},
    {"-n", "--limit N"},
    {"--max", "--limit N"},
    {"--last", "--limit N"},
    {"--file", "--input FILE"},
    {"-f", "--input FILE"},
    {"--ttl", "--expires DAYS"},
    {"--expiry", "--expires DAYS"},
    {"--rpm", "--requests-per-minute N"},
    {"--rate-limit", "--requests-per-minute N"},
    {"--concurrency", "--max-requests N"},
    {"--type", "--kv-type TYPE"},
    {"--wait", "--load"},
    {"--data-dir", "--state DIR"},
    {"--datadir", "--state DIR"},
    {"--home", "--state DIR"},
    {"--state-dir", "--state DIR"},
    {"--dir", "--state DIR"},
    {"-d", "--state DIR"},
    {"-o", "--json"},
    {"--output", "--json"},
    {"--format", "--json"},
    {"-j", "--json"},
    {"--silent", "--quiet"},
    {"-s", "--quiet"},
    {"--usage", "--help"},
    {"-?", "--help"},
};

/// Flags for things that no flag here does, and what does them.
constexpr Foreign kElsewhere[] = {
    {"--api-key", "`holdfast keys create NAME` makes a key, which clients send"},
    {"--token", "`holdfast keys create NAME` makes a key, which clients send"},
    {"--prompt", "the prompt is an argument: `holdfast run MODEL PROMPT`, or text on stdin"},
    {"-p", "the prompt is an argument: `holdfast run MODEL PROMPT`, or text on stdin"},
    {"--model", "the model is an argument of this verb, not a flag"},
    {"-m", "the model is an argument of this verb, not a flag"},
    {"--name", "the name is an argument of this verb, not a flag"},
    {"--path", "the path is an argument of this verb, not a flag"},
    {"--daemon", "serve stays in the foreground: a service manager or `&` puts it behind"},
    {"--detach", "serve stays in the foreground: a service manager or `&` puts it behind"},
    {"-d", "serve stays in the foreground: a service manager or `&` puts it behind"},
    {"--gpu-memory-utilization", "`holdfast config set models.memory_percent=N`"},
    {"--keep-alive", "models stay until memory is wanted; `holdfast models pin NAME`"},
    {"--cont-batching", "it is always on"},
    {"-cb", "it is always on"},
    {"--jinja", "it is always on"},
    {"--metrics", "it is always on: GET /metrics"},
    {"--slots", "`holdfast models add NAME FILE --slots N`"},
    {"--enable-prefix-caching", "it is on unless a model's options say otherwise"},
    {"--enable-chunked-prefill", "it is always on"},
    {"--enable-auto-tool-choice", "it is read from the model's template"},
    {"--tool-call-parser", "it is read from the model's template"},
    {"--reasoning-parser", "it is read from the model's template"},
    {"--chat-template", "it is the model file's own; `holdfast render` shows what it makes"},
    {"--embedding", "every model has /v1/embeddings"},
    {"--embeddings", "every model has /v1/embeddings"},
    {"--flash-attn", "kernels are chosen by what the machine has"},
    {"-fa", "kernels are chosen by what the machine has"},
    {"--mlock", "weights are not locked in memory"},
    {"--no-mmap", "files are always mapped"},
    {"--grammar", "over HTTP it is \"grammar\" of the request"},
    {"--json-schema", "over HTTP it is \"response_format\" of the request"},
    {"--system",
     "`holdfast chat MODEL --system TEXT`; over HTTP a message with the role \"system\""},
    {"--port", "serve has the address: `holdfast serve --http HOST:PORT`"},
    {"--host", "serve has the address: `holdfast serve --http HOST:PORT`"},
};

constexpr const char* kGlobalFlags[] = {"--state", "--url", "--json", "--quiet", "--help", "-h"};

std::vector<std::string> names_of(const Argument& argument) {
  const std::string names = argument.name;
  const std::size_t comma = names.find(',');
  if (comma == std::string::npos) return {names};
  return {names.substr(0, comma), names.substr(comma + 1)};
}

std::string flag_of(const std::string& word) {
  return word.substr(0, word.find('='));
}

/// The flags of a verb, global ones included.
std::vector<std::string> flags_of(const Verb* verb) {
  std::vector<std::string> flags(std::begin(kGlobalFlags), std::end(kGlobalFlags));
  if (verb == nullptr) flags.insert(flags.end(), {"--version", "-v", "-V"});
  if (verb == nullptr) return flags;
  for (const Argument& argument : verb->arguments) {
    if (argument.name[0] != '-') continue;
    for (std::string& name : names_of(argument)) flags.push_back(std::move(name));
  }
  return flags;
}

bool has(const std::vector<std::string>& words, const std::string& word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

bool takes_value(const Verb* verb, const std::string& flag) {
  if (flag == "--state" || flag == "--url") return true;
  if (verb == nullptr) return false;
  for (const Argument& argument : verb->arguments) {
    if (has(names_of(argument), flag)) {
      return argument.kind != Kind::kSwitch && argument.kind != Kind::kOptionalReal;
    }
  }
  return false;
}

bool is_flag(const std::string& word) {
  if (word.size() < 2 || word[0] != '-') return false;
  return word[1] == '-' || std::isalpha(static_cast<unsigned char>(word[1])) != 0;
}

std::vector<std::string> first_words() {
  std::vector<std::string> words = verb_groups();
  for (const Verb& verb : verb_table()) {
    const std::string path = verb.path;
    if (!verb.hidden && path.find(' ') == std::string::npos) words.push_back(path);
  }
  return words;
}

std::vector<std::string> subverbs_of(const std::string& group) {
  std::vector<std::string> words;
  for (const Verb& verb : verb_table()) {
    const std::string path = verb.path;
    if (path.starts_with(group + " ")) words.push_back(path.substr(group.size() + 1));
  }
  return words;
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

std::string explain_verb(const std::string& word) {
  const std::string start = "unknown verb \"" + word + "\"; ";
  for (const Foreign& foreign : kForeignVerbs) {
    if (word == foreign.word) return start + "here that is " + foreign.ours;
  }
  const std::string near = nearest(word, first_words());
  if (!near.empty()) return start + "did you mean `holdfast " + near + "`?";
  // "unpin" and the like: a verb of a group, without the group.
  std::vector<std::string> paths;
  for (const Verb& verb : verb_table()) {
    const std::string path = verb.path;
    if (path.ends_with(" " + word)) paths.push_back("`holdfast " + path + "`");
  }
  if (!paths.empty()) return start + "did you mean " + joined(paths) + "?";
  return start + "`holdfast --help` lists the verbs";
}

std::string explain_subverb(const std::string& group, const std::string& word) {
  const std::vector<std::string> verbs = subverbs_of(group);
  const std::string start = group + ": unknown verb \"" + word + "\"; ";
  const auto meant = [&](const std::string& verb) {
    return start + "did you mean `holdfast " + group + " " + verb + "`?";
  };
  for (const Foreign& foreign : kForeignSubverbs) {
    if (word == foreign.word && has(verbs, foreign.ours)) return meant(foreign.ours);
  }
  const std::string near = nearest(word, verbs);
  if (!near.empty()) return meant(near);
  return start + "expected one of " + joined(verbs);
}

std::string explain_flag(const std::string& path, const Verb* verb, const std::string& flag) {
  const std::vector<std::string> flags = flags_of(verb);
  const std::string start = (path.empty() ? "" : path + ": ") + "unknown option " + flag + "; ";
  std::string spelt = flag;
  std::replace(spelt.begin(), spelt.end(), '_', '-');
  for (const Foreign& foreign : kForeignFlags) {
    const std::string ours = foreign.ours;
    if (spelt != foreign.word || !has(flags, ours.substr(0, ours.find(' ')))) continue;
    return std::string(start).append("did you mean ").append(ours).append("?");
  }
  for (const Foreign& foreign : kElsewhere) {
    if (spelt == foreign.word) return start + foreign.ours;
  }
  const std::string near = nearest(spelt, flags);
  if (!near.empty()) return start + "did you mean " + near + "?";
  return start + "`holdfast " + path + (path.empty() ? "" : " ") + "--help` lists them";
}

/// The words of a command line without flags and their values, up to the verb.
struct Walk {
  std::string path;  // of the verb, or of the group
  const Verb* verb = nullptr;
  std::string unknown;  // a message
};

/// Takes a word of the verb. Returns false if there is no such verb or group.
bool take_word(const std::string& word, Walk& w) {
  const std::string path = w.path.empty() ? word : w.path + " " + word;
  w.verb = find_verb(path);
  const bool group = w.path.empty() && has(verb_groups(), word);
  if (w.verb == nullptr && !group) {
    w.unknown = w.path.empty() ? explain_verb(word) : explain_subverb(w.path, word);
    return false;
  }
  w.path = path;
  return true;
}

/// Goes through a command line as far as it is known.
Walk walk(const std::vector<std::string>& words, const auto& on_flag) {
  Walk w;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i] == "--") break;
    if (is_flag(words[i])) {
      const std::string flag = flag_of(words[i]);
      on_flag(w, i);
      if (takes_value(w.verb, flag) && flag == words[i]) ++i;
    } else if (w.verb == nullptr && !take_word(words[i], w)) {
      return w;
    }
  }
  return w;
}

}  // namespace

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  std::iota(last.begin(), last.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] != b[j - 1])});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before.swap(last);
    last.swap(row);
  }
  return last[b.size()];
}

/// Edits between the two. "temp" for "temperature", "max-token" for "max-tokens": the beginning
/// alone is near too.
static std::size_t distance_to(std::string_view word, const std::string& candidate) {
  const std::size_t distance = edit_distance(word, candidate);
  const bool begins = word.size() >= 4 && candidate.starts_with(word);
  return begins ? std::min<std::size_t>(distance, 1) : distance;
}

std::string nearest(std::string_view word, const std::vector<std::string>& candidates) {
  constexpr std::size_t kLongest = 64;
  if (word.size() > kLongest) return {};
  std::string best;
  std::size_t least = word.size() < 4 ? 1 : word.size() < 8 ? 2 : 3;
  for (const std::string& candidate : candidates) {
    const std::size_t distance = distance_to(word, candidate);
    if (distance > least || (distance == least && !best.empty())) continue;
    if (distance >= candidate.size()) continue;  // nothing of it is left
    best = candidate;
    least = distance;
  }
  return best;
}

/// True if one of the words, of three letters at least, is a part of the other.
static bool is_part(std::string_view a, std::string_view b) {
  constexpr std::size_t kLeast = 3;
  const std::string_view shorter = a.size() < b.size() ? a : b;
  const std::string_view longer = a.size() < b.size() ? b : a;
  return shorter.size() >= kLeast && longer.find(shorter) != std::string_view::npos;
}

std::vector<std::string> near_words(std::string_view word,
                                    const std::vector<std::string>& candidates) {
  constexpr std::size_t kLongest = 64;
  constexpr std::size_t kMost = 3;
  const std::size_t bound = word.size() < 4 ? 1 : word.size() < 8 ? 2 : 3;
  std::vector<std::pair<std::size_t, std::string>> near;
  for (const std::string& candidate : candidates) {
    if (word.size() > kLongest || candidate.empty()) continue;
    const std::size_t distance = edit_distance(word, candidate);
    const bool fits = distance <= bound || is_part(word, candidate);
    if (fits) near.emplace_back(std::min(distance, bound + 1), candidate);
  }
  std::sort(near.begin(), near.end());
  if (near.size() > kMost) near.resize(kMost);
  std::vector<std::string> out;
  for (auto& [distance, candidate] : near) out.push_back(std::move(candidate));
  return out;
}

std::vector<std::string> with_dashes(std::vector<std::string> words) {
  const std::vector<std::string> typed = words;
  walk(typed, [&](const Walk& w, std::size_t i) {
    const std::string flag = flag_of(typed[i]);
    if (!flag.starts_with("--") || flag.find('_') == std::string::npos) return;
    std::string spelt = flag;
    std::replace(spelt.begin(), spelt.end(), '_', '-');
    if (has(flags_of(w.verb), spelt)) words[i] = spelt + typed[i].substr(flag.size());
  });
  return words;
}

std::string explain_unknown(const std::vector<std::string>& words) {
  std::string unknown;
  const Walk w = walk(words, [&](const Walk& at, std::size_t i) {
    const std::string flag = flag_of(words[i]);
    const std::vector<std::string> flags = flags_of(at.verb);
    const bool glued = flag[1] != '-' && has(flags, flag.substr(0, 2));  // -p512
    if (unknown.empty() && !glued && !has(flags, flag)) {
      unknown = explain_flag(at.path, at.verb, flag);
    }
  });
  if (!unknown.empty()) return unknown;
  if (!w.unknown.empty()) return w.unknown;
  if (w.verb != nullptr) return {};
  if (w.path.empty()) return "expected a verb; `holdfast serve --model NAME=FILE.gguf` starts";
  return w.path + ": expected one of " + joined(subverbs_of(w.path));
}

std::string verb_path_of(const std::vector<std::string>& words) {
  return walk(words, [](const Walk&, std::size_t) {}).path;
}

}  // namespace holdfast::cli
