// Goal: a request for vectors is one token a prompt to the machine, and what a model cannot make is
// refused before it is accepted.
// Method: a machine with a decoder and an encoder; submissions, and a helper that says what they
// are.
#include <gtest/gtest.h>

#include "tests/core/bench_machine.h"

namespace holdfast::core::embedding_test {
namespace {

class EmbeddingMachine : public testing::Test {
 protected:
  void SetUp() override {
    bench.boot();
    bench.add_model(64, 4, 64, true, "m");
    bench.connect_worker(kW1, "w1");
    bench.make_ready(kW1);
  }
  /// Submits a request; the helper says whether it is for vectors.
  void prepare(wire::Submit submit, bool embedding, std::vector<std::vector<TokenId>> ids) {
    submit.sampling.extra = embedding ? R"({"embedding":{}})" : R"({"mirostat":2})";
    bench.submit(std::move(submit));
    const auto jobs = bench.messages<wire::Prepare>(Bench::kHelper);
    ASSERT_EQ(jobs.size(), 1u);
    wire::Prepared done;
    done.job = jobs[0].job;
    done.ok = true;
    done.ids = std::move(ids);
    done.embedding = embedding;
    bench.step(PreparedEvent{Bench::kHelper, done});
  }
  wire::Refusal refused() {
    const auto all = bench.messages<wire::Refused>();
    EXPECT_EQ(all.size(), 1u);
    return all.empty() ? wire::Refusal{} : all[0].refusal;
  }

  static constexpr PeerId kW1 = 101;
  Bench bench;
};

TEST_F(EmbeddingMachine, Embedding_WithAnyMaxTokens_IsOneToken) {
  wire::Submit submit = bench.text_submission("r1");
  submit.prompts.push_back(submit.prompts[0]);
  submit.max_tokens = 700;  // more than the context has
  // A vector needs no room after its prompt.
  prepare(submit, true, {std::vector<TokenId>(64, 3), {1, 2}});
  const auto accepted = bench.messages<wire::Accepted>();
  ASSERT_EQ(accepted.size(), 1u);
  EXPECT_EQ(accepted[0].info.max_tokens, 1);
  ASSERT_EQ(accepted[0].info.choices.size(), 2u);
  const auto sent = bench.dispatches(kW1);
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_EQ(sent[0].max_tokens, 1);
  EXPECT_EQ(sent[0].sampling.extra, R"({"embedding":{}})");
}

TEST_F(EmbeddingMachine, Embedding_WithTextOnlyOptions_IsRefused) {
  const auto refuses = [&](auto change) {
    wire::Submit submit = bench.text_submission("r");
    change(submit);
    prepare(std::move(submit), true, {{1, 2}});
    EXPECT_EQ(refused().code, Errc::kInvalidRequest);
  };
  refuses([](wire::Submit& s) { s.n = 2; });
  refuses([](wire::Submit& s) { s.stops = {"x"}; });
  refuses([](wire::Submit& s) { s.echo = true; });
  refuses([](wire::Submit& s) { s.sampling.logprobs = 0; });
  refuses([](wire::Submit& s) { s.sampling.prompt_logprobs = 0; });
  prepare(bench.text_submission("long"), true, {std::vector<TokenId>(65, 3)});
  EXPECT_EQ(refused().code, Errc::kContextExceeded);
}

TEST_F(EmbeddingMachine, EncoderModel_WhenTextIsRequested_Refuses) {
  OpAddModel add;
  add.name = "e";
  add.path = "/models/e.gguf";
  bench.step(add);
  const auto inspects = bench.messages<wire::Inspect>();
  ASSERT_EQ(inspects.size(), 1u);
  InspectedEvent inspected;
  inspected.peer = Bench::kHelper;
  inspected.inspected.job = inspects[0].job;
  inspected.inspected.ok = true;
  inspected.inspected.model_sha = "sha-e";
  inspected.row.name = "e";
  inspected.row.context = 64;
  inspected.row.slots = 4;
  inspected.row.pages = 64;
  inspected.row.shape = R"({"architecture":"bert","causal":false})";
  bench.step(inspected);
  wire::Submit ids = bench.submission("by-ids");
  ids.model = "e";
  bench.submit(ids);
  EXPECT_EQ(refused().code, Errc::kUnsupported);
  wire::Submit text = bench.text_submission("by-text");
  text.model = "e";
  prepare(text, false, {{1, 2}});
  EXPECT_EQ(refused().code, Errc::kUnsupported);
  text.request_id = "vectors";
  prepare(text, true, {{1, 2}});
  EXPECT_EQ(bench.messages<wire::Accepted>().size(), 1u);
}

/// A vector is in the database alone: a client that reads it while another prompt is still worked
/// on gets it from there.
TEST_F(EmbeddingMachine, EmbeddingVector_WhenStreamed_IsReadFromTheDatabase) {
  wire::Submit submit = bench.text_submission("r1");
  submit.prompts.push_back(submit.prompts[0]);
  prepare(submit, true, {{1, 2}, {3, 4}});
  const auto sent = bench.dispatches(kW1);
  ASSERT_EQ(sent.size(), 2u);
  bench.tokens(kW1, sent[0], 0, {wire::kVectorToken}, FinishReason::kStop);
  ASSERT_EQ(bench.state("r1"), RequestState::kRunning);
  wire::Attach attach;
  attach.tag = 3;
  attach.request_id = "r1";
  attach.window = 10;
  bench.step(FromClient{Bench::kClient, attach});
  const auto events = bench.events(Bench::kClient);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].start, 0);
  EXPECT_EQ(events[0].until, 1);
  EXPECT_TRUE(events[0].ids.empty());
}

}  // namespace
}  // namespace holdfast::core::embedding_test
