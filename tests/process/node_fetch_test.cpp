// Goal: a node that lacks a model's file gets it from a machine that has it, and serves as a local
// worker does, whichever process is killed on the way; it says how far it is and why it cannot.
// Method: real programs over loopback with CURVE; roots that are empty, small or have the file;
// limited rates, so that there is a middle in which to kill.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mount.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "shared/client/peer_key.h"
#include "shared/huggingface/stamp.h"
#include "tests/process/cluster_node.h"
#include "tests/process/small_disk.h"
#include "tests/process/test_server.h"

namespace holdfast::process::node_fetch_test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using std::chrono::milliseconds;
using SteadyClock = std::chrono::steady_clock;

constexpr int kPatienceMs = 60'000;
const std::vector<std::string> kRun = {"run",          "m",  "To be",  "--raw",
                                       "--max-tokens", "40", "--seed", "3"};

bool wait_for(const std::function<bool()>& condition, int patience_ms = kPatienceMs) {
  const auto until = SteadyClock::now() + milliseconds(patience_ms);
  while (SteadyClock::now() < until) {
    if (condition()) return true;
    std::this_thread::sleep_for(milliseconds(30));
  }
  return false;
}

/// A server without workers, a model "m" of 17 MB on its machine, and what nodes say.
struct Fetching : testing::Test {
  TempDir dir;
  TestServer server{dir.path() + "/server"};
  std::string model = dir.path() + "/source/m.gguf";

  void start(std::vector<std::string> flags = {}) {
    ASSERT_TRUE(server.start(listening(std::move(flags)))) << server.errors();
    fs::create_directories(dir.path() + "/source");
    const Ended made = run_program({"holdfast", "quantize", demo_model(), model, "f32"});
    ASSERT_EQ(made.code, 0) << made.err;
    const Ended added = server.cli({"models", "add", "m", model});
    ASSERT_EQ(added.code, 0) << added.err;
  }
  /// Asks for the model without waiting for it.
  void load() const {
    const auto client = server.operator_client();
    const auto answer = client->op(client::AllTenants::local(), "models.load", R"({"name": "m"})");
    ASSERT_TRUE(std::holds_alternative<std::string>(answer));
  }
  void set(const std::string& knob, const std::string& value) const {
    ASSERT_EQ(server.cli({"config", "set", knob + "=" + value}).code, 0);
  }
  std::string root(const std::string& name) const {
    fs::create_directories(dir.path() + "/" + name);
    return dir.path() + "/" + name;
  }
  bool is_ready() const {
    return wait_for([&] { return document().value("state", "") == "ready"; });
  }
  json document() const {
    const json parsed =
        json::parse(server.cli({"--json", "models", "show", "m"}).out, nullptr, false);
    return parsed.is_object() ? parsed : json::object();
  }
  std::string why() const {
    std::string text;
    for (const json& device : document().value("devices", json::array())) {
      text += device["why"].get<std::string>() + "\n";
    }
    return text;
  }
  /// The first fetch of a node; an empty object if it has none.
  static json fetch_of(const ClusterNode& node) {
    const json row = node.row();
    const bool any = row.is_object() && row.contains("fetches") && !row["fetches"].empty();
    return any ? row["fetches"][0] : json::object();
  }
  static std::int64_t done_bytes(const ClusterNode& node) {
    return fetch_of(node).value("done_bytes", std::int64_t{0});
  }
  void expect_text_of_a_local_worker() const {
    const Ended far = server.cli(kRun);
    EXPECT_EQ(far.code, 0) << far.err;
    std::vector<std::string> local = kRun;
    local.insert(local.begin(), "holdfast");
    local[2] = model;
    EXPECT_EQ(far.out, run_program(local).out);
    EXPECT_FALSE(far.out.empty());
  }
};

