// Goal: every prompt becomes the model's own token ids or a typed refusal that says why; a model
// file is read or refused with a reason that tells the cases apart. Method: the repository's demo
// model; the helper against a scripted daemon; damaged copies of a file.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "control/ingress/chat.h"
#include "control/ingress/helper.h"
#include "control/ingress/inspect.h"
#include "control/ingress/prepare.h"
#include "control/ingress/reader_spawner.h"
#include "control/ingress/real_paths.h"
#include "scripted_daemon.h"
#include "shared/base/open_files.h"
#include "shared/gguf/gguf.h"
#include "shared/plan/plan.h"
#include "shared/sandbox/rights.h"

namespace holdfast::ingress::ingress_test {
namespace {

using wire::testing::ScriptedDaemon;

const std::string kDemo = HOLDFAST_SOURCE_DIR "/ops/demo/holdfast-demo-Q8_0.gguf";
const std::string kProgram = HOLDFAST_BIN_DIR "/holdfast-ingress";

std::string demo_blob() {
  const auto file = gguf::File::open(kDemo).value();
  return plan::tokenizer_blob(*file).value();
}

TokenizerPtr demo_tokenizer() {
  TokenizerCache cache(1);
  cache.put("demo", demo_blob());
  return cache.find("demo")->tokenizer;
}

wire::Prepare job_of(const wire::Prompt& prompt) {
  wire::Prepare job;
  job.job = 7;
  job.model_sha = "demo";
  job.prompts = {prompt};
  return job;
}

wire::Prompt text_prompt(std::string text) {
  wire::Prompt prompt;
  prompt.text = std::move(text);
  return prompt;
}

TEST(Prepare, TextPrompt_WhenPrepared_BecomesTheModelsTokenIds) {
  const TokenizerPtr tokenizer = demo_tokenizer();
  ASSERT_NE(tokenizer, nullptr);
  wire::Prepare job = job_of(text_prompt("To be, or not to be"));
  job.echo = true;
  const wire::Prepared out = prepare(job, tokenizer.get(), {});
  ASSERT_TRUE(out.ok) << out.refusal.message;
  EXPECT_EQ(out.job, 7u);
  EXPECT_EQ(out.ids.at(0), tokenizer->encode("To be, or not to be", {true, true}).value());
  EXPECT_EQ(out.text.at(0), "To be, or not to be");
}

TEST(Prepare, TokenIdPrompt_WhenPrepared_IsCheckedAndEchoed) {
  const TokenizerPtr tokenizer = demo_tokenizer();
  wire::Prompt prompt;
  prompt.ids = tokenizer->encode("To be", {false, false}).value();
  wire::Prepare job = job_of(prompt);
  job.echo = true;
  wire::Prepared out = prepare(job, tokenizer.get(), {});
  ASSERT_TRUE(out.ok) << out.refusal.message;
  EXPECT_EQ(out.ids.at(0), *prompt.ids);
  EXPECT_EQ(out.text.at(0), "To be");
  for (const text::TokenId bad : {-1, tokenizer->vocab_size()}) {
    prompt.ids = {1, bad};
    out = prepare(job_of(prompt), tokenizer.get(), {});
    EXPECT_FALSE(out.ok);
    EXPECT_EQ(out.refusal.code, Errc::kInvalidRequest);
    EXPECT_NE(out.refusal.message.find("at index 1"), std::string::npos) << out.refusal.message;
  }
}

void expect_refused(const wire::Prompt& prompt, const text::Tokenizer* tokenizer, Errc code,
                    const std::string& part) {
  const wire::Prepared out = prepare(job_of(prompt), tokenizer, {});
  EXPECT_FALSE(out.ok);
  EXPECT_TRUE(out.ids.empty());
  EXPECT_EQ(out.refusal.code, code) << out.refusal.message;
  EXPECT_NE(out.refusal.message.find(part), std::string::npos) << out.refusal.message;
}

TEST(Prepare, Prompt_WhenInvalid_IsRefusedWithTheReason) {
  const TokenizerPtr tokenizer = demo_tokenizer();
  const text::Tokenizer* t = tokenizer.get();
  expect_refused({}, t, Errc::kInvalidRequest, "exactly one");
  wire::Prompt both = text_prompt("x");
  both.ids = {1};
  expect_refused(both, t, Errc::kInvalidRequest, "exactly one");
  expect_refused(text_prompt(std::string((1 << 20) + 1, 'a')), t, Errc::kInvalidRequest, "1048577");
  expect_refused(text_prompt("abc\xff"), t, Errc::kInvalidRequest, "byte 3");
  expect_refused(text_prompt("x"), nullptr, Errc::kInvalidRequest, "no tokenizer");
  wire::Prompt chat;
  chat.messages_json = "{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]}";
  expect_refused(chat, nullptr, Errc::kNoChatTemplate, "no tokenizer");
  chat.messages_json = "[[[";
  expect_refused(chat, t, Errc::kInvalidRequest, "JSON");
  wire::Prompt empty;
  empty.ids = std::vector<wire::TokenId>{};
  expect_refused(empty, t, Errc::kInvalidRequest, "empty");
}

TEST(Prepare, Prompt_WhenUtf8IsInvalid_ReportsTheExactOffset) {
  const TokenizerPtr tokenizer = demo_tokenizer();
  const std::string good = "é漢🙂a";
  for (std::size_t length = 0; length < 40; ++length) {
    std::string text;
    while (text.size() < length) text += good.substr(0, 2) + good.substr(2, 3) + "z";
    const std::size_t at = text.size();
    for (const char* bad : {"\xff", "\xc3(", "\xe6\xbc", "\xed\xa0\x80", "\xf0\x9f\x99z"}) {
      expect_refused(text_prompt(text + bad), tokenizer.get(), Errc::kInvalidRequest,
                     "at byte " + std::to_string(at));
      expect_refused(text_prompt(text + bad + good), tokenizer.get(), Errc::kInvalidRequest,
                     "at byte " + std::to_string(at));
    }
  }
}

TEST(Chat, ChatMessages_WithTheDemoTemplate_AreRendered) {
  const TokenizerPtr tokenizer = demo_tokenizer();  // its template: each content on a line
  const auto render = [&](const std::string& json) {
    return render_chat(json, *tokenizer, "2026-01-15");
  };
  EXPECT_EQ(render(R"({"messages":[{"role":"system","content":"Be brief."},
                      {"role":"user","content":[{"type":"text","text":"Hi"},
                                                {"type":"text","text":"there"}]}]})")
                ->text,
            "Be brief.\nHi\nthere\n");
  EXPECT_NE(
      render(R"({"messages":[{"role":"user","content":7}]})").error().what.find("messages[0]"),
      std::string::npos);
  EXPECT_FALSE(render(R"({"messages":[]})").has_value());
  EXPECT_FALSE(render(R"({"messages":[{"content":"x"}]})").has_value());
  EXPECT_FALSE(
      render(R"({"messages":[{"role":"user","content":[{"type":"image_url"}]}]})").has_value());
}

