// Goal: the command line helps a first-time user: tables fit, texts come from stdin, names stand
// for ids, changes print one line, a refused start leaves nothing behind. Method: the programs
// themselves, on one server and on starts that are refused.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <tuple>

#include "ops/cli/verbs.h"
#include "ops/terminal/width.h"
#include "tests/process/running.h"
#include "tests/process/test_server.h"

namespace holdfast::process::first_hour_test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

std::size_t widest(const std::string& text) {
  std::size_t most = 0;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    most = std::max(most, cli::display_width(line));
  }
  return most;
}

/// Runs a command line of bash; `$holdfast` is the program.
Ended shell(const std::string& line) {
  return run_program(
      {"/bin/bash", "--norc", "-c", "holdfast='" HOLDFAST_BIN_DIR "/holdfast'; " + line});
}

class FirstHour : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    dir_ = new TempDir;
    server_ = new TestServer(dir_->path() + "/state");
    ASSERT_TRUE(server_->start({"--engine", "fake", "--model", "demo=" + demo_model(), "--model",
                                "a_model_with_a_long_name_for_a_table=" + demo_model()}))
        << server_->errors();
    ASSERT_EQ(server_->cli({"run", "demo", "hi", "--max-tokens", "2"}).code, 0);
    ASSERT_EQ(server_->cli({"keys", "create", "large 大型 key", "--tenant", "shop"}).code, 0);
    ASSERT_EQ(
        server_->cli({"webhooks", "create", "http://127.0.0.1:1/a/long/path", "--private"}).code,
        0);
    ASSERT_EQ(server_->cli({"models", "alias", "chat", "--to", "demo"}).code, 0);
    ASSERT_EQ(server_->cli({"config", "set", "queue.max_requests=77"}).code, 0);
  }
  static void TearDownTestSuite() {
    delete server_;
    delete dir_;
    server_ = nullptr;
    dir_ = nullptr;
  }
  static std::string request_id() {
    return json::parse(server_->cli({"--json", "requests", "list"}).out)["requests"][0]["id"];
  }
  static TempDir* dir_;
  static TestServer* server_;
};
TempDir* FirstHour::dir_ = nullptr;
TestServer* FirstHour::server_ = nullptr;

/// The arguments with which a verb shows something; nullopt for a verb that does not.
std::optional<std::vector<std::string>> arguments_to_show(const std::string& path,
                                                          const std::string& request) {
  const std::vector<std::string> bare = {
      "status",        "doctor",         "models list", "models alias",  "workers list",
      "requests list", "queue stats",    "keys list",   "webhooks list", "webhooks deliveries",
      "config list",   "config history", "config diff", "db stats",      "db check"};
  if (std::find(bare.begin(), bare.end(), path) != bare.end()) return std::vector<std::string>{};
  if (path == "models show") return std::vector<std::string>{"demo"};
  if (path == "models verify") return std::vector<std::string>{"demo"};
  if (path == "requests show") return std::vector<std::string>{request};
  if (path == "config explain") return std::vector<std::string>{"queue.max_requests"};
  if (path == "inspect") return std::vector<std::string>{demo_model()};
  return std::nullopt;
}

TEST_F(FirstHour, CliTable_AtAnyTerminalWidth_Fits) {
  const std::string request = request_id();
  int printed = 0;
  for (const cli::Verb& verb : cli::verb_table()) {
    const auto more = arguments_to_show(verb.path, request);
    if (!more) continue;
    ++printed;
    std::istringstream path(verb.path);
    std::vector<std::string> args{std::istream_iterator<std::string>(path), {}};
    args.insert(args.end(), more->begin(), more->end());
    for (const char* columns : {"80", "100", "160"}) {
      setenv("COLUMNS", columns, 1);
      const Ended ended = server_->cli(args);
      unsetenv("COLUMNS");
      EXPECT_FALSE(ended.out.empty()) << verb.path << ended.err;
      EXPECT_LE(widest(ended.out), std::stoul(columns)) << verb.path << "\n" << ended.out;
    }
    args.insert(args.begin(), "--json");
    setenv("COLUMNS", "40", 1);
    if (args[1] != "models" || args[2] != "verify") {
      EXPECT_FALSE(json::parse(server_->cli(args).out, nullptr, false).is_discarded()) << verb.path;
    }
    unsetenv("COLUMNS");
  }
  EXPECT_EQ(printed, 20);
}

