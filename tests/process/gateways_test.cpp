// Goal: an HTTP gateway on another machine serves as the one beside the daemon does: the same text,
// each token once, whatever dies; it ends at once, and says why, when its key is not taken. Method:
// `holdfast gateway` over loopback with CURVE, with state directories of their own; daemon, worker
// and gateways killed under streams that come back at the other gateway.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "shared/base/supervisor_note.h"
#include "shared/client/peer_key.h"
#include "tests/process/cluster_node.h"
#include "tests/process/http_stream.h"
#include "tests/process/running.h"
#include "tests/process/test_server.h"

namespace holdfast::process::gateways_test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using std::chrono::milliseconds;
using SteadyClock = std::chrono::steady_clock;

constexpr std::size_t kStreams = 12;
constexpr std::int64_t kTokens = 200;
constexpr unsigned kKillsMost = 12;
constexpr std::int64_t kEndMs = 5'000;  // a second, on a machine that has time for it

/// A server with a fake engine and no HTTP, and key files of it.
struct Home {
  TempDir dir;
  TestServer server{dir.path() + "/server"};

  bool start(const std::string& listener = "tcp://127.0.0.1:0") {
    return server.start({"--http", "none", "--listen", listener, "--engine", "fake", "--threads",
                         "1", "--model", "demo=" + demo_model(), "--engine-options",
                         R"({"step_us": 4000})"});
  }
  std::string key(const std::string& role, const std::string& name) const {
    const std::string file = dir.path() + "/" + role + "-" + name + ".key";
    const Ended made = server.cli({"keys", role, "create", name, "--out", file});
    EXPECT_EQ(made.code, 0) << made.err;
    return file;
  }
};

/// `holdfast gateway` with a state directory of its own.
class Gateway {
 public:
  Gateway(const Home& home, const std::string& key_file)
      : listener_(listener_of(home.server)), key_file_(key_file) {}
  /// Starts it and waits for its ready line.
  bool start() {
    launch();
    if (!running_->says("ready http://")) return false;
    const std::string said = running_->output();
    const std::size_t at = said.find("ready http://") + 6;
    url_ = said.substr(at, said.find('\n', at) - at);
    return true;
  }
  void launch() {
    running_ = std::make_unique<Running>(
        std::vector<std::string>{"holdfast", "--state", dir_.path() + "/state", "gateway", "--join",
                                 listener_, "--key", key_file_, "--http", "127.0.0.1:0"},
        dir_.path() + "/out");
  }
  int end(int signal, int patience_s = 30) { return running_->end(signal, patience_s); }
  std::string output() const { return running_->output(); }
  const std::string& url() const { return url_; }
  /// The pid of the gateway's program; 0: it does not run now.
  pid_t pid() const {
    for (const auto& child : read_supervisor_note(dir_.path() + "/state/run").children) {
      if (child.name == "gateway") return static_cast<pid_t>(child.pid);
    }
    return 0;
  }
  bool kill_program() const {
    const pid_t program = pid();
    return program > 0 && kill(program, SIGKILL) == 0;
  }

 private:
  std::string listener_, key_file_;
  TempDir dir_;
  std::unique_ptr<Running> running_;
  std::string url_;
};

json body_of(std::size_t i) {
  return {{"model", "demo"},       {"prompt", "To be " + std::to_string(i)},
          {"max_tokens", kTokens}, {"seed", i + 1},
          {"ignore_eos", true},    {"stream", true}};
}

