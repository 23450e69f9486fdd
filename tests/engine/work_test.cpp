// Goal: `holdfast bench` counts what a step computes and reads: all weights that are multiplied
// with once, only the chosen ones of the experts, no embedding that is looked up. Method: against
// sums over the tensors of made files.

#include "worker/model/work.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "ops/model_tools/synth.h"
#include "tests/engine/family_runs.h"

namespace holdfast::work_test {
namespace {

FamilyModel made(const std::string& shape, const std::string& type) {
  const std::string path = (std::filesystem::temp_directory_path() /
                            ("holdfast-work-" + std::to_string(::getpid()) + ".gguf"))
                               .string();
  EXPECT_TRUE(cli::synth(shape, path, type, 1, {}).has_value());
  auto file = gguf::File::open(path);
  std::filesystem::remove(path);
  return family_of(std::move(file).value(), 1);
}

struct Sizes {
  double dense = 0, experts = 0, values = 0, expert_values = 0;  // bytes, bytes, numbers, numbers
};
Sizes matrices(const FamilyModel& m) {
  Sizes sum;
  for (const gguf::TensorInfo& tensor : m.file->tensors()) {
    const std::string name(tensor.name);
    if (tensor.n_dims < 2 || name == "token_embd.weight") continue;
    const auto values = static_cast<double>(tensor.elements());
    const auto traits = gguf::type_traits(tensor.type);
    const double bytes = values / traits->block_elements * traits->block_bytes;
    const bool expert = name.find("_exps.") != std::string::npos;
    (expert ? sum.experts : sum.dense) += bytes;
    (expert ? sum.expert_values : sum.values) += values;
  }
  return sum;
}

TEST(Work, Work_WithADenseModel_CountsAllMatricesButTheEmbedding) {
  const FamilyModel m = made("test-llama", "q4_k_m");
  const Sizes sizes = matrices(m);
  for (const int streams : {1, 16}) {
    const model::Work work = model::work_of(m.program, streams);
    EXPECT_DOUBLE_EQ(work.step_bytes, sizes.dense);
    EXPECT_DOUBLE_EQ(work.token.all + work.row.all, 2 * sizes.values);
  }
}

TEST(Work, Work_WithExperts_CountsTheSelectedOnes) {
  const FamilyModel m = made("test-qwen3moe", "q8_0");  // 4 of 16
  const Sizes sizes = matrices(m);
  const model::Work one = model::work_of(m.program);
  EXPECT_NEAR(one.step_bytes, sizes.dense + sizes.experts / 4, 1);
  EXPECT_DOUBLE_EQ(one.token.all + one.row.all, 2 * (sizes.values + sizes.expert_values / 4));
  EXPECT_NEAR(model::work_of(m.program, 2).step_bytes, sizes.dense + sizes.experts * 7 / 16, 1);
  EXPECT_NEAR(model::work_of(m.program, 100).step_bytes, sizes.dense + sizes.experts, 1);
}

TEST(Work, MarkedWork_WhenOpsAreSelected_IsPartOfTheWhole) {
  const FamilyModel m = made("test-qwen3moe", "q8_0");
  EXPECT_EQ(model::work_of(m.program).token.marked, 0);
  EXPECT_EQ(model::work_of(m.program).row.marked, 0);
  const auto all = [](const model::Op&) { return true; };
  const auto experts = [](const model::Op& op) {
    return op.kind == model::OpKind::kExpertGateUp || op.kind == model::OpKind::kExpertDownAdd;
  };
  const model::Work one = model::work_of(m.program, 1, all);
  EXPECT_DOUBLE_EQ(one.token.marked, one.token.all);
  EXPECT_DOUBLE_EQ(one.row.marked, one.row.all);
  const model::Work some = model::work_of(m.program, 1, experts);
  EXPECT_DOUBLE_EQ(some.token.marked + some.row.marked,
                   2 * static_cast<double>(matrices(m).expert_values) / 4);
}

// The last layer computes only queries, keys and values for a token without logits.
TEST(Work, Work_ForTokensWithoutLogits_EndsAtTheLastLayersKeys) {
  const FamilyModel m = made("test-llama", "q8_0");
  const std::string last = "blk." + std::to_string(m.program.shape.layers - 1) + ".";
  double rest = 0;
  for (const char* name : {"attn_output", "ffn_gate", "ffn_up", "ffn_down"}) {
    const gguf::TensorInfo* tensor = m.file->tensor(last + name + ".weight");
    ASSERT_NE(tensor, nullptr) << name;
    rest += 2 * static_cast<double>(tensor->elements());
  }
  const gguf::TensorInfo* output = m.file->tensor("output.weight");
  ASSERT_NE(output, nullptr);
  EXPECT_DOUBLE_EQ(model::work_of(m.program).row.all,
                   rest + 2 * static_cast<double>(output->elements()));
}

}  // namespace
}  // namespace holdfast::work_test
