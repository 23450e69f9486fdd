// Goal: wrong input of any kind is answered with a typed error of one line, and the server lives
// on. Method: a table of bad files, names and numbers against real processes; after each the demo
// model still answers and no child was restarted.

#include <gtest/gtest.h>
#include <sqlite3.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "shared/gguf/gguf.h"
#include "tests/process/test_server.h"

namespace holdfast::process::bad_input_test {
namespace {

const std::vector<std::string> kChildren = {"daemon", "worker-0", "gateway"};

/// Expects one line that begins with the program's name, and the code in the JSON.
void expect_error(const Ended& ended, int code, const std::vector<std::string>& typed) {
  EXPECT_EQ(ended.code, code) << ended.err;
  EXPECT_EQ(ended.err.rfind("holdfast: ", 0), 0U) << ended.err;
  EXPECT_EQ(ended.err.find('\n'), ended.err.size() - 1) << ended.err;
  const auto document = nlohmann::json::parse(ended.out, nullptr, false);
  ASSERT_TRUE(document.is_object() && document.contains("error")) << ended.out;
  const std::string got = document["error"].value("code", "");
  EXPECT_NE(std::find(typed.begin(), typed.end(), got), typed.end()) << ended.out;
  EXPECT_FALSE(document["error"].value("message", "").empty());
}

class BadInput : public testing::Test {
 protected:
  void SetUp() override {
    server_ = std::make_unique<TestServer>(dir_.path() + "/state");
    ASSERT_TRUE(server_->start({"--model", "demo=" + demo_model()})) << server_->errors();
    client_ = server_->client();
  }
  void TearDown() override {
    if (server_->supervisor_pid() <= 0) return;
    for (const std::string& child : kChildren) {
      EXPECT_EQ(server_->restarts_of(child), 0) << child << "\n" << server_->errors();
    }
    const StreamResult result = submit_and_stream(*client_, make_submit("To be", 8, 1));
    EXPECT_EQ(result.failure, "");
    EXPECT_EQ(result.ids.size(), 8U);
    client_.reset();
    EXPECT_EQ(server_->stop(), 0);
  }
  std::string refusal(const wire::Submit& submit) {
    const auto answer = client_->submit(client::Principal::local(), submit);
    const auto* failure = std::get_if<client::Failure>(&answer);
    return failure == nullptr ? "accepted" : std::string(errc_name(failure->code));
  }