/// Streams all requests at once while `disturb` runs; each connection of a stream goes to the next
/// of the gateways.
std::vector<SseResult> stream_all(const std::vector<const Gateway*>& gateways,
                                  const std::string& name,
                                  const std::function<void(const std::atomic<bool>&)>& disturb) {
  std::vector<SseResult> results(kStreams);
  std::vector<std::thread> threads;
  std::atomic<bool> over{false};
  for (std::size_t i = 0; i < kStreams; ++i) {
    threads.emplace_back([&, i] {
      std::size_t turn = i;
      const Resume resume = i % 2 == 0 ? Resume::kPost : Resume::kGet;
      results[i] = stream_sse([&] { return gateways[turn++ % gateways.size()]->url(); },
                              "/v1/completions", body_of(i).dump(), name + "-" + std::to_string(i),
                              resume, [](const SseResult&) {}, true);
    });
  }
  std::thread disturber([&] { disturb(over); });
  for (std::thread& thread : threads) thread.join();
  over = true;
  disturber.join();
  return results;
}

std::vector<std::string> texts_of(const std::vector<SseResult>& results) {
  std::vector<std::string> texts;
  for (const SseResult& result : results) {
    texts.push_back(result.failure.empty() ? result.text : "FAILED " + result.failure);
  }
  return texts;
}

int connections_of(const std::vector<SseResult>& results) {
  int sum = 0;
  for (const SseResult& result : results) sum += result.connections;
  return sum;
}

TEST(Gateways, Streams_WhileDaemonWorkerAndGatewaysAreKilled_HaveTheSameText) {
  Home home;
  ASSERT_TRUE(home.start()) << home.server.errors();
  Gateway one(home, home.key("gateway", "one"));
  Gateway two(home, home.key("gateway", "two"));
  ASSERT_TRUE(one.start()) << one.output();
  ASSERT_TRUE(two.start()) << two.output();
  const auto calm = stream_all({&one, &two}, "calm", [](const auto&) {});
  for (const SseResult& result : calm) {
    ASSERT_EQ(result.failure, "");
    EXPECT_EQ(result.index, kTokens);
  }
  EXPECT_EQ(connections_of(calm), static_cast<int>(kStreams));
  int kills = 0;
  const auto disturbed = stream_all({&one, &two}, "wild", [&](const std::atomic<bool>& over) {
    std::mt19937 random(20'261'129);
    // Bounded: on a busy machine a start takes longer than the time between two kills.
    for (unsigned turn = 0; !over && turn < kKillsMost; ++turn) {
      std::this_thread::sleep_for(milliseconds(120 + random() % 150));
      if (turn % 4 == 0) kills += home.server.kill_child("daemon") ? 1 : 0;
      if (turn % 4 == 1) kills += one.kill_program() ? 1 : 0;
      if (turn % 4 == 2) kills += home.server.kill_child("worker-0") ? 1 : 0;
      if (turn % 4 == 3) kills += two.kill_program() ? 1 : 0;
    }
  });
  EXPECT_EQ(texts_of(disturbed), texts_of(calm));
  for (const SseResult& result : disturbed) EXPECT_EQ(result.index, kTokens);
  EXPECT_GE(kills, 4) << "otherwise little was shown";
  EXPECT_GT(connections_of(disturbed), static_cast<int>(kStreams)) << "some came back";
  std::printf("%d kills, %d connections for %zu streams\n", kills, connections_of(disturbed),
              kStreams);
  EXPECT_EQ(one.end(SIGTERM), 0) << one.output();
  EXPECT_EQ(two.end(SIGTERM), 0) << two.output();
}

TEST(Gateways, DaemonThatRestarts_UnderAStream_CostsNoConnection) {
  Home home;
  ASSERT_TRUE(home.start()) << home.server.errors();
  Gateway one(home, home.key("gateway", "one"));
  ASSERT_TRUE(one.start()) << one.output();
  int kills = 0;
  const auto results = stream_all({&one}, "only", [&](const std::atomic<bool>& over) {
    for (; !over && kills < 2; ++kills) {
      std::this_thread::sleep_for(milliseconds(250));
      home.server.kill_child("daemon");
    }
  });
  EXPECT_EQ(kills, 2);
  for (const SseResult& result : results) EXPECT_EQ(result.failure, "");
  EXPECT_EQ(connections_of(results), static_cast<int>(kStreams)) << "none was cut";
}

