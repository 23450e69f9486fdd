// Goal: the vector of a text is what the papers say, for encoders and decoders and each way of
// pooling, and its bits do not depend on chunks, neighbours or a preemption.
// Method: tiny models against the float64 reference; the hashing device for what the engine does.

#include "worker/engine/embedding.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>

#include "ops/model_tools/synth_family.h"
#include "tests/engine/hash_executor.h"
#include "tests/engine/reference_model.h"

namespace holdfast::engine::embedding_test {
namespace {

using plan::Pooling;
constexpr Pooling kAll[] = {Pooling::kNone, Pooling::kMean, Pooling::kCls, Pooling::kLast};

std::vector<TokenId> tokens_of(int n) {
  std::vector<TokenId> out;
  for (int i = 0; i < n; ++i) out.push_back((i * 31 + 5) % 97);
  return out;
}

EmbedSpec spec_of(SequenceKey key, std::vector<TokenId> tokens, std::optional<Pooling> pooling) {
  EmbedSpec spec;
  spec.key = key;
  spec.tokens = std::move(tokens);
  spec.pooling = pooling;
  return spec;
}

/// Steps until the sequence `key` ends.
Produced result_of(Engine& engine, SequenceKey key) {
  while (!engine.idle()) {
    for (const Produced& p : engine.step()) {
      if (p.key == key && p.finish != wire::FinishReason::kNone) return p;
    }
  }
  ADD_FAILURE() << "no result for " << key;
  return {};
}

/// The pooled rows of the reference, of length 1 if requested.
std::vector<double> pooled(const reference::Rows& rows, Pooling pooling, bool normalize) {
  reference::Rows parts;
  if (pooling == Pooling::kNone) parts = rows;
  if (pooling == Pooling::kCls) parts = {rows.front()};
  if (pooling == Pooling::kLast) parts = {rows.back()};
  if (pooling == Pooling::kMean) {
    parts = {reference::Row(rows[0].size(), 0)};
    for (const auto& row : rows) {
      for (std::size_t i = 0; i < row.size(); ++i) {
        parts[0][i] += row[i] / static_cast<double>(rows.size());
      }
    }
  }
  std::vector<double> out;
  for (const auto& row : parts) {
    double squares = 0;
    for (const double v : row) squares += v * v;
    for (const double v : row) out.push_back(normalize ? v / std::sqrt(squares) : v);
  }
  return out;
}

struct Opened {
  std::shared_ptr<const gguf::File> file;
  std::unique_ptr<Engine> engine;
};
Opened open_tiny(const std::string& arch, std::uint64_t seed, std::int32_t threads) {
  const std::string path = (std::filesystem::temp_directory_path() /
                            ("holdfast-embed-" + std::to_string(::getpid()) + ".gguf"))
                               .string();
  EXPECT_TRUE(cli::synth_family(arch, path, "f32", seed).has_value());
  Opened out;
  out.file = gguf::File::open(path).value();
  EngineOptions options;
  options.slots = 4;
  options.threads = threads;
  options.kv_type = "f32";
  options.prefill_chunk = 32;
  auto engine = open_engine(path, options);
  std::filesystem::remove(path);
  EXPECT_TRUE(engine.has_value()) << engine.error().what;
  out.engine = std::move(engine).value();
  return out;
}

TEST(Embedding, Vector_WithEveryPooling_AgreesWithFloat64Reference) {
  for (const char* arch : {"bert", "qwen3", "gemma3", "gpt2"}) {
    for (std::uint64_t seed = 0; seed < 3; ++seed) {
      const Opened o = open_tiny(arch, seed, 2);
      const auto tokens = tokens_of(75);
      reference::Model reference(*o.file, o.engine->describe().context);
      const reference::Rows rows = reference.hidden(tokens);
      for (const Pooling pooling : kAll) {
        EmbedSpec spec = spec_of(1, tokens, pooling);
        spec.normalize = seed % 2 == 0;
        const auto want = pooled(rows, pooling, spec.normalize);
        ASSERT_TRUE(o.engine->add_embedding(spec).has_value());
        const Produced p = result_of(*o.engine, 1);
        ASSERT_EQ(p.embedding.size(), want.size());
        ASSERT_EQ(p.vectors, pooling == Pooling::kNone ? 75 : 1);
        double error = 0, norm = 0;
        for (std::size_t i = 0; i < want.size(); ++i) {
          const double d = static_cast<double>(p.embedding[i]) - want[i];
          error += d * d;
          norm += want[i] * want[i];
        }
        // Attention by AMX tiles leaves out what is below 2^-16 of a number.
        const bool tiles = o.engine->describe().numerics_class.find("amx") != std::string::npos;
        EXPECT_LT(std::sqrt(error / norm), tiles ? 1e-4 : 1e-5) << arch << " " << seed;
      }
    }
  }
}

TEST(Embedding, Pooling_WhenTheRequestNamesNone_IsThatOfTheFile) {
  // synth writes pooling_type (seed + 1) % 4.
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    const Opened o = open_tiny("bert", seed, 1);
    const auto named = static_cast<Pooling>((seed + 1) % 4);
    ASSERT_TRUE(o.engine->add_embedding(spec_of(1, tokens_of(9), {})).has_value());
    const Produced by_file = result_of(*o.engine, 1);
    ASSERT_TRUE(o.engine->add_embedding(spec_of(2, tokens_of(9), named)).has_value());
    EXPECT_EQ(by_file.embedding, result_of(*o.engine, 2).embedding) << seed;
  }
  const Opened o = open_tiny("llama", 0, 1);
  ASSERT_TRUE(o.engine->add_embedding(spec_of(1, tokens_of(9), {})).has_value());
  const Produced unnamed = result_of(*o.engine, 1);
  ASSERT_TRUE(o.engine->add_embedding(spec_of(1, tokens_of(9), Pooling::kLast)).has_value());
  EXPECT_EQ(unnamed.embedding, result_of(*o.engine, 1).embedding);
}

/// A request of the queue, which asks for exactly one vector.
SequenceSpec request_of(const std::string& options, std::vector<TokenId> committed = {}) {
  SequenceSpec spec;
  spec.key = 5;
  spec.prompt = tokens_of(40);
  spec.committed = std::move(committed);
  spec.max_tokens = 1;
  spec.sampling.extra = "{\"embedding\":" + options + "}";
  return spec;
}

TEST(Embedding, Request_WithAnyPooling_GetsOneVector) {
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    const Opened o = open_tiny("bert", seed, 1);
    const auto named = static_cast<Pooling>((seed + 1) % 4);
    const std::pair<const char*, Pooling> cases[] = {
        {"{}", named == Pooling::kNone ? Pooling::kMean : named},
        {R"({"pooling":"cls"})", Pooling::kCls},
        {R"({"pooling":"last","normalize":false})", Pooling::kLast},
        {R"({"pooling":"mean"})", Pooling::kMean}};
    for (const auto& [options, pooling] : cases) {
      ASSERT_TRUE(o.engine->add(request_of(options)).has_value()) << options;
      const Produced have = result_of(*o.engine, 5);
      EmbedSpec same = spec_of(6, tokens_of(40), pooling);
      same.normalize = std::string(options).find("false") == std::string::npos;
      ASSERT_TRUE(o.engine->add_embedding(same).has_value());
      EXPECT_EQ(have.embedding, result_of(*o.engine, 6).embedding) << seed << options;
      EXPECT_EQ(have.vectors, 1);
    }
  }
}

