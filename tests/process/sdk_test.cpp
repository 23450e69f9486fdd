// Goal: programs with the C library and the packages for Python and Node get each token once, in
// order, whatever dies: daemon, worker, or they themselves; a server is started where none runs;
// errors are typed; the library shows its own functions alone, and none of an engine. Method:
// `cmake --install` into a prefix; programs built against it as a user builds them; a server of
// their own; kills at random.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "shared/base/version.h"
#include "tests/process/test_server.h"

namespace holdfast::process::sdk_test {
namespace {

namespace fs = std::filesystem;

const std::string kSources = HOLDFAST_SOURCE_DIR "/tests/process/sdk";
const std::string kNodePackage = HOLDFAST_BUILD_DIR "/node/holdfast";

/// The library and the programs, installed and built once for all tests.
struct Installed {
  TempDir dir;
  std::string prefix = dir.path() + "/prefix";
  std::string program = dir.path() + "/resuming_client";
  std::string problem;

  Installed() {
    for (const char* component : {"runtime", "development", "library"}) {
      const Ended installed = run_program({"/usr/bin/env", "cmake", "--install", HOLDFAST_BUILD_DIR,
                                           "--prefix", prefix, "--component", component});
      if (installed.code != 0) problem += installed.err;
    }
    const std::string library = this->library();
    if (library.empty()) {
      problem += "no libholdfast.so.0 below " + prefix;
      return;
    }
    const std::string folder = fs::path(library).parent_path();
    const Ended built = run_program({"/bin/sh", "-c",
                                     "export PKG_CONFIG_PATH=" + folder +
                                         "/pkgconfig; cc -std=c11 -D_GNU_SOURCE -Wall -Wextra "
                                         "-Werror -pedantic -o " +
                                         program + " " + kSources +
                                         "/resuming_client.c "
                                         "$(pkg-config --cflags --libs holdfast) -Wl,-rpath," +
                                         folder});
    if (built.code != 0) problem += built.err;
  }
  std::string library() const {
    for (const auto& entry : fs::recursive_directory_iterator(prefix)) {
      if (entry.path().filename() == "libholdfast.so.0") return entry.path();
    }
    return "";
  }
};

const Installed& installed() {
  static const Installed once;
  return once;
}

/// Runs a program in the background, with the installed server on PATH.
class Background {
 public:
  explicit Background(const std::vector<std::string>& words) {
    pid_ = fork();
    if (pid_ != 0) return;
    std::vector<char*> argv;
    for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    execvp(argv[0], argv.data());
    _exit(127);
  }
  /// Returns the exit status if it ended within `ms`; -1: it runs on.
  int wait_ms(int ms) {
    for (int i = 0; i * 5 < ms; ++i) {
      int status = 0;
      if (waitpid(pid_, &status, WNOHANG) == pid_)
        return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
      usleep(5'000);
    }
    return -1;
  }
  void kill_it() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }

 private:
  pid_t pid_ = -1;
};

/// The text of a file of records; `next` is the index after its last token. The end is recorded
/// once, and nothing after it.
std::string text_of(const std::string& path, std::int64_t* next) {
  std::ifstream file(path);
  std::string text, hex;
  bool ended = false;
  for (std::int64_t index = 0; file >> index && std::getline(file, hex);) {
    EXPECT_FALSE(ended) << "a record after the end: " << index;
    ended = index == std::numeric_limits<std::int64_t>::max();
    if (!ended) *next = index;
    for (std::size_t i = 1; i + 1 < hex.size(); i += 2) {
      text += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
    }
  }
  EXPECT_TRUE(ended);
  return text;
}

class Sdk : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(installed().problem, "");
    setenv("HOLDFAST_PROGRAM", (installed().prefix + "/bin/holdfast").c_str(), 1);
    setenv("HOLDFAST_LIBRARY", installed().library().c_str(), 1);
    setenv("PYTHONPATH", (std::string(HOLDFAST_SOURCE_DIR) + "/ops/sdk/python").c_str(), 1);
  }
  void print_killed() const {
    for (const auto& [whom, times] : killed_) std::printf("killed: %s %d\n", whom.c_str(), times);
  }
  void TearDown() override {
    print_killed();
    const auto document =
        nlohmann::json::parse(read_file(state + "/run/supervisor.json"), nullptr, false);
    if (!document.is_object()) return;
    const pid_t server = document.value("pid", 0);
    if (server <= 0 || kill(server, SIGTERM) != 0) return;
    for (int i = 0; i < 2'000 && kill(server, 0) == 0; ++i) usleep(10'000);
  }
  /// Registers the demo model; the first call starts the server.
  void add_model() {
    const std::string script =
        "import holdfast, sys\n"
        "with holdfast.open(sys.argv[1]) as server:\n"
        "    server.add('demo', sys.argv[2]); server.load('demo')\n";
    const Ended added = run_program({"/usr/bin/env", "python3", "-c", script, state, demo_model()});
    ASSERT_EQ(added.code, 0) << added.err;
  }
  /// The pid of a process of the server, by its name; 0 if it is not up.
  pid_t pid_of(const std::string& name) const { return TestServer(state).pid_of(name); }

