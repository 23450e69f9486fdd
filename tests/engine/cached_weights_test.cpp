// Goal: a load that finds its packed weights computes the same bits as one that packs them, and a
// load finds nothing that is not whole or not the same. Method: a weight cache server in this
// process, small models from `synth`, engines opened one after the other and next to each other.
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>

#include "ops/model_tools/synth.h"
#include "shared/weight_cache/server.h"
#include "worker/engine/engine.h"

namespace holdfast::engine::cached_weights_test {
namespace {

struct CachedWeights : ::testing::Test {
  std::string folder;
  std::unique_ptr<weight_cache::WeightCacheServer> weight_cache_server;
  std::unique_ptr<weight_cache::Client> client;

  void SetUp() override {
    char name[] = "/tmp/holdfast-kept-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    folder = name;
    weight_cache_server = weight_cache::WeightCacheServer::start({folder + "/images.sock"}).value();
    client = std::make_unique<weight_cache::Client>(folder + "/images.sock");
  }
  void TearDown() override { std::filesystem::remove_all(folder); }

  std::unique_ptr<Engine> open(const std::string& path, const std::string& sha, bool cached,
                               const std::string& kernels = "") {
    EngineOptions options;
    options.threads = 2;
    options.context = 128;
    options.slots = 2;
    options.kernels = kernels;
    options.model_sha = sha;
    options.weight_cache = cached ? client.get() : nullptr;
    auto engine = open_engine(path, options);
    EXPECT_TRUE(engine.has_value()) << engine.error().what;
    return std::move(engine).value();
  }
  static std::vector<std::vector<float>> logits(Engine& engine) {
    std::vector<TokenId> tokens;
    for (TokenId i = 0; i < 40; ++i) tokens.push_back((i * 7) % 90);
    return compute_logits(engine, tokens, {0, 7, 39}, {}).value();
  }
  bool held(std::size_t count) const {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (weight_cache_server->held().entries != count && std::chrono::steady_clock::now() < until)
      usleep(1000);
    return weight_cache_server->held().entries == count;
  }
};

TEST_F(CachedWeights, Logits_WithCachedWeights_HaveTheSameBits) {
  for (const char* type : {"q8_0", "q4_k_m", "f16"}) {
    SCOPED_TRACE(type);
    const std::string path = folder + "/" + type + ".gguf";
    ASSERT_TRUE(cli::synth("test-llama", path, type, 1, {}).has_value());
    const auto alone = open(path, type, false);
    const auto expected = logits(*alone);
    EXPECT_EQ(weight_cache_server->held().entries, 0u);
    auto first = open(path, type, true);
    EXPECT_EQ(first->describe().reason, "");
    EXPECT_EQ(logits(*first), expected);
    ASSERT_TRUE(held(1));
    const auto second = open(path, type, true);
    EXPECT_EQ(second->describe().reason, "weights were packed already");
    EXPECT_EQ(logits(*second), expected);
    first.reset();
    const auto third = open(path, type, true);
    EXPECT_EQ(logits(*third), expected);
    EXPECT_EQ(third->describe().memory.weights, alone->describe().memory.weights);
  }
  EXPECT_TRUE(held(0)) << "unloaded: nobody needs them";
}

TEST_F(CachedWeights, CachedWeights_WhenContentOrKernelFamilyDiffers_AreNotShared) {
  const std::string path = folder + "/m.gguf";
  ASSERT_TRUE(cli::synth("test-llama", path, "q8_0", 1, {}).has_value());
  const auto one = open(path, "sha-1", true);
  const auto other = open(path, "sha-2", true);
  EXPECT_EQ(other->describe().reason, "");
  const auto scalar = open(path, "sha-1", true, "scalar");
  EXPECT_EQ(scalar->describe().reason, "");
  const auto unnamed = open(path, "", true);  // a file that nobody hashed
  EXPECT_EQ(unnamed->describe().reason, "");
  EXPECT_TRUE(held(3));
}

}  // namespace
}  // namespace holdfast::engine::cached_weights_test