/// Milliseconds from a call until the gateway has ended by itself, and its exit code.
std::pair<std::int64_t, int> time_to_end(Gateway& gateway, const std::function<void()>& blow) {
  const auto begin = SteadyClock::now();
  blow();
  const int code = gateway.end(0, 10);
  const auto took = SteadyClock::now() - begin;
  return {std::chrono::duration_cast<milliseconds>(took).count(), code};
}

TEST(Gateways, Key_WhenRevoked_EndsTheGatewayWithItsReason) {
  Home home;
  ASSERT_TRUE(home.start()) << home.server.errors();
  Gateway one(home, home.key("gateway", "one"));
  ASSERT_TRUE(one.start()) << one.output();
  ASSERT_EQ(home.server.cli({"keys", "gateway", "revoke", "one"}).code, 0);
  const auto [ms, code] = time_to_end(one, [] {});
  std::printf("ended %lld ms after the verb\n", static_cast<long long>(ms));
  EXPECT_EQ(code, 4) << one.output();
  EXPECT_LT(ms, kEndMs);
  EXPECT_NE(one.output().find("which was revoked"), std::string::npos) << one.output();
  // A start with it is refused as well.
  const auto again = time_to_end(one, [&] { one.launch(); });
  EXPECT_EQ(again.second, 4) << one.output();
  EXPECT_LT(again.first, kEndMs);
  EXPECT_NE(one.output().find("does not accept this key"), std::string::npos) << one.output();
  EXPECT_EQ(home.server.restarts_of("daemon"), 0);
}

TEST(Gateways, Key_RevokedWhileTheListenerIsAway_EndsTheGatewayWhenItIsBack) {
  Home home;
  ASSERT_TRUE(home.start()) << home.server.errors();
  const std::string file = home.key("gateway", "one");
  Gateway one(home, file);
  ASSERT_TRUE(one.start()) << one.output();
  const std::string listener = listener_of(home.server);
  ASSERT_EQ(home.server.stop(), 0);
  // A daemon that the gateway cannot reach.
  ASSERT_TRUE(home.server.start({"--http", "none", "--workers", "0"})) << home.server.errors();
  ASSERT_EQ(home.server.cli({"keys", "gateway", "revoke", "one"}).code, 0);
  ASSERT_EQ(home.server.stop(), 0);
  ASSERT_TRUE(home.start(listener)) << home.server.errors();
  EXPECT_EQ(one.end(0, 20), 4) << one.output();
}

TEST(Gateways, Key_OfAnotherServer_EndsTheStartWithItsReason) {
  Home home, other;
  ASSERT_TRUE(home.start()) << home.server.errors();
  ASSERT_TRUE(other.start()) << other.server.errors();
  const std::string foreign = other.key("gateway", "one");
  Gateway one(home, foreign);
  const auto stranger = time_to_end(one, [&] { one.launch(); });
  EXPECT_EQ(stranger.second, 4) << one.output();
  EXPECT_LT(stranger.first, kEndMs);
  EXPECT_NE(one.output().find("as a server with another key does"), std::string::npos)
      << one.output();
  // The right server, but a pair that it has not made.
  auto mixed = client::read_key_file(foreign).value();
  mixed.server_key = client::read_key_file(home.key("gateway", "two")).value().server_key;
  const std::string file = home.dir.path() + "/mixed.key";
  ASSERT_TRUE(client::write_key_file(file, mixed).has_value());
  Gateway two(home, file);
  const auto unknown = time_to_end(two, [&] { two.launch(); });
  EXPECT_EQ(unknown.second, 4) << two.output();
  EXPECT_LT(unknown.first, kEndMs);
  EXPECT_NE(two.output().find("does not accept this key"), std::string::npos) << two.output();
  std::printf("ended after %lld and %lld ms\n", static_cast<long long>(stranger.first),
              static_cast<long long>(unknown.first));
}