TEST(Inspect, ModelFile_WhenItIsTheDemoModel_IsInspected) {
  const wire::Inspected out = inspect_file(kDemo);
  ASSERT_TRUE(out.ok) << out.refusal.message;
  EXPECT_EQ(out.model_sha.size(), 64u);
  EXPECT_EQ(out.size, static_cast<std::int64_t>(std::filesystem::file_size(kDemo)));
  EXPECT_TRUE(plan::shape_from_json(out.shape).has_value());
  EXPECT_GT(text::DetokenizerTable::parse(out.detokenizer).value().size(), 0);
  EXPECT_EQ(out.tokenizer, demo_blob());
  EXPECT_EQ(out.output, "none") << "its template knows neither tools nor reasoning";
}

struct Files : ::testing::Test {
  std::string folder;
  void SetUp() override {
    char name[] = "/tmp/holdfast-inspect-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    folder = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder); }
  std::string write(const std::string& name, const std::string& content) {
    std::ofstream(folder + "/" + name, std::ios::binary) << content;
    return folder + "/" + name;
  }
};

TEST_F(Files, ModelFile_WhenDamaged_IsRefusedWithItsOwnReason) {
  std::stringstream demo;
  demo << std::ifstream(kDemo, std::ios::binary).rdbuf();
  const std::string whole = demo.str();
  std::vector<std::string> reasons;
  for (const std::string& path : {folder + "/missing.gguf", folder, write("empty.gguf", ""),
                                  write("text.gguf", "this is no model at all, only text"),
                                  write("header.gguf", whole.substr(0, 1000)),
                                  write("cut.gguf", whole.substr(0, whole.size() - 1000))}) {
    const wire::Inspected out = inspect_file(path);
    ASSERT_FALSE(out.ok) << path;
    EXPECT_NE(out.refusal.message.find(path), std::string::npos) << out.refusal.message;
    EXPECT_TRUE(out.refusal.code == Errc::kIo || out.refusal.code == Errc::kFileInvalid);
    std::string reason = out.refusal.message;
    reason.replace(reason.find(path), path.size(), "");
    EXPECT_EQ(std::find(reasons.begin(), reasons.end(), reason), reasons.end()) << reason;
    reasons.push_back(reason);
  }
}

TEST_F(Files, InspectChild_WhenFileIsReadable_AnswersAsTheDirectRead) {
  if (!std::filesystem::exists(kProgram)) GTEST_SKIP() << kProgram << " is not built";
  const wire::Inspected direct = inspect_file(kDemo);
  const wire::Inspected child = inspect_in_child(kProgram, {9, kDemo, {}, {}});
  ASSERT_TRUE(child.ok) << child.refusal.message;
  EXPECT_EQ(child.job, 9u);
  EXPECT_EQ(child.model_sha, direct.model_sha);
  EXPECT_EQ(child.detokenizer, direct.detokenizer);
  const wire::Inspected missing = inspect_in_child(kProgram, {1, folder + "/none", {}, {}});
  EXPECT_EQ(missing.refusal.code, Errc::kIo);
}

TEST_F(Files, InspectChild_WhenItDies_ReturnsARefusal) {
  const std::string crash = write("crash.sh", "#!/bin/sh\nkill -SEGV $$\n");
  const std::string silent = write("silent.sh", "#!/bin/sh\nexit 3\n");
  for (const std::string& script : {crash, silent}) {
    std::filesystem::permissions(script, std::filesystem::perms::owner_all);
  }
  wire::Inspected out = inspect_in_child(crash, {1, "/x.gguf", {}, {}});
  EXPECT_EQ(out.refusal.code, Errc::kFileInvalid);
  EXPECT_NE(out.refusal.message.find("signal 11"), std::string::npos) << out.refusal.message;
  out = inspect_in_child(silent, {1, "/x.gguf", {}, {}});
  EXPECT_NE(out.refusal.message.find("status 3"), std::string::npos) << out.refusal.message;
  out = inspect_in_child(folder + "/no-such-program", {1, "/x.gguf", {}, {}});
  EXPECT_FALSE(out.ok);
}

TEST_F(Files, Sandbox_WhenConfinedToAFolder_ReadsItsLinks) {
  std::filesystem::create_directories(folder + "/hub/1_Pooling");
  write("blob", "content");
  const std::string other = write("other", "content");
  write("hub/1_Pooling/config.json", "{}");
  std::filesystem::create_symlink("../blob", folder + "/hub/model.safetensors");
  EXPECT_EXIT(
      {
        const std::string hub = folder + "/hub";
        (void)preopen_files(names_of_files(hub), 100);
        sandbox::confine(sandbox::header_reader_policy());
        const bool linked = open_to_read(hub + "/model.safetensors") >= 0;
        const bool inner = open_to_read(hub + "/1_Pooling/config.json") >= 0;
        const bool outside = open_to_read(other) >= 0;
        std::fprintf(stderr, "linked %d inner %d other %d\n", linked, inner, outside);
        _exit(0);
      },
      testing::ExitedWithCode(0), "linked 1 inner 1 other 0");
}

TEST_F(Files, ModelShards_WhenOneLeadsOutOfTheRoots_AreRefused) {
  std::filesystem::create_directories(folder + "/roots");
  const std::string first = write("roots/m-00001-of-00002.gguf", "x");
  const std::string second = folder + "/roots/m-00002-of-00002.gguf";
  EXPECT_EQ(real_paths_below(first, "").error().code, Errc::kIo);  // the other part is missing
  write("roots/m-00002-of-00002.gguf", "x");
  EXPECT_EQ(real_paths_below(first, folder + "/roots").value(),
            (std::vector<std::string>{first, second}));
  std::filesystem::remove(second);
  std::filesystem::create_symlink(write("outside.gguf", "x"), second);
  EXPECT_TRUE(real_paths_below(first, "").has_value());
  const auto out = real_paths_below(first, folder + "/roots");
  ASSERT_FALSE(out.has_value());
  EXPECT_EQ(out.error().code, Errc::kUnauthorized);
}

/// Runs in a process of its own: the file that was opened before can be read, twice from its
/// beginning.
void read_preopened(const std::string& model_file, const std::string& other) {
  const auto preopened = preopen_files({model_file, other + "-missing"}, 2);
  const bool calls = sandbox::confine(sandbox::header_reader_policy()).calls;
  std::string said = preopened ? "own:" : "not kept:";
  for (int i = 0; i < 2; ++i) {
    char byte = '-';
    const int fd = open_to_read(model_file);
    if (fd >= 0 && read(fd, &byte, 1) == 1) said += byte;
  }
  said += open_to_read(other) >= 0 ? " other:yes" : " other:no";
  std::fprintf(stderr, "%s\n", said.c_str());
  if (calls && open(other.c_str(), O_RDONLY) >= 0) std::fprintf(stderr, "opened\n");
  if (calls) open(other.c_str(), O_RDWR);
  _exit(calls ? 1 : 3);  // 3: a build that confines nothing
}

TEST_F(Files, Sandbox_WhenProcessOpensAnotherFileForWriting_IsKilled) {
  const std::string model_file = write("own.gguf", "x");
  const std::string other = write("other.txt", "y");
  EXPECT_EXIT(
      read_preopened(model_file, other),
      [](int status) {
        return (WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS) ||
               (WIFEXITED(status) && WEXITSTATUS(status) == 3);
      },
      "own:xx other:no\n$");
}

TEST_F(Files, PreopenedFiles_WhenMoreThanTheLimit_AreRefused) {
  std::vector<std::string> names;
  for (int i = 0; i < 3; ++i) names.push_back(write(std::to_string(i), "x"));
  EXPECT_EXIT(_exit(preopen_files(names, 2) ? 1 : 0), testing::ExitedWithCode(0), "");
}

TEST_F(Files, ReaderSpawner_WhenInspecting_AnswersAsAChild) {
  if (!std::filesystem::exists(kProgram)) GTEST_SKIP() << kProgram << " is not built";
  const auto spawner = ReaderSpawner::start(kProgram);
  ASSERT_TRUE(spawner.has_value()) << spawner.error().what;
  for (int i = 0; i < 2; ++i) {
    const auto answer = spawner.value()->inspect({7, kDemo, {}, {}});
    ASSERT_TRUE(answer.has_value());
    EXPECT_TRUE(answer->ok) << answer->refusal.message;
    EXPECT_EQ(answer->job, 7u);
  }
  EXPECT_EQ(spawner.value()->inspect({1, folder + "/none", {}, {}})->refusal.code, Errc::kIo);
  EXPECT_EQ(spawner.value()->inspect({1, kDemo, folder, {}})->refusal.code, Errc::kUnauthorized);
  const std::string endless(100'000, 'x');
  EXPECT_EQ(spawner.value()->inspect({1, endless, {}, {}})->refusal.code, Errc::kInvalidRequest);
}

TEST_F(Files, Symlink_WhenItLeadsOutOfTheRoots_IsRefused) {
  if (!std::filesystem::exists(kProgram)) GTEST_SKIP() << kProgram << " is not built";
  namespace fs = std::filesystem;
  fs::create_directories(folder + "/models/deep");
  fs::create_directories(folder + "/elsewhere");
  fs::copy_file(kDemo, folder + "/models/deep/real.gguf");
  fs::copy_file(kDemo, folder + "/elsewhere/secret.gguf");
  fs::create_symlink("deep/real.gguf", folder + "/models/inside.gguf");
  fs::create_symlink("../elsewhere/secret.gguf", folder + "/models/outside.gguf");
  fs::create_symlink(folder + "/elsewhere", folder + "/models/way-out");
  fs::create_symlink(folder + "/models", folder + "/alias-of-root");
  const auto ask = [&](const std::string& path, const std::string& roots) {
    return inspect_in_child(kProgram, {1, folder + path, roots, {}}).refusal;
  };
  const std::string root = folder + "/models";
  for (const char* good : {"/models/deep/real.gguf", "/models/inside.gguf"}) {
    EXPECT_EQ(ask(good, "/nowhere:" + root).message, "") << good;
    EXPECT_EQ(ask(good, folder + "/alias-of-root").message, "") << good;
  }
  EXPECT_EQ(ask("/models/outside.gguf", "").message, "") << "no roots, no bound";
  for (const char* bad : {"/models/outside.gguf", "/models/way-out/secret.gguf",
                          "/elsewhere/secret.gguf", "/models/../elsewhere/secret.gguf"}) {
    const wire::Refusal refusal = ask(bad, root);
    EXPECT_EQ(refusal.code, Errc::kUnauthorized) << bad << refusal.message;
    EXPECT_NE(refusal.message.find("elsewhere/secret.gguf"), std::string::npos);
  }
  EXPECT_EQ(ask("/models/none.gguf", root).code, Errc::kIo);
  // A folder's links are followed as well: their targets must be readable and allowed.
  fs::create_directories(folder + "/models/folder");
  fs::create_symlink("../deep/real.gguf", folder + "/models/folder/model.safetensors");
  EXPECT_NE(ask("/models/folder", root).code, Errc::kUnauthorized);
  fs::create_symlink("../../elsewhere/secret.gguf", folder + "/models/folder/config.json");
  EXPECT_EQ(ask("/models/folder", root).code, Errc::kUnauthorized);
  EXPECT_EQ(ask("/models/inside.gguf", "/nowhere").code, Errc::kUnauthorized);
}

struct HelperTest : ::testing::Test {
  ScriptedDaemon daemon;
  std::unique_ptr<Helper> helper;
  std::thread thread;
  void SetUp() override {
    HelperOptions options;
    options.endpoint = daemon.endpoint();
    options.program = kProgram;
    helper = std::make_unique<Helper>(options);
    thread = std::thread([this] { EXPECT_TRUE(helper->run().has_value()); });
    daemon.expect<wire::IngressHello>();
  }
  void TearDown() override {
    helper->request_stop();
    thread.join();
  }
};

TEST_F(HelperTest, IngressHelper_WithManyJobs_FetchesTokenizerOnceAndAnswersInOrder) {
  for (std::uint64_t i = 1; i <= 3; ++i) {
    wire::Prepare job = job_of(text_prompt("To be"));
    job.job = i;
    daemon.send(job);
  }
  EXPECT_EQ(daemon.expect<wire::NeedTokenizer>().model_sha, "demo");
  daemon.send(wire::TokenizerBlob{"demo", demo_blob()});
  for (std::uint64_t i = 1; i <= 3; ++i) {
    const auto prepared = daemon.expect<wire::Prepared>();
    EXPECT_EQ(prepared.job, i);
    EXPECT_TRUE(prepared.ok) << prepared.refusal.message;
  }
  wire::Prepare job = job_of(text_prompt("again"));
  daemon.send(job);
  EXPECT_TRUE(daemon.expect<wire::Prepared>().ok) << "from the cache";
}

TEST_F(HelperTest, Tokenizer_WhenUnknownOrBroken_IsRefused) {
  daemon.send(job_of(text_prompt("x")));
  daemon.expect<wire::NeedTokenizer>();
  daemon.send(wire::TokenizerBlob{"demo", ""});
  EXPECT_EQ(daemon.expect<wire::Prepared>().refusal.code, Errc::kInvalidRequest);
  wire::Prepare other = job_of(text_prompt("x"));
  other.model_sha = "broken";
  daemon.send(other);
  daemon.expect<wire::NeedTokenizer>();
  daemon.send(wire::TokenizerBlob{"broken", "no gguf"});
  EXPECT_EQ(daemon.expect<wire::Prepared>().refusal.code, Errc::kFileInvalid);
}

TEST_F(HelperTest, Grammar_WhenInvalidOrUnsupported_IsRefused) {
  wire::Prepare job = job_of(text_prompt("To be"));
  job.extra = R"({"grammar":{"kind":"json_schema","source":"{\"type\":\"integer\"}"}})";
  daemon.send(job);
  daemon.expect<wire::NeedTokenizer>();
  daemon.send(wire::TokenizerBlob{"demo", demo_blob()});
  EXPECT_TRUE(daemon.expect<wire::Prepared>().ok);
  daemon.send(job);
  EXPECT_TRUE(daemon.expect<wire::Prepared>().ok) << "known to be good";
  const std::pair<const char*, Errc> cases[] = {
      {R"({"grammar":{"kind":"json_schema","source":"{\"$ref\":\"other.json#/a\"}"}})",
       Errc::kUnsupported},
      {R"({"grammar":{"kind":"json_schema","source":"{\"not\":{}}"}})", Errc::kInvalidRequest},
      {R"({"grammar":{"kind":"json_schema","source":"false"}})", Errc::kInvalidRequest},
      {R"({"grammar":{"kind":"regex","source":"("}})", Errc::kInvalidRequest},
      {R"({"grammar":{"kind":"xml","source":"a"}})", Errc::kInvalidRequest},
      {R"({"grammar":"root ::= x"})", Errc::kInvalidRequest},
      {R"({"grammar")", Errc::kInvalidRequest},
      {R"({"typical_p":7})", Errc::kInvalidRequest},
      {R"({"logit_bias":{"1024":1}})", Errc::kInvalidRequest},  // of 1,024 tokens
      {R"({"samplers":["magic"]})", Errc::kInvalidRequest},
      {R"({"magic":1})", Errc::kUnsupported}};
  for (const auto& [extra, code] : cases) {
    job.extra = extra;
    daemon.send(job);
    const auto prepared = daemon.expect<wire::Prepared>();
    EXPECT_FALSE(prepared.ok) << extra;
    EXPECT_EQ(prepared.refusal.code, code) << extra << prepared.refusal.message;
    EXPECT_TRUE(prepared.ids.empty());
  }
  wire::Prompt ids;
  ids.ids = std::vector<wire::TokenId>{1, 2};
  wire::Prepare bare = job_of(ids);
  bare.model_sha = "bare";
  bare.extra = R"({"grammar":{"kind":"regex","source":"a"}})";
  daemon.send(bare);
  daemon.expect<wire::NeedTokenizer>();
  daemon.send(wire::TokenizerBlob{"bare", ""});
  EXPECT_EQ(daemon.expect<wire::Prepared>().refusal.code, Errc::kUnsupported);
  for (const char* needs_texts : {R"({"banned_strings":["a"]})",
                                  R"({"thinking":{"tokens":5,"marks":["<a>","</a>","</a>"]}})"}) {
    bare.extra = needs_texts;
    daemon.send(bare);
    const auto prepared = daemon.expect<wire::Prepared>();
    EXPECT_EQ(prepared.refusal.code, Errc::kUnsupported) << needs_texts;
    EXPECT_NE(prepared.refusal.message.find("tokenizer"), std::string::npos);
  }
}

