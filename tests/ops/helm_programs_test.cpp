// Goal: what the chart says to Holdfast's programs is what they understand: each of its knobs,
// flags and variables exists, every knob of the daemon can be set by it, the script that makes keys
// makes them, and the rendered pods serve. Method: the rendered flags are given to the programs of
// this build; ops/helm/try runs the pods in namespaces.
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/ops/helm_chart.h"

namespace holdfast::ops::helm_programs_test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using namespace std::chrono_literals;

const std::string kHoldfast = HOLDFAST_BIN_DIR "/holdfast";

std::string help_of(const std::string& verb) {
  return run_command(kHoldfast + " " + verb + " --help 2>&1").out;
}

/// True if `holdfast VERB --help` names the flag.
bool has_flag(const std::string& verb, const std::string& flag) {
  const std::regex named("(^|[\\s,])" + flag + "([\\s,]|$)");
  return std::regex_search(help_of(verb), named);
}

/// A `holdfast serve` with the fake engine and no HTTP, in a state directory of its own.
class Server {
 public:
  explicit Server(const std::vector<std::string>& flags) {
    std::string name = (fs::temp_directory_path() / "hf-chart-state-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) return;
    state_ = name;
    std::vector<std::string> words = {kHoldfast, "--state", state_, "serve",   "--engine",
                                      "fake",    "--http",  "none", "--quiet", "--verbose"};
    words.insert(words.end(), flags.begin(), flags.end());
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    const std::string log = state_ + ".log";
    pid_ = fork();
    if (pid_ == 0) {
      if (freopen(log.c_str(), "w", stdout) == nullptr || dup2(1, 2) < 0) _exit(127);
      execv(kHoldfast.c_str(), argv.data());
      _exit(127);
    }
  }
  ~Server() {
    stop();
    if (!state_.empty()) fs::remove_all(state_);
    fs::remove(state_ + ".log");
  }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  /// Returns `config list`; null if the server does not come up.
  json config() {
    for (int i = 0; i < 600; ++i) {
      const CommandResult listed =
          run_command(kHoldfast + " --state " + state_ + " config list --json 2>/dev/null");
      if (listed.status == 0) return json::parse(listed.out, nullptr, false);
      if (waitpid(pid_, nullptr, WNOHANG) == pid_) {
        pid_ = -1;
        break;
      }
      std::this_thread::sleep_for(100ms);
    }
    return nullptr;
  }
  std::string log() const {
    std::ifstream file(state_ + ".log");
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void stop() {
    if (pid_ <= 0) return;
    kill(pid_, SIGTERM);
    waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

 private:
  std::string state_;
  pid_t pid_ = -1;
};

class HelmPrograms : public testing::Test {
 protected:
  void SetUp() override {
    if (chart_tool("helm").empty()) {
      GTEST_SKIP() << "no helm in the build's tools/: ops/test fetches it from npm";
    }
  }
  static json rendered(const std::string& arguments) {
    const CommandResult result = render_chart(arguments);
    EXPECT_EQ(result.status, 0) << result.out;
    return objects_of(result.out);
  }
  static std::string all_on() { return "--values " + chart_values_dir() + "all-on.yaml "; }
  /// The arguments of the first container of a StatefulSet.
  static std::vector<std::string> arguments_of(const json& objects, const std::string& name_end) {
    return object_of(objects, "StatefulSet", name_end)["spec"]["template"]["spec"]["containers"][0]
        .at("args")
        .get<std::vector<std::string>>();
  }
  static void expect_flags_of(const std::string& verb, const std::vector<std::string>& arguments) {
    int flags = 0;
    for (const std::string& word : arguments) {
      if (!word.starts_with("--")) continue;
      EXPECT_TRUE(has_flag(verb, word)) << "holdfast " << verb << " has no flag " << word;
      ++flags;
    }
    EXPECT_GT(flags, 2);
  }
};

/// Values of the chart that set each listed knob to its default, and one of each subject.
json values_of_all_knobs(const json& listed) {
  json config = {{"tenant.shop.weight", 3},
                 {"tenant.*.share_prefixes", "all"},
                 {"model.chat.replicas", 2},
                 {"worker.w-0.max_running", 4}};
  for (const json& knob : listed) config[knob.at("name")] = knob.at("default");
  return {{"config", config}};
}

TEST_F(HelmPrograms, Knobs_OfTheDaemon_AreThoseOfTheSchema) {
  Server server({});
  const json config = server.config();
  ASSERT_TRUE(config.is_object()) << server.log();
  const ValuesFile listed(config);
  const std::string file = listed.flag().substr(std::string("--values ").size());
  const std::string tool = HOLDFAST_SOURCE_DIR "/ops/helm/knobs";
  const CommandResult compared = run_command(tool + " <" + file + " 2>&1");
  EXPECT_EQ(compared.status, 0) << compared.out << "write them with " << tool << " --write";
  // The comparison can fail, both ways.
  json fewer = config;
  fewer["config"].erase(0);
  json other = config;
  other["config"][0]["name"] = "queue.other";
  for (const json& changed : {fewer, other}) {
    const ValuesFile wrong(changed);
    EXPECT_EQ(run_command(tool + " <" + wrong.flag().substr(9) + " 2>&1").status, 1);
  }
}

TEST_F(HelmPrograms, Knobs_EachSetByTheChart_AreTakenByTheDaemon) {
  json listed;
  {
    Server server({});
    listed = server.config()["config"];
  }
  ASSERT_GT(listed.size(), 50u);
  const ValuesFile values(values_of_all_knobs(listed));
  const json objects = rendered(values.flag());
  std::vector<std::string> flags;
  const auto arguments = arguments_of(objects, "rel-holdfast");
  for (std::size_t i = 0; i + 1 < arguments.size(); ++i) {
    if (arguments[i] != "--config") continue;
    flags.insert(flags.end(), {arguments[i], arguments[i + 1]});
  }
  ASSERT_EQ(flags.size(), 2 * (listed.size() + 4));
  Server server(flags);
  const json taken = server.config();
  ASSERT_TRUE(taken.is_object()) << server.log();
  std::set<std::string> set;
  for (const json& knob : taken["config"]) {
    if (knob.at("source") == "command line") set.insert(knob.at("name"));
  }
  for (const json& knob : listed) {
    EXPECT_EQ(set.count(knob.at("name")), 1u) << knob["name"] << ": not taken";
  }
  EXPECT_EQ(set.count("tenant.shop.weight"), 1u);
  EXPECT_EQ(set.count("worker.w-0.max_running"), 1u);
}

TEST_F(HelmPrograms, Flags_OfTheDaemonsPod_AreThoseOfServe) {
  const auto arguments = arguments_of(rendered(all_on()), "rel-holdfast");
  ASSERT_EQ(arguments.at(0), "serve");
  if (!has_flag("serve", "--listen")) {
    GTEST_SKIP() << "this build's `holdfast serve` has no --listen: nothing can join it";
  }
  expect_flags_of("serve", arguments);
}

TEST_F(HelmPrograms, Flags_OfAPairsPod_AreThoseOfServeAndItsProbesAreVerbs) {
  const json pair = {{"ha", {{"enabled", true}}}};
  const ValuesFile values(pair);
  const json objects = rendered(values.flag());
  const auto arguments = arguments_of(objects, "rel-holdfast");
  ASSERT_EQ(arguments.at(0), "serve");
  expect_flags_of("serve", arguments);
  json set = object_of(objects, "StatefulSet", "rel-holdfast");
  json daemon = set["spec"]["template"]["spec"]["containers"][0];
  for (const char* probe : {"startupProbe", "livenessProbe", "readinessProbe"}) {
    const auto command = daemon[probe]["exec"]["command"].get<std::vector<std::string>>();
    ASSERT_EQ(command.at(0), "/usr/bin/holdfast");
    EXPECT_EQ(command.at(1) + " " + command.at(2), "ha status");
    for (std::size_t i = 3; i < command.size(); ++i) {
      if (command[i] == "--json") continue;  // of every verb
      EXPECT_TRUE(has_flag("ha status", command[i])) << probe << command[i];
    }
  }
}

TEST_F(HelmPrograms, Flags_OfANodesPod_AreThoseOfNode) {
  const auto arguments = arguments_of(rendered(all_on()), "-main");
  ASSERT_EQ(arguments.at(0), "node");
  if (!has_flag("node", "--join")) {
    GTEST_SKIP() << "this build's `holdfast` has no verb node";
  }
  expect_flags_of("node", arguments);
}

TEST_F(HelmPrograms, Flags_OfAGatewaysPod_AreThoseOfGateway) {
  json deployment = object_of(rendered(all_on()), "Deployment", "-gateways");
  const auto arguments = deployment["spec"]["template"]["spec"]["containers"][0]["args"]
                             .get<std::vector<std::string>>();
  ASSERT_EQ(arguments.at(0), "gateway");
  expect_flags_of("gateway", arguments);
}

TEST_F(HelmPrograms, Flags_OfHooksAndTest_AreThoseOfTheirVerbs) {
  const json objects = rendered(all_on());
  json canary = object_of(objects, "Job", "-canary");
  expect_flags_of("models alias", canary["spec"]["template"]["spec"]["containers"][0]["args"]);
  int aliases = 0;
  for (const json& object : objects) {
    const std::string name = object["metadata"]["name"];
    if (name.find("-alias-") == std::string::npos) continue;
    ++aliases;
    const json args = object["spec"]["template"]["spec"]["containers"][0]["args"];
    EXPECT_EQ(args.at(0).get<std::string>() + " " + args.at(1).get<std::string>(), "models alias");
    EXPECT_TRUE(has_flag("models alias", args.at(3)));
  }
  EXPECT_EQ(aliases, 2);
  json test = object_of(objects, "Pod", "-test");
  EXPECT_EQ(test["spec"]["containers"][0]["args"],
            json::parse(R"(["run", "qwen", "Hello, \"world\"", "--max-tokens", "4"])"));
  EXPECT_TRUE(has_flag("run", "--max-tokens"));
}

TEST_F(HelmPrograms, Variables_ThatTheChartSets_AreReadByTheProgram) {
  std::set<std::string> variables;
  for (const json& pod : pod_specs_of(rendered(all_on()))) {
    for (const json& container : containers_of(pod)) {
      for (const json& variable : container.value("env", json::array())) {
        const std::string name = variable.at("name");
        if (name.starts_with("HOLDFAST_")) variables.insert(name);
      }
    }
  }
  EXPECT_EQ(variables,
            (std::set<std::string>{"HOLDFAST_API_KEY", "HOLDFAST_STATE", "HOLDFAST_URL"}));
  const std::string help = run_command(kHoldfast + " --help").out;
  for (const std::string& name : variables) {
    EXPECT_NE(help.find("$" + name), std::string::npos) << name;
  }
}

/// make-keys.sh, in a folder of its own, with this build's programs.
class KeyMaker {
 public:
  KeyMaker() {
    std::string name = (fs::temp_directory_path() / "hf-chart-keys-XXXXXX").string();
    if (mkdtemp(name.data()) != nullptr) dir_ = name;
  }
  ~KeyMaker() {
    if (!dir_.empty()) fs::remove_all(dir_);
  }
  KeyMaker(const KeyMaker&) = delete;
  KeyMaker& operator=(const KeyMaker&) = delete;
  CommandResult run(const std::string& nodes, int generation = 1,
                    const std::string& gateway = "") const {
    return run_command("cd " + dir_ + " && PATH=" HOLDFAST_BIN_DIR ":$PATH HOLDFAST_STATE=" + dir_ +
                       "/state KEYS_DIR=" + dir_ + "/keys/" + std::to_string(generation) +
                       " NODES='" + nodes + "' GATEWAY='" + gateway +
                       "' RELEASE=rel NAMESPACE=ns NODE_SECRET=rel-node-keys "
                       "API_SECRET=rel-api-keys MANIFEST=" +
                       dir_ + "/secrets.yaml sh " + chart_dir() + "/files/make-keys.sh 2>&1");
  }
  /// The entries of a written Secret.
  json entries(const std::string& secret) const {
    std::ifstream file(dir_ + "/secrets.yaml");
    const json objects = objects_of({std::istreambuf_iterator<char>(file), {}});
    return object_of(objects, "Secret", secret).value("data", json::object());
  }
  /// The peers with keys, as a daemon started on the same database lists them.
  std::string peers() const {
    const std::string program = kHoldfast + " --state " + dir_ + "/state ";
    return run_command(
               program +
               "serve --http none --workers 0 --quiet >/dev/null 2>&1 & server=$!; tries=0; "
               "until listed=$(" +
               program +
               "keys peers --json 2>&1) || [ $tries -ge 300 ]; do tries=$((tries + 1)); "
               "sleep 0.1; done; kill $server; wait $server; echo \"$listed\"")
        .out;
  }

 private:
  std::string dir_;
};

TEST_F(HelmPrograms, MakeKeys_OfGatewaysTurnedOnAndOff_MakesAndRevokesTheirKey) {
  const KeyMaker maker;
  const CommandResult on = maker.run("rel-main-0", 1, "1");
  ASSERT_EQ(on.status, 0) << on.out;
  const json api = maker.entries("api-keys");
  EXPECT_EQ(api.size(), 4u);
  EXPECT_TRUE(api.contains("gateway.key"));
  EXPECT_EQ(maker.run("rel-main-0", 1, "1").out.find("made"), std::string::npos);
  EXPECT_EQ(maker.entries("api-keys"), api);
  const CommandResult off = maker.run("rel-main-0");
  EXPECT_EQ(off.status, 0) << off.out;
  EXPECT_NE(off.out.find("revoked gateway.key"), std::string::npos) << off.out;
  EXPECT_FALSE(maker.entries("api-keys").contains("gateway.key"));
  const std::string peers = maker.peers();
  EXPECT_NE(peers.find("client.rel-gateway"), std::string::npos) << peers;
  EXPECT_NE(peers.find("revoked"), std::string::npos) << peers;
}

TEST_F(HelmPrograms, MakeKeys_RunAgainWithOtherNodes_MakesAndRevokesWhatDiffers) {
  if (!has_flag("serve", "--listen") || !has_flag("keys node create NAME", "--out")) {
    GTEST_SKIP() << "this build's `holdfast` has no `keys node create`";
  }
  const KeyMaker maker;
  const CommandResult first = maker.run("rel-main-0 rel-main-1");
  ASSERT_EQ(first.status, 0) << first.out;
  json nodes = maker.entries("node-keys"), api = maker.entries("api-keys");
  EXPECT_EQ(nodes.size(), 2u);
  EXPECT_EQ(api.size(), 3u);
  const CommandResult again = maker.run("rel-main-0 rel-main-1");
  EXPECT_EQ(again.status, 0) << again.out;
  EXPECT_EQ(again.out.find("made"), std::string::npos) << again.out;
  EXPECT_EQ(maker.entries("node-keys"), nodes);
  EXPECT_EQ(maker.entries("api-keys"), api);
  const CommandResult other = maker.run("rel-main-1 rel-main-2");
  EXPECT_EQ(other.status, 0) << other.out;
  json after = maker.entries("node-keys");
  EXPECT_FALSE(after.contains("rel-main-0.key"));
  EXPECT_EQ(after.at("rel-main-1.key"), nodes.at("rel-main-1.key"));
  EXPECT_TRUE(after.contains("rel-main-2.key"));
  const CommandResult anew = maker.run("rel-main-1 rel-main-2", 2);
  EXPECT_EQ(anew.status, 0) << anew.out;
  EXPECT_NE(maker.entries("node-keys").at("rel-main-1.key"), nodes.at("rel-main-1.key"));
  EXPECT_NE(maker.entries("api-keys").at("operator"), api.at("operator"));
}

TEST_F(HelmPrograms, Pods_RunWithoutACluster_ServeUpgradeAndDrain) {
  const CommandResult tried =
      run_command(HOLDFAST_SOURCE_DIR "/ops/helm/try --bin " HOLDFAST_BIN_DIR " --helm " +
                  chart_tool("helm") + " 2>&1");
  if (tried.status == 77) GTEST_SKIP() << tried.out;
  EXPECT_EQ(tried.status, 0) << tried.out;
}

}  // namespace
}  // namespace holdfast::ops::helm_programs_test