TEST(Gateways, Program_WithoutItsSupervisor_HasAnExitCodeForARefusedKey) {
  Home home;
  ASSERT_TRUE(home.start()) << home.server.errors();
  const std::string file = home.key("gateway", "one");
  const std::vector<std::string> program = {"holdfast-gateway",
                                            "--state",
                                            home.dir.path() + "/alone",
                                            "--http",
                                            "127.0.0.1:0",
                                            "--join",
                                            listener_of(home.server),
                                            "--key",
                                            file};
  Running alone(program, home.dir.path() + "/alone.out");
  ASSERT_TRUE(alone.says("listening http://"));
  const std::string said = alone.output();
  const std::size_t at = said.find("http://");
  const std::string url = said.substr(at, said.find('\n', at) - at);
  EXPECT_NE(http_get(url, "/v1/models").find("\"demo\""), std::string::npos);
  ASSERT_EQ(home.server.cli({"keys", "gateway", "revoke", "one"}).code, 0);
  EXPECT_EQ(alone.end(0, 10), 77);
  EXPECT_NE(alone.output().find("which was revoked"), std::string::npos) << alone.output();
}

TEST(Gateways, Flags_ThatAreWrong_AreRefusedWithTheReason) {
  Home home;
  ASSERT_TRUE(home.start()) << home.server.errors();
  const std::string listener = listener_of(home.server);
  const auto gateway = [&](const std::string& join, const std::string& file) {
    return run_program({"holdfast", "--state", home.dir.path() + "/g", "gateway", "--join", join,
                        "--key", file, "--http", "127.0.0.1:0"});
  };
  Ended ended = gateway(listener, home.key("node", "one"));
  EXPECT_EQ(ended.code, 2);
  EXPECT_NE(ended.err.find("is of the role node; expected one of `holdfast keys gateway create`"),
            std::string::npos)
      << ended.err;
  const std::string good = home.key("gateway", "good");
  ended = gateway("http://127.0.0.1:1", good);
  EXPECT_EQ(ended.code, 2) << ended.err;
  EXPECT_NE(ended.err.find("expected tcp://HOST:PORT"), std::string::npos) << ended.err;
  ended = run_program({"holdfast-gateway", "--check", "--join", listener});
  EXPECT_EQ(ended.code, 2);
  EXPECT_NE(ended.err.find("--join and --key go together"), std::string::npos) << ended.err;
  EXPECT_EQ(run_program({"holdfast-gateway", "--check", "--join", listener, "--key", good}).code,
            0);
  // Clients, gateways and operators share their names.
  home.key("client", "shop");
  EXPECT_EQ(home.server.cli({"keys", "gateway", "revoke", "shop"}).code, 3);
  EXPECT_NE(home.server.cli({"keys", "gateway", "create", "shop", "--out", good + "2"}).code, 0);
  const json peers = json::parse(home.server.cli({"--json", "keys", "peers"}).out);
  std::map<std::string, std::string> roles;
  for (const json& row : peers["keys"]) roles[row["id"]] = row["role"];
  EXPECT_EQ(roles["client.good"], "gateway");
  EXPECT_EQ(roles["client.shop"], "client");
}

HttpAnswer ask(const Gateway& gateway, const std::string& text) {
  return http_exchange(gateway.url(), text);
}

