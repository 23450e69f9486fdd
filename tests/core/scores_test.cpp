// Goal: scores of a prompt run like tokens, are given out from the database with the first of them,
// also where no token was asked for, and are bounded before a request is accepted.
// Method: a machine with one worker; submissions with and without scores, their effects.
#include <gtest/gtest.h>

#include "control/core/admission.h"
#include "tests/core/bench_machine.h"

namespace holdfast::core::scores_test {
namespace {

class ScoresMachine : public testing::Test {
 protected:
  void SetUp() override {
    bench.boot();
    bench.add_model();
    bench.connect_worker(kW1, "w1");
    bench.make_ready(kW1);
  }
  wire::Submit scored(const std::string& id, std::int64_t max_tokens) {
    wire::Submit submit = bench.submission(id, max_tokens);
    submit.sampling.prompt_logprobs = 2;
    return submit;
  }
  void attach(const std::string& id) { bench.step(FromClient{kReader, attach_to(id)}); }
  static wire::Attach attach_to(const std::string& id) {
    wire::Attach attach;
    attach.tag = 7;
    attach.request_id = id;
    return attach;
  }

  static constexpr PeerId kW1 = 101;
  static constexpr PeerId kReader = 55;
  Bench bench;
};

TEST_F(ScoresMachine, PromptScores_WithoutOutputTokens_AreOneIndex) {
  bench.submit(scored("r1", 0));
  const auto accepted = bench.messages<wire::Accepted>();
  ASSERT_EQ(accepted.size(), 1u);
  EXPECT_EQ(accepted[0].info.max_tokens, 0);
  EXPECT_EQ(accepted[0].info.choices[0].finish, FinishReason::kNone) << "there is work to do";
  const wire::Dispatch dispatch = bench.dispatch(kW1);
  EXPECT_EQ(dispatch.max_tokens, 0);
  EXPECT_EQ(dispatch.sampling.prompt_logprobs, 2);
  bench.tokens(kW1, dispatch, 0, {wire::kScoresToken}, FinishReason::kLength);
  EXPECT_EQ(bench.stored_ids("r1"), std::vector<TokenId>{wire::kScoresToken});
  EXPECT_EQ(bench.state("r1"), RequestState::kSucceeded);
}

TEST_F(ScoresMachine, MaxTokensZero_WithoutPromptScores_EndsAtOnce) {
  bench.submit(bench.submission("r1", 0));
  EXPECT_TRUE(bench.dispatches(kW1).empty());
  EXPECT_EQ(bench.state("r1"), RequestState::kSucceeded);
}

TEST_F(ScoresMachine, PromptScores_AfterARestart_AreAdopted) {
  bench.submit(scored("r1", 0));
  Bench after;
  after.boot(bench.database(), 2);
  EXPECT_EQ(after.state("r1"), RequestState::kRunning);
  wire::LoadedModel model = ready_model(bench.dispatch(kW1).load_id);
  wire::Hello hello = after.hello("w1");
  hello.models = {model};
  hello.active = {{"r1", 0, bench.dispatch(kW1).fence, 0, 1, true}};
  after.step(FromWorker{kW1, hello});
  EXPECT_EQ(after.messages<wire::Adopt>(kW1).size(), 1u) << "what it has is still wanted";
}

TEST_F(ScoresMachine, PromptScores_WhenStreamed_AreReadFromTheDatabase) {
  bench.submit(scored("r1", 8));
  const wire::Dispatch dispatch = bench.dispatch(kW1);
  bench.tokens(kW1, dispatch, 0, {5, 6, 7});
  attach("r1");
  auto events = bench.events(kReader);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_TRUE(events[0].ids.empty()) << "its ids alone would come without the scores";
  bench.tokens(kW1, dispatch, 3, {8});
  events = bench.events(kReader);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].ids, std::vector<TokenId>{8}) << "the others have none";
}

TEST_F(ScoresMachine, PromptScores_WhenTooLarge_AreRefusedWithTheNumbers) {
  Config config;
  wire::Submit submit = scored("r", 1);
  submit.n = 3;
  const std::int64_t bytes = 3 * (prompt_score_bytes(10, 2) + prompt_score_bytes(4, 2));
  config.request_max_score_bytes = bytes;
  EXPECT_FALSE(check_scores(submit, {10, 4}, config).has_value());
  config.request_max_score_bytes = bytes - 1;
  const auto refusal = check_scores(submit, {10, 4}, config);
  ASSERT_TRUE(refusal.has_value());
  EXPECT_EQ(refusal->code, Errc::kInvalidRequest);
  EXPECT_EQ(refusal->needed, bytes);
  EXPECT_EQ(refusal->largest, bytes - 1);
  EXPECT_NE(refusal->message.find(std::to_string(bytes) + " bytes"), std::string::npos);
  submit.sampling.prompt_logprobs = -1;
  EXPECT_FALSE(check_scores(submit, {10, 4}, config).has_value());
}

}  // namespace
}  // namespace holdfast::core::scores_test