  /// Runs the client until it ends, `kills` times killing it, the daemon or a worker on the way,
  /// each within `pause_ms` of the one before.
  std::string run(const std::vector<std::string>& program, const std::string& key, int kills,
                  std::uint32_t seed, std::uint32_t pause_ms = 60) {
    const std::string file = dir.path() + "/" + key;
    std::mt19937 random(seed);
    std::vector<std::string> words = program;
    for (const std::string& word :
         {where(), std::string("demo"), std::string("To be"), std::string(kTokens), key, file}) {
      words.push_back(word);
    }
    int status = -1;
    for (int tries = 0; status != 0 && tries < 200; ++tries) {
      Background client(words);
      while (status != 0) {
        status = client.wait_ms(kills > 0 ? static_cast<int>(random() % pause_ms) : 60'000);
        if (status >= 0) break;
        if (kills-- <= 0) continue;
        const std::string whom = victims_[random() % victims_.size()];
        ++killed_[whom];
        if (whom == "program") {
          client.kill_it();
          break;
        }
        const pid_t pid = pid_of(whom);
        if (pid > 0) kill(pid, SIGKILL);
      }
      EXPECT_LE(status, 0) << "the client failed";
      if (status > 0) return "";
    }
    std::int64_t next = 0;
    std::string text = text_of(file, &next);
    EXPECT_EQ(next, std::stoll(kTokens));
    return text;
  }
  std::vector<std::string> c_client() const { return {installed().program}; }
  std::vector<std::string> python_client() const {
    return {"python3", kSources + "/resuming_client.py"};
  }
  /// Why the Node package cannot be tried here; empty if it can.
  static std::string missing_node() {
    if (run_program({"/bin/sh", "-c", "command -v node"}).code != 0) return "no node on PATH";
    if (!fs::exists(kNodePackage + "/holdfast.node")) {
      return "no " + kNodePackage + "/holdfast.node: it is built where node_api.h is (libnode-dev)";
    }
    return "";
  }
  /// A folder of the programs for Node, which finds packages next to the file that imports them.
  std::string node_programs() const {
    std::string folder = dir.path() + "/node";
    if (fs::exists(folder)) return folder;
    fs::create_directories(folder + "/node_modules");
    fs::create_directory_symlink(kNodePackage, folder + "/node_modules/holdfast");
    for (const char* program : {"/resuming_client.mjs", "/suite.mjs"})
      fs::copy(kSources + program, folder + program);
    return folder;
  }
  static constexpr const char* kTokens = "300";
  TempDir dir;
  std::string state = dir.path() + "/state";
  std::vector<std::string> victims_ = {"program", "daemon", "worker-0"};
  std::map<std::string, int> killed_;

  /// The server that the programs give to open().
  virtual std::string where() const { return state; }
};

/// Programs that ask a server elsewhere: by a URL and a key.
class SdkElsewhere : public Sdk {
 protected:
  void SetUp() override {
    Sdk::SetUp();
    ASSERT_TRUE(server_.start({"--model", "demo=" + demo_model()})) << server_.errors();
    victims_ = {"program", "daemon", "worker-0", "gateway"};
    setenv("HOLDFAST_API_KEY", make_key("client").c_str(), 1);
  }
  void TearDown() override {
    unsetenv("HOLDFAST_API_KEY");
    print_killed();
    EXPECT_EQ(server_.stop(), 0);
  }
  std::string where() const override { return server_.url(); }
  std::string make_key(const std::string& role) const {
    const Ended made = server_.cli({"--json", "keys", "create", role, "--role", role});
    EXPECT_EQ(made.code, 0) << made.err;
    return nlohmann::json::parse(made.out).at("key");
  }
  /// Runs lines of Python with `url` set. Returns its output.
  std::string python(const std::string& lines) const {
    const Ended ended = run_program({"/usr/bin/env", "python3", "-c",
                                     "import holdfast, sys\nurl, file = sys.argv[1:3]\n"
                                     "def code_of(work):\n"
                                     "    try: work()\n"
                                     "    except holdfast.Error as error: return error.code\n"
                                     "    return 'none'\n" +
                                         lines,
                                     server_.url(), demo_model()});
    EXPECT_EQ(ended.code, 0) << ended.err;
    return ended.out;
  }
  TestServer server_{state};
};

/// Rounds of each program; 100 where HOLDFAST_TEST_FULL is set, as by ops/test --full.
int rounds() {
  return std::getenv("HOLDFAST_TEST_FULL") != nullptr ? 100 : 12;
}
constexpr int kKillsARound = 4;
constexpr std::uint32_t kNodePauseMs = 150;  // Node itself takes 50 ms to start

TEST_F(Sdk, Programs_WhoseProcessesAreKilled_GetEachTokenOnceInOrder) {
  add_model();
  const std::string expected = run(c_client(), "undisturbed", 0, 0);
  ASSERT_FALSE(expected.empty());
  EXPECT_EQ(run(python_client(), "undisturbed-python", 0, 0), expected);
  for (int round = 0; round < rounds(); ++round) {
    const auto seed = static_cast<std::uint32_t>(round);
    const std::string name = std::to_string(round);
    ASSERT_EQ(run(c_client(), "c-" + name, kKillsARound, seed), expected) << "round " << round;
    ASSERT_EQ(run(python_client(), "python-" + name, kKillsARound, seed), expected)
        << "round " << round;
  }
}

TEST_F(SdkElsewhere, Programs_WhoseProcessesAreKilled_GetEachTokenOnceInOrder) {
  const std::string expected = run(c_client(), "undisturbed", 0, 0);
  ASSERT_FALSE(expected.empty());
  const bool node = missing_node().empty();
  const std::vector<std::string> node_client = {"node", node_programs() + "/resuming_client.mjs"};
  for (int round = 0; round < rounds() / 3; ++round) {
    const auto seed = static_cast<std::uint32_t>(3 * round);
    const std::string name = std::to_string(round);
    ASSERT_EQ(run(c_client(), "c-" + name, kKillsARound, seed), expected) << "round " << round;
    ASSERT_EQ(run(python_client(), "python-" + name, kKillsARound, seed + 1), expected)
        << "round " << round;
    if (!node) continue;
    ASSERT_EQ(run(node_client, "node-" + name, kKillsARound, seed + 2, kNodePauseMs), expected)
        << "round " << round;
  }
}

TEST_F(SdkElsewhere, Text_OfTheSameRequest_IsThatOfTheSocket) {
  const std::string out = python(
      "asked = dict(model='demo', prompt='To be', max_tokens=60, seed=3, n=2, stop=['zz'])\n"
      "def all_of(server):\n"
      "    request = server.submit(**asked)\n"
      "    parts = list(server.attach(request))\n"
      "    state = server.status(request)\n"
      "    return [[(p.ids, p.text, p.finish) for p in parts if p.choice == c] for c in (0, 1)], "
      "state\n"
      "def joined(parts): return [(sum((p[0] for p in c), ()), ''.join(p[1] for p in c), c[-1][2])"
      " for c in parts]\n"
      "there, state = all_of(holdfast.open(url))\n"
      "here, own = all_of(holdfast.open('" +
      state +
      "', start=False))\n"
      "assert joined(there) == joined(here), (there, here)\n"
      "assert state.keys() == own.keys(), (state.keys(), own.keys())\n"
      "assert state['choices'] == own['choices'], (state, own)\n"
      "models = holdfast.open(url).models()\n"
      "mine = holdfast.open('" +
      state +
      "', start=False).models()\n"
      "assert set(mine[0]) - set(models[0]) <= {'reason'}, (models, mine)\n"  // is an operator's
      "print(len(there[0]) > 1)");
  EXPECT_EQ(out, "True\n");
}

TEST_F(SdkElsewhere, Errors_OfTheServer_AreTyped) {
  EXPECT_EQ(
      python("server = holdfast.open(url)\n"
             "asked = dict(model='demo', prompt='a', max_tokens=4)\n"
             "print(code_of(lambda: server.submit(model='none', prompt='a')))\n"
             "print(code_of(lambda: server.submit(**asked, nothing=1)))\n"
             "print(code_of(lambda: server.submit(**asked, tenant='other')))\n"
             "print(code_of(lambda: server.attach('0' * 26).text()))\n"
             "print(code_of(lambda: server.status('0' * 26)))\n"
             "print(code_of(lambda: server.load('demo')))\n"
             "print(code_of(server.stop_server))\n"
             "import os; os.environ['HOLDFAST_API_KEY'] = 'hf-wrong'\n"
             "print(code_of(lambda: holdfast.open(url).submit(**asked)))\n"
             "print(code_of(lambda: holdfast.open(url).attach('0' * 26).text()))\n"
             "print(code_of(lambda: holdfast.open('http://user@host')))"),
      "model_not_found\ninvalid_request\ninvalid_request\nnot_found\nnot_found\nunauthorized\n"
      "unsupported\nunauthorized\nunauthorized\nusage\n");
}

TEST_F(SdkElsewhere, Operators_OverHttp_ManageModels) {
  setenv("HOLDFAST_API_KEY", make_key("operator").c_str(), 1);
  EXPECT_EQ(
      python("with holdfast.open(url) as server:\n"
             "    server.add('second', file); server.load('second')\n"
             "    print(server.complete(model='second', prompt='To be', max_tokens=4) != '')\n"
             "    server.unload('second')\n"
             "    request = server.submit(model='demo', prompt='To be', max_tokens=500)\n"
             "    stream = server.attach(request); stream.next(30); stream.close()\n"
             "    print(server.cancel(request)['state'])\n"),
      "True\ncancelled\n");
}

TEST_F(Sdk, NodeProgram_WhoseProcessesAreKilled_GetsEachTokenOnceInOrder) {
  const std::string reason = missing_node();
  if (!reason.empty()) GTEST_SKIP() << reason;
  add_model();
  const std::string expected = run(c_client(), "undisturbed", 0, 0);
  ASSERT_FALSE(expected.empty());
  const std::vector<std::string> client = {"node", node_programs() + "/resuming_client.mjs"};
  EXPECT_EQ(run(client, "undisturbed-node", 0, 0), expected);
  for (int round = 0; round < rounds(); ++round) {
    ASSERT_EQ(run(client, "node-" + std::to_string(round), kKillsARound,
                  static_cast<std::uint32_t>(round), kNodePauseMs),
              expected)
        << "round " << round;
  }
}

TEST_F(Sdk, NodePackage_WithItsOwnSuite_Passes) {
  const std::string reason = missing_node();
  if (!reason.empty()) GTEST_SKIP() << reason;
  const Ended ended = run_program({"/usr/bin/env", "node", "--test-reporter=tap",
                                   node_programs() + "/suite.mjs", state, demo_model()},
                                  300);
  EXPECT_EQ(ended.code, 0) << ended.out << ended.err;
  EXPECT_NE(ended.out.find("\n# fail 0\n"), std::string::npos) << ended.out;
  EXPECT_EQ(ended.out.find("\n# pass 0\n"), std::string::npos) << "it had no cases";
}

TEST_F(Sdk, NodeTarball_InstalledWithoutANetwork_WorksWithoutTheSources) {
  const std::string reason = missing_node();
  if (!reason.empty()) GTEST_SKIP() << reason;
  const std::string pack = std::string(HOLDFAST_SOURCE_DIR) + "/ops/sdk/npm";
  const Ended made = run_program({pack, dir.path() + "/packed", "--build", HOLDFAST_BUILD_DIR});
  if (made.code == 75) GTEST_SKIP() << made.err;
  ASSERT_EQ(made.code, 0) << made.err;
  const std::string script =
      "set -e; mkdir " + dir.path() + "/app; cd " + dir.path() +
      "/app; npm install --offline --no-audit --no-fund --cache cache ../packed/holdfast-*.tgz; "
      "echo \"import { version } from 'holdfast'; console.log('version', version());\" >app.mjs; "
      "test -f node_modules/holdfast/index.d.ts; node app.mjs";
  const Ended ended = run_program({"/bin/sh", "-c", script});
  EXPECT_EQ(ended.code, 0) << ended.out << ended.err;
  EXPECT_NE(ended.out.find("version " + std::string(kVersion)), std::string::npos) << ended.out;
}

TEST_F(Sdk, PythonPackage_WithItsOwnSuite_Passes) {
  const Ended ended =
      run_program({"/usr/bin/env", "python3", kSources + "/suite.py", state, demo_model()}, 300);
  EXPECT_EQ(ended.code, 0) << ended.out << ended.err;
}

TEST_F(Sdk, Library_InItsSymbols_ShowsItsFunctionsAndHasNoEngine) {
  const std::string library = installed().library();
  const Ended listed = run_program({"/bin/sh", "-c", "nm -D --defined-only " + library});
  ASSERT_EQ(listed.code, 0) << listed.err;
  std::istringstream lines(listed.out);
  int functions = 0;
  for (std::string line; std::getline(lines, line);) {
    const std::string name = line.substr(line.rfind(' ') + 1);
    if (name == "HOLDFAST_0") continue;  // the version of the symbols
    EXPECT_TRUE(name.starts_with("holdfast_")) << line;
    EXPECT_NE(name.find("@@HOLDFAST_0"), std::string::npos) << line;
    ++functions;
  }
  EXPECT_GE(functions, 20);
  const Ended all = run_program({"/bin/sh", "-c", "nm -C --defined-only " + library});
  ASSERT_EQ(all.code, 0) << all.err;
  EXPECT_NE(all.out.find("holdfast::client::"), std::string::npos) << "the library was stripped";
  for (const char* part : {"holdfast::engine::", "holdfast::cpu::", "holdfast::opencl::",
                           "holdfast::model::", "holdfast::backend::", "holdfast::core::"}) {
    EXPECT_EQ(all.out.find(part), std::string::npos) << part;
  }
}

TEST_F(Sdk, Interface_ComparedWithTheStoredOne_IsCompatible) {
  if (run_program({"/bin/sh", "-c", "command -v abidiff"}).code != 0) {
    GTEST_SKIP() << "no abidiff on PATH: ops/test installs ops/packaging/packages.txt";
  }
  // Functions that were added are a change too: ops/sdk/store-interface puts them into the file.
  const std::string headers = HOLDFAST_SOURCE_DIR "/shared/sdk";
  const std::string built = HOLDFAST_BUILD_DIR "/lib/libholdfast.so.0";
  const Ended ended = run_program({"/usr/bin/env", "abidiff", "--exported-interfaces-only",
                                   "--no-show-locs", "--headers-dir2", headers,
                                   "--drop-private-types", headers + "/holdfast.abi", built});
  EXPECT_EQ(ended.code, 0) << ended.out << ended.err;
}

TEST_F(Sdk, Wheel_InAVirtualEnvironment_WorksWithoutTheSources) {
  const std::string wheels = dir.path() + "/wheels";
  const Ended made = run_program({std::string(HOLDFAST_SOURCE_DIR) + "/ops/sdk/wheel", wheels});
  if (made.code == 75) GTEST_SKIP() << made.err;
  ASSERT_EQ(made.code, 0) << made.err;
  const std::string script =
      "set -e; cd " + dir.path() +
      "; unset PYTHONPATH; /usr/bin/python3 -m venv --system-site-packages venv; "
      "venv/bin/pip install --quiet --no-index --no-deps wheels/*.whl; "
      "venv/bin/python -c 'import holdfast, sys; assert \"venv\" in holdfast.__file__; "
      "print(holdfast.version())'";
  const Ended ended = run_program({"/bin/sh", "-c", script});
  EXPECT_EQ(ended.code, 0) << ended.out << ended.err;
}

}  // namespace
}  // namespace holdfast::process::sdk_test
