// Goal: models of other programs are found by their names there and served where they lie. Method:
// stores made as those programs make them, the real CLI.
#include "ops/serve/other_stores.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/process/model_hub.h"
#include "tests/process/test_server.h"

namespace holdfast::process::other_stores_test {
namespace {

namespace fs = std::filesystem;
using cli::find_stored_model;
using nlohmann::json;

/// Stores of the three programs below a folder that is the home folder for the test.
class OtherStores : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"HF_HUB_CACHE", "HF_HOME", "OLLAMA_MODELS"}) unsetenv(name);
    home_ = std::getenv("HOME") == nullptr ? "" : std::getenv("HOME");
    setenv("HOME", dir_.path().c_str(), 1);
    model_ = read_file(demo_model());
    write(".cache/huggingface/hub/models--org--Demo-GGUF/refs/main", "abc123");
    const std::string snapshot = ".cache/huggingface/hub/models--org--Demo-GGUF/snapshots/abc123/";
    write(snapshot + "demo-Q8_0.gguf", model_);
    write(snapshot + "demo-Q4_K_M.gguf", "GGUF of another type");
    const std::string hash = sha256_text(model_);
    write(".ollama/models/blobs/sha256-" + hash, model_);
    write(".ollama/models/manifests/registry.ollama.ai/library/demo/1b", manifest({hash}));
    write(".ollama/models/manifests/registry.ollama.ai/library/parts/latest",
          manifest({hash, hash}));
    write(".lmstudio/models/pub/demo/demo-Q8_0.gguf", model_);
  }
  void TearDown() override { setenv("HOME", home_.c_str(), 1); }

  void write(const std::string& name, const std::string& bytes) const {
    fs::create_directories(fs::path(dir_.path() + "/" + name).parent_path());
    dir_.write(name, bytes);
  }
  static std::string manifest(const std::vector<std::string>& hashes) {
    json layers = json::array();
    for (const std::string& hash : hashes) {
      layers.push_back(
          {{"mediaType", "application/vnd.ollama.image.model"}, {"digest", "sha256:" + hash}});
    }
    return json{{"layers", layers}}.dump();
  }

  TempDir dir_;
  std::string home_, model_;
};

TEST_F(OtherStores, Model_ByItsNameThere_IsServedWhereItLies) {
  TestServer server(dir_.path() + "/s");
  ASSERT_TRUE(server.start({"--http", "none", "--model", "l=lmstudio:pub/demo"}))
      << server.errors();
  for (const char* source : {"hf:org/Demo-GGUF:Q8_0", "ollama:demo:1b"}) {
    const std::string name = std::string(source).substr(0, 2);
    const Ended added = server.cli({"models", "add", name, source, "--load"});
    EXPECT_EQ(added.code, 0) << source << added.err;
    const json model = json::parse(server.cli({"--json", "models", "show", name}).out);
    EXPECT_TRUE(model.value("path", "").starts_with(dir_.path())) << model.dump(1);
    EXPECT_EQ(server.cli({"run", name, "To be", "--max-tokens", "2", "--raw"}).code, 0);
  }
  const json found = json::parse(server.cli({"--json", "models", "found"}).out)["models"];
  std::vector<std::string> sources;
  for (const json& model : found) sources.push_back(model["source"]);
  EXPECT_EQ(sources,
            (std::vector<std::string>{"hf:org/Demo-GGUF", "lmstudio:pub/demo", "ollama:demo:1b"}));
}

TEST_F(OtherStores, OllamasModel_WithOtherLayers_BringsThemAlong) {
  const auto layer = [&](const std::string& part, const std::string& bytes) {
    const std::string hash = sha256_text(bytes);
    write(".ollama/models/blobs/sha256-" + hash, bytes);
    return json{{"mediaType", "application/vnd.ollama.image." + part},
                {"digest", "sha256:" + hash}};
  };
  const json layers = {layer("model", model_),
                       layer("template", "{{ html .Prompt }}"),
                       layer("params", R"({"temperature":0.5,"num_ctx":64,"stop":["Z"]})"),
                       layer("system", "Arr"),
                       layer("license", std::string(200'000, 'x')),
                       json{{"mediaType", "application/vnd.ollama.image.messages"},
                            {"digest", "sha256:../../../etc/passwd"}}};
  write(".ollama/models/manifests/registry.ollama.ai/library/whole/latest",
        json{{"layers", layers}}.dump());
  TestServer server(dir_.path() + "/s");
  ASSERT_TRUE(server.start({"--http", "none", "--model", "s=ollama:whole"})) << server.errors();
  const json served = json::parse(server.cli({"--json", "models", "show", "s"}).out);
  EXPECT_EQ(served["profile"]["system"], "Arr");
  EXPECT_EQ(served["context"], 64);
  const Ended added = server.cli({"models", "add", "w", "ollama:whole", "--system", "Own"});
  ASSERT_EQ(added.code, 0) << added.err;
  for (const char* word : {"taken over: system, parameter num_ctx, parameters", "function html",
                           "license: it cannot be read, or is too large", "messages: it cannot"}) {
    EXPECT_NE(added.out.find(word), std::string::npos) << added.out;
  }
  const json model = json::parse(server.cli({"--json", "models", "show", "w"}).out);
  EXPECT_EQ(model["profile"],
            json::parse(R"({"system":"Own","parameters":{"temperature":0.5,"stop":["Z"]}})"));
  EXPECT_EQ(model["context"], 64);
}

TEST_F(OtherStores, Name_ThatIsNotThereOrOdd_IsRefusedWithTheFolders) {
  const auto code = [](const char* text) {
    const auto path = find_stored_model(text);
    return path ? "found " + *path : std::string(errc_name(path.error().code));
  };
  EXPECT_EQ(code("hf:org/nothing"), "not_found");
  EXPECT_EQ(code("hf:org/Demo-GGUF:Q5_K_M"), "not_found");
  EXPECT_EQ(code("hf:../../etc"), "usage");
  EXPECT_EQ(code("ollama:demo:7b"), "not_found");
  EXPECT_EQ(code("ollama:../x"), "usage");
  EXPECT_EQ(code("ollama:parts"), "unsupported") << "several layers of weights";
  EXPECT_EQ(code("lmstudio:../.."), "usage");
  EXPECT_EQ(code("lmstudio:pub/none"), "not_found");
  setenv("HF_HUB_CACHE", "/nowhere", 1);
  EXPECT_EQ(code("hf:org/Demo-GGUF:Q8_0"), "not_found") << "the variable names another cache";
  unsetenv("HF_HUB_CACHE");
  EXPECT_NE(find_stored_model("ollama:demo:7b").error().what.find(".ollama/models"),
            std::string::npos);
}

}  // namespace
}  // namespace holdfast::process::other_stores_test
