// Goal: workers of other machines serve as those of this one do: the same text whatever dies, files
// found by their content, a revoked key out within a second, nobody in without one. Method: real
// programs over loopback with CURVE, each node with a state directory of its own.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "shared/client/peer_key.h"
#include "tests/process/cluster_node.h"
#include "tests/process/test_server.h"

namespace holdfast::process::nodes_test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using std::chrono::milliseconds;
using SteadyClock = std::chrono::steady_clock;

const std::vector<std::string> kFake = {"--engine", "fake", "--threads", "1"};
constexpr const char* kSlowFake = R"({"step_us": 4000})";

/// A server without workers, and what tests do with it.
struct Cluster {
  TempDir dir;
  TestServer server{dir.path() + "/server"};

  /// Starts a server without models.
  bool start() { return server.start(listening()); }
  bool add_fake_model() const {
    return server.cli({"models", "add", "m", demo_model(), "--options", kSlowFake}).code == 0 &&
           server.cli({"models", "load", "m"}).code == 0;
  }
  bool is_ready(const std::string& model = "m", int patience_ms = 20'000) const {
    const auto until = SteadyClock::now() + milliseconds(patience_ms);
    while (SteadyClock::now() < until) {
      const json document =
          json::parse(server.cli({"--json", "models", "show", model}).out, nullptr, false);
      if (document.is_object() && document.value("state", "") == "ready") return true;
      std::this_thread::sleep_for(milliseconds(50));
    }
    return false;
  }
  /// Joins nodes that have the fake engine, and loads model m on them.
  testing::AssertionResult serve_with(std::initializer_list<ClusterNode*> nodes) const {
    for (ClusterNode* node : nodes) {
      if (!node->join(kFake)) return testing::AssertionFailure() << node->output();
    }
    if (add_fake_model() && is_ready()) return testing::AssertionSuccess();
    return testing::AssertionFailure() << server.errors();
  }
  std::unique_ptr<client::Client> client_with(const std::string& key_file) const {
    const auto key = client::read_key_file(key_file);
    if (!key) return nullptr;
    client::Options options = client::options_with_key(*key);
    options.timeout = std::chrono::seconds(10);
    return client::Client::connect(listener_of(server), options).value();
  }
  std::string client_key(const std::string& name, std::vector<std::string> more = {}) const {
    const std::string file = dir.path() + "/" + name + ".key";
    std::vector<std::string> args = {"keys", "client", "create", name, "--out", file};
    args.insert(args.end(), more.begin(), more.end());
    return server.cli(args).code == 0 ? file : std::string();
  }
};

std::vector<std::string> texts_of(const std::vector<StreamResult>& results) {
  std::vector<std::string> texts;
  for (const StreamResult& result : results) {
    texts.push_back(result.failure.empty() ? result.text : "FAILED " + result.failure);
  }
  return texts;
}

/// Streams requests with seeds 1 to `count` at once, while `disturb` runs.
std::vector<StreamResult> stream_many(
    const TestServer& server, int count, std::int64_t tokens,
    const std::function<void(const std::atomic<bool>&)>& disturb) {
  std::vector<StreamResult> results(static_cast<std::size_t>(count));
  std::vector<std::thread> threads;
  std::atomic<bool> over{false};
  for (int i = 0; i < count; ++i) {
    threads.emplace_back([&, i] {
      const auto client = server.client();
      wire::Submit submit =
          make_submit("request " + std::to_string(i), tokens, static_cast<std::uint64_t>(i + 1));
      submit.model = "m";
      results[static_cast<std::size_t>(i)] = submit_and_stream(*client, submit);
    });
  }
  std::thread disturber([&] { disturb(over); });
  for (std::thread& thread : threads) thread.join();
  over = true;
  disturber.join();
  return results;
}

