// Goal: what is known of a model's file is stored as it was read and reaches the worker that loads
// it; names have their bounds; a model that is requested, loaded or part of an alias is not
// removed; a verdict on a load reaches everybody who waits for it.
// Method: events by hand, rows and messages field by field.
#include <gtest/gtest.h>

#include "control/core/drift.h"
#include "tests/core/bench_machine.h"
#include "tests/core/row_text.h"

namespace holdfast::core::registration_test {
namespace {

constexpr PeerId kW1 = 101;
constexpr PeerId kW2 = 102;

struct RegistrationTest : testing::Test {
  Bench bench;
  OpAddModel add;

  void SetUp() override {
    bench.boot();
    bench.step(IngressUp{Bench::kHelper});
    add.peer = Bench::kOperator;
    add.tag = 5;
    add.name = "m";
    add.path = "/models/m.gguf";
    add.options = "{\"x\":1}";
  }
  /// A file whose numbers all differ.
  static InspectedEvent file(const std::string& sha = "sha-m") {
    InspectedEvent event;
    event.peer = Bench::kHelper;
    event.inspected.ok = true;
    event.inspected.model_sha = sha;
    event.inspected.size = 123'456;
    event.inspected.mtime_ns = 789;
    event.inspected.tokenizer = "tokens";
    event.inspected.detokenizer = "pieces";
    ModelRow& row = event.row;
    row.architecture = "llama";
    row.context = 1024;
    row.slots = 3;
    row.pages = 40;
    row.prefill_chunk = 77;
    row.kv_type = "f16";
    row.vocab = 1000;
    row.chat = true;
    row.weights_bytes = 9'000'000;
    row.kv_bytes = 40'000;
    row.scratch_bytes = 500;
    row.shape = "{\"layers\":2}";
    row.tokenizer_sha = "tokenizer";
    row.output = "plain";
    return event;
  }
  bool read(InspectedEvent event) {
    bench.step(add);
    const auto jobs = bench.messages<wire::Inspect>(Bench::kHelper);
    if (jobs.size() != 1) return false;
    event.inspected.job = jobs[0].job;
    bench.step(event);
    return answer() == Errc::kInternal;
  }
  /// Error of the answer to the last verb; kInternal: it was done.
  Errc answer() {
    for (const Outgoing& o : bench.sent) {
      if (const auto* r = std::get_if<SendOpResult>(&o)) {
        return r->ok ? Errc::kInternal : r->refusal.code;
      }
    }
    return Errc::kTimeout;
  }
  Errc operate(const char* verb) {
    bench.step(OpModel{Bench::kOperator, 6, verb, "m"});
    return answer();
  }
  const ModelRow& row() { return bench.machine.registry().models().at("m").row; }
  void connect(PeerId peer, const char* key) {
    wire::Hello hello = bench.hello(key);
    hello.threads = 8;
    bench.step(FromWorker{peer, hello});
  }
  void report(PeerId peer, const wire::Load& load, const char* state, const char* reason = "") {
    wire::StateReport report;
    report.model.load_id = load.load_id;
    report.model.state = state;
    report.model.reason = reason;
    report.model.slots = 3;
    report.model.pages_total = 40;
    bench.step(FromWorker{peer, report});
  }
};

TEST_F(RegistrationTest, FileMetadata_WhenRead_IsStoredAndSentToTheWorker) {
  add.load = true;
  bench.advance_ms(5);
  ASSERT_TRUE(read(file()));
  EXPECT_EQ(bench.durability, Durability::kFull);
  const auto blobs = bench.written<PutModelBlobs>();
  ASSERT_EQ(blobs.size(), 1u);
  EXPECT_EQ(blobs[0].sha + blobs[0].tokenizer + blobs[0].detokenizer, "sha-mtokenspieces");
  const ModelRow stored = bench.written<PutModel>().front().row;
  ModelRow expected = file().row;
  expected.name = "m";
  expected.sha = "sha-m";
  expected.path = "/models/m.gguf";
  expected.options = "{\"x\":1}";
  expected.size = 123'456;
  expected.mtime_ns = 789;
  expected.created_ms = bench.now.wall_ms;
  expected.load_requested = true;
  EXPECT_EQ(change_text(PutModel{stored}), change_text(PutModel{expected}));
  connect(kW1, "w1");
  const wire::Load load = bench.messages<wire::Load>(kW1).at(0);
  EXPECT_EQ(load.model_sha, "sha-m");
  EXPECT_EQ(load.path, "/models/m.gguf");
  EXPECT_EQ(load.size, 123'456);
  EXPECT_EQ(load.mtime_ns, 789);
  EXPECT_EQ(load.context, 1024);
  EXPECT_EQ(load.slots, 3);
  EXPECT_EQ(load.pages, 40);
  EXPECT_EQ(load.kv_type, "f16");
  EXPECT_EQ(load.prefill_chunk, 77);
  EXPECT_EQ(load.options, "{\"x\":1}");
  EXPECT_EQ(load.threads, 2) << "one for each four MiB of weights";
  EXPECT_EQ(bench.written<PutLoad>().back().row.bytes, 9'000'000 + 40'000 + 500);
}

TEST_F(RegistrationTest, ModelAndAliasNames_WhenTooLong_AreRefused) {
  add.name = std::string(128, 'n');
  EXPECT_TRUE(read(file()));
  add.name += "n";
  EXPECT_FALSE(read(file()));
  EXPECT_EQ(answer(), Errc::kUsage);
  OpAlias alias;
  alias.peer = Bench::kOperator;
  alias.targets = {{std::string(128, 'n'), 1}};
  alias.name = std::string(128, 'a');
  bench.step(alias);
  EXPECT_EQ(answer(), Errc::kInternal);
  alias.name += "a";
  bench.step(alias);
  EXPECT_EQ(answer(), Errc::kUsage);
  EXPECT_EQ(bench.machine.aliases().all().size(), 1u);
  add.name = "x";
  add.path.clear();
  EXPECT_FALSE(read(file()));
  EXPECT_EQ(answer(), Errc::kUsage);
}

TEST_F(RegistrationTest, Inspected_WhenFromAnotherHelperOrRepeated_IsIgnored) {
  bench.step(add);
  InspectedEvent event = file();
  event.inspected.job = bench.messages<wire::Inspect>(Bench::kHelper).at(0).job;
  event.peer = Bench::kHelper + 1;
  bench.step(event);
  EXPECT_TRUE(bench.machine.registry().models().empty());
  event.peer = Bench::kHelper;
  bench.step(event);
  EXPECT_EQ(answer(), Errc::kInternal);
  EXPECT_EQ(bench.machine.jobs().size(), 0);
  bench.step(event);
  EXPECT_EQ(answer(), Errc::kTimeout) << "nobody is answered twice";
  bench.submit(bench.text_submission("t1"));
  wire::Prepare job = bench.messages<wire::Prepare>(Bench::kHelper).at(0);
  event.inspected.job = job.job;
  bench.step(event);
  EXPECT_EQ(bench.machine.jobs().size(), 1) << "a request's text is no file";
  bench.step(add);
  wire::Prepared prepared;
  prepared.job = bench.messages<wire::Inspect>(Bench::kHelper).at(0).job;
  prepared.ok = true;
  prepared.ids = {{1}};
  bench.step(PreparedEvent{Bench::kHelper, prepared});
  EXPECT_EQ(bench.machine.jobs().size(), 2) << "nor a file a request's text";
}

TEST_F(RegistrationTest, InspectJob_WhileTheFileIsRead_HasItsRequest) {
  EXPECT_EQ(bench.machine.jobs().inspect_request(1), nullptr);
  bench.step(add);
  InspectedEvent event = file();
  event.inspected.job = bench.messages<wire::Inspect>(Bench::kHelper).at(0).job;
  ASSERT_NE(bench.machine.jobs().inspect_request(event.inspected.job), nullptr);
  EXPECT_EQ(bench.machine.jobs().inspect_request(event.inspected.job)->name, "m");
  bench.step(event);
  EXPECT_EQ(bench.machine.jobs().inspect_request(event.inspected.job), nullptr);
  bench.submit(bench.text_submission("t1"));
  const auto text = bench.messages<wire::Prepare>(Bench::kHelper).at(0).job;
  EXPECT_EQ(bench.machine.jobs().inspect_request(text), nullptr) << "a text has no such wish";
}

TEST_F(RegistrationTest, Model_WhenOnlyEndedOrOthersRequestsExist_CanBeReplaced) {
  ASSERT_TRUE(read(file()));
  bench.submit(bench.submission("r1"));
  ASSERT_FALSE(read(file("sha-other")));
  EXPECT_EQ(answer(), Errc::kConflict);
  bench.step(OpCancel{Bench::kOperator, 1, "r1"});
  bench.add_model(1024, 4, 64, false, "n");
  wire::Submit other = bench.submission("r2");
  other.model = "n";
  bench.submit(other);
  ASSERT_EQ(bench.messages<wire::Accepted>().size(), 1u);
  EXPECT_TRUE(read(file("sha-other")));
  EXPECT_EQ(row().sha, "sha-other");
  EXPECT_EQ(operate("models.remove"), Errc::kInternal);
  EXPECT_EQ(bench.machine.registry().models().count("m"), 0u);
  EXPECT_EQ(bench.state("r2"), RequestState::kQueued);
}

TEST_F(RegistrationTest, AddModel_WhenTheFileCannotBeRead_IsRefusedWithTheHelpersCode) {
  InspectedEvent event = file();
  event.inspected.ok = false;
  event.inspected.refusal.code = Errc::kFileInvalid;
  EXPECT_FALSE(read(event));
  EXPECT_EQ(answer(), Errc::kFileInvalid);
  EXPECT_TRUE(bench.machine.registry().models().empty());
  EXPECT_TRUE(bench.written<PutModel>().empty());
}

TEST_F(RegistrationTest, Model_WhenTheSameFileIsAddedAgain_RetainsItsState) {
  add.load = true;
  ASSERT_TRUE(read(file()));
  connect(kW1, "w1");
  report(kW1, bench.messages<wire::Load>(kW1).at(0), "ready", "fine");
  bench.submit(bench.submission("r1"));
  const ModelRow before = row();
  ASSERT_GT(before.last_used_ms, 0);
  bench.advance_ms(100);
  add.load = false;
  InspectedEvent again = file();
  again.row.slots = 9;
  ASSERT_TRUE(read(again));
  EXPECT_EQ(row().state, ModelState::kReady);
  EXPECT_EQ(row().reason, before.reason);
  EXPECT_EQ(row().created_ms, before.created_ms);
  EXPECT_EQ(row().last_used_ms, before.last_used_ms);
  EXPECT_TRUE(row().load_requested);
  EXPECT_EQ(row().slots, 9) << "for its next load";
  EXPECT_EQ(bench.written<InsertTransition>().front().to, "registered");
  std::int64_t registered = 0;
  for (const auto& t : bench.written<InsertTransition>()) registered += t.to == "registered";
  EXPECT_EQ(registered, 1);
}

TEST_F(RegistrationTest, RemoveModel_WhileInUse_IsRefusedAndOtherwiseLeavesNothing) {
  ASSERT_TRUE(read(file()));
  EXPECT_EQ(operate("models.pin"), Errc::kInternal);
  connect(kW1, "w1");
  EXPECT_EQ(operate("models.load"), Errc::kInternal);
  const wire::Load load = bench.messages<wire::Load>(kW1).at(0);
  EXPECT_EQ(operate("models.remove"), Errc::kConflict) << "it is being loaded";
  report(kW1, load, "ready");
  EXPECT_EQ(operate("models.unload"), Errc::kInternal);
  EXPECT_FALSE(row().load_requested);
  report(kW1, load, "unloaded");
  EXPECT_EQ(row().state, ModelState::kUnloaded);
  EXPECT_EQ(operate("models.unload"), Errc::kInternal);
  EXPECT_EQ(bench.durability, Durability::kFull) << "also what changes no state";
  bench.step(OpPause{Bench::kOperator, 1, true});
  bench.submit(bench.submission("r1"));
  report(kW1, load, "unloaded");
  EXPECT_EQ(operate("models.remove"), Errc::kConflict) << "a request waits for it";
  bench.step(OpCancel{Bench::kOperator, 1, "r1"});
  operate("models.unload");
  for (const auto& [id, on] : std::map(bench.machine.loads().all().by_id())) {
    wire::Load one;
    one.load_id = id;
    report(kW1, one, "unloaded");
  }
  EXPECT_EQ(operate("models.remove"), Errc::kInternal);
  EXPECT_EQ(bench.durability, Durability::kFull);
  EXPECT_EQ(bench.written<DeleteModel>().at(0).name, "m");
  EXPECT_EQ(bench.written<PutFlag>().back().name, "pin/m");
  EXPECT_EQ(bench.written<PutFlag>().back().value, "0");
  EXPECT_EQ(bench.written<InsertTransition>().back().to, "removed");
  EXPECT_EQ(operate("models.load"), Errc::kModelNotFound);
}

TEST_F(RegistrationTest, ModelStateName_WhenUnknown_ReadsAsFailed) {
  for (int i = 0; i <= static_cast<int>(ModelState::kFailed); ++i) {
    const auto state = static_cast<ModelState>(i);
    EXPECT_EQ(model_state_from_name(model_state_name(state)), state);
  }
  EXPECT_EQ(model_state_from_name("sleeping"), ModelState::kFailed);
  EXPECT_EQ(model_state_from_name(""), ModelState::kFailed);
  for (const CanaryState state : {CanaryState::kLoading, CanaryState::kRunning,
                                  CanaryState::kRolledBack, CanaryState::kPromoted}) {
    EXPECT_EQ(canary_state_from_name(canary_state_name(state)), state);
  }
  EXPECT_EQ(canary_state_from_name("asleep"), CanaryState::kRolledBack);
}

TEST_F(RegistrationTest, ModelState_AfterARestartWithoutALoad_StaysAsItWas) {
  for (const ModelState state :
       {ModelState::kRegistered, ModelState::kUnloaded, ModelState::kFailed}) {
    Boot database;
    ModelRow model = file().row;
    model.name = "m";
    model.state = state;
    model.reason = "as it was";
    database.models = {model};
    Bench after;
    after.boot(std::move(database), 2);
    EXPECT_EQ(after.machine.registry().models().at("m").row.state, state);
    EXPECT_EQ(after.machine.registry().models().at("m").row.reason, "as it was");
    EXPECT_TRUE(after.written<PutModel>().empty());
  }
  // A model that was being loaded is placed again if it is requested.
  for (const bool load_requested : {false, true}) {
    Boot database;
    ModelRow model = file().row;
    model.name = "m";
    model.state = ModelState::kLoading;
    model.load_requested = load_requested;
    database.models = {model};
    Bench after;
    after.boot(std::move(database), 2);
    EXPECT_EQ(after.machine.registry().models().at("m").row.state,
              load_requested ? ModelState::kPlacing : ModelState::kUnloaded);
  }
}

TEST_F(RegistrationTest, FailedLoad_WhileWorkRuns_IsRetriedAndItsWorkGoesOn) {
  add.load = true;
  ASSERT_TRUE(read(file()));
  connect(kW1, "w1");
  report(kW1, bench.messages<wire::Load>(kW1).at(0), "ready");
  bench.submit(bench.submission("r1"));
  const wire::Dispatch d = bench.dispatch(kW1);
  wire::Load load;
  load.load_id = d.load_id;
  report(kW1, load, "failed", "internal: gone");
  EXPECT_EQ(bench.state("r1"), RequestState::kQueued);
  EXPECT_EQ(bench.machine.registry().models().at("m").failures, 1);
  EXPECT_TRUE(bench.messages<wire::Load>().empty()) << "not at once";
  EXPECT_EQ(bench.messages<wire::Unload>(kW1).size(), 1u);
  bench.advance_ms(bench.machine.config().models_load_backoff_ms);
  const wire::Load again = bench.messages<wire::Load>(kW1).at(0);
  report(kW1, again, "ready");
  EXPECT_EQ(bench.dispatch(kW1).request_id, "r1");
  EXPECT_EQ(bench.machine.registry().models().at("m").failures, 0);
}

TEST_F(RegistrationTest, FailedLoad_WhenAnotherWorkerServesTheModel_BlamesTheWorker) {
  add.load = true;
  ASSERT_TRUE(read(file()));
  connect(kW1, "w1");
  report(kW1, bench.messages<wire::Load>(kW1).at(0), "ready");
  EXPECT_EQ(bench.machine.breakers().of_worker("w2").failures(), 0);
  connect(kW2, "w2");
  report(kW2, bench.messages<wire::Load>(kW2).at(0), "failed", "internal: broken");
  EXPECT_EQ(bench.machine.breakers().of_worker("w2").failures(), 1);
  EXPECT_EQ(bench.machine.breakers().of_worker("w1").failures(), 0);
  EXPECT_EQ(row().state, ModelState::kReady);
}

TEST_F(RegistrationTest, MemoryDrift_BeyondTheTolerance_IsDetected) {
  Load load;
  const Config config;
  load.row.bytes = 100 << 20;
  const auto drifts = [&](std::int64_t taken) {
    load.memory.taken = taken;
    return memory_drifts(load, config);
  };
  EXPECT_FALSE(drifts(100 << 20));
  EXPECT_FALSE(drifts(108 << 20)) << "what a process moves by itself";
  EXPECT_TRUE(drifts((200 << 20)));
  EXPECT_DOUBLE_EQ(drift_percent(load), 100);
  EXPECT_TRUE(drifts(1)) << "less is as wrong";
  EXPECT_LT(drift_percent(load), -99);
  load.row.bytes = 1;
  EXPECT_TRUE(drifts(100 << 20));
  EXPECT_GT(drift_percent(load), 1e6);
}

}  // namespace
}  // namespace holdfast::core::registration_test
