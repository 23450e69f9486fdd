// Goal: a user who types a word of another server, or a word with a slip, is told ours. Method: the
// function that explains a command line, on every word of its tables and on slips of every verb and
// flag; then the program itself for help and version.

#include "ops/cli/suggest.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <sstream>

#include "shared/base/version.h"
#include "tests/process/test_server.h"

namespace holdfast::cli::suggest_test {
namespace {

std::vector<std::string> split(const std::string& line) {
  std::istringstream words(line);
  return {std::istream_iterator<std::string>(words), {}};
}

std::string explain(const std::string& line) {
  return explain_unknown(split(line));
}

bool says(const std::string& line, const std::string& part) {
  return explain(line).find(part) != std::string::npos;
}

TEST(EditDistance, EditDistance_WithSwappedLetters_CountsOne) {
  EXPECT_EQ(edit_distance("", "abc"), 3u);
  EXPECT_EQ(edit_distance("status", "status"), 0u);
  EXPECT_EQ(edit_distance("staus", "status"), 1u);
  EXPECT_EQ(edit_distance("sttaus", "status"), 1u);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
}

TEST(Suggest, Suggest_WithAWordOfAnotherServer_NamesOurs) {
  for (const auto& [typed, ours] : std::vector<std::pair<std::string, std::string>>{
           {"get llama3", "holdfast pull"},
           {"list", "models list"},
           {"ls", "models list"},
           {"ps", "status"},
           {"rm x", "models remove"},
           {"stop x", "models unload"},
           {"start", "holdfast serve"},
           {"prompt x", "holdfast run"},
           {"models ls", "models list"},
           {"keys rm x", "keys revoke"},
           {"webhooks rm x", "webhooks delete"},
           {"serve --port 8080", "--http"},
           {"serve --host 0.0.0.0", "--http"},
           {"serve -m x.gguf", "--model NAME=FILE"},
           {"serve --n-gpu-layers 99", "--device"},
           {"serve --ctx-size 99", "--context"},
           {"serve --api-key x", "keys create"},
           {"run demo hi --max_new_tokens 3", "--max-tokens"},
           {"run demo hi --temp 1", "--temperature"},
           {"run demo -m x", "argument"},
           {"--data-dir x status", "--state"}}) {
    EXPECT_TRUE(says(typed, ours)) << typed << ": " << explain(typed);
  }
}

TEST(Suggest, Suggest_WithAMistypedVerbOrFlag_NamesTheRightOne) {
  for (const Verb& verb : verb_table()) {
    const std::string path = verb.path;
    if (verb.hidden || path.size() < 5) continue;
    std::string slip = path;
    std::swap(slip[slip.size() - 2], slip[slip.size() - 1]);
    const std::string last = path.substr(path.rfind(' ') + 1);
    if (slip != path && last.size() > 3) {
      EXPECT_TRUE(says(slip, last)) << slip << explain(slip);
    }
    for (const Argument& argument : verb.arguments) {
      const std::string flag = "--" + argument_key(argument.name);
      if (argument.name[0] != '-' || flag.size() < 8) continue;
      const std::string typed = path + " " + flag + "x";
      EXPECT_TRUE(says(typed, "did you mean " + flag)) << typed << ": " << explain(typed);
      EXPECT_EQ(explain(path + " " + flag), "") << "known";
    }
  }
}

TEST(Suggest, Suggest_WithAGroupAlone_ListsItsVerbs) {
  EXPECT_TRUE(says("models", "expected one of list, found, show, add"));
  EXPECT_TRUE(says("models frobnicate", "expected one of list"));
  EXPECT_TRUE(says("frobnicate", "holdfast --help"));
  EXPECT_TRUE(says("unpin x", "holdfast models unpin"));
  EXPECT_TRUE(says("", "holdfast serve"));
}

TEST(Suggest, WithDashes_ChangesUnderscoresInFlagsAlone) {
  const auto words = with_dashes(split("run my_model --max_tokens 3 --prompt_logprobs=2 a_b"));
  EXPECT_EQ(words, split("run my_model --max-tokens 3 --prompt-logprobs=2 a_b"));
  EXPECT_EQ(with_dashes(split("run m --not_ours 1")), split("run m --not_ours 1"));
  EXPECT_EQ(with_dashes(split("run m -- --max_tokens")), split("run m -- --max_tokens"));
}

TEST(HelpAndVersion, HelpAndVersion_InEveryForm_Print) {
  for (const char* form : {"-v", "-V", "--version", "version"}) {
    const auto ended = process::run_program({"holdfast", form});
    EXPECT_EQ(ended.code, 0) << form;
    EXPECT_EQ(ended.out, std::string("holdfast ") + kVersion + "\n") << form;
  }
  for (const char* form : {"-h", "--help", "help"}) {
    const auto ended = process::run_program({"holdfast", form});
    EXPECT_EQ(ended.code, 0) << form;
    EXPECT_NE(ended.out.find("serve"), std::string::npos) << form << ended.out;
  }
  const std::string help = process::run_program({"holdfast", "help", "models", "add"}).out;
  EXPECT_NE(help.find("--kv-type"), std::string::npos) << help;
  EXPECT_EQ(process::run_program({"holdfast", "help", "nonsense"}).code, 2);
}

TEST(HelpAndVersion, UsageError_IsOneLineOnStderr) {
  for (const char* wrong : {"modles", "serve --prot 1", "models add x", "models", "serve x.gguf"}) {
    std::vector<std::string> words = split(std::string("holdfast ") + wrong);
    const auto ended = process::run_program(words);
    EXPECT_EQ(ended.code, 2) << wrong;
    EXPECT_EQ(ended.out, "") << wrong;
    EXPECT_EQ(std::count(ended.err.begin(), ended.err.end(), '\n'), 1) << ended.err;
  }
}

}  // namespace
}  // namespace holdfast::cli::suggest_test