TEST(Embedding, Request_WhenItsVectorIsCommitted_IsNotComputedAgain) {
  const Opened o = open_tiny("qwen2", 1, 1);
  ASSERT_TRUE(o.engine->add(request_of("{}", {-1})).has_value());
  const Produced p = result_of(*o.engine, 5);
  EXPECT_EQ(p.finish, wire::FinishReason::kStop);
  EXPECT_EQ(p.start, 1);
  EXPECT_TRUE(p.embedding.empty() && p.ids.empty());
  EXPECT_EQ(o.engine->usage().pages_used, 0);
}

TEST(Embedding, Vector_WhenOtherSequencesRun_HasTheSameBits) {
  for (const char* arch : {"bert", "qwen2"}) {
    const Opened alone = open_tiny(arch, 1, 1);
    const Opened busy = open_tiny(arch, 1, 2);
    ASSERT_TRUE(alone.engine->add_embedding(spec_of(9, tokens_of(70), Pooling::kMean)));
    const Produced want = result_of(*alone.engine, 9);
    const bool text = std::string(arch) != "bert";
    for (SequenceKey key = 1; key <= 3; ++key) {
      const auto tokens = tokens_of(20 + 40 * static_cast<int>(key));
      SequenceSpec spec;
      spec.key = key;
      spec.prompt = tokens;
      spec.max_tokens = 30;
      spec.sampling.ignore_eos = true;
      ASSERT_TRUE(text && key < 3
                      ? busy.engine->add(std::move(spec))
                      : busy.engine->add_embedding(spec_of(key, tokens, Pooling::kLast)));
    }
    for (int i = 0; i < 2 && text; ++i) busy.engine->step();  // they decode meanwhile
    ASSERT_TRUE(busy.engine->add_embedding(spec_of(9, tokens_of(70), Pooling::kMean)));
    const Produced have = result_of(*busy.engine, 9);
    EXPECT_EQ(have.embedding, want.embedding) << arch;
    EXPECT_EQ(have.finish, wire::FinishReason::kStop);
  }
}

