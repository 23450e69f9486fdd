// Goal: completion offers the words of the verb table, and the names of objects that exist; manual
// pages render. Method: the scripts run in a real bash and (where there is one) zsh on a real state
// directory; groff renders each page with every warning on.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <set>
#include <sstream>

#include "ops/cli/verbs.h"
#include "tests/process/test_server.h"

namespace holdfast::process::completion_test {
namespace {

using Words = std::set<std::string>;

bool is_there(const std::string& program) {
  return access(program.c_str(), X_OK) == 0;
}

/// A state directory with two models, made once.
class Completion : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    dir_ = new TempDir;
    TestServer server(state());
    ASSERT_TRUE(server.start({"--model", "demo=" + demo_model(), "--engine", "fake", "--model",
                              "other=" + demo_model()}))
        << server.errors();
    ASSERT_EQ(server.cli({"run", "demo", "hi", "--max-tokens", "1"}).code, 0);
    ASSERT_EQ(server.cli({"config", "set", "queue.max_requests=77"}).code, 0);
    ASSERT_EQ(server.cli({"models", "alias", "chat", "--to", "demo"}).code, 0);
    ASSERT_EQ(server.stop(), 0);
  }
  static void TearDownTestSuite() {
    delete dir_;
    dir_ = nullptr;
  }
  static std::string state() { return dir_->path() + "/state"; }

  /// The words that the shell offers after these; the last one is being typed.
  static Words offered(const std::string& shell, std::vector<std::string> words) {
    words.insert(words.begin(), "holdfast");
    std::string list;
    for (const std::string& word : words) list += " '" + word + "'";
    const std::string path = "export PATH='" HOLDFAST_BIN_DIR "':$PATH HOLDFAST_STATE='" + state() +
                             "'; cd '" + dir_->path() + "'; ";
    std::string script;
    if (shell == "bash") {
      script = path + "source <(holdfast completion bash); COMP_WORDS=(" + list +
               "); COMP_CWORD=" + std::to_string(words.size() - 1) +
               "; _holdfast holdfast; printf '%s\\n' \"${COMPREPLY[@]}\"";
    } else {
      // The real compadd works inside a widget only; this one prints, and filters likewise.
      script = path +
               "compdef() { }; _files() { ls }; compadd() { local end=; "
               "while [[ $1 != -- ]]; do [[ $1 == -S ]] && end=$2 && shift; shift; done; shift; "
               "for word in \"$@\"; do [[ $word == ${words[CURRENT]}* ]] && print -r -- "
               "$word$end; done }; source <(holdfast completion zsh); words=(" +
               list + "); CURRENT=" + std::to_string(words.size()) + "; _holdfast; true";
    }
    const Ended ended = shell == "bash" ? run_program({"/bin/bash", "--norc", "-c", script})
                                        : run_program({zsh(), "-f", "-c", script});
    EXPECT_EQ(ended.code, 0) << ended.err;
    EXPECT_EQ(ended.err, "") << shell;
    Words offer;
    std::istringstream lines(ended.out);
    for (std::string line; std::getline(lines, line);) {
      if (!line.empty()) offer.insert(line);
    }
    return offer;
  }
  static std::string zsh() { return is_there("/usr/bin/zsh") ? "/usr/bin/zsh" : "/bin/zsh"; }

  static void check(const std::string& shell) {
    const auto offer = [&](const std::vector<std::string>& words) { return offered(shell, words); };
    const Words first = offer({""});
    for (const char* word : {"serve", "run", "models", "config", "doctor", "completion"}) {
      EXPECT_EQ(first.count(word), 1u) << word;
    }
    EXPECT_EQ(first.count("complete"), 0u) << "hidden";
    EXPECT_EQ(offer({"stat"}), Words{"status"});
    EXPECT_EQ(offer({"models", "un"}), (Words{"unload", "unpin"}));
    EXPECT_EQ(offer({"models", "show", ""}), (Words{"demo", "other"}));
    EXPECT_EQ(offer({"models", "show", "d"}), Words{"demo"});
    EXPECT_EQ(offer({"--state", "/nowhere", "models", "show", ""}), Words{}) << "its models";
    EXPECT_EQ(offer({"models", "alias", ""}), Words{"chat"});
    EXPECT_EQ(offer({"--json", "models", "show", "d"}), Words{"demo"});
    EXPECT_EQ(offer({"requests", "list", "--with-state", "ca"}), Words{"cancelled"});
    EXPECT_EQ(offer({"requests", "move", "x", "--priority", ""}),
              (Words{"interactive", "normal", "batch"}));
    EXPECT_EQ(offer({"requests", "show", ""}).size(), 1u);
    EXPECT_EQ(offer({"models", "add", "new", "--kv-type", "b"}), Words{"bf16"});
    EXPECT_EQ(offer({"models", "add", "--lo"}), Words{"--load"});
    EXPECT_EQ(offer({"bench", "f.gguf", "-"}).count("-p"), 1u);
    EXPECT_EQ(offer({"config", "explain", "queue.max_b"}), Words{"queue.max_bytes"});
    EXPECT_EQ(offer({"config", "set", "queue.max_b"}), Words{"queue.max_bytes="});
    EXPECT_EQ(offer({"config", "rollback", ""}).count("1"), 1u);
    EXPECT_EQ(offer({"completion", ""}), (Words{"bash", "zsh"}));
    EXPECT_EQ(offer({"synth", "qwen2.5-0"}).count("qwen2.5-0.5b"), 1u);
    EXPECT_EQ(offer({"inspect", "sta"}).count("state"), 1u) << "a file";
    EXPECT_EQ(offer({"run", ""}).count("demo"), 1u);
    EXPECT_EQ(offer({"models", "list", "x"}), Words{}) << "it takes nothing";
  }