TEST_F(FirstHour, CliTable_WhenPiped_IsNotShortened) {
  const std::string out = server_->cli({"models", "list"}).out;
  EXPECT_NE(out.find("a_model_with_a_long_name_for_a_table"), std::string::npos);
  EXPECT_NE(out.find(demo_model()), std::string::npos) << out;
}

TEST_F(FirstHour, CliChange_WithOrWithoutQuiet_PrintsNothingOrOneLine) {
  const std::string state = server_->state();
  const std::string backup = dir_->path() + "/copy.db";
  const std::vector<std::vector<std::string>> changes = {
      {"models", "pin", "demo"},
      {"models", "unpin", "demo"},
      {"models", "unload", "demo"},
      {"models", "load", "demo"},
      {"models", "add", "other", demo_model()},
      {"models", "alias", "other-name", "--to", "demo"},
      {"models", "alias", "other-name", "--remove"},
      {"models", "remove", "other"},
      {"workers", "drain", "worker-0"},
      {"workers", "resume", "worker-0"},
      {"queue", "pause"},
      {"queue", "resume"},
      {"config", "set", "queue.max_requests=78"},
      {"config", "unset", "queue.max_requests"},
      {"config", "rollback", "1"},
      {"keys", "update", "large 大型 key", "--max-requests", "3"},
      {"db", "backup", backup}};
  for (const char* quiet : {"", "--quiet"}) {
    fs::remove(backup);
    for (std::vector<std::string> change : changes) {
      if (*quiet != '\0') change.emplace_back(quiet);
      const Ended ended = server_->cli(change);
      EXPECT_EQ(ended.code, 0) << change[1] << ended.err;
      EXPECT_EQ(std::count(ended.out.begin(), ended.out.end(), '\n'), *quiet == '\0' ? 1 : 0)
          << change[1] << ended.out;
      EXPECT_EQ(ended.err, "") << change[1];
    }
  }
}

TEST_F(FirstHour, CliText_WithoutAnArgument_IsReadFromStdin) {
  const std::string run = "$holdfast --state '" + server_->state() + "' --json run demo ";
  const std::string flags = " --max-tokens 4 --seed 1 --raw";
  const json argument = json::parse(shell(run + "'some words'" + flags).out);
  for (const std::string& line :
       {"echo 'some words' | " + run + flags, "echo 'some words' | " + run + "-" + flags}) {
    EXPECT_EQ(json::parse(shell(line).out)["choices"], argument["choices"]) << line;
  }
  const std::string model = " '" + demo_model() + "' ";
  const std::string ids = shell("$holdfast tokenize" + model + "'some words'").out;
  EXPECT_NE(ids, "");
  EXPECT_EQ(shell("echo 'some words' | $holdfast tokenize" + model).out, ids);
  EXPECT_EQ(shell("echo 'some words' | $holdfast tokenize" + model + "-").out, ids);
  EXPECT_EQ(shell("printf 'some words' | $holdfast tokenize" + model + "--input -").out, ids);
  EXPECT_NE(shell("$holdfast tokenize" + model + "a | $holdfast detokenize" + model).out, "");
  const Ended none = shell(run + "</dev/null");
  EXPECT_EQ(none.code, 2);
  EXPECT_NE(none.err.find("stdin is empty"), std::string::npos) << none.err;
}

TEST_F(FirstHour, CliName_WhenUnique_StandsForTheId) {
  ASSERT_EQ(server_->cli({"keys", "create", "twin"}).code, 0);
  ASSERT_EQ(server_->cli({"keys", "update", "twin", "--max-requests", "2"}).code, 0);
  ASSERT_EQ(server_->cli({"keys", "create", "twin"}).code, 0);
  const Ended both = server_->cli({"keys", "revoke", "twin"});
  EXPECT_EQ(both.code, 4);
  EXPECT_NE(both.err.find("2 keys have the name"), std::string::npos) << both.err;
  EXPECT_EQ(server_->cli({"keys", "revoke", "nobody"}).code, 3);
  ASSERT_EQ(server_->cli({"webhooks", "create", "http://127.0.0.1:1/b", "--private"}).code, 0);
  EXPECT_EQ(server_->cli({"webhooks", "delete", "http://127.0.0.1:1/b"}).code, 0);
  wire::Submit submit = make_submit("hi", 2, 1);
  submit.idem_key = "order-7";
  const auto client = server_->client();
  const StreamResult result = submit_and_stream(*client, submit);
  EXPECT_EQ(result.failure, "");
  const std::string id = result.info.request_id;
  for (const std::string& name : {id, "cmpl-" + id, "msg_" + id, std::string("order-7")}) {
    const Ended printed = server_->cli({"--json", "requests", "show", name});
    ASSERT_EQ(printed.code, 0) << name << printed.err;
    EXPECT_EQ(json::parse(printed.out)["id"], id);
  }
  EXPECT_EQ(server_->cli({"requests", "show", "order-8"}).code, 3);
}

