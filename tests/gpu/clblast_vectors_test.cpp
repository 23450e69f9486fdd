// Goal: a load with kernels `clblast` makes vectors whose bits do not depend on what is computed
// next to them, that are those of our own kernels but for rounding, and no text.
// Method: tiny models of several architectures: a text alone, in chunks, with others before and
// after it, in every order; the engine, and a server, whose worker is confined.

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "ops/model_tools/synth_family.h"
#include "tests/gpu/dense_device.h"
#include "tests/process/test_server.h"
#include "worker/backend/opencl/device/limits.h"
#include "worker/engine/engine.h"

namespace holdfast::clblast_vectors_test {
namespace {

using backend::Wants;

/// The most that sums in another order may change of a vector, by 2-norm: a layer's rounding errors
/// are some 1e-7 of its values, and the next layers pass them on. Routers pass on more: a text's
/// experts may be others where their scores are nearly equal; these models' are not.
constexpr double kRoundingMost = 1e-5;

RunOptions with_clblast() {
  RunOptions options = gpu::on_device_uncached();
  options.kernels = "clblast";
  options.kv = "f32";    // a half in another direction would be more than the sums' rounding
  options.context = 80;  // some models have no more positions
  return options;
}

std::unique_ptr<backend::Executor> load(const FamilyModel& m, const RunOptions& options) {
  backend::LoadOptions o = load_options(m, options);
  o.limits.batch_segments = 3;
  o.limits.batch_tokens = 3 * static_cast<std::int32_t>(m.tokens.size());
  o.limits.pages = 32;
  auto executor = backend::load(options.device, m.program, o);
  EXPECT_TRUE(executor.has_value()) << executor.error().what;
  return executor.has_value() ? std::move(executor).value() : nullptr;
}

/// A text of the model's tokens from `first` on, in pages and a state of its own.
struct Text {
  std::int32_t first, n, page;
};

/// The outputs of the texts' tokens, in the order of `texts`, of one batch in the order of `order`.
std::vector<std::vector<float>> outputs(backend::Executor& executor, const FamilyModel& m,
                                        const std::vector<Text>& texts,
                                        const std::vector<std::size_t>& order) {
  const std::int32_t pages[][3] = {{0, 1, 2}, {3, 4, 5}, {6, 7, 8}};
  backend::Batch batch;
  for (const std::size_t i : order) {
    const Text& text = texts[i];
    backend::Segment segment{m.tokens.data() + text.first, text.n, 0, pages[text.page]};
    segment.wants = Wants::hidden();
    segment.states.at = text.page;
    batch.segments.push_back(segment);
  }
  const std::uint64_t taken = executor.counters().allocations;
  const auto result = executor.forward(batch);
  EXPECT_TRUE(result.has_value()) << result.error().what;
  EXPECT_EQ(executor.counters().allocations, taken);
  std::vector<std::vector<float>> out(texts.size());
  std::int32_t token = 0;
  for (const std::size_t i : order) {
    for (std::int32_t t = 0; result.has_value() && t < texts[i].n; ++t) {
      const float* row = result->hidden(token++);
      out[i].insert(out[i].end(), row, row + m.width());
    }
  }
  return out;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return !a.empty() && a.size() == b.size() &&
         std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

double difference(const std::vector<float>& a, const std::vector<float>& b) {
  double error = 0, norm = 0;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    const double d = static_cast<double>(a[i]) - static_cast<double>(b[i]);
    error += d * d;
    norm += static_cast<double>(b[i]) * static_cast<double>(b[i]);
  }
  return a.size() == b.size() ? std::sqrt(error / norm) : 1e9;
}

// Texts of 1, 60 and 70 tokens: blocks of rows that are full, and that begin in the middle of one.
TEST(GpuClblastVectors, Vectors_WhateverIsNextToThem_HaveTheSameBits) {
  HOLDFAST_NEEDS_CLBLAST();
  static_assert(opencl::kDenseRows == 64, "the lengths of the texts");
  const std::pair<const char*, const char*> models[] = {{"llama", "q4_k_m"}, {"qwen3", "q8_0"},
                                                        {"gemma2", "q4_0"},  {"gpt2", "f16"},
                                                        {"bert", "q5_1"},    {"qwen2moe", "q8_0"}};
  for (const auto& [architecture, type] : models) {
    const FamilyModel m = make_family(architecture, 4, 140, type);
    const auto executor = load(m, with_clblast());
    ASSERT_NE(executor, nullptr);
    const std::vector<Text> texts = {{0, 60, 0}, {60, 1, 1}, {65, 70, 2}};
    std::vector<std::vector<float>> alone;
    for (std::size_t i = 0; i < texts.size(); ++i) {
      alone.push_back(outputs(*executor, m, texts, {i})[i]);
    }
    std::vector<std::size_t> order = {0, 1, 2};
    do {
      const auto together = outputs(*executor, m, texts, order);
      for (std::size_t i = 0; i < texts.size(); ++i) {
        EXPECT_TRUE(same_bits(together[i], alone[i]))
            << architecture << " text " << i << " in order " << order[0] << order[1] << order[2];
      }
    } while (std::next_permutation(order.begin(), order.end()));
    RunOptions ours = with_clblast();
    ours.kernels = "t0";
    const auto plain = load(m, ours);
    ASSERT_NE(plain, nullptr);
    const double error = difference(alone[2], outputs(*plain, m, texts, {2})[2]);
    std::printf("%-9s %-7s differs by %.1e from our kernels\n", architecture, type, error);
    EXPECT_LT(error, kRoundingMost) << architecture;
    EXPECT_GT(error, 0) << architecture << ": CLBlast multiplied nothing";
  }
}

// A causal model's prompt in parts: each part's rows lie elsewhere in a block.
TEST(GpuClblastVectors, Vectors_InChunks_HaveTheSameBits) {
  HOLDFAST_NEEDS_CLBLAST();
  const FamilyModel m = make_family("llama", 0, 140, "q8_0");
  RunOptions options = with_clblast();
  options.context = 140;
  const auto executor = load(m, options);
  ASSERT_NE(executor, nullptr);
  const std::vector<float> whole = outputs(*executor, m, {{0, 140, 0}}, {0})[0];
  const std::int32_t pages[] = {3, 4, 5};
  for (const std::int32_t chunk : {1, 7, 65}) {
    std::vector<float> all;
    for (std::int32_t at = 0; at < 140; at += chunk) {
      backend::Segment segment{m.tokens.data() + at, std::min(chunk, 140 - at), at, pages};
      segment.wants = Wants::hidden();
      const auto result = executor->forward({{segment}});
      ASSERT_TRUE(result.has_value()) << result.error().what;
      for (std::int32_t t = 0; t < segment.n; ++t) {
        all.insert(all.end(), result->hidden(t), result->hidden(t) + m.width());
      }
    }
    EXPECT_TRUE(same_bits(all, whole)) << chunk;
  }
}

TEST(GpuClblastVectors, Load_WithClblast_NamesItInItsClassAndGivesNoLogits) {
  HOLDFAST_NEEDS_CLBLAST();
  const FamilyModel m = make_family("llama", 0, 20, "q8_0");
  const auto executor = load(m, with_clblast());
  ASSERT_NE(executor, nullptr);
  const std::string prefix = executor->capabilities().class_prefix;
  EXPECT_EQ(prefix.rfind("opencl/clblast-" + opencl::clblast_version().value() + ".", 0), 0u)
      << prefix;
  const std::int32_t page = 0;
  for (const Wants& wants : {Wants::logits(1), Wants::greatest(1), Wants::deferred_logits()}) {
    const auto refused = executor->forward({{{m.tokens.data(), 3, 0, &page, wants}}});
    ASSERT_FALSE(refused.has_value());
    EXPECT_EQ(refused.error().code, Errc::kUnsupported);
    EXPECT_NE(refused.error().what.find("load the model without --kernels clblast"),
              std::string::npos)
        << refused.error().what;
  }
  EXPECT_TRUE(executor->forward({{{m.tokens.data(), 3, 0, &page, Wants::hidden()}}}).has_value());
}

TEST(GpuClblastVectors, Load_OverSeveralDevices_IsRefused) {
  HOLDFAST_NEEDS_CLBLAST();
  const FamilyModel m = make_family("llama", 0, 20, "q8_0");
  RunOptions options = with_clblast();
  const std::string number = options.device.substr(options.device.find(':') + 1);
  for (const std::string more : {"+cpu", "+", ","}) {
    options.device = gpu::device() + more + (more == "+cpu" ? "" : number);
    const auto refused = backend::load(options.device, m.program, load_options(m, options));
    ASSERT_FALSE(refused.has_value()) << options.device;
    EXPECT_EQ(refused.error().code, Errc::kUnsupported);
    EXPECT_NE(refused.error().what.find("kernels clblast run on one device"), std::string::npos)
        << refused.error().what;
  }
}

/// A model file that the destructor removes.
struct ModelFile {
  explicit ModelFile(const char* architecture)
      : path((std::filesystem::temp_directory_path() /
              ("holdfast-clblast-" + std::to_string(::getpid()) + ".gguf"))
                 .string()) {
    EXPECT_TRUE(cli::synth_family(architecture, path, "q8_0", 3).has_value());
  }
  ~ModelFile() { std::filesystem::remove(path); }
  ModelFile(const ModelFile&) = delete;
  ModelFile& operator=(const ModelFile&) = delete;
  const std::string path;
};

/// The vectors of all texts, which an engine with so many slots makes.
std::vector<std::vector<float>> vectors(const std::string& path, std::int32_t slots,
                                        const std::vector<std::vector<engine::TokenId>>& texts) {
  engine::EngineOptions options;
  options.device = gpu::device();
  options.kernels = "clblast";
  options.slots = slots;
  options.prefill_chunk = 50;
  const auto engine = engine::open_engine(path, options);
  EXPECT_TRUE(engine.has_value()) << engine.error().what;
  std::vector<std::vector<float>> out(texts.size());
  for (std::size_t added = 0, done = 0; engine.has_value() && done < texts.size();) {
    while (added < texts.size() && added - done < static_cast<std::size_t>(slots)) {
      engine::EmbedSpec spec;
      spec.key = added;
      spec.tokens = texts[added++];
      EXPECT_TRUE((*engine)->add_embedding(spec).has_value());
    }
    for (const engine::Produced& p : (*engine)->step()) {
      EXPECT_EQ(p.finish, wire::FinishReason::kStop) << p.error.what;
      out[p.key] = p.embedding;
      ++done;
    }
  }
  return out;
}

TEST(GpuClblastVectors, Engine_WithOneOrManySlots_MakesTheSameVectors) {
  HOLDFAST_NEEDS_CLBLAST();
  for (const char* architecture : {"qwen3", "bert"}) {
    const ModelFile file(architecture);
    std::vector<std::vector<engine::TokenId>> texts;
    for (int i = 0; i < 7; ++i) {
      texts.emplace_back();
      for (int t = 0; t < 1 + i * 11; ++t) texts.back().push_back((t * 31 + i) % 97);
    }
    const auto one = vectors(file.path, 1, texts), many = vectors(file.path, 4, texts);
    for (std::size_t i = 0; i < texts.size(); ++i) {
      EXPECT_TRUE(same_bits(one[i], many[i])) << architecture << " " << i;
    }
  }
}

TEST(GpuClblastVectors, Engine_WhenTextIsRequested_RefusesIt) {
  HOLDFAST_NEEDS_CLBLAST();
  const ModelFile file("llama");
  engine::EngineOptions options;
  options.device = gpu::device();
  options.kernels = "clblast";
  const auto engine = engine::open_engine(file.path, options);
  ASSERT_TRUE(engine.has_value()) << engine.error().what;
  engine::SequenceSpec spec;
  spec.key = 5;
  spec.prompt = {1, 2, 3};
  spec.max_tokens = 4;
  const auto refused = (*engine)->add(spec);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, Errc::kUnsupported);
  EXPECT_NE(refused.error().what.find("load the model without --kernels clblast to generate"),
            std::string::npos)
      << refused.error().what;
  EXPECT_TRUE((*engine)->idle());
}

// Its worker is confined: it opens the library and compiles kernels all the same.
TEST(GpuClblastVectors, Server_WithClblast_ServesVectorsAndRefusesText) {
  HOLDFAST_NEEDS_CLBLAST();
  const process::TempDir dir;
  process::TestServer server(dir.path() + "/state");
  ASSERT_TRUE(server.start({"--device", gpu::device(), "--kernels", "clblast", "--model",
                            "demo=" + process::demo_model()}))
      << server.errors();
  const auto vector_of = [&](const std::string& text) {
    const process::Ended ended =
        process::run_program({"holdfast", "--json", "--url", server.url(), "embed", "demo", text});
    EXPECT_EQ(ended.code, 0) << ended.err << server.errors();
    const auto document = nlohmann::json::parse(ended.out, nullptr, false);
    return document.is_object() ? document.at("data").at(0).at("embedding").dump() : "";
  };
  const std::string first = vector_of("to be or not to be");
  EXPECT_GT(first.size(), 100u) << first;
  EXPECT_EQ(vector_of("to be or not to be"), first);
  EXPECT_NE(vector_of("that is the question"), first);
  const auto client = server.client();
  const auto refused = process::submit_and_stream(*client, process::make_submit("Romeo", 8, 1));
  EXPECT_EQ(refused.failure, "");
  EXPECT_TRUE(refused.ids.empty());
  EXPECT_EQ(refused.info.state, wire::RequestState::kFailed);
  ASSERT_EQ(refused.info.choices.size(), 1u);
  const wire::ChoiceInfo& choice = refused.info.choices[0];
  EXPECT_EQ(choice.error_code, "unsupported");
  EXPECT_NE(choice.error.find("load the model without --kernels clblast"), std::string::npos)
      << choice.error;
  EXPECT_EQ(server.restarts_of("worker-0"), 0);
  EXPECT_EQ(server.stop(), 0) << server.errors();
}

}  // namespace
}  // namespace holdfast::clblast_vectors_test
