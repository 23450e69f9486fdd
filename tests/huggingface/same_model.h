#pragma once
// Comparison of two files, or a file and a folder, as models: their tensors, and their outputs.

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "shared/gguf/made.h"
#include "shared/huggingface/folder.h"
#include "shared/plan/plan.h"
#include "worker/engine/engine.h"
#include "worker/engine/logits.h"

namespace holdfast::huggingface_test {

/// Logits by the serving engine after some tokens; for an encoder the vectors of all tokens, and
/// the pooled one that the file names.
inline std::vector<std::vector<float>> outputs_of(const std::string& path) {
  const std::vector<text::TokenId> kTokens = {1, 5, 250, 7, 200, 41, 9, 12};
  const auto file = huggingface::open_model(path, huggingface::Contents::kShapes);
  EXPECT_TRUE(file.has_value()) << file.error().what;
  const auto shape = file ? plan::read_shape(**file) : Result<plan::ModelShape>(file.error());
  EXPECT_TRUE(shape.has_value()) << shape.error().what;
  if (!shape) return {};
  engine::EngineOptions options;
  options.device = "cpu";
  options.context = 64;
  options.slots = 1;
  auto engine = engine::open_engine(path, options);
  EXPECT_TRUE(engine.has_value()) << engine.error().what;
  if (!engine) return {};
  if (shape->causal) {
    auto rows = engine::compute_logits(**engine, kTokens, {0, 3, 7}, {});
    EXPECT_TRUE(rows.has_value()) << rows.error().what;
    return rows ? *rows : std::vector<std::vector<float>>();
  }
  std::vector<std::vector<float>> out;
  for (const auto pooling : {std::optional<plan::Pooling>(), {plan::Pooling::kNone}}) {
    engine::EmbedSpec spec;
    spec.tokens = kTokens;
    spec.pooling = pooling;
    const auto added = (*engine)->add_embedding(spec);
    EXPECT_TRUE(added.has_value()) << added.error().what;
    for (int steps = 0; added && steps < 100 && out.size() < (pooling ? 2u : 1u); ++steps) {
      for (const engine::Produced& p : (*engine)->step()) out.push_back(p.embedding);
    }
  }
  EXPECT_EQ(out.size(), 2u);
  return out;
}

inline void expect_same_tensors(const gguf::File& a, const gguf::File& b) {
  EXPECT_EQ(a.tensors().size(), b.tensors().size());
  for (const gguf::TensorInfo& t : a.tensors()) {
    const gguf::TensorInfo* other = b.tensor(t.name);
    ASSERT_NE(other, nullptr) << t.name;
    EXPECT_EQ(other->type, t.type) << t.name;
    EXPECT_EQ(other->n_dims, t.n_dims) << t.name;
    EXPECT_TRUE(std::equal(t.dims, t.dims + 4, other->dims)) << t.name;
    ASSERT_EQ(other->data.size(), t.data.size()) << t.name;
    const auto held = gguf::Held::of(t);
    const auto other_held = gguf::Held::of(*other);
    ASSERT_TRUE(held && other_held) << t.name;
    EXPECT_EQ(std::memcmp(other->data.data(), t.data.data(), t.data.size()), 0) << t.name;
  }
}

}  // namespace holdfast::huggingface_test