TEST_F(FirstHour, CliSamplingFlag_WhenOutOfRange_IsRefusedAsByHttp) {
  for (const auto& [flag, good, bad] :
       std::vector<std::tuple<std::string, std::string, std::string>>{
           {"--temperature", "100", "100.1"},
           {"--temperature", "0", "-0.1"},
           {"--top-p", "1", "1.5"},
           {"--min-p", "0.5", "-1"},
           {"--top-k", "-1", "-2"},
           {"--max-tokens", "1", "0"},
           {"--prompt-logprobs", "64", "65"}}) {
    const auto run = [&](const std::string& value) {
      return server_->cli({"--json", "run", "demo", "hi", flag + "=" + value, "--max-tokens=1"})
          .code;
    };
    const bool of_tokens = flag == "--max-tokens" || flag == "--prompt-logprobs";
    if (!of_tokens) {
      EXPECT_EQ(run(good), 0) << flag << good;
    }
    const Ended refused = server_->cli({"run", "demo", "hi", flag + "=" + bad});
    EXPECT_EQ(refused.code, 4) << flag << bad << "; invalid_request, as HTTP says";
    EXPECT_NE(refused.err.find(flag), std::string::npos) << refused.err;
    EXPECT_EQ(refused.out, "");
  }
  EXPECT_EQ(server_->cli({"run", "demo", "hi", "--temperature=nan"}).code, 4);
}

TEST_F(FirstHour, ModelsAdd_WithAFolderOfOneModel_AddsThatModel) {
  const TempDir dir;
  fs::create_directories(dir.path() + "/one");
  const Ended empty = server_->cli({"models", "add", "found", dir.path() + "/one"});
  EXPECT_EQ(empty.code, 3);
  EXPECT_NE(empty.err.find("neither a GGUF file"), std::string::npos) << empty.err;
  fs::copy_file(demo_model(), dir.path() + "/one/a.gguf");
  dir.write("one/README.md", "text");
  EXPECT_EQ(server_->cli({"models", "add", "found", dir.path() + "/one"}).code, 0);
  fs::copy_file(demo_model(), dir.path() + "/one/b.gguf");
  const Ended several = server_->cli({"models", "add", "found", dir.path() + "/one"});
  EXPECT_EQ(several.code, 3);
  EXPECT_NE(several.err.find("a.gguf, b.gguf"), std::string::npos) << several.err;
  EXPECT_EQ(server_->cli({"models", "remove", "found"}).code, 0);
}

TEST_F(FirstHour, ModelFile_WhenItIsNoModel_IsNamedInTheError) {
  const TempDir dir;
  const std::string pointer =
      "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n";
  for (const auto& [bytes, what] : std::vector<std::pair<std::string, std::string>>{
           {pointer, "git lfs pull"},
           {"<!DOCTYPE html>\n<html><head>", "an HTML page, not a model"},
           {"\n  <html lang=\"en\">", "an HTML page, not a model"},
           {"PK\3\4rest", "ZIP archive"},
           {std::string(4096, '\0'), "is not complete"}}) {
    const std::string file = dir.write("model.gguf", bytes);
    for (const auto& args : std::vector<std::vector<std::string>>{
             {"models", "add", "bad", file}, {"inspect", file}, {"run", file, "hi"}}) {
      const Ended ended = server_->cli(args);
      EXPECT_NE(ended.code, 0);
      EXPECT_NE(ended.err.find(what), std::string::npos) << args[0] << ": " << ended.err;
    }
  }
}

