// Goal: the first answer of a model in a numerics class outlives restarts, and another answer is
// refused; verifying a file changes nothing of what is registered.
// Method: OpGolden and models.verify on a machine by hand; the next process gets what was written.
#include "control/core/golden.h"

#include <gtest/gtest.h>

#include "tests/core/bench_machine.h"

namespace holdfast::core::golden_test {
namespace {

struct GoldenTest : testing::Test {
  Bench bench;
  void SetUp() override {
    bench.boot();
    bench.add_model();
  }
  static SendOpResult answer(const Bench& at) {
    for (const Outgoing& out : at.sent) {
      if (const auto* result = std::get_if<SendOpResult>(&out)) return *result;
    }
    ADD_FAILURE() << "no answer";
    return {};
  }
  static SendOpResult golden(Bench& at, std::vector<TokenId> ids,
                             const std::string& numerics = "class-a",
                             const std::string& model = "m") {
    at.step(OpGolden{Bench::kOperator, 1, model, numerics, std::move(ids)});
    return answer(at);
  }
};

TEST_F(GoldenTest, GoldenAnswer_OnceStored_RefusesADifferentOne) {
  EXPECT_EQ(golden(bench, {1, 2, 3}).key, "m\nstored");
  EXPECT_EQ(bench.durability, Durability::kFull);
  EXPECT_EQ(golden(bench, {1, 2, 3}).key, "m\nsame");
  EXPECT_EQ(bench.durability, Durability::kNone);
  const SendOpResult other = golden(bench, {1, 7, 3});
  EXPECT_FALSE(other.ok);
  EXPECT_EQ(other.refusal.code, Errc::kDeterminismViolation);
  EXPECT_NE(other.refusal.message.find("token 1 is 7 and was 2"), std::string::npos);
  EXPECT_NE(golden(bench, {1, 2}).refusal.message.find("token 2 is missing"), std::string::npos);
  EXPECT_NE(golden(bench, {1, 2, 3, 4}).refusal.message.find("token 3 is 4 and was missing"),
            std::string::npos);
  EXPECT_EQ(golden(bench, {1, 7, 3}, "class-b").key, "m\nstored") << "another class";
  EXPECT_EQ(golden(bench, {1}, "class-a", "nobody").refusal.code, Errc::kModelNotFound);

  Bench later;
  later.now = bench.now;
  Boot database = bench.database();
  for (const PutFlag& flag : bench.written<PutFlag>()) {
    if (flag.name.starts_with("golden/")) database.goldens[flag.name.substr(7)] = flag.value;
  }
  EXPECT_EQ(database.goldens.size(), 2u);
  later.boot(database, 2);
  EXPECT_EQ(golden(later, {1, 2, 3}).key, "m\nsame");
  EXPECT_FALSE(golden(later, {3, 2, 1}).ok);
}

TEST_F(GoldenTest, VerifyModel_WhenTheFileDiffers_ReportsItAndChangesNothing) {
  const ModelRow before = bench.machine.registry().models().at("m").row;
  bench.rows.clear();
  bench.step(OpModel{Bench::kOperator, 5, "models.verify", "m"});
  const auto inspects = bench.messages<wire::Inspect>(Bench::kHelper);
  ASSERT_EQ(inspects.size(), 1u);
  EXPECT_EQ(inspects[0].path, before.path);
  bench.advance_ms(Config().ingress_inspect_timeout_ms - 1);  // a large file takes its time
  ASSERT_NE(bench.machine.jobs().inspect_request(inspects[0].job), nullptr);
  EXPECT_EQ(bench.machine.jobs().inspect_request(inspects[0].job)->context, before.context);
  EXPECT_EQ(bench.machine.jobs().inspect_request(inspects[0].job)->slots, before.slots);
  EXPECT_EQ(bench.machine.jobs().inspect_request(inspects[0].job)->kv_type, before.kv_type);
  InspectedEvent found;
  found.peer = Bench::kHelper;
  found.inspected.job = inspects[0].job;
  found.inspected.ok = true;
  found.inspected.model_sha = "another";
  found.inspected.size = 12;
  found.inspected.mtime_ns = 34;
  found.row.name = "m";
  found.row.weights_bytes = 56;
  found.row.kv_bytes = 78;
  found.row.scratch_bytes = 90;
  bench.step(found);
  const FoundFile file = read_verified_key(answer(bench).key);
  EXPECT_EQ(file.model, "m");
  EXPECT_EQ(file.sha, "another");
  EXPECT_EQ(file.size, 12);
  EXPECT_EQ(file.mtime_ns, 34);
  EXPECT_EQ(file.weights_bytes, 56);
  EXPECT_EQ(file.kv_bytes, 78);
  EXPECT_EQ(file.scratch_bytes, 90);
  EXPECT_TRUE(bench.rows.empty()) << "nothing is written";
  EXPECT_EQ(bench.machine.registry().models().at("m").row.sha, before.sha);

  bench.step(OpModel{Bench::kOperator, 6, "models.verify", "m"});
  found.inspected.job = bench.messages<wire::Inspect>(Bench::kHelper).at(0).job;
  found.inspected.ok = false;
  found.inspected.refusal = wire::Refusal();
  found.inspected.refusal.code = Errc::kIo;
  bench.step(found);
  EXPECT_EQ(answer(bench).refusal.code, Errc::kIo);
  bench.step(OpModel{Bench::kOperator, 7, "models.verify", "nobody"});
  EXPECT_EQ(answer(bench).refusal.code, Errc::kModelNotFound);
}

}  // namespace
}  // namespace holdfast::core::golden_test