  TempDir dir_;
  std::unique_ptr<TestServer> server_;
  std::unique_ptr<client::Client> client_;
};

TEST_F(BadInput, ModelFile_WhenMalformed_IsRefusedWithATypedError) {
  const std::string good = read_file(demo_model());
  std::string other_magic = good;
  other_magic[0] = 'X';
  std::string other_version = good;
  other_version[4] = 77;
  std::string many_tensors = good;
  many_tensors[14] = 0x7f;
  std::string text(4096, 'a');
  const std::vector<std::pair<std::string, std::string>> files = {
      {"empty", ""},
      {"one-byte", "G"},
      {"text", text},
      {"magic", other_magic},
      {"version", other_version},
      {"tensor-count", many_tensors},
      {"header-cut", good.substr(0, 2'000)},
      {"data-cut", good.substr(0, good.size() - 1'000)}};
  for (const auto& [name, bytes] : files) {
    SCOPED_TRACE(name);
    const std::string path = dir_.write(name + ".gguf", bytes);
    const Ended ended = server_->cli({"--json", "models", "add", name, path});
    expect_error(ended, 1, {"file_invalid", "io", "unsupported"});
    EXPECT_NE(ended.err.find(name + ".gguf"), std::string::npos) << ended.err;
  }
  expect_error(server_->cli({"--json", "models", "add", "x", dir_.path() + "/missing.gguf"}), 3,
               {"not_found"});
}

// A flipped bit in a header may make another valid file, so either answer is right; a crash, a
// hang, or a model that makes no sense is not.
TEST_F(BadInput, ModelFile_WithAFlippedBit_IsTakenOrRefusedWithoutACrash) {
  const std::string good = read_file(demo_model());
  std::mt19937_64 random(20'260'101);
  int refused = 0;
  for (int i = 0; i < 40; ++i) {
    std::string bad = good;
    // The first flips go where the structure is densest: counts, keys and types.
    const std::size_t range = i < 20 ? 1'500 : 200'000;
    const std::size_t at = random() % range;
    bad[at] = static_cast<char>(bad[at] ^ (1 << random() % 8));
    SCOPED_TRACE("byte " + std::to_string(at));
    const std::string name = "flip" + std::to_string(i);
    const Ended ended =
        server_->cli({"--json", "models", "add", name, dir_.write(name + ".gguf", bad)});
    if (ended.code == 0) continue;
    ++refused;
    expect_error(ended, 1, {"file_invalid", "io", "unsupported"});
  }
  EXPECT_GE(refused, 10);
}

TEST_F(BadInput, ModelLoad_WhenTheFileChangedSinceAdd_FailsAsChanged) {
  const std::string good = read_file(demo_model());
  const std::string path = dir_.write("later.gguf", good);
  ASSERT_EQ(server_->cli({"models", "add", "later", path}).code, 0);
  std::string bad = good;
  bad[bad.size() / 2] = static_cast<char>(bad[bad.size() / 2] ^ 4);
  dir_.write("later.gguf", bad);
  const Ended ended = server_->cli({"--json", "models", "load", "later"});
  expect_error(ended, 4, {"model_failed"});
  EXPECT_NE(ended.err.find("changed"), std::string::npos) << ended.err;
}

TEST_F(BadInput, ModelWithNan_WhenServed_FailsAsNumericsNan) {
  std::string bytes = read_file(demo_model());
  const auto file = gguf::File::open(demo_model());
  ASSERT_TRUE(file.has_value());
  const gguf::TensorInfo* norm = file.value()->tensor("output_norm.weight");
  ASSERT_NE(norm, nullptr);
  ASSERT_EQ(norm->type, gguf::TensorType::kF32);
  const std::size_t at = bytes.find(
      std::string_view(reinterpret_cast<const char*>(norm->data.data()), norm->data.size()));
  ASSERT_NE(at, std::string::npos);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::memcpy(bytes.data() + at, &nan, sizeof nan);
  const Ended added =
      server_->cli({"--json", "models", "add", "nan", dir_.write("nan.gguf", bytes), "--load"});
  if (added.code != 0) return expect_error(added, 4, {"model_failed"});
  wire::Submit submit = make_submit("To be", 8, 1);
  submit.model = "nan";
  const StreamResult result = submit_and_stream(*client_, submit);
  ASSERT_FALSE(result.info.choices.empty()) << result.failure;
  EXPECT_EQ(result.info.state, wire::RequestState::kFailed);
  EXPECT_EQ(result.info.choices[0].error_code, "numerics_nan") << result.info.choices[0].error;
  EXPECT_TRUE(result.ids.empty());
}

TEST_F(BadInput, Request_WhenInvalid_IsRefusedWithATypedError) {
  wire::Submit unknown = make_submit("x", 4, 1);
  unknown.model = "no-such-model";
  EXPECT_EQ(refusal(unknown), "model_not_found");
  std::string long_prompt;
  for (int i = 0; i < 3'000; ++i) long_prompt += "word ";
  const auto exceeded = client_->submit(client::Principal::local(), make_submit(long_prompt, 4, 1));
  ASSERT_TRUE(std::holds_alternative<client::Failure>(exceeded));
  const auto& numbers = std::get<client::Failure>(exceeded);
  EXPECT_EQ(errc_name(numbers.code), "context_exceeded");
  EXPECT_GT(numbers.needed, 3'000);
  EXPECT_GT(numbers.largest, 0);
  EXPECT_LT(numbers.largest, numbers.needed);
  for (const std::int64_t number : {numbers.needed, numbers.largest}) {
    EXPECT_NE(numbers.message.find(std::to_string(number)), std::string::npos) << numbers.message;
  }
  EXPECT_EQ(refusal(make_submit("x", 1'000'000, 1)), "context_exceeded");
  EXPECT_EQ(refusal(make_submit("x", -1, 1)), "invalid_request");
  EXPECT_EQ(refusal(make_submit("\xff\xfe broken", 4, 1)), "invalid_request");
  wire::Submit none = make_submit("x", 4, 1);
  none.prompts.clear();
  EXPECT_EQ(refusal(none), "invalid_request");
  wire::Submit bad_id = make_submit("x", 4, 1);
  bad_id.prompts[0].text.reset();
  bad_id.prompts[0].ids = std::vector<wire::TokenId>{1, 2'000'000'000};
  EXPECT_EQ(refusal(bad_id), "invalid_request");
  wire::Submit hot = make_submit("x", 4, 1);
  hot.sampling.temperature = -1;
  EXPECT_EQ(refusal(hot), "invalid_request");
}

// max_tokens 0 is legal: the prompt comes back, nothing is generated.
TEST_F(BadInput, Request_WithMaxTokensZeroAndEcho_ReturnsThePrompt) {
  wire::Submit submit = make_submit("All that glisters", 0, 1);
  submit.echo = true;
  const StreamResult result = submit_and_stream(*client_, submit);
  EXPECT_EQ(result.failure, "");
  EXPECT_EQ(result.info.state, wire::RequestState::kSucceeded);
  EXPECT_TRUE(result.ids.empty());
  ASSERT_EQ(result.info.prompt_text.size(), 1U);
  EXPECT_EQ(result.info.prompt_text[0], "All that glisters");
  ASSERT_EQ(result.info.choices.size(), 1U);
  EXPECT_EQ(result.info.choices[0].finish, wire::FinishReason::kLength);
}

TEST_F(BadInput, Cli_WithUnknownNames_ReturnsTypedErrors) {
  expect_error(server_->cli({"--json", "run", "no-such-model", "hi"}), 3, {"model_not_found"});
  expect_error(server_->cli({"--json", "models", "show", "nobody"}), 3,
               {"model_not_found", "not_found"});
  expect_error(server_->cli({"--json", "requests", "show", "nobody"}), 3, {"not_found"});
  expect_error(server_->cli({"--json", "requests", "cancel", "nobody"}), 3, {"not_found"});
  expect_error(server_->cli({"--json", "requests", "tail", "nobody"}), 3, {"not_found"});
  expect_error(server_->cli({"--json", "run", "demo", "\xff", "--raw"}), 4, {"invalid_request"});
  expect_error(server_->cli({"--json", "run", "demo", "x", "--raw", "--max-tokens", "-3"}), 4,
               {"invalid_request"});
}

TEST_F(BadInput, Serve_OnAPortOrStateDirectoryInUse_IsRefused) {
  // On the same port: refused before anything starts.
  const std::string address = server_->url().substr(7);
  const Ended port =
      run_program({"holdfast", "serve", "--state", dir_.path() + "/other", "--http", address});
  EXPECT_EQ(port.code, 1);
  EXPECT_NE(port.err.find("in use"), std::string::npos) << port.err;
  EXPECT_NE(port.err.find("--http"), std::string::npos) << port.err;
  // On the same state directory: the second daemon names the first one's pid.
  const Ended state =
      run_program({"holdfast", "serve", "--state", server_->state(), "--http", "127.0.0.1:0"});
  EXPECT_EQ(state.code, 1) << state.err;
  EXPECT_NE(state.err.find(std::to_string(server_->pid_of("daemon"))), std::string::npos)
      << state.err;
}

TEST(BadStart, Serve_WhenAModelCannotLoad_EndsWithExitCode1) {
  const TempDir dir;
  TestServer server(dir.path() + "/state");
  EXPECT_FALSE(server.start({"--model", "bad=" + dir.write("bad.gguf", "not a model")}));
  EXPECT_EQ(server.exit_code(), 1);
  EXPECT_NE(server.errors().find("bad"), std::string::npos) << server.errors();
}

TEST(BadStart, Serve_WithANewerDatabase_IsRefused) {
  const TempDir dir;
  const std::string state = dir.path() + "/state";
  {
    TestServer server(state);
    ASSERT_TRUE(server.start({})) << server.errors();
    ASSERT_EQ(server.stop(), 0);
  }
  sqlite3* db = nullptr;
  ASSERT_EQ(sqlite3_open((state + "/control.db").c_str(), &db), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(db, "PRAGMA user_version=999999", nullptr, nullptr, nullptr), SQLITE_OK);
  sqlite3_close(db);
  const Ended ended = run_program({"holdfast", "serve", "--state", state, "--http", "127.0.0.1:0"});
  EXPECT_EQ(ended.code, 1) << ended.err;
  EXPECT_NE(ended.err.find("newer"), std::string::npos) << ended.err;
}

TEST(BadStart, Serve_WithAnImpossibleStateDirectory_IsRefusedWithItsPath) {
  for (const char* state : {"/dev/null", "/proc/holdfast"}) {
    const Ended ended =
        run_program({"holdfast", "serve", "--state", state, "--http", "127.0.0.1:0"});
    EXPECT_EQ(ended.code, 1);
    EXPECT_NE(ended.err.find(state), std::string::npos) << ended.err;
  }
}

TEST(BadStart, Serve_WithAStateDirectoryOfAnotherUser_IsRefused) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can run a program as another user";
  if (!std::filesystem::exists("/usr/bin/setpriv")) GTEST_SKIP() << "setpriv is not installed";
  const TempDir dir;  // 0700, of root
  const Ended ended =
      run_program({"/usr/bin/setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups",
                   std::string(HOLDFAST_BIN_DIR) + "/holdfast", "serve", "--state",
                   dir.path() + "/state", "--http", "127.0.0.1:0"});
  if (ended.err.rfind("setpriv: ", 0) == 0) {
    GTEST_SKIP() << "another user cannot run the programs of this build: " << ended.err;
  }
  EXPECT_EQ(ended.code, 1) << ended.err;
  EXPECT_NE(ended.err.find(dir.path()), std::string::npos) << ended.err;
  EXPECT_NE(ended.err.find("ermission denied"), std::string::npos) << ended.err;
}

TEST(NoDaemon, Cli_WithoutADaemon_ReturnsExitCode69) {
  const TempDir dir;
  for (const std::vector<std::string>& verb : std::vector<std::vector<std::string>>{
           {"status"}, {"workers", "list"}, {"queue", "pause"}, {"run", "demo", "hi"}}) {
    std::vector<std::string> args = {"holdfast", "--json", "--state", dir.path()};
    args.insert(args.end(), verb.begin(), verb.end());
    expect_error(run_program(args), 69, {"unreachable"});
  }
}

TEST(Usage, Cli_WithWrongUsage_ReturnsExitCode2AndOneLine) {
  for (const std::vector<std::string>& verb :
       std::vector<std::vector<std::string>>{{"--json"},
                                             {"--json", "frobnicate"},
                                             {"--json", "models", "show"},
                                             {"--json", "serve", "--threads", "many"},
                                             {"--json", "serve", "--http", "nonsense"},
                                             {"--json", "serve", "--model", "noequals"},
                                             {"--json", "run", "demo", "x", "--raw", "--chat"}}) {
    std::vector<std::string> args = {"holdfast"};
    args.insert(args.end(), verb.begin(), verb.end());
    expect_error(run_program(args), 2, {"usage"});
  }
}

}  // namespace
}  // namespace holdfast::process::bad_input_test