TEST_F(Fetching, Node_WithAnEmptyRoot_FetchesTheModelAndGivesTheTextOfALocalWorker) {
  ASSERT_NO_FATAL_FAILURE(start());
  ClusterNode node(server, "far");
  ASSERT_TRUE(node.join({"--root", root("far"), "--threads", "1"})) << node.output();
  load();
  ASSERT_TRUE(is_ready()) << server.errors() << node.output();
  expect_text_of_a_local_worker();
  EXPECT_EQ(huggingface::sha256_of(root("far") + "/m.gguf").value(),
            huggingface::sha256_of(model).value());
  EXPECT_EQ(node.row()["models"], 1);
  EXPECT_EQ(node.row()["lacks"], json::array());
  EXPECT_NE(node.output().find("fetched " + root("far") + "/m.gguf"), std::string::npos)
      << node.output();
}

TEST_F(Fetching, Node_WithoutARoot_HasOneOfItsOwn) {
  ASSERT_NO_FATAL_FAILURE(start());
  ClusterNode node(server, "far");
  ASSERT_TRUE(node.join({"--threads", "1"})) << node.output();
  load();
  EXPECT_TRUE(is_ready()) << server.errors() << node.output();
}

TEST_F(Fetching, Progress_OfAFetch_IsInTheNodeAndInTheReasonsOfPlacement) {
  ASSERT_NO_FATAL_FAILURE(start());
  set("nodes.fetch_bytes_s", "4000000");
  ClusterNode node(server, "far");
  ASSERT_TRUE(node.join({"--root", root("far"), "--threads", "1"})) << node.output();
  load();
  std::string reason;
  EXPECT_TRUE(wait_for([&] {
    reason = why();
    return reason.find("node far fetches it: ") != std::string::npos &&
           reason.find(" from the daemon's machine)") != std::string::npos;
  })) << reason;
  const json fetch = fetch_of(node);
  EXPECT_EQ(fetch.value("name", ""), "m.gguf") << fetch;
  EXPECT_EQ(fetch.value("bytes", std::int64_t{0}), static_cast<std::int64_t>(fs::file_size(model)));
  const Ended text = server.cli({"nodes", "show", "far"});
  EXPECT_NE(text.out.find("the daemon's machine"), std::string::npos) << text.out;
  EXPECT_TRUE(is_ready()) << server.errors() << node.output();
}

TEST_F(Fetching, Fetch_WhoseNodeAndDaemonAreKilled_GoesOnWhereItWas) {
  ASSERT_NO_FATAL_FAILURE(start());
  set("nodes.fetch_bytes_s", "3000000");
  ClusterNode node(server, "far");
  ASSERT_TRUE(node.join({"--root", root("far"), "--threads", "1"})) << node.output();
  load();
  ASSERT_TRUE(wait_for([&] { return done_bytes(node) >= 4 << 20; })) << node.output();
  node.end(SIGKILL);
  set("nodes.fetch_bytes_s", "1");  // what it has from now on it had before
  ASSERT_TRUE(node.join({"--root", root("far"), "--threads", "1"})) << node.output();
  ASSERT_TRUE(wait_for([&] { return done_bytes(node) >= 4 << 20; })) << fetch_of(node);
  set("nodes.fetch_bytes_s", "3000000");
  ASSERT_TRUE(wait_for([&] { return done_bytes(node) >= 8 << 20; })) << node.output();
  ASSERT_TRUE(server.kill_child("daemon"));
  ASSERT_TRUE(is_ready()) << server.errors() << node.output();
  expect_text_of_a_local_worker();
  EXPECT_FALSE(fs::exists(root("far") + "/.partial"));
}

TEST_F(Fetching, Disk_ThatIsFull_IsToldAndTheFetchGoesOnWhenItHasSpace) {
  const SmallDisk disk(dir.path() + "/disk", "20m");
  if (!disk.why_not().empty()) GTEST_SKIP() << disk.why_not();
  ASSERT_NO_FATAL_FAILURE(start());
  ClusterNode node(server, "far");
  ASSERT_TRUE(node.join({"--root", disk.path(), "--threads", "1"})) << node.output();
  load();
  json fetch;
  ASSERT_TRUE(wait_for([&] {
    fetch = fetch_of(node);
    return fetch.value("state", "") == "failed";
  })) << fetch;
  EXPECT_EQ(fetch["error_code"], "disk_full") << fetch;
  const std::string reason = why();
  EXPECT_NE(reason.find("node far cannot fetch it: fetch m.gguf: "), std::string::npos) << reason;
  EXPECT_NE(reason.find("bytes are missing, free below " + disk.path()), std::string::npos);
  ASSERT_EQ(mount("holdfast-test", disk.path().c_str(), "tmpfs", MS_REMOUNT, "size=80m"), 0);
  EXPECT_TRUE(is_ready()) << server.errors() << node.output();
}

