// help and version, as verbs: what --help and --version print.

#include <cstdio>
#include <nlohmann/json.hpp>

#include "ops/cli/suggest.h"
#include "ops/cli/verb_functions.h"
#include "ops/cli/verbs.h"
#include "ops/serve/daemon.h"
#include "ops/terminal/output.h"
#include "shared/base/version.h"

namespace holdfast::cli {

int help(const Call& call) {
  std::vector<std::string> words = {"holdfast"};
  for (const std::string& word : call.list("VERB")) words.push_back(word);
  const std::vector<std::string>& verb_words = call.list("VERB");
  if (!verb_words.empty() && verb_path_of(verb_words).empty()) {
    return report_error(call, Errc::kUsage, "help: " + explain_unknown(verb_words));
  }
  words.emplace_back("--help");
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  return run_cli(static_cast<int>(argv.size()), argv.data());
}

int version(const Call& call) {
  if (call.json) {
    print_document(call, {{"version", kVersion}});
  } else {
    std::printf("holdfast %s\n", kVersion);
  }
  return kExitDone;
}

}  // namespace holdfast::cli