TEST(RefusedServe, Serve_WhenRefused_LeavesNoFiles) {
  const TempDir dir;
  const std::string state = dir.path() + "/deep/state";
  TestServer other(dir.path() + "/other");
  ASSERT_TRUE(other.start({"--engine", "fake"})) << other.errors();
  const std::string taken = other.url().substr(7);
  const TempDir models;
  const std::string page = models.write("page.gguf", "<html>");
  for (const auto& flags : std::vector<std::vector<std::string>>{
           {"--http", taken},
           {"--http", "nonsense"},
           {"--model", "demo=/no/such/file.gguf"},
           {"--model", page},
           {"--model", "demo=" + page},
           {"--threads", "0"},
           {"--workers", "many"},
           {"--no-such-flag"},
           {"--tls-cert", "/no/such/file", "--tls-key", "/no/such/file"},
           {"--config", "no.such.knob=1", "--http", "127.0.0.1:0"},
           {"--config-file", "/no/such/file", "--http", "127.0.0.1:0"}}) {
    std::vector<std::string> args = {"holdfast", "serve", "--state", state};
    args.insert(args.end(), flags.begin(), flags.end());
    const Ended ended = run_program(args);
    EXPECT_TRUE(ended.code == 1 || ended.code == 2) << flags[0] << ended.code << ended.err;
    EXPECT_NE(ended.err, "");
    EXPECT_FALSE(fs::exists(dir.path() + "/deep")) << flags[0] << ended.err;
  }
}

TEST(OpenServe, Serve_OnAllInterfacesWithoutAKey_SaysHowToCreateOne) {
  const TempDir dir;
  Running serve(
      {"holdfast", "serve", "--engine", "fake", "--state", dir.path() + "/state", "--http", "*:0"},
      dir.path() + "/out");
  ASSERT_TRUE(serve.says("ready http://0.0.0.0:")) << serve.output();
  EXPECT_TRUE(serve.says("keys create NAME")) << serve.output();
  ASSERT_EQ(run_program({"holdfast", "--state", dir.path() + "/state", "keys", "create", "x"}).code,
            0);
  EXPECT_EQ(serve.end(SIGTERM), 0);
  Running again(
      {"holdfast", "serve", "--engine", "fake", "--state", dir.path() + "/state", "--http", ":0"},
      dir.path() + "/out2");
  ASSERT_TRUE(again.says("ready http://0.0.0.0:")) << again.output();
  EXPECT_EQ(again.output().find("keys create"), std::string::npos) << again.output();
  EXPECT_EQ(again.end(SIGTERM), 0);
}

TEST(ClosedFiles, Programs_WithClosedStandardFiles_Work) {
  const TempDir dir;
  const std::string state = dir.path() + "/state";
  const std::string serve = "exec $holdfast serve --engine fake --http none --state '" + state +
                            "' --model demo='" + demo_model() + "'";
  for (const char* closed : {"<&-", ">&-", "2>&-", "<&- >&- 2>&-"}) {
    const Ended ended = shell("( " + serve + " " + closed +
                              " ) & pid=$!; for i in $(seq 200); do "
                              "$holdfast --state '" +
                              state +
                              "' run demo hi --max-tokens 2 "
                              ">/dev/null 2>&1 && break; sleep 0.1; done; "
                              "$holdfast --state '" +
                              state +
                              "' --json models show demo; "
                              "kill $pid; wait $pid");
    EXPECT_EQ(ended.code, 0) << closed << ended.err;
    EXPECT_NE(ended.out.find("\"state\":\"ready\""), std::string::npos) << closed << ended.out;
    EXPECT_EQ(run_program({"holdfast", "--state", state, "db", "check"}).code, 0) << closed;
  }
  EXPECT_EQ(shell("$holdfast --version >&-").code, 0);
}

TEST(OpenFileLimit, Serve_WithALowOpenFileLimit_RefusesOrWarns) {
  const TempDir dir;
  for (const int files : {16, 32, 64, 100}) {
    const Ended ended = shell("ulimit -n " + std::to_string(files) +
                              "; $holdfast serve --http none "
                              "--engine fake --state '" +
                              dir.path() + "/state'");
    EXPECT_EQ(ended.code, 2) << files << ended.err;
    EXPECT_NE(ended.err.find("ulimit -n"), std::string::npos) << ended.err;
    EXPECT_FALSE(fs::exists(dir.path() + "/state"));
  }
  Running serve({"/bin/bash", "--norc", "-c",
                 "ulimit -n 160; exec '" HOLDFAST_BIN_DIR "/holdfast' serve --engine fake --http "
                 "127.0.0.1:0 --state '" +
                     dir.path() + "/state'"},
                dir.path() + "/out");
  ASSERT_TRUE(serve.says("ready http")) << serve.output();
  EXPECT_TRUE(serve.says("may open 160 files")) << serve.output();
  EXPECT_EQ(serve.end(SIGTERM), 0);
}

}  // namespace
}  // namespace holdfast::process::first_hour_test