TEST_F(Fetching, Model_ThatIsOnAnotherNodeAlone_ComesFromThere) {
  ASSERT_NO_FATAL_FAILURE(start());
  fs::copy_file(model, root("one") + "/x.gguf");
  ClusterNode one(server, "one");
  ASSERT_TRUE(one.join({"--root", root("one"), "--threads", "1"})) << one.output();
  load();
  ASSERT_TRUE(is_ready()) << server.errors();
  const std::string sha = huggingface::sha256_of(model).value();
  fs::rename(model, dir.path() + "/source/away.gguf");
  ClusterNode two(server, "two");
  ASSERT_TRUE(two.join({"--root", root("two"), "--threads", "1"})) << two.output();
  ASSERT_TRUE(wait_for([&] { return fs::exists(root("two") + "/x.gguf"); }))
      << two.output() << one.output() << why();
  EXPECT_EQ(huggingface::sha256_of(root("two") + "/x.gguf").value(), sha);
  EXPECT_TRUE(wait_for([&] { return two.row()["models"] == 1; }));
}

TEST_F(Fetching, Source_ThatIsKilled_IsLeftAndTheFetchGoesOnWhenItIsBack) {
  ASSERT_NO_FATAL_FAILURE(start());
  fs::copy_file(model, root("one") + "/m.gguf");
  ClusterNode one(server, "one");
  ASSERT_TRUE(one.join({"--root", root("one"), "--threads", "1"})) << one.output();
  load();
  ASSERT_TRUE(is_ready()) << server.errors();
  fs::rename(model, dir.path() + "/source/away.gguf");
  set("nodes.fetch_bytes_s", "3000000");
  ClusterNode two(server, "two");
  ASSERT_TRUE(two.join({"--root", root("two"), "--threads", "1"})) << two.output();
  ASSERT_TRUE(wait_for([&] { return done_bytes(two) >= 4 << 20; })) << two.output();
  one.end(SIGKILL);
  EXPECT_TRUE(wait_for([&] { return !fetch_of(two).value("error", "").empty(); })) << fetch_of(two);
  ASSERT_TRUE(one.join({"--root", root("one"), "--threads", "1"})) << one.output();
  EXPECT_TRUE(wait_for([&] { return fs::exists(root("two") + "/m.gguf"); }))
      << two.output() << fetch_of(two);
}