TEST_F(HelperTest, PrepareJob_WhenConnectionIsLost_IsNotAnswered) {
  daemon.send(job_of(text_prompt("x")));
  daemon.expect<wire::NeedTokenizer>();
  daemon.stop();
  daemon.start();
  daemon.expect<wire::IngressHello>();
  daemon.send(wire::TokenizerBlob{"demo", demo_blob()});
  EXPECT_FALSE(daemon.next(std::chrono::milliseconds(200)).has_value());
  daemon.send(job_of(text_prompt("x")));
  EXPECT_TRUE(daemon.expect<wire::Prepared>().ok);
}

TEST(Program, IngressProgram_WhenConfined_ServesPromptsAndFiles) {
  if (!std::filesystem::exists(kProgram)) GTEST_SKIP() << kProgram << " is not built";
  ScriptedDaemon daemon;
  std::string program = kProgram, flag = "--endpoint", endpoint = daemon.endpoint();
  char* argv[] = {program.data(), flag.data(), endpoint.data(), nullptr};
  pid_t pid = 0;
  ASSERT_EQ(posix_spawn(&pid, kProgram.c_str(), nullptr, nullptr, argv, environ), 0);
  daemon.expect<wire::IngressHello>();
  daemon.send(job_of(text_prompt("To be")));
  daemon.expect<wire::NeedTokenizer>();
  daemon.send(wire::TokenizerBlob{"demo", demo_blob()});
  EXPECT_TRUE(daemon.expect<wire::Prepared>().ok);
  wire::Prompt chat;
  chat.messages_json =
      R"({"messages":[{"role":"user","content":"Hi"}],"tools":[{"type":"function",)"
      R"("function":{"name":"f","parameters":{"type":"object"}}}]})";
  daemon.send(job_of(chat));
  (void)daemon.expect<wire::Prepared>();
  wire::Prepare schema = job_of(text_prompt("x"));
  schema.extra = R"({"grammar":{"kind":"regex","source":"[a-z]+"}})";
  daemon.send(schema);
  EXPECT_TRUE(daemon.expect<wire::Prepared>().ok);
  for (int i = 0; i < 2; ++i) {
    daemon.send(wire::Inspect{5, kDemo, {}, {}});
    EXPECT_TRUE(daemon.expect<wire::Inspected>().ok);
  }
  int status = 0;
  EXPECT_EQ(waitpid(pid, &status, WNOHANG), 0) << "it lives";
  kill(pid, SIGTERM);
  ASSERT_EQ(waitpid(pid, &status, 0), pid);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

}  // namespace
}  // namespace holdfast::ingress::ingress_test
