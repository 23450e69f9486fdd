// Goal: a pull ends once with the file's hash right, whatever dies and however often, fetches
// hardly a byte twice, and trusts no hub. Method: real processes, a hub and a registry on loopback
// with faults (model_hub.h), the demo model as the file.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "tests/process/model_hub.h"
#include "tests/process/small_disk.h"
#include "tests/process/test_server.h"

namespace holdfast::process::pull_test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using std::chrono::milliseconds;

const char* const kRepository = "org/Demo-GGUF";
const char* const kHubFile = "demo-Q8_0.gguf";

/// A hub with the demo model, and a server that pulls from it.
class Pull : public testing::Test {
 protected:
  void SetUp() override {
    model_ = read_file(demo_model());
    hub_.put(kRepository, kHubFile, model_);
    setenv("HF_ENDPOINT", hub_.url().c_str(), 1);
  }
  void TearDown() override { unsetenv("HF_ENDPOINT"); }

  bool start() { return server_.start({"--http", "127.0.0.1:0"}); }
  std::string hub_source() const { return std::string("hf.co/") + kRepository + ":Q8_0"; }

  json pull(const std::string& name) {
    const Ended answer = server_.cli({"--json", "jobs", "show", name});
    return answer.code == 0 ? json::parse(answer.out) : json::object();
  }
  /// Waits until the pull has ended. Its document.
  json wait_for_end(const std::string& name, int patience_s = 120) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(patience_s);
    while (std::chrono::steady_clock::now() < end) {
      json now = pull(name);
      const std::string state = now.value("state", "");
      if (state == "done" || state == "failed" || state == "cancelled") return now;
      std::this_thread::sleep_for(milliseconds(100));
    }
    return pull(name);
  }
  void expect_whole(const json& pulled) {
    ASSERT_EQ(pulled.value("state", ""), "done") << pulled.dump(1) << server_.errors();
    const std::string path = pulled.value("path", "");
    EXPECT_EQ(sha256_text(read_file(path)), sha256_text(model_));
    EXPECT_FALSE(fs::exists(path + ".part"));
    const Ended models = server_.cli({"--json", "models", "show", pulled.value("name", "")});
    EXPECT_EQ(json::parse(models.out).value("path", ""), path);
  }
  /// Files below the folder of models that are no lock.
  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::recursive_directory_iterator(dir_.path() + "/s/models")) {
      const std::string name = entry.path().filename().string();
      if (entry.is_regular_file() && name != ".lock") names.push_back(name);
    }
    return names;
  }

  TempDir dir_;
  ModelHub hub_;
  std::string model_;
  TestServer server_{dir_.path() + "/s"};
};

TEST_F(Pull, Source_OfEachKind_IsVerifiedAndRegistered) {
  ASSERT_TRUE(start()) << server_.errors();
  const std::string sources[] = {
      hub_source(), hub_.url() + "/files/" + kHubFile + "#sha256=" + sha256_text(model_),
      "ollama://" + hub_.host() + "/" + kRepository, "oci://" + hub_.host() + "/" + kRepository};
  const std::string text =
      server_
          .cli({"run", demo_model(), "To be", "--max-tokens", "8", "--temperature", "0", "--raw"})
          .out;
  int number = 0;
  for (const std::string& source : sources) {
    const std::string name = "m" + std::to_string(number++);
    const Ended ended = server_.cli({"pull", source, "--as", name, "--load"});
    EXPECT_EQ(ended.code, 0) << source << ended.err << server_.errors();
    expect_whole(pull(name));
    const Ended answer =
        server_.cli({"run", name, "To be", "--max-tokens", "8", "--temperature", "0", "--raw"});
    EXPECT_EQ(answer.out, text) << answer.err;
  }
  // Ollama's model brings its template and the like along, the bare layer of OCI does not.
  const json model = json::parse(server_.cli({"--json", "models", "show", "m2"}).out);
  EXPECT_EQ(model["profile"]["system"], "Arr") << model.dump(1);
  EXPECT_EQ(model["profile"]["parameters"], json::parse(R"({"temperature":0.5})"));
  EXPECT_NE(model["profile"]["template"].get<std::string>().find("{%"), std::string::npos);
  EXPECT_EQ(pull("m2")["note"],
            "taken over: template, system, parameters; left out: parameter num_gpu: has no effect "
            "here");
  EXPECT_FALSE(
      json::parse(server_.cli({"--json", "models", "show", "m3"}).out).contains("profile"));
}