  static TempDir* dir_;
};
TempDir* Completion::dir_ = nullptr;

TEST_F(Completion, BashCompletion_AtEachPosition_OffersVerbsAndNames) {
  check("bash");
  // Bash cuts words at "=".
  EXPECT_EQ(offered("bash", {"config", "set", "queue.max_bytes", "=", "queue"}), Words{});
  EXPECT_EQ(offered("bash", {"config", "set", "queue.max_bytes", "=", "5", "queue.max_b"}),
            Words{"queue.max_bytes="});
}

TEST_F(Completion, ZshCompletion_AtEachPosition_OffersVerbsAndNames) {
  if (!is_there(zsh())) GTEST_SKIP() << "no zsh on this machine: its script is not tested";
  check("zsh");
}

TEST_F(Completion, CompletionNames_WithABrokenDatabase_PrintNothing) {
  const TempDir empty;
  empty.write("control.db", "not a database");
  for (const char* what : {"models", "requests", "workers", "versions", "nonsense"}) {
    const Ended ended = run_program({"holdfast", "--state", empty.path(), "complete", what});
    EXPECT_EQ(ended.code, 0);
    EXPECT_EQ(ended.out + ended.err, "") << what;
  }
}

TEST(Manual, EveryVerb_HasHelpAndExamples) {
  for (const cli::Verb& verb : cli::verb_table()) {
    EXPECT_GT(std::string(verb.help).size(), 10u) << verb.path;
    EXPECT_FALSE(cli::examples_of(verb.path).empty()) << verb.path;
    for (const cli::Example& example : cli::examples_of(verb.path)) {
      EXPECT_NE(std::string(example.command).find("holdfast"), std::string::npos);
      // A dash in a path may be written as a space: keys node create.
      std::string written = example.command, path = verb.path;
      std::replace(written.begin(), written.end(), ' ', '-');
      std::replace(path.begin(), path.end(), ' ', '-');
      EXPECT_NE(written.find(path), std::string::npos)
          << example.command << " is no example of " << verb.path;
    }
    for (const cli::Argument& argument : verb.arguments) {
      EXPECT_GT(std::string(argument.help).size(), 3u) << verb.path << " " << argument.name;
    }
  }
}

TEST(Manual, Help_OfAVerb_ShowsOptionsAndExamples) {
  const Ended ended = run_program({"holdfast", "models", "add", "--help"});
  EXPECT_EQ(ended.code, 0);
  for (const char* part : {"--kv-type", "Examples:", "holdfast models add chat", "--state DIR"}) {
    EXPECT_NE(ended.out.find(part), std::string::npos) << part << "\n" << ended.out;
  }
  const std::string top = run_program({"holdfast", "--help"}).out;
  EXPECT_NE(top.find("doctor"), std::string::npos);
  EXPECT_EQ(top.find("complete "), std::string::npos) << "hidden";
  EXPECT_NE(top.find("69 no daemon"), std::string::npos);
}

TEST(Manual, ManualPages_WhenRenderedByGroff_GiveNoWarning) {
  if (!is_there("/usr/bin/groff")) GTEST_SKIP() << "no groff on this machine: pages not rendered";
  const TempDir dir;
  std::vector<std::string> paths = {""};
  for (const cli::Verb& verb : cli::verb_table()) {
    if (!verb.hidden) paths.emplace_back(verb.path);
  }
  for (const std::string& path : paths) {
    std::vector<std::string> args = {"holdfast", "man"};
    std::istringstream words(path);
    for (std::string word; words >> word;) args.push_back(word);
    const Ended page = run_program(args);
    ASSERT_EQ(page.code, 0) << path << page.err;
    const std::string file = dir.write("page", page.out);
    const Ended drawn =
        run_program({"/usr/bin/groff", "-man", "-ww", "-Kutf8", "-Tutf8", "-P-cbou", file});
    EXPECT_EQ(drawn.code, 0);
    EXPECT_EQ(drawn.err, "") << path;
    for (const char* section : {"NAME", "SYNOPSIS", "DESCRIPTION", "EXAMPLES"}) {
      EXPECT_NE(drawn.out.find(section), std::string::npos) << path;
    }
  }
  EXPECT_EQ(run_program({"holdfast", "man", "nonsense"}).code, 3);
}

}  // namespace
}  // namespace holdfast::process::completion_test