TEST_F(Fetching, Switch_OfTheConfiguration_LetsNodesWait) {
  ASSERT_NO_FATAL_FAILURE(start());
  set("nodes.fetch", "0");
  ClusterNode node(server, "far");
  ASSERT_TRUE(node.join({"--root", root("far"), "--threads", "1"})) << node.output();
  load();
  EXPECT_TRUE(wait_for([&] {
    return why().find("node far has no file with this content") != std::string::npos;
  })) << why();
  std::this_thread::sleep_for(milliseconds(2'500));  // two reports
  EXPECT_TRUE(fs::is_empty(root("far")));
  set("nodes.fetch", "1");
  EXPECT_TRUE(is_ready()) << server.errors() << node.output();
}

/// The answer to a verb with a key of the network.
Errc refusal_of(client::Client& client, const std::string& verb, const json& args) {
  const auto answer = client.op(client::AllTenants::local(), verb, args.dump());
  const auto* failure = std::get_if<client::Failure>(&answer);
  return failure == nullptr ? Errc::kInternal : failure->code;
}

std::unique_ptr<client::Client> client_of(const TestServer& server, const std::string& key_file) {
  client::Options options = client::options_with_key(client::read_key_file(key_file).value());
  options.timeout = std::chrono::seconds(10);
  return client::Client::connect(listener_of(server), options).value();
}

TEST_F(Fetching, Probes_OfAConnection_HaveABound) {
  ASSERT_NO_FATAL_FAILURE(start());
  const ClusterNode node(server, "far");
  const auto peer = client_of(server, node.key_file());
  for (const json& bytes : {json(-1), json((512 << 10) + 1), json("1"), json()}) {
    EXPECT_EQ(refusal_of(*peer, "node.probe", {{"bytes", bytes}}), Errc::kUsage) << bytes;
  }
  int answered = 0;
  while (answered < 100 && refusal_of(*peer, "node.probe", {{"bytes", 1}}) == Errc::kInternal) {
    ++answered;
  }
  EXPECT_EQ(answered, 8);
  EXPECT_EQ(refusal_of(*peer, "node.probe", {{"bytes", 1}}), Errc::kRateLimited);
  const auto again = client_of(server, node.key_file());
  EXPECT_EQ(refusal_of(*again, "node.probe", {{"bytes", 0}}), Errc::kInternal) << "answered";
}

TEST_F(Fetching, Peer_ThatAsksForMore_IsRefused) {
  ASSERT_NO_FATAL_FAILURE(start());
  const ClusterNode node(server, "far");
  const std::string boss = dir.path() + "/boss.key";
  ASSERT_EQ(
      server.cli({"keys", "client", "create", "boss", "--role", "operator", "--out", boss}).code,
      0);
  const std::string sha = huggingface::sha256_of(model).value();
  const json first = {{"sha", sha}, {"file", 0}, {"offset", 0}, {"bytes", 1000}, {"source", ""}};
  const auto operating = client_of(server, boss);
  for (const char* verb :
       {"node.chunks", "node.range", "node.offer", "node.supply", "node.probe"}) {
    EXPECT_EQ(refusal_of(*operating, verb, first), Errc::kUnauthorized) << verb;
  }
  const auto peer = client_of(server, node.key_file());
  EXPECT_EQ(refusal_of(*peer, "node.range", first), Errc::kInvalidRequest) << "chunks first";
  EXPECT_EQ(refusal_of(*peer, "node.chunks", {{"sha", std::string(64, 'a')}}), Errc::kNotFound);
  EXPECT_EQ(refusal_of(*peer, "node.chunks", {{"sha", model}}), Errc::kNotFound) << "a path";
  ASSERT_TRUE(wait_for([&] {
    const auto answer =
        peer->op(client::AllTenants::local(), "node.chunks", json{{"sha", sha}}.dump());
    const auto* text = std::get_if<std::string>(&answer);
    return text != nullptr && json::parse(*text)["ready"] == true;
  }));
  const auto size = static_cast<std::int64_t>(fs::file_size(model));
  for (const auto& [name, value] :
       std::vector<std::pair<const char*, json>>{{"file", 1},
                                                 {"file", -1},
                                                 {"offset", size},
                                                 {"offset", -1},
                                                 {"offset", "0"},
                                                 {"bytes", 0},
                                                 {"bytes", -1},
                                                 {"bytes", (512 << 10) + 1},
                                                 {"bytes", size + 1}}) {
    json args = first;
    args[name] = value;
    EXPECT_EQ(refusal_of(*peer, "node.range", args), Errc::kInvalidRequest) << args;
  }
  json elsewhere = first;
  elsewhere["source"] = "nobody";
  EXPECT_EQ(refusal_of(*peer, "node.range", elsewhere), Errc::kNotFound);
  // Without receipts the daemon has no more than its bound under way.
  int answered = 0;
  while (answered < 100 && refusal_of(*peer, "node.range", first) == Errc::kInternal) ++answered;
  EXPECT_EQ(answered, 16);
  EXPECT_EQ(refusal_of(*peer, "node.range", first), Errc::kRateLimited);
  // The file is another one now.
  fs::rename(model, dir.path() + "/source/old.gguf");
  fs::copy_file(demo_model(), model);
  const auto again = client_of(server, node.key_file());
  EXPECT_EQ(refusal_of(*again, "node.range", first), Errc::kNotFound);
}

}  // namespace
}  // namespace holdfast::process::node_fetch_test