TEST_F(Pull, Folder_OfTheHub_IsPulledWhole) {
  ASSERT_TRUE(start()) << server_.errors();
  hub_.put("org/folder", "config.json", R"({"architectures":["LlamaForCausalLM"]})");
  hub_.put("org/folder", "model.safetensors", std::string(100'000, 'x'));
  hub_.put("org/folder", "README.md", "not this");
  const Ended ended = server_.cli({"pull", "hf.co/org/folder"});
  const json pulled = pull("folder");
  // All files came and their hashes, of both kinds, were right; the daemon then read the folder.
  EXPECT_EQ(pulled["files"].size(), 2u) << pulled.dump(1);
  for (const json& file : pulled["files"]) EXPECT_TRUE(file["done"].get<bool>()) << file.dump();
  EXPECT_EQ(pulled.value("error_code", ""), "unsupported") << pulled.dump(1);
  EXPECT_NE(pulled.value("error", "").find("model_type"), std::string::npos);
  EXPECT_EQ(ended.code, 1);
}

/// The process that a kill hits.
enum class Victim : int { kFetcher, kDaemon, kSupervisor, kClient, kHub, kCount };

TEST_F(Pull, ProcessesAndHub_KilledAtRandomMoments_LeaveTheFileWholeAndFetchItOnce) {
  const bool full = std::getenv("HOLDFAST_TEST_FULL") != nullptr;
  const int rounds = full ? 10 : 1;
  constexpr int kKills = 5;
  std::mt19937 random(20261128);
  hub_.set_faults({.bytes_s = 1'200'000});  // so slow that nothing waits in sockets
  std::int64_t fetched = 0;
  int kills = 0;
  for (int round = 0; round < rounds; ++round) {
    if (round == 0) {
      ASSERT_TRUE(start()) << server_.errors();
    }
    const std::string name = "m" + std::to_string(round);
    const std::int64_t before = hub_.bytes_sent();
    // Each round of another length, so that it is another file for the disk.
    std::string bytes = model_;
    const std::string repository = "org/Demo" + std::to_string(round) + "-GGUF";
    hub_.put(repository, kHubFile, bytes);
    const Ended started =
        server_.cli({"pull", "hf.co/" + repository + ":Q8_0", "--as", name, "--no-wait"});
    ASSERT_EQ(started.code, 0) << started.err;
    for (int kill = 0; kill < kKills; ++kill) {
      std::this_thread::sleep_for(milliseconds(100 + random() % 700));
      ++kills;
      switch (static_cast<Victim>(kill % static_cast<int>(Victim::kCount))) {
        case Victim::kFetcher:
          server_.kill_child("fetcher");
          break;
        case Victim::kDaemon:
          server_.kill_child("daemon");
          break;
        case Victim::kSupervisor:
          server_.kill_supervisor();
          ASSERT_TRUE(start()) << server_.errors();
          break;
        case Victim::kClient:
          run_program({"/usr/bin/timeout", "-s", "KILL", "0.3",
                       std::string(HOLDFAST_BIN_DIR) + "/holdfast", "--state", server_.state(),
                       "jobs", "tail", name});
          break;
        default:
          hub_.stop();
          std::this_thread::sleep_for(milliseconds(200));
          hub_.restart();
      }
    }
    const json pulled = wait_for_end(name);
    ASSERT_NO_FATAL_FAILURE(expect_whole(pulled));
    fetched += hub_.bytes_sent() - before;
  }
  const double ratio = static_cast<double>(fetched) / (static_cast<double>(model_.size()) * rounds);
  std::printf("%d kills, %.3f bytes sent a byte of the file\n", kills, ratio);
  EXPECT_LE(ratio, 1.05) << "all that was on the disk was used";
}

TEST_F(Pull, CrashPoint_OfTheFetcher_ChangesNothingOfTheEnd) {
  for (const char* point : {"fetcher.bytes.written:20", "fetcher.file.verified",
                            "fetcher.file.named", "fetcher.downloaded", "fetcher.registered"}) {
    TempDir own;
    const std::string file = own.path() + "/crash";
    own.write("crash.fetcher", point);
    setenv("HOLDFAST_CRASH_AT", ("@" + file).c_str(), 1);
    TestServer server(own.path() + "/s");
    const bool up = server.start({"--http", "none"});
    unsetenv("HOLDFAST_CRASH_AT");
    ASSERT_TRUE(up) << server.errors();
    const Ended ended = server.cli({"--json", "pull", hub_source(), "--as", "m"});
    ASSERT_EQ(ended.code, 0) << point << ended.err << server.errors();
    EXPECT_TRUE(fs::exists(file + ".fired")) << point;
    const json pulled = json::parse(ended.out);
    EXPECT_EQ(sha256_text(read_file(pulled.value("path", ""))), sha256_text(model_)) << point;
    EXPECT_EQ(json::parse(server.cli({"--json", "models", "list"}).out)["models"].size(), 1u);
  }
}

TEST_F(Pull, Hub_ThatLies_IsRefusedAndLeavesNothing) {
  ASSERT_TRUE(start()) << server_.errors();
  const auto refused = [&](const HubFaults& faults, const std::string& code) {
    hub_.set_faults(faults);
    const Ended ended = server_.cli({"--json", "pull", hub_source(), "--as", "lie"});
    EXPECT_NE(ended.code, 0) << ended.out;
    const json pulled = pull("lie");
    EXPECT_EQ(pulled.value("error_code", ""), code) << pulled.dump(1);
    EXPECT_TRUE(files().empty()) << files().front();
    EXPECT_EQ(server_.cli({"models", "show", "lie"}).code, 3);
  };
  refused({.other_bytes = true}, "file_invalid");
  refused({.more_bytes = true}, "file_invalid");
  refused({.bad_names = true}, "invalid_request");
  refused({.no_hash = true}, "invalid_request");
  refused({.status = 404}, "not_found");
  refused({.status = 403}, "unauthorized");
  refused({.wants_token = true}, "unauthorized");
  hub_.set_faults({.token_for_tokens = true});
  EXPECT_NE(server_.cli({"pull", "oci://" + hub_.host() + "/" + kRepository, "--as", "lie"}).code,
            0);
  EXPECT_EQ(pull("lie").value("error_code", ""), "unauthorized") << "and not asked without end";
  // Bytes that a crafted header has are read by the header reader alone, and refused by it.
  hub_.set_faults({});
  hub_.put(kRepository, kHubFile, "GGUF" + std::string(4'000, '\xff'));
  EXPECT_EQ(server_.cli({"pull", hub_source(), "--as", "lie"}).code, 1);
  EXPECT_EQ(pull("lie").value("error_code", ""), "unsupported") << pull("lie").dump(1);
  EXPECT_EQ(server_.cli({"models", "show", "lie"}).code, 3);
}

TEST_F(Pull, Folder_OutsideOfTheModelsRoots_IsRefusedBeforeAByte) {
  ASSERT_TRUE(server_.start({"--http", "none", "--config", "models.roots=/nowhere"}))
      << server_.errors();
  EXPECT_NE(server_.cli({"pull", hub_source(), "--as", "m"}).code, 0);
  EXPECT_EQ(pull("m").value("error_code", ""), "unauthorized") << pull("m").dump(1);
  EXPECT_EQ(hub_.requests(), 0);
}

TEST_F(Pull, Token_OfTheEnvironment_GoesToTheHubAlone) {
  setenv("HF_TOKEN", "hub-token", 1);
  const bool up = start();
  unsetenv("HF_TOKEN");
  ASSERT_TRUE(up) << server_.errors();
  hub_.set_faults({.wants_token = true});  // its content network refuses whoever brings one
  const Ended ended = server_.cli({"pull", hub_source(), "--as", "m"});
  EXPECT_EQ(ended.code, 0) << ended.err;
  expect_whole(pull("m"));
  EXPECT_EQ(server_.cli({"--json", "jobs", "show", "m"}).out.find("hub-token"), std::string::npos);
}

TEST_F(Pull, Network_ThatIsFlaky_IsTriedAgainFromWhereItWas) {
  ASSERT_TRUE(start()) << server_.errors();
  hub_.set_faults({.drop_after = 1'600'000});
  const Ended ended = server_.cli({"pull", hub_source(), "--as", "m"});
  EXPECT_EQ(ended.code, 0) << ended.err;
  expect_whole(pull("m"));
  EXPECT_EQ(pull("m").value("fetched_bytes", 0), static_cast<int>(model_.size()));
  // A server without ranges sends all of it again, and is taken.
  hub_.set_faults({.bytes_s = 2'000'000, .no_ranges = true});
  ASSERT_EQ(server_.cli({"pull", hub_.url() + "/files/" + kHubFile, "--as", "n", "--no-wait"}).code,
            0);
  std::this_thread::sleep_for(milliseconds(800));
  server_.kill_child("fetcher");
  hub_.set_faults({.no_ranges = true});
  expect_whole(wait_for_end("n"));
}

TEST_F(Pull, ManyWaiters_ShareOneDownload_AndCancelEndsIt) {
  ASSERT_TRUE(start()) << server_.errors();
  hub_.set_faults({.bytes_s = 1'500'000});
  std::vector<std::thread> waiters;
  std::atomic<int> done{0};
  for (int i = 0; i < 4; ++i) {
    waiters.emplace_back([&] {
      done += server_.cli({"pull", hub_source(), "--as", "m"}).code == 0;
    });
  }
  std::this_thread::sleep_for(milliseconds(700));
  // The name is taken while another source comes.
  const Ended other = server_.cli({"pull", hub_.url() + "/files/" + kHubFile, "--as", "m"});
  EXPECT_NE(other.code, 0);
  EXPECT_NE(other.err.find("being pulled from"), std::string::npos) << other.err;
  for (std::thread& waiter : waiters) waiter.join();
  EXPECT_EQ(done, 4);
  EXPECT_LE(hub_.bytes_sent(), static_cast<std::int64_t>(model_.size()));
  // A name of a model that was not pulled is not taken from it.
  server_.cli({"models", "add", "mine", demo_model()});
  EXPECT_NE(server_.cli({"pull", hub_source(), "--as", "mine"}).code, 0);

  hub_.put("org/Other-GGUF", "other-Q8_0.gguf", model_ + "x");
  ASSERT_EQ(server_.cli({"pull", "hf.co/org/Other-GGUF", "--as", "c", "--no-wait"}).code, 0);
  std::this_thread::sleep_for(milliseconds(800));
  EXPECT_EQ(server_.cli({"jobs", "cancel", "c"}).code, 0);
  for (int i = 0; i < 100 && files().size() > 1; ++i) std::this_thread::sleep_for(milliseconds(50));
  EXPECT_EQ(files(), std::vector<std::string>{kHubFile})
      << "the part of the cancelled pull is gone";
  EXPECT_EQ(pull("c").value("state", ""), "cancelled");
  EXPECT_EQ(server_.cli({"jobs", "cancel", "nobody"}).code, 3);
}

TEST_F(Pull, TwoNames_OfOneSource_AreOneFileAndOneDownload) {
  ASSERT_TRUE(start()) << server_.errors();
  hub_.set_faults({.bytes_s = 3'000'000});
  ASSERT_EQ(server_.cli({"pull", hub_source(), "--as", "one", "--no-wait"}).code, 0);
  ASSERT_EQ(server_.cli({"pull", hub_source(), "--as", "two", "--no-wait"}).code, 0);
  ASSERT_EQ(server_.cli({"pull", hub_source(), "--as", "three", "--no-wait"}).code, 0);
  EXPECT_EQ(server_.cli({"jobs", "cancel", "three"}).code, 0);
  const json one = wait_for_end("one");
  const json two = wait_for_end("two");
  expect_whole(one);
  expect_whole(two);
  EXPECT_EQ(one["path"], two["path"]);
  const auto fetched =
      one.value("fetched_bytes", std::int64_t{0}) + two.value("fetched_bytes", std::int64_t{0});
  EXPECT_LE(fetched, static_cast<std::int64_t>(model_.size()));
}

TEST_F(Pull, Disk_ThatIsFull_IsToldWithNumbersAndUsedWhenThereIsSpace) {
  const SmallDisk disk(dir_.path() + "/disk", "24m");
  if (!disk.why_not().empty()) GTEST_SKIP() << disk.why_not();
  TestServer server(disk.path() + "/s");
  ASSERT_TRUE(server.start({"--http", "none"})) << server.errors();
  disk.fill(2 << 20);
  ASSERT_EQ(server.cli({"pull", hub_source(), "--as", "m", "--no-wait"}).code, 0);
  json now = json::object();
  for (int i = 0; i < 200 && now.value("error_code", "") != "disk_full"; ++i) {
    std::this_thread::sleep_for(milliseconds(50));
    const Ended answer = server.cli({"--json", "jobs", "show", "m"});
    if (answer.code == 0) now = json::parse(answer.out);
  }
  EXPECT_EQ(now.value("state", ""), "waiting") << now.dump(1) << server.errors();
  EXPECT_NE(now.value("error", "").find("MiB are needed"), std::string::npos) << now.dump(1);
  EXPECT_EQ(hub_.bytes_sent(), 0) << "room is taken before the first byte";
  disk.free();
  const Ended ended = server.cli({"--json", "jobs", "tail", "m"});
  ASSERT_EQ(ended.code, 0) << ended.err;
  EXPECT_EQ(sha256_text(read_file(json::parse(ended.out).value("path", ""))), sha256_text(model_));
}

TEST_F(Pull, Command_WithoutADaemon_StartsOneForTheTime) {
  const std::string state = dir_.path() + "/alone";
  const std::string program = std::string(HOLDFAST_BIN_DIR) + "/holdfast";
  const Ended ended = run_program({program, "--state", state, "pull", hub_source(), "--as", "m"});
  EXPECT_EQ(ended.code, 0) << ended.err;
  const Ended models = run_program({program, "--json", "--state", state, "models", "list"});
  EXPECT_NE(models.out.find("\"m\""), std::string::npos) << models.out;
  EXPECT_EQ(run_program({program, "--state", state, "pull", "nothing"}).code, 2);
}

TEST_F(Pull, OllamasApi_PullsWithLinesOfProgress) {
  ASSERT_TRUE(start()) << server_.errors();
  hub_.set_faults({.bytes_s = 4'000'000});
  const std::string name = hub_.host() + "/" + kRepository;
  const Ended whole = run_program(
      {"/usr/bin/curl", "-sN", server_.url() + "/api/pull", "-d", json{{"model", name}}.dump()});
  EXPECT_NE(whole.out.find("\"status\":\"pulling " + sha256_text(model_).substr(0, 12)),
            std::string::npos)
      << whole.out;
  EXPECT_NE(whole.out.find("\"total\":" + std::to_string(model_.size())), std::string::npos);
  EXPECT_TRUE(whole.out.ends_with("{\"status\":\"success\"}\n")) << whole.out;
  expect_whole(pull(name));
  const Ended listed = run_program({"/usr/bin/curl", "-s", server_.url() + "/v1/pulls"});
  EXPECT_EQ(json::parse(listed.out)["pulls"].size(), 1u) << listed.out;
  const Ended bad =
      run_program({"/usr/bin/curl", "-s", server_.url() + "/v1/pulls", "-d", R"({"sauce":1})"});
  EXPECT_NE(bad.out.find("source"), std::string::npos) << bad.out;
  // A key of a client pulls nothing.
  const Ended made = server_.cli({"--json", "keys", "create", "c"});
  const std::string key = json::parse(made.out).value("key", "");
  for (const char* path : {"/api/pull", "/v1/pulls"}) {
    const Ended refused =
        run_program({"/usr/bin/curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "-H",
                     "Authorization: Bearer " + key, server_.url() + path, "-d",
                     json{{"model", name}, {"source", hub_source()}}.dump()});
    EXPECT_EQ(refused.out, "403") << path;
  }
}

}  // namespace
}  // namespace holdfast::process::pull_test