TEST(Nodes, Node_WithTheFileUnderAnotherName_GivesTheTextOfALocalWorker) {
  Cluster cluster;
  ASSERT_TRUE(cluster.start()) << cluster.server.errors();
  const std::string root = cluster.dir.path() + "/models";
  fs::create_directories(root + "/deep");
  fs::copy_file(demo_model(), root + "/deep/something-else.gguf");
  ClusterNode node(cluster.server, "far");
  ASSERT_TRUE(node.join({"--root", root, "--threads", "1"})) << node.output();
  ASSERT_EQ(cluster.server.cli({"models", "add", "m", demo_model()}).code, 0);
  ASSERT_EQ(cluster.server.cli({"models", "load", "m"}).code, 0);
  ASSERT_TRUE(cluster.is_ready()) << cluster.server.errors();
  const std::vector<std::string> run = {"run",          "m",  "To be",  "--raw",
                                        "--max-tokens", "40", "--seed", "3"};
  const Ended far = cluster.server.cli(run);
  EXPECT_EQ(far.code, 0) << far.err;
  const Ended near = run_program(
      {"holdfast", "run", demo_model(), "To be", "--raw", "--max-tokens", "40", "--seed", "3"});
  EXPECT_EQ(far.out, near.out);
  EXPECT_FALSE(far.out.empty());
  const json row = node.row();
  EXPECT_EQ(row["state"], "ready");
  EXPECT_EQ(row["workers"], json::array({"far/worker-0"}));
  EXPECT_EQ(row["models"], 1);
  EXPECT_LT(row["heard_ms"].get<std::int64_t>(), 5'000);
}

TEST(Nodes, Node_ThatJoined_TellsItsDomainAndWhatItMeasured) {
  Cluster cluster;
  ASSERT_TRUE(cluster.start()) << cluster.server.errors();
  ClusterNode node(cluster.server, "far");
  std::vector<std::string> flags = kFake;
  flags.insert(flags.end(), {"--domain", "rack 1"});
  ASSERT_TRUE(node.join(flags)) << node.output();
  json row;
  const auto until = SteadyClock::now() + milliseconds(20'000);
  do {
    row = node.row();
    std::this_thread::sleep_for(milliseconds(50));
  } while (!row.at("memory_bytes_s").is_number() && SteadyClock::now() < until);
  EXPECT_EQ(row.at("domain"), "rack 1");
  for (const char* key : {"memory_bytes_s", "round_trip_us", "link_bytes_s"}) {
    EXPECT_GT(row.value(key, std::int64_t{0}), 0) << key;
  }
}

TEST(Nodes, Model_ThatNoNodeHas_WaitsAndSaysWhere) {
  Cluster cluster;
  ASSERT_TRUE(cluster.start()) << cluster.server.errors();
  const std::string root = cluster.dir.path() + "/models";
  fs::create_directories(root);
  ASSERT_EQ(cluster.server.cli({"config", "set", "nodes.fetch=0"}).code, 0);
  ClusterNode node(cluster.server, "far");
  ASSERT_TRUE(node.join({"--root", root, "--threads", "1"})) << node.output();
  ASSERT_EQ(cluster.server.cli({"models", "add", "m", demo_model()}).code, 0);
  const auto operating = cluster.server.operator_client();
  ASSERT_TRUE(std::holds_alternative<std::string>(
      operating->op(client::AllTenants::local(), "models.load", R"({"name": "m"})")));
  std::string why;
  for (int i = 0; i < 100 && why.find("has no file") == std::string::npos; ++i) {
    const json document = json::parse(cluster.server.cli({"--json", "models", "show", "m"}).out);
    why = document["devices"].empty() ? "" : document["devices"][0]["why"].get<std::string>();
    std::this_thread::sleep_for(milliseconds(50));
  }
  EXPECT_NE(why.find("node far has no file with this content"), std::string::npos) << why;
  fs::copy_file(demo_model(), root + "/came-later.gguf");
  EXPECT_TRUE(cluster.is_ready("m", 30'000)) << "its next look at the roots finds it";
}

TEST(Nodes, Streams_WhileWorkersNodesAndTheDaemonAreKilled_HaveTheSameText) {
  Cluster cluster;
  ASSERT_TRUE(cluster.start()) << cluster.server.errors();
  ClusterNode one(cluster.server, "one");
  ClusterNode two(cluster.server, "two");
  ASSERT_TRUE(cluster.serve_with({&one, &two}));
  constexpr int kStreams = 12;
  constexpr std::int64_t kTokens = 200;
  const auto calm = stream_many(cluster.server, kStreams, kTokens, [](const auto&) {});
  int kills = 0;
  const auto disturbed =
      stream_many(cluster.server, kStreams, kTokens, [&](const std::atomic<bool>& over) {
        std::mt19937 random(20'261'128);
        while (!over) {
          std::this_thread::sleep_for(milliseconds(100 + random() % 150));
          const unsigned target = random() % 5;
          if (target == 0) {
            kills += cluster.server.kill_child("daemon") ? 1 : 0;
            continue;
          }
          const pid_t pid = (target % 2 == 0 ? one : two).worker_pid();
          if (pid > 0 && kill(pid, SIGKILL) == 0) ++kills;
        }
      });
  EXPECT_EQ(texts_of(calm), texts_of(disturbed));
  EXPECT_GE(kills, 3) << "otherwise nothing was document";
  for (const StreamResult& result : calm) EXPECT_EQ(result.ids.size(), std::size_t{kTokens});
}

TEST(Nodes, Node_ThatIsToldToEnd_DrainsAndItsWorkGoesOnElsewhere) {
  Cluster cluster;
  ASSERT_TRUE(cluster.start()) << cluster.server.errors();
  ClusterNode one(cluster.server, "one");
  ClusterNode two(cluster.server, "two");
  ASSERT_TRUE(cluster.serve_with({&one, &two}));
  const auto calm = stream_many(cluster.server, 8, 200, [](const auto&) {});
  int code = -1;
  const auto disturbed = stream_many(cluster.server, 8, 200, [&](const auto&) {
    std::this_thread::sleep_for(milliseconds(300));
    code = one.end(SIGTERM);
  });
  EXPECT_EQ(texts_of(calm), texts_of(disturbed));
  EXPECT_EQ(code, 0) << one.output();
  EXPECT_TRUE(one.reaches("left"));
  EXPECT_TRUE(two.reaches("ready"));
}

TEST(Nodes, Drain_OfANodeByAnOperator_HoldsOverItsRestart) {
  Cluster cluster;
  ASSERT_TRUE(cluster.start()) << cluster.server.errors();
  ClusterNode node(cluster.server, "one");
  ASSERT_TRUE(node.join(kFake)) << node.output();
  ASSERT_EQ(cluster.server.cli({"nodes", "drain", "one"}).code, 0);
  EXPECT_TRUE(node.reaches("draining"));
  node.end(SIGKILL);
  EXPECT_TRUE(node.reaches("lost"));
  ASSERT_TRUE(node.join(kFake)) << node.output();
  EXPECT_TRUE(node.reaches("draining"));
  ASSERT_EQ(cluster.server.cli({"nodes", "resume", "one"}).code, 0);
  EXPECT_TRUE(node.reaches("ready"));
  EXPECT_EQ(cluster.server.cli({"nodes", "drain", "nobody"}).code, 3);
}

TEST(Nodes, Key_WhenRevoked_EndsItsNodeWithinASecond) {
  Cluster cluster;
  ASSERT_TRUE(cluster.start()) << cluster.server.errors();
  ClusterNode node(cluster.server, "one");
  ASSERT_TRUE(node.join(kFake)) << node.output();
  ASSERT_TRUE(node.reaches("ready"));
  const auto begin = SteadyClock::now();
  ASSERT_EQ(cluster.server.cli({"keys", "node", "revoke", "one"}).code, 0);
  EXPECT_TRUE(node.reaches("lost", 3'000));
  const auto took = std::chrono::duration_cast<milliseconds>(SteadyClock::now() - begin).count();
  std::printf("lost %lld ms after the verb began\n", static_cast<long long>(took));
  const json workers = json::parse(cluster.server.cli({"--json", "workers", "list"}).out);
  for (const json& worker : workers["workers"]) EXPECT_EQ(worker["state"], "lost");
  EXPECT_EQ(node.wait(10), 4) << node.output();
  EXPECT_NE(node.output().find("revoked"), std::string::npos) << node.output();
  EXPECT_FALSE(node.join(kFake));
  // Its name may have a new key.
  ClusterNode again(cluster.server, "one");
  EXPECT_TRUE(again.join(kFake)) << again.output();
}

TEST(Nodes, Clients_OverTheNetwork_SeeTheirOwnTenantAlone) {
  Cluster cluster;
  ASSERT_TRUE(cluster.start()) << cluster.server.errors();
  ClusterNode node(cluster.server, "one");
  ASSERT_TRUE(cluster.serve_with({&node}));
  const auto shop = cluster.client_with(cluster.client_key("shop", {"--tenant", "shop"}));
  const auto bank = cluster.client_with(cluster.client_key("bank"));
  const auto boss = cluster.client_with(cluster.client_key("boss", {"--role", "operator"}));
  ASSERT_TRUE(shop && bank && boss);
  wire::Submit submit = make_submit("mine", 20, 1);
  submit.model = "m";
  // The SDK says the local user; the key decides.
  const StreamResult mine = submit_and_stream(*shop, submit);
  EXPECT_EQ(mine.failure, "");
  EXPECT_EQ(mine.info.tenant, "shop");
  const auto stolen = bank->status(client::AllTenants::local(), mine.info.request_id);
  ASSERT_TRUE(std::holds_alternative<client::Failure>(stolen));
  EXPECT_EQ(std::get<client::Failure>(stolen).code, Errc::kNotFound);
  const auto read = boss->status(client::AllTenants::local(), mine.info.request_id);
  EXPECT_TRUE(std::holds_alternative<wire::RequestInfo>(read));
  for (const char* verb : {"requests.list", "config.set", "workers.list", "shutdown"}) {
    const auto refused = shop->op(client::AllTenants::local(), verb, "{}");
    ASSERT_TRUE(std::holds_alternative<client::Failure>(refused)) << verb;
    EXPECT_EQ(std::get<client::Failure>(refused).code, Errc::kUnauthorized) << verb;
  }
  EXPECT_TRUE(std::holds_alternative<std::string>(
      boss->op(client::AllTenants::local(), "workers.list", "{}")));
  const auto models = bank->models(client::AllTenants::local());
  ASSERT_TRUE(std::holds_alternative<std::vector<wire::ModelInfo>>(models));
  for (const auto& model : std::get<std::vector<wire::ModelInfo>>(models)) {
    EXPECT_EQ(model.sha, "");
  }
  ASSERT_EQ(cluster.server.cli({"keys", "client", "revoke", "shop"}).code, 0);
  std::this_thread::sleep_for(milliseconds(1'000));
  const auto after = shop->status(client::AllTenants::local(), mine.info.request_id);
  ASSERT_TRUE(std::holds_alternative<client::Failure>(after)) << "a revoked key reads nothing";
  EXPECT_EQ(std::get<client::Failure>(after).code, Errc::kUnauthorized);
}

TEST(Nodes, CommandLine_OfAnotherMachine_WorksByTheListener) {
  Cluster cluster;
  ASSERT_TRUE(cluster.start()) << cluster.server.errors();
  ClusterNode node(cluster.server, "one");
  ASSERT_TRUE(cluster.serve_with({&node}));
  const std::string boss = cluster.client_key("boss", {"--role", "operator"});
  const std::string shop = cluster.client_key("shop");
  const auto far = [&](const std::string& key, std::vector<std::string> args) {
    args.insert(args.begin(), {"/usr/bin/env", "HOLDFAST_KEY_FILE=" + key,
                               std::string(HOLDFAST_BIN_DIR) + "/holdfast", "--url",
                               listener_of(cluster.server)});
    return run_program(args);
  };
  const std::vector<std::string> run = {"run",          "m",  "To be",  "--raw",
                                        "--max-tokens", "30", "--seed", "5"};
  const Ended near = cluster.server.cli(run);
  for (const std::string& key : {boss, shop}) {
    const Ended there = far(key, run);
    EXPECT_EQ(there.code, 0) << there.err;
    EXPECT_EQ(there.out, near.out);
  }
  EXPECT_NE(far(boss, {"nodes", "list"}).out.find("one"), std::string::npos);
  EXPECT_EQ(far(shop, {"nodes", "list"}).code, 4) << "a client is no operator";
  EXPECT_EQ(far(boss, {"keys", "list"}).code, 2) << "on the server's machine alone";
  EXPECT_EQ(far("", {"status"}).code, 2);
  const Ended unnamed = run_program({"holdfast", "--url", listener_of(cluster.server), "status"});
  EXPECT_NE(unnamed.err.find("HOLDFAST_KEY_FILE"), std::string::npos) << unnamed.err;
}

TEST(Nodes, Strangers_WithoutAKey_GetNothingAndHarmNobody) {
  Cluster cluster;
  ASSERT_TRUE(cluster.start()) << cluster.server.errors();
  ClusterNode node(cluster.server, "one");
  ASSERT_TRUE(node.join(kFake)) << node.output();
  // A key of another server.
  Cluster other;
  ASSERT_TRUE(other.start()) << other.server.errors();
  const std::string foreign = other.client_key("stranger");
  client::Options options = client::options_with_key(client::read_key_file(foreign).value());
  options.server_key = client::read_key_file(node.key_file()).value().server_key;
  const auto stranger = client::Client::connect(listener_of(cluster.server), options).value();
  const auto begin = SteadyClock::now();
  const auto answer = stranger->op(client::AllTenants::local(), "status", "{}");
  ASSERT_TRUE(std::holds_alternative<client::Failure>(answer));
  EXPECT_EQ(std::get<client::Failure>(answer).code, Errc::kUnauthorized);
  EXPECT_LT(SteadyClock::now() - begin, std::chrono::seconds(10)) << "told, not left waiting";
  // Bytes that are no handshake.
  const std::string url = listener_of(cluster.server);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(std::stoi(url.substr(url.rfind(':') + 1))));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  std::mt19937 random(7);
  for (int i = 0; i < 200; ++i) {
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ASSERT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    std::string bytes = i % 2 == 0 ? std::string("\xff\0\0\0\0\0\0\0\x01\x7f\x03\0CURVE", 17) : "";
    while (bytes.size() < 200) bytes += static_cast<char>(random());
    (void)send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    close(fd);
  }
  EXPECT_TRUE(node.reaches("ready"));
  EXPECT_EQ(cluster.server.restarts_of("daemon"), 0);
}

TEST(Nodes, KeyFiles_ThatAreWrong_AreRefusedWithTheReason) {
  Cluster cluster;
  ASSERT_TRUE(cluster.start()) << cluster.server.errors();
  const std::string address = listener_of(cluster.server);
  const std::string state = cluster.dir.path() + "/n";
  const auto join = [&](const std::string& file) {
    return run_program({"holdfast", "--state", state, "node", "--join", address, "--key", file});
  };
  const std::string client = cluster.client_key("app");
  Ended ended = join(client);
  EXPECT_EQ(ended.code, 2);
  EXPECT_NE(ended.err.find("is of the role client"), std::string::npos) << ended.err;
  ended = join(cluster.dir.path() + "/missing");
  EXPECT_NE(ended.code, 0);
  EXPECT_NE(ended.err.find("missing"), std::string::npos) << ended.err;
  ended = join(cluster.dir.write("text.key", "not json"));
  EXPECT_NE(ended.err.find("others than its owner may read it"), std::string::npos) << ended.err;
  chmod((cluster.dir.path() + "/text.key").c_str(), 0600);
  ended = join(cluster.dir.path() + "/text.key");
  EXPECT_NE(ended.err.find("is not a JSON object"), std::string::npos) << ended.err;
  ended = cluster.server.cli({"keys", "node", "create", "Bad Name", "--out", state + ".key"});
  EXPECT_EQ(ended.code, 2);
  ended = cluster.server.cli({"keys", "client", "create", "app", "--out", state + ".key"});
  EXPECT_NE(ended.code, 0) << "one valid key a name";
  EXPECT_FALSE(fs::exists(state + ".key"));
  ended = cluster.server.cli({"keys", "client", "create", "new", "--out", client});
  EXPECT_NE(ended.code, 0) << "no file is overwritten";
  ended = cluster.server.cli({"--json", "keys", "peers"});
  EXPECT_EQ(ended.out.find("secret"), std::string::npos);
  struct stat info {};
  ASSERT_EQ(stat(client.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
}

}  // namespace
}  // namespace holdfast::process::nodes_test
