// Goal: a node on another machine gets the file of a model that it lacks over a network that loses
// packets and is cut meanwhile, and serves with it. Method: `holdfast serve` without workers in one
// network namespace, `holdfast node` with an empty root in another one, a limited rate so that
// there is a middle, a cable that is cut in it.
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/cluster/server_machine.h"

namespace holdfast::cluster::fetch_test {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;

constexpr int kNode = 1;
const std::string kModel = HOLDFAST_SOURCE_DIR "/ops/demo/holdfast-demo-Q8_0.gguf";

std::string content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

bool wait_for(const std::function<bool()>& condition) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(kPatienceS);
  while (std::chrono::steady_clock::now() < until) {
    if (condition()) return true;
    std::this_thread::sleep_for(milliseconds(50));
  }
  return false;
}

/// How far the node is with its fetch; an empty object if it has none.
json fetch_of(ServerMachine& server) {
  const json row =
      json::parse(server.cli({"--json", "nodes", "show", "far"}).second, nullptr, false);
  const bool any = row.is_object() && row.contains("fetches") && !row["fetches"].empty();
  return any ? row["fetches"][0] : json::object();
}

TEST(Fetch, Model_OverACableThatLosesPacketsAndIsCut_Arrives) {
  HOLDFAST_MAKE_MACHINES(machines, 2, 31);
  ServerMachine server(*machines);
  ASSERT_NO_FATAL_FAILURE(server.start({"--workers", "0"}));
  const std::string key = machines->dir() + "/far.key", root = machines->dir() + "/root";
  std::filesystem::create_directories(root);
  ASSERT_EQ(server.cli({"keys", "node", "create", "far", "--out", key}).first, 0);
  ASSERT_EQ(server.cli({"config", "set", "nodes.fetch_bytes_s=1000000"}).first, 0);
  ASSERT_TRUE(machines->set_wire(kNode, "loss 10").has_value());
  const auto node = machines->start(
      kNode, {"holdfast", "node", "--state", machines->dir() + "/far", "--join",
              ServerMachine::listener(), "--key", key, "--threads", "1", "--root", root});
  ASSERT_TRUE(node->says("joined far", kPatienceS)) << node->errors();
  const auto added = server.cli({"models", "add", "m", kModel});
  ASSERT_EQ(added.first, 0) << added.second;
  const auto run = server.begin(
      {"run", "m", "To be", "--raw", "--max-tokens", "30", "--seed", "3"});  // waits for the model
  ASSERT_TRUE(wait_for([&] { return fetch_of(server).value("state", "") == "fetching"; }))
      << node->errors();
  ASSERT_TRUE(machines->set_wire(kNode, "cut").has_value());
  std::this_thread::sleep_for(milliseconds(4'000));
  EXPECT_FALSE(std::filesystem::exists(root + "/holdfast-demo-Q8_0.gguf"));
  ASSERT_TRUE(machines->set_wire(kNode, "heal").has_value());
  EXPECT_EQ(run->wait(kPatienceS), 0) << run->errors() << server.errors() << node->errors();
  EXPECT_EQ(content_of(root + "/holdfast-demo-Q8_0.gguf"), content_of(kModel));
  const auto local = machines->start(
      kServer, {"holdfast", "run", kModel, "To be", "--raw", "--max-tokens", "30", "--seed", "3"});
  EXPECT_EQ(local->wait(kPatienceS), 0) << local->errors();
  EXPECT_EQ(run->output(), local->output());
  server.stop();
}

}  // namespace
}  // namespace holdfast::cluster::fetch_test