TEST(Gateways, Endpoints_OfAGatewayElsewhere_WorkThroughTheListener) {
  Home home;
  ASSERT_TRUE(home.start()) << home.server.errors();
  Gateway one(home, home.key("gateway", "one"));
  ASSERT_TRUE(one.start()) << one.output();
  const auto post = [&](const std::string& path, const json& body) {
    const HttpAnswer answer = ask(one, http_post_text(path, body.dump()));
    EXPECT_EQ(answer.status, 200) << path << " " << answer.body;
    return json::parse(answer.body, nullptr, false);
  };
  const json tokens = post("/tokenize", {{"model", "demo"}, {"content", "To be"}});
  ASSERT_TRUE(tokens.contains("tokens")) << tokens;
  EXPECT_EQ(post("/detokenize", {{"model", "demo"}, {"tokens", tokens["tokens"]}})["content"],
            "To be");
  const json chat =
      post("/v1/chat/completions", {{"model", "demo"},
                                    {"max_tokens", 5},
                                    {"messages", {{{"role", "user"}, {"content", "Say it"}}}}});
  EXPECT_EQ(chat["choices"].size(), 1u);
  const json response =
      post("/v1/responses", {{"model", "demo"}, {"input", "Say it"}, {"max_output_tokens", 16}});
  EXPECT_EQ(ask(one, http_get_text("/v1/responses/" + response["id"].get<std::string>())).status,
            200);
  EXPECT_EQ(ask(one, http_get_text("/health/ready")).status, 200);
  EXPECT_NE(ask(one, http_get_text("/metrics")).body.find("holdfast_num_requests_running"),
            std::string::npos);
  EXPECT_TRUE(post("/console/api/nodes.list", json::object()).contains("nodes"));
  // The store of blobs is on the daemon's machine.
  const HttpAnswer blob = ask(one, http_post_text("/api/blobs/sha256:" + std::string(64, 'a'), ""));
  EXPECT_EQ(blob.status, 503);
  EXPECT_NE(blob.body.find("the daemon is on another machine"), std::string::npos) << blob.body;
  // Keys of the API hold here too, from a second after they were made.
  ASSERT_EQ(home.server.cli({"keys", "create", "laptop"}).code, 0);
  int status = 200;
  for (int i = 0; i < 50 && status == 200; ++i) {
    std::this_thread::sleep_for(milliseconds(100));
    status = ask(one, http_get_text("/v1/models")).status;
  }
  EXPECT_EQ(status, 401);
  EXPECT_EQ(one.end(SIGTERM), 0) << one.output();
}

TEST(Gateways, Batch_OfAGatewayElsewhere_IsEndedByAnotherOne) {
  Home home;
  ASSERT_TRUE(home.start()) << home.server.errors();
  Gateway one(home, home.key("gateway", "one"));
  Gateway two(home, home.key("gateway", "two"));
  ASSERT_TRUE(one.start()) << one.output();
  std::string lines;
  for (int i = 0; i < 20; ++i) {
    json body = body_of(static_cast<std::size_t>(i));
    body.erase("stream");
    lines += json{{"custom_id", "r" + std::to_string(i)},
                  {"method", "POST"},
                  {"url", "/v1/completions"},
                  {"body", body}}
                 .dump() +
             "\n";
  }
  const std::string input = home.dir.write("lines.jsonl", lines);
  const Ended sent = run_program({"/usr/bin/curl", "-sS", one.url() + "/v1/files", "-F",
                                  "purpose=batch", "-F", "file=@" + input});
  const std::string file = json::parse(sent.out).at("id");
  const HttpAnswer made =
      ask(one, http_post_text("/v1/batches", json{{"input_file_id", file},
                                                  {"endpoint", "/v1/completions"},
                                                  {"completion_window", "24h"}}
                                                 .dump()));
  ASSERT_EQ(made.status, 200) << made.body;
  const std::string id = json::parse(made.body).at("id");
  one.end(SIGKILL);
  ASSERT_TRUE(two.start()) << two.output();
  json batch = json::object();
  for (int i = 0; i < 600 && batch.value("status", "") != "completed"; ++i) {
    std::this_thread::sleep_for(milliseconds(100));
    batch = json::parse(ask(two, http_get_text("/v1/batches/" + id)).body, nullptr, false);
    if (!batch.is_object()) batch = json::object();
  }
  EXPECT_EQ(batch["status"], "completed") << batch;
  EXPECT_EQ(batch["request_counts"]["completed"], 20) << batch;
}

}  // namespace
}  // namespace holdfast::process::gateways_test
