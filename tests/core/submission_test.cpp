// Goal: a submission is what was sent, under its tenant, and is read by a helper where that is
// needed; what its prompts are is checked against the model's vocabulary; what is refused carries
// the numbers of the bound.
// Method: events by hand.
#include <gtest/gtest.h>

#include "tests/core/bench_machine.h"

namespace holdfast::core::submission_test {
namespace {

constexpr PeerId kHelper = Bench::kHelper;

struct SubmissionTest : testing::Test {
  Bench bench;

  void SetUp() override {
    bench.boot();
    bench.add_model();
  }
  wire::Refusal refusal() {
    const auto refused = bench.messages<wire::Refused>();
    EXPECT_EQ(refused.size(), 1u);
    return refused.empty() ? wire::Refusal() : refused[0].refusal;
  }
  bool accepted() { return bench.messages<wire::Accepted>().size() == 1; }
  void prepared(std::vector<std::vector<TokenId>> ids) {
    const auto jobs = bench.messages<wire::Prepare>(kHelper);
    ASSERT_EQ(jobs.size(), 1u);
    wire::Prepared done;
    done.job = jobs[0].job;
    done.ok = true;
    done.ids = std::move(ids);
    bench.step(PreparedEvent{kHelper, done});
  }
};

TEST_F(SubmissionTest, IdempotencyKey_WithAnotherTenantOrBody_IsRefused) {
  wire::Submit submit = bench.submission("r1");
  submit.tenant = "t";
  bench.submit(submit);
  ASSERT_TRUE(accepted());
  wire::Submit other = submit;
  other.tenant = "u";
  bench.submit(other);
  EXPECT_EQ(refusal().code, Errc::kIdempotencyMismatch);
  other = submit;
  other.body_hash = "another";
  bench.submit(other);
  EXPECT_EQ(refusal().code, Errc::kIdempotencyMismatch);
  bench.submit(submit);
  EXPECT_TRUE(accepted());
  wire::Submit text = bench.text_submission("t1");
  text.tenant = "t";
  bench.submit(text);
  other = text;
  other.tenant = "u";
  bench.submit(other);
  EXPECT_EQ(refusal().code, Errc::kIdempotencyMismatch) << "while it is prepared";
  EXPECT_EQ(bench.machine.jobs().size(), 1);
}

TEST_F(SubmissionTest, Submission_WithoutABodyHash_IsComparedByTheShellsHash) {
  SubmitEvent event;
  event.peer = Bench::kClient;
  event.submit = bench.submission("r1");
  event.submit.body_hash.clear();
  event.body_hash = "of the shell";
  bench.step(event);
  ASSERT_TRUE(accepted());
  EXPECT_EQ(bench.machine.request("r1")->row.body_hash, "of the shell");
  bench.step(event);
  EXPECT_TRUE(bench.messages<wire::Accepted>().at(0).duplicate);
  event.body_hash = "another";
  bench.step(event);
  EXPECT_EQ(refusal().code, Errc::kIdempotencyMismatch);
}

TEST_F(SubmissionTest, TokenIds_WithoutTextToPrepare_NeedNoHelper) {
  bench.submit(bench.submission("plain"));
  EXPECT_TRUE(accepted());
  EXPECT_TRUE(bench.messages<wire::Prepare>().empty());
  wire::Submit echo = bench.submission("echo");
  echo.echo = true;
  bench.submit(echo);
  ASSERT_EQ(bench.messages<wire::Prepare>(kHelper).size(), 1u);
  EXPECT_TRUE(bench.messages<wire::Prepare>(kHelper)[0].echo);
  wire::Submit extra = bench.submission("extra");
  extra.sampling.extra = "{\"grammar\":1}";
  bench.submit(extra);
  ASSERT_EQ(bench.messages<wire::Prepare>(kHelper).size(), 1u);
  EXPECT_EQ(bench.messages<wire::Prepare>(kHelper)[0].extra, "{\"grammar\":1}");
  wire::Submit mixed = bench.submission("mixed");
  mixed.prompts.push_back(bench.text_submission("x").prompts[0]);
  bench.submit(mixed);
  ASSERT_EQ(bench.messages<wire::Prepare>(kHelper).size(), 1u);
  EXPECT_EQ(bench.messages<wire::Prepare>(kHelper)[0].prompts.size(), 2u);
  EXPECT_EQ(bench.messages<wire::Prepare>(kHelper)[0].model_sha, "sha-m");
}

TEST_F(SubmissionTest, PromptIds_OutsideTheVocabulary_AreRefused) {
  int made = 0;
  const auto ask = [&](TokenId id) {
    wire::Submit submit = bench.submission("r" + std::to_string(++made));
    submit.prompts[0].ids = std::vector<TokenId>{1, id};
    bench.submit(submit);
    return accepted();
  };
  EXPECT_TRUE(ask(0));
  EXPECT_TRUE(ask(999));
  EXPECT_FALSE(ask(1000));
  EXPECT_EQ(refusal().message, "prompt ids: expected 0 to 999");
  EXPECT_FALSE(ask(-1));
  EXPECT_EQ(refusal().code, Errc::kInvalidRequest);
  bench.submit(bench.text_submission("t1"));
  prepared({{}});
  EXPECT_EQ(refusal().message, "the prompt has no tokens");
  bench.submit(bench.text_submission("t2"));
  prepared({{1, 1000}});
  EXPECT_EQ(refusal().code, Errc::kInvalidRequest);
  bench.submit(bench.text_submission("t3"));
  prepared({{1}, {2}});
  EXPECT_EQ(refusal().code, Errc::kInternal) << "it asked for one prompt";
  bench.submit(bench.text_submission("t4"));
  prepared({{7, 8, 9}});
  EXPECT_TRUE(accepted());
  EXPECT_EQ(bench.machine.request("t4")->prompt_tokens, std::vector<std::int64_t>{3});
}

TEST_F(SubmissionTest, PromptIds_WhenTheVocabularyIsUnknown_AreAccepted) {
  Boot database = bench.database();
  database.models[0].vocab = 0;
  Bench local_bench;
  local_bench.boot(std::move(database), 2);
  wire::Submit submit = local_bench.submission("r1");
  submit.prompts[0].ids = std::vector<TokenId>{1'000'000};
  local_bench.submit(submit);
  EXPECT_EQ(local_bench.messages<wire::Accepted>().size(), 1u);
}

TEST_F(SubmissionTest, MaxPreparing_WhenReached_RefusesMore) {
  Config config;
  config.queue_max_preparing = 2;
  Bench local_bench(config);
  local_bench.boot();
  local_bench.add_model();
  for (const char* id : {"t1", "t2"}) {
    local_bench.submit(local_bench.text_submission(id));
    EXPECT_TRUE(local_bench.messages<wire::Refused>().empty());
  }
  local_bench.submit(local_bench.text_submission("t3"));
  const auto refused = local_bench.messages<wire::Refused>();
  ASSERT_EQ(refused.size(), 1u);
  EXPECT_EQ(refused[0].refusal.code, Errc::kQueueFull);
  EXPECT_EQ(refused[0].refusal.needed, 3);
  EXPECT_EQ(refused[0].refusal.largest, 2);
  EXPECT_GT(refused[0].refusal.retry_after_ms, 0);
  EXPECT_EQ(local_bench.machine.jobs().size(), 2);
}

TEST_F(SubmissionTest, Refusal_WhenTheHelperNeverAnswers_NamesTheTries) {
  bench.submit(bench.text_submission("t1"));
  const Config& config = bench.machine.config();
  for (int i = 0; i < config.ingress_tries; ++i) bench.advance_ms(config.ingress_timeout_ms);
  EXPECT_EQ(refusal().message,
            "preparing the request failed 3 times: the ingress helper took too long");
  EXPECT_EQ(refusal().retry_after_ms, -1);
  OpAddModel add;
  add.peer = Bench::kOperator;
  add.name = "n";
  add.path = "/models/n.gguf";
  bench.step(add);
  wire::Refusal last;
  for (int i = 0; i < config.ingress_tries; ++i) {
    bench.advance_ms(config.ingress_inspect_timeout_ms);
    for (const Outgoing& out : bench.sent) {
      if (const auto* result = std::get_if<SendOpResult>(&out)) last = result->refusal;
    }
  }
  EXPECT_EQ(last.message,
            "reading the model file failed 3 times: the ingress helper took too long");
  EXPECT_EQ(bench.machine.jobs().size(), 0);
}

TEST_F(SubmissionTest, Submit_WhenAccepted_IsStoredToTheLastField) {
  bench.advance_ms(3);
  wire::Submit submit = bench.submission("r1", 21, 5);
  submit.tenant = "t";
  submit.idem_key = "key";
  submit.n = 2;
  submit.stops = {"x"};
  submit.meta = "{}";
  submit.priority = PriorityClass::kBatch;
  submit.queue_timeout_ms = 1'000;
  submit.total_timeout_ms = 2'000;
  submit.api_key = "key_a";
  submit.seed_given = true;
  submit.sampling.seed = 77;
  submit.on_disconnect = wire::OnDisconnect::kCancel;
  bench.submit(submit);
  const InsertRequest row = bench.written<InsertRequest>().at(0);
  EXPECT_EQ(row.row.id + row.row.tenant + row.row.idem_key + row.row.body_hash + row.row.model +
                row.row.model_sha + row.row.api_key,
            "r1tkeyhash-r1msha-mkey_a");
  EXPECT_EQ(row.row.seq, 1);
  EXPECT_EQ(row.row.n, 2);
  EXPECT_EQ(row.row.max_tokens, 21);
  EXPECT_EQ(row.row.priority, PriorityClass::kBatch);
  EXPECT_EQ(row.row.on_disconnect, wire::OnDisconnect::kCancel);
  EXPECT_EQ(row.row.created_ms, bench.now.wall_ms);
  EXPECT_EQ(row.row.queue_deadline_ms, bench.now.wall_ms + 1'000);
  EXPECT_EQ(row.row.total_deadline_ms, bench.now.wall_ms + 2'000);
  EXPECT_EQ(row.payload.sampling.seed, 77u);
  EXPECT_EQ(row.payload.stops, std::vector<std::string>{"x"});
  EXPECT_EQ(row.payload.meta, "{}");
  EXPECT_EQ(row.payload.prompt_ids.at(0).size(), 5u);
  ASSERT_EQ(row.choices.size(), 2u);
  EXPECT_EQ(row.choices[1].choice, 1);
  EXPECT_EQ(row.choices[1].prompt, 0);
  const Request& in = *bench.machine.request("r1");
  EXPECT_EQ(in.queue_deadline_us, bench.now.mono_us + 1'000'000);
  EXPECT_EQ(in.total_deadline_us, bench.now.mono_us + 2'000'000);
  EXPECT_EQ(in.orphan_deadline_us,
            bench.now.mono_us + Config().requests_disconnect_grace_ms * 1000);
  EXPECT_EQ(in.payload_bytes, 5 * 4 + 2 + 1);
}

TEST_F(SubmissionTest, TextPrompt_WhenCancelledBeforeAHelperComes_IsNotPrepared) {
  bench.step(PeerGone{kHelper});
  bench.submit(bench.text_submission("t1"));
  bench.submit(bench.text_submission("t2"));
  bench.step(FromClient{Bench::kClient, wire::Cancel{9, "t1", ""}});
  EXPECT_EQ(bench.messages<wire::Refused>().at(0).refusal.code, Errc::kCancelled);
  bench.step(IngressUp{kHelper});
  ASSERT_EQ(bench.messages<wire::Prepare>(kHelper).size(), 1u);
  prepared({{1, 2}});
  ASSERT_TRUE(accepted());
  EXPECT_EQ(bench.messages<wire::Accepted>()[0].info.request_id, "t2");
  EXPECT_EQ(bench.machine.request("t1"), nullptr);
}

TEST_F(SubmissionTest, PreparedPrompt_WhenItsModelWasRemoved_IsRefusedAsNotFound) {
  bench.submit(bench.text_submission("t1"));
  const auto jobs = bench.messages<wire::Prepare>(kHelper);
  ASSERT_EQ(jobs.size(), 1u);
  bench.step(OpModel{Bench::kOperator, 1, "models.remove", "m"});
  ASSERT_TRUE(bench.machine.registry().models().empty());
  wire::Prepared done;
  done.job = jobs[0].job;
  done.ok = true;
  done.ids = {{1}};
  bench.step(PreparedEvent{kHelper, done});
  EXPECT_EQ(refusal().code, Errc::kModelNotFound);
  EXPECT_TRUE(bench.written<InsertRequest>().empty());
}

}  // namespace
}  // namespace holdfast::core::submission_test