TEST(Embedding, Request_WhenTheModelCannotServeIt_IsRefusedWithTypedError) {
  const Opened o = open_tiny("bert", 0, 1);
  SequenceSpec text;
  text.key = 1;
  text.prompt = {1, 2};
  text.max_tokens = 3;
  EXPECT_EQ(o.engine->add(text).error().code, Errc::kUnsupported);
  EXPECT_EQ(compute_logits(*o.engine, {1, 2}, {0}, {}).error().code, Errc::kUnsupported);
  EXPECT_EQ(o.engine->add_embedding(spec_of(1, {}, Pooling::kMean)).error().code,
            Errc::kInvalidRequest);
  EXPECT_EQ(o.engine->add_embedding(spec_of(1, {1, -1}, Pooling::kMean)).error().code,
            Errc::kInvalidRequest);
  const auto context = static_cast<int>(o.engine->describe().context);
  EXPECT_EQ(
      o.engine->add_embedding(spec_of(1, tokens_of(context + 1), Pooling::kMean)).error().code,
      Errc::kContextExceeded);
  ASSERT_TRUE(o.engine->add_embedding(spec_of(1, tokens_of(context), Pooling::kMean)).has_value());
  EXPECT_EQ(o.engine->add_embedding(spec_of(1, {1}, Pooling::kMean)).error().code, Errc::kConflict);
  EXPECT_EQ(result_of(*o.engine, 1).finish, wire::FinishReason::kStop);
  EXPECT_EQ(o.engine->usage().pages_used, 0);
  EXPECT_EQ(open_fake_engine("{}", {}).value()->add_embedding({}).error().code, Errc::kUnsupported);
}

TEST(Embedding, Text_WhenItNeedsMoreKvPagesThanThePool_IsRefused) {
  ModelEngineConfig config = test_config();
  config.pages = 2;
  TestEngine t(config);
  const auto refused = t.engine->add_embedding(spec_of(1, tokens_of(129), Pooling::kMean));
  EXPECT_EQ(refused.error().code, Errc::kMemoryExhausted);
  EXPECT_NE(refused.error().what.find("needs 3 KV pages, the pool has 2"), std::string::npos);
  ASSERT_TRUE(t.engine->add_embedding(spec_of(1, tokens_of(128), Pooling::kMean)).has_value());
  EXPECT_EQ(result_of(*t.engine, 1).finish, wire::FinishReason::kStop);
}

TEST(Embedding, Text_AfterPreemption_IsComputedAgainWithTheSameVector) {
  ModelEngineConfig config = test_config();
  config.pages = 5;
  config.prefill_chunk = config.prefill_chunk_busy = 40;
  TestEngine quiet(config), crowded(config);
  EmbedSpec low = spec_of(1, tokens_of(200), Pooling::kMean);
  low.priority = 5;
  ASSERT_TRUE(quiet.engine->add_embedding(low).has_value());
  const Produced want = result_of(*quiet.engine, 1);
  ASSERT_TRUE(crowded.engine->add_embedding(low).has_value());
  crowded.engine->step();
  SequenceSpec urgent;
  urgent.key = 2;
  urgent.prompt = tokens_of(150);
  urgent.max_tokens = 20;
  urgent.priority = 0;
  urgent.sampling.ignore_eos = true;
  ASSERT_TRUE(crowded.engine->add(urgent).has_value());
  EXPECT_EQ(result_of(*crowded.engine, 1).embedding, want.embedding);
  EXPECT_GT(crowded.engine->usage().preemptions, 0u);
}

}  // namespace
}  // namespace holdfast::engine::embedding_test
