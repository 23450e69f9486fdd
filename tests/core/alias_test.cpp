// Goal: an alias gives each of its targets its share, the same conversation the same target, and a
// change of weights moves no more than it must; a swap loses nothing; names never collide; what
// waits for a model happens when it is ready or not at all.
// Method: ten thousand keys against the weights; events by hand on the bench, also over a restart.
#include <gtest/gtest.h>

#include <map>

#include "control/core/alias.h"
#include "control/core/canary.h"
#include "tests/core/bench_machine.h"

namespace holdfast::core::alias_test {
namespace {

constexpr PeerId kW1 = 101;
constexpr int kKeys = 10'000;

bool any(const std::string&) {
  return true;
}

AliasRow row_of(const char* targets) {
  AliasRow row;
  row.name = "chat";
  row.id = 1;
  row.targets = parse_targets(targets).value();
  return row;
}

std::string chosen(const AliasRow& alias, int key) {
  return choose_target(alias, route_key("user-" + std::to_string(key)), any)->model;
}

TEST(AliasTargets, AliasTargets_WhenParsedAndPrinted_RoundTrip) {
  for (const char* good : {"a=1", "a=3,b=1000", "model-1.q8_0=2,b=1,c=7"}) {
    EXPECT_EQ(targets_text(parse_targets(good).value()), good);
  }
  EXPECT_EQ(targets_text(parse_targets("a,b").value()), "a=1,b=1");
  for (const char* bad : {"", "a,", ",a", "=1", "a=0", "a=1001", "a=x", "a=1.5", "a=-1", "a=1,a=2",
                          "a= 1", "1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17"}) {
    EXPECT_EQ(parse_targets(bad).error().code, Errc::kUsage) << bad;
  }
}

TEST(AliasRouting, ChooseTarget_WithWeights_FollowsTheirShares) {
  for (const char* targets : {"a=1", "a=1,b=1", "a=9,b=1", "a=700,b=200,c=100", "a=1000,b=10"}) {
    const AliasRow alias = row_of(targets);
    std::map<std::string, int> got;
    for (int i = 0; i < kKeys; ++i) ++got[chosen(alias, i)];
    std::int64_t sum = 0;
    for (const AliasTarget& target : alias.targets) sum += target.weight;
    for (const AliasTarget& target : alias.targets) {
      const double share = static_cast<double>(target.weight) / static_cast<double>(sum);
      // Four standard deviations of the binomial distribution are at most 2 % of all.
      EXPECT_NEAR(got[target.model] / double{kKeys}, share, 0.02) << targets << " " << target.model;
    }
  }
}

TEST(AliasRouting, ChooseTarget_WhenWeightsChange_MovesAsLittleAsPossible) {
  const AliasRow before = row_of("a=6,b=3,c=1");
  const auto moved = [&](const char* targets, const std::string& grows) {
    const AliasRow after = row_of(targets);
    int count = 0;
    for (int i = 0; i < kKeys; ++i) {
      const std::string from = chosen(before, i);
      const std::string to = chosen(after, i);
      if (from == to) continue;
      ++count;
      EXPECT_EQ(to, grows) << from << " " << targets;  // nothing goes between the others
    }
    return count / double{kKeys};
  };
  EXPECT_NEAR(moved("a=6,b=3,c=2", "c"), 1.0 / 11, 0.015);  // from 1/10 to 2/11 of all
  EXPECT_NEAR(moved("a=6,b=3,c=1,d=10", "d"), 0.5, 0.02);
  // A target that goes away leaves its share to the others, theirs stays.
  const AliasRow without = row_of("a=6,b=3");
  for (int i = 0; i < kKeys; ++i) {
    if (chosen(before, i) == "c") continue;
    EXPECT_EQ(chosen(without, i), chosen(before, i));
  }
}

TEST(AliasRouting, ChooseTarget_WhenTargetsAreReordered_ChoosesTheSame) {
  int same = 0;
  AliasRow other = row_of("a=1,b=1");
  other.id = 2;
  for (int i = 0; i < kKeys; ++i) {
    EXPECT_EQ(chosen(row_of("a=2,b=1"), i), chosen(row_of("b=1,a=2"), i));
    same += chosen(row_of("a=1,b=1"), i) == chosen(other, i);
  }
  EXPECT_NEAR(same / double{kKeys}, 0.5, 0.02);  // one alias says nothing of another
}

TEST(AliasRouting, ChooseTarget_WhenATargetCannotServe_ChoosesAnother) {
  const AliasRow alias = row_of("a=1,b=1");
  const auto not_a = [](const std::string& model) { return model != "a"; };
  const auto none = [](const std::string&) { return false; };
  for (int i = 0; i < 100; ++i) {
    const std::uint64_t key = route_key(std::to_string(i));
    EXPECT_EQ(choose_target(alias, key, not_a)->model, "b");
    EXPECT_EQ(choose_target(alias, key, none), choose_target(alias, key, any));
  }
}

TEST(AliasRouting, Canary_WhenItsPercentRises_RetainsItsRouteKeys) {
  for (const std::int64_t percent : {1, 5, 50, 99}) {
    int got = 0;
    for (int i = 0; i < kKeys; ++i) {
      const std::uint64_t key = route_key("user-" + std::to_string(i));
      const bool in = falls_to_canary(1, "c", key, percent);
      got += in;
      EXPECT_TRUE(!in || falls_to_canary(1, "c", key, percent + 1));
    }
    EXPECT_NEAR(got * 100.0 / kKeys, static_cast<double>(percent), 2.0);
  }
}

/// The values themselves: other ones would send every conversation elsewhere after an upgrade.
TEST(AliasRouting, RouteKey_AcrossReleases_HasTheSameValue) {
  EXPECT_EQ(route_key("user-1"), 14166'554'182'431'137'624u);
  std::string first;
  for (int i = 0; i < 24; ++i) first += chosen(row_of("a=2,b=1,c=1"), i);
  EXPECT_EQ(first, "caccabcbaaacaaccbaaababb");
}

// ---- in the machine

struct AliasTest : testing::Test {
  Bench bench;
  void SetUp() override {
    bench.boot();
    bench.connect_worker(kW1, "w1");
    for (const char* name : {"a", "b"}) {
      bench.add_model(1024, 4, 64, true, name);
      bench.make_ready(kW1);
    }
    ASSERT_EQ(state("b"), ModelState::kReady);
  }
  ModelState state(const std::string& name) {
    return bench.machine.registry().models().at(name).row.state;
  }
  Errc set(const std::string& name, const char* targets, bool when_ready = false) {
    OpAlias op;
    op.peer = Bench::kOperator;
    op.name = name;
    op.who = "ann";
    op.when_ready = when_ready;
    if (targets != nullptr) op.targets = parse_targets(targets).value();
    bench.step(op);
    return answer();
  }
  /// Error of the answer to the last verb; kInternal: it was done.
  Errc answer() {
    for (const Outgoing& o : bench.sent) {
      if (const auto* r = std::get_if<SendOpResult>(&o))
        return r->ok ? Errc::kInternal : r->refusal.code;
    }
    ADD_FAILURE() << "no answer";
    return Errc::kInternal;
  }
  Errc operate(const char* verb, const std::string& name) {
    bench.step(OpModel{Bench::kOperator, 1, verb, name});
    return answer();
  }
  std::string targets() {
    return targets_text(bench.machine.aliases().all().at("chat").row.targets);
  }
  void ask(const std::string& id, const std::string& sticky = {}, const char* model = "chat") {
    wire::Submit submit = bench.submission(id);
    submit.model = model;
    submit.sticky = sticky;
    bench.submit(std::move(submit));
  }
  std::string model_of(const std::string& id) { return bench.machine.request(id)->row.model; }
  std::vector<std::string> actions() {
    std::vector<std::string> out;
    for (const auto& change : bench.written<AliasChange>()) {
      if (const auto* h = std::get_if<InsertAliasHistory>(&change)) out.push_back(h->row.action);
    }
    return out;
  }
};
constexpr Errc kDone = Errc::kInternal;

TEST_F(AliasTest, Alias_WhenItsNameOrTargetIsInvalid_IsRefused) {
  EXPECT_EQ(set("chat", "a"), kDone);
  EXPECT_EQ(set("a", "b"), Errc::kConflict);  // a model has that name
  EXPECT_EQ(set("more", "chat"), Errc::kInvalidRequest);
  EXPECT_EQ(set("more", "a,nobody"), Errc::kModelNotFound);
  EXPECT_EQ(set("", "a"), Errc::kUsage);
  EXPECT_EQ(set("nobody", nullptr), Errc::kNotFound);
  OpAddModel add;
  add.peer = Bench::kOperator;
  add.name = "chat";
  add.path = "/models/chat.gguf";
  bench.step(add);
  EXPECT_EQ(answer(), Errc::kConflict);
  EXPECT_TRUE(bench.messages<wire::Inspect>().empty());
  EXPECT_EQ(bench.machine.aliases().all().size(), 1u);
  // A model cannot go while an alias stands for it.
  operate("models.unload", "a");
  bench.unloaded(kW1);
  EXPECT_EQ(operate("models.remove", "a"), Errc::kConflict);
  EXPECT_EQ(set("chat", nullptr), kDone);
  EXPECT_EQ(operate("models.remove", "a"), kDone);
}

TEST_F(AliasTest, AddModel_WhenAnAliasTakesTheNameMeanwhile_IsRefused) {
  OpAddModel add;
  add.peer = Bench::kOperator;
  add.name = "chat";
  add.path = "/models/chat.gguf";
  bench.step(add);
  const auto inspects = bench.messages<wire::Inspect>();
  ASSERT_EQ(inspects.size(), 1u);
  EXPECT_EQ(set("chat", "a"), kDone);
  InspectedEvent event;
  event.peer = Bench::kHelper;
  event.inspected.job = inspects[0].job;
  event.inspected.ok = true;
  bench.step(event);
  EXPECT_EQ(answer(), Errc::kConflict);
  EXPECT_EQ(bench.machine.registry().models().count("chat"), 0u);
}

TEST_F(AliasTest, ChosenTarget_AfterARepeatOrRestart_StaysTheSame) {
  ASSERT_EQ(set("chat", "a=1,b=1"), kDone);
  std::map<std::string, int> got;
  for (int i = 0; i < 40; ++i) {
    const std::string id = "r" + std::to_string(i);
    ask(id);
    const auto accepted = bench.messages<wire::Accepted>();
    ASSERT_EQ(accepted.size(), 1u);
    EXPECT_EQ(accepted[0].info.alias, "chat");
    EXPECT_EQ(accepted[0].info.model, model_of(id));
    EXPECT_EQ(accepted[0].info.model_sha, "sha-" + model_of(id));
    ++got[model_of(id)];
  }
  EXPECT_GT(got["a"], 8);
  EXPECT_GT(got["b"], 8);
  ask("r7");  // the same submission again
  ASSERT_EQ(bench.messages<wire::Accepted>().size(), 1u);
  EXPECT_TRUE(bench.messages<wire::Accepted>()[0].duplicate);
  EXPECT_EQ(bench.messages<wire::Accepted>()[0].info.model, model_of("r7"));
  Bench again;
  again.boot(bench.database(), 2);
  for (int i = 0; i < 40; ++i) {
    const std::string id = "r" + std::to_string(i);
    EXPECT_EQ(again.machine.request(id)->row.model, model_of(id));
    EXPECT_EQ(again.machine.request(id)->row.alias, "chat");
  }
}

TEST_F(AliasTest, Alias_WhenModelsAreListed_IsListedAsItsFirstTarget) {
  ASSERT_EQ(set("chat", "a=1,b=1"), kDone);
  bench.step(FromClient{Bench::kClient, wire::ModelsQuery{5}});
  const auto replies = bench.messages<wire::ModelsReply>();
  ASSERT_EQ(replies.size(), 1u);
  const auto named = [&](const std::string& name) {
    for (const wire::ModelInfo& info : replies[0].models) {
      if (info.name == name) return info;
    }
    ADD_FAILURE() << name;
    return wire::ModelInfo();
  };
  const wire::ModelInfo alias = named("chat");
  const wire::ModelInfo model = named("a");
  EXPECT_EQ(alias.alias_of, "a=1,b=1");
  EXPECT_EQ(model.alias_of, "");
  EXPECT_EQ(alias.state, "ready");
  EXPECT_EQ(model.state, "ready");
  EXPECT_EQ(alias.sha, model.sha);
  EXPECT_EQ(alias.context, model.context);
  EXPECT_EQ(alias.chat, model.chat);
  EXPECT_EQ(alias.output, model.output);
}

TEST_F(AliasTest, StickyKey_WhenRepeated_RoutesToTheSameTarget) {
  ASSERT_EQ(set("chat", "a=1,b=1"), kDone);
  for (int who = 0; who < 8; ++who) {
    const std::string sticky = "session-" + std::to_string(who);
    ask(sticky + "-0", sticky);
    for (int i = 1; i < 4; ++i) {
      const std::string id = sticky + "-" + std::to_string(i);
      ask(id, sticky);
      EXPECT_EQ(model_of(id), model_of(sticky + "-0"));
    }
  }
  // Without a sticky key it is the idempotency key.
  wire::Submit submit = bench.submission("k1");
  submit.model = "chat";
  submit.idem_key = "session-3";
  bench.submit(submit);
  EXPECT_EQ(model_of("k1"), model_of("session-3-0"));
}

TEST_F(AliasTest, AcceptedRequests_WhenTheAliasIsSwapped_EndAtTheOldTarget) {
  ASSERT_EQ(set("chat", "a"), kDone);
  for (int i = 0; i < 6; ++i) ask("old" + std::to_string(i));  // four run, two wait
  ASSERT_EQ(set("chat", "b"), kDone);
  EXPECT_EQ(bench.durability, Durability::kFull);
  ask("new");
  EXPECT_EQ(model_of("new"), "b");
  for (int i = 0; i < 6; ++i) EXPECT_EQ(model_of("old" + std::to_string(i)), "a");
  EXPECT_EQ(actions(), (std::vector<std::string>{"created", "changed"}));
  const auto last = std::get<InsertAliasHistory>(bench.written<AliasChange>()[2]).row;
  EXPECT_EQ(last.who + " " + last.from + " " + last.to, "ann a=1 b=1");
}

TEST_F(AliasTest, FailedTarget_WhenAnotherIsReady_IsSkipped) {
  bench = Bench();
  bench.boot();
  bench.connect_worker(kW1, "w1");
  bench.add_model(1024, 4, 64, true, "a");
  bench.make_ready(kW1);
  bench.add_model(1024, 4, 64, true, "b");
  ASSERT_EQ(set("chat", "a=1,b=1"), kDone);
  const auto fail_load = [&](const std::string& load_id) {
    wire::StateReport report;
    report.model.load_id = load_id;
    report.model.state = "failed";
    report.model.reason = "file_invalid: broken";
    bench.step(FromWorker{kW1, report});
  };
  for (const auto& [id, load] : std::map(bench.machine.loads().all().by_id())) {
    if (load.row.model == "b") fail_load(id);
  }
  ASSERT_EQ(state("b"), ModelState::kFailed);
  for (int i = 0; i < 20; ++i) {
    ask("r" + std::to_string(i));
    EXPECT_EQ(model_of("r" + std::to_string(i)), "a");
  }
  EXPECT_EQ(set("chat", "b"), Errc::kModelFailed);
  EXPECT_EQ(targets(), "a=1,b=1");
}

/// A database that lost a model's row: the alias is shown as it was set, and says what is missing.
TEST_F(AliasTest, Alias_WhenItsModelIsMissing_IsListedAndRefusesRequests) {
  ASSERT_EQ(set("chat", "a"), kDone);
  Boot database = bench.database();
  std::erase_if(database.models, [](const ModelRow& row) { return row.name == "a"; });
  database.loads.clear();
  bench = Bench();
  bench.boot(std::move(database), 2);
  bench.step(FromClient{Bench::kClient, wire::ModelsQuery{3}});
  const auto replies = bench.messages<wire::ModelsReply>();
  ASSERT_EQ(replies.size(), 1u);
  ASSERT_EQ(replies[0].models.size(), 2u);
  EXPECT_EQ(replies[0].models[1].name, "chat");
  EXPECT_EQ(replies[0].models[1].alias_of, "a=1");
  EXPECT_EQ(replies[0].models[1].state, "");
  ask("r1");
  ASSERT_EQ(bench.messages<wire::Refused>().size(), 1u);
  EXPECT_EQ(bench.messages<wire::Refused>()[0].refusal.code, Errc::kModelNotFound);
}

// ---- when ready

struct WhenReadyTest : AliasTest {
  void SetUp() override {
    AliasTest::SetUp();
    bench.add_model(1024, 4, 64, false, "c");
    ASSERT_EQ(set("chat", "a"), kDone);
  }
  void report(const char* model, const char* how) {
    for (const auto& [id, load] : std::map(bench.machine.loads().all().by_id())) {
      if (load.row.model != model) continue;
      wire::StateReport report;
      report.model.load_id = id;
      report.model.state = how;
      report.model.slots = 4;
      report.model.pages_total = 64;
      report.model.reason = "file_invalid: broken";
      bench.step(FromWorker{kW1, report});
    }
  }
};

TEST_F(WhenReadyTest, PendingTargets_WhenTheModelIsReady_ReplaceTheOldOnes) {
  ASSERT_EQ(set("chat", "c", true), kDone);
  EXPECT_EQ(targets(), "a=1");
  ask("r1");
  EXPECT_EQ(model_of("r1"), "a");
  report("c", "ready");
  EXPECT_EQ(targets(), "c=1");
  ask("r2");
  EXPECT_EQ(model_of("r2"), "c");
  EXPECT_EQ(actions(), (std::vector<std::string>{"created", "waits", "switched"}));
}

TEST_F(WhenReadyTest, PendingTargets_WhenTheLoadFails_AreAbandoned) {
  ASSERT_EQ(set("chat", "c", true), kDone);
  report("c", "failed");
  EXPECT_EQ(state("c"), ModelState::kFailed);
  EXPECT_EQ(targets(), "a=1");
  EXPECT_TRUE(bench.machine.aliases().all().at("chat").row.pending.empty());
  EXPECT_EQ(actions().back(), "abandoned");
  // The same may be asked for again.
  ASSERT_EQ(set("chat", "c", true), kDone);
  report("c", "ready");
  EXPECT_EQ(targets(), "c=1");
}

TEST_F(WhenReadyTest, PendingTargets_WhenAnOperatorUnloadsTheModel_AreAbandoned) {
  ASSERT_EQ(set("chat", "c", true), kDone);
  ASSERT_EQ(operate("models.unload", "c"), kDone);
  EXPECT_EQ(actions().back(), "waits") << "its load has not gone yet";
  report("c", "unloaded");
  EXPECT_EQ(state("c"), ModelState::kUnloaded);
  EXPECT_EQ(actions().back(), "abandoned");
  EXPECT_TRUE(bench.machine.aliases().all().at("chat").row.pending.empty());
  EXPECT_EQ(targets(), "a=1");
}

TEST_F(WhenReadyTest, PendingTargets_AfterTheReadyTimeout_AreAbandoned) {
  ASSERT_EQ(set("chat", "c", true), kDone);
  bench.advance_ms(Config().aliases_ready_timeout_ms);
  EXPECT_EQ(actions().back(), "abandoned");
  EXPECT_EQ(targets(), "a=1");
}

TEST_F(WhenReadyTest, PendingTargets_AfterARestart_StillBecomeActive) {
  ASSERT_EQ(set("chat", "c", true), kDone);
  Boot database = bench.database();
  bench = Bench();
  bench.boot(std::move(database), 2);
  EXPECT_EQ(targets_text(bench.machine.aliases().all().at("chat").row.pending), "c=1");
  bench.connect_worker(kW1, "w1");
  for (int i = 0; i < 3; ++i) {
    for (const char* model : {"a", "b", "c"}) report(model, "ready");
    bench.advance_ms(Config().models_load_backoff_ms);  // the load that was lost used up a try
  }
  EXPECT_EQ(targets(), "c=1");
}

/// The process ended after the model had failed and before the alias was told.
TEST_F(WhenReadyTest, PendingTargets_WhenTheModelFailedBeforeARestart_AreAbandoned) {
  ASSERT_EQ(set("chat", "c", true), kDone);
  Boot database = bench.database();
  for (ModelRow& row : database.models) {
    if (row.name != "c") continue;
    row.state = ModelState::kFailed;
    row.load_requested = false;
  }
  std::erase_if(database.loads, [](const LoadRow& row) { return row.model == "c"; });
  bench = Bench();
  bench.boot(std::move(database), 2);
  EXPECT_TRUE(bench.machine.aliases().all().at("chat").row.pending.empty());
  EXPECT_EQ(targets(), "a=1");
}

/// A model that is requested and not loaded yet has not failed.
TEST_F(WhenReadyTest, PendingAlias_AfterRestart_WaitsForTheRequestedModel) {
  ASSERT_EQ(set("chat", "c", true), kDone);
  Boot database = bench.database();
  for (ModelRow& row : database.models) {
    if (row.name == "c") row.state = ModelState::kUnloaded;
  }
  std::erase_if(database.loads, [](const LoadRow& row) { return row.model == "c"; });
  bench = Bench();
  bench.boot(std::move(database), 2);
  EXPECT_EQ(targets_text(bench.machine.aliases().all().at("chat").row.pending), "c=1");
  bench.connect_worker(kW1, "w1");
  for (int i = 0; i < 3; ++i) {
    for (const char* model : {"a", "b", "c"}) report(model, "ready");
  }
  EXPECT_EQ(targets(), "c=1");
}

TEST_F(WhenReadyTest, PendingTargets_WhenThereAreSeveral_WaitForAll) {
  ASSERT_EQ(set("chat", "c=1,b=1", true), kDone);
  ASSERT_EQ(state("b"), ModelState::kReady);
  report("b", "ready");
  bench.advance_ms(1000);
  EXPECT_EQ(targets(), "a=1");
  report("c", "ready");
  EXPECT_EQ(targets(), "c=1,b=1");
}

TEST_F(WhenReadyTest, RemoveModel_WhileAnAliasWaitsForItOrTriesIt_IsRefused) {
  bench.step(PeerGone{kW1});
  bench.advance_ms(Config().workers_reconnect_ms);
  ASSERT_TRUE(bench.machine.loads().all().empty());
  const auto refusal = [&] {
    EXPECT_EQ(operate("models.remove", "c"), Errc::kConflict);
    return std::get<SendOpResult>(bench.sent.at(0)).refusal.message;
  };
  const std::string part = "model \"c\" is part of alias \"chat\"; change the alias first";
  ASSERT_EQ(set("chat", "c", true), kDone);
  EXPECT_EQ(refusal(), part);
  ASSERT_EQ(set("chat", "a"), kDone);
  OpCanary canary;
  canary.name = "chat";
  canary.model = "c";
  canary.settings = nothing_said();
  canary.settings.percent = 5;
  bench.step(canary);
  EXPECT_EQ(refusal(), part);
  canary.end = OpCanary::End::kRollBack;
  bench.step(canary);
  EXPECT_EQ(operate("models.remove", "c"), kDone);
}

TEST_F(WhenReadyTest, PendingChange_WhenAnotherIsSet_IsAbandoned) {
  ASSERT_EQ(set("chat", "c", true), kDone);
  ASSERT_EQ(set("chat", "b"), kDone);
  EXPECT_EQ(actions(), (std::vector<std::string>{"created", "waits", "abandoned", "changed"}));
  report("c", "ready");
  EXPECT_EQ(targets(), "b=1");
}

/// A device with room for one model: what serves is not evicted for what may fail.
struct AliasPool : testing::Test {
  static Config no_dwelling() {
    Config config;
    config.models_dwell_ms = 0;
    return config;
  }
  Bench bench{no_dwelling()};
  OpAlias op;

  void SetUp() override {
    bench.boot();
    bench.add_model(1024, 4, 64, true, "a");
    bench.add_model(1024, 4, 64, false, "b");
    wire::Hello hello = bench.hello("w1");
    hello.memory.total = hello.memory.free = 72'400;
    bench.step(FromWorker{kW1, hello});
    bench.make_ready(kW1);
    op.name = "chat";
    op.targets = parse_targets("a").value();
    bench.step(op);
  }
  void SetUpAgain() {
    bench = Bench(no_dwelling());
    op = {};
    SetUp();
  }
  void wait_for_b() {
    op.targets = parse_targets("b").value();
    op.when_ready = true;
    bench.step(op);
  }
};

TEST_F(AliasPool, OldTarget_WhenTheChangeIsOver_MayBeEvicted) {
  wait_for_b();
  ASSERT_TRUE(bench.messages<wire::Unload>().empty());
  bench.advance_ms(bench.machine.config().aliases_ready_timeout_ms);
  EXPECT_EQ(bench.messages<wire::Unload>(kW1).size(), 1u) << "it was given up";
  SetUpAgain();
  wait_for_b();
  op.targets.clear();
  bench.step(op);
  EXPECT_EQ(bench.messages<wire::Unload>(kW1).size(), 1u) << "there is no such alias";
  SetUpAgain();
  OpCanary canary;
  canary.name = "chat";
  canary.model = "b";
  canary.settings = nothing_said();
  canary.settings.percent = 5;
  bench.step(canary);
  bench.advance_ms(1000);
  ASSERT_TRUE(bench.messages<wire::Unload>().empty());
  canary.end = OpCanary::End::kRollBack;
  bench.step(canary);
  EXPECT_EQ(bench.messages<wire::Unload>(kW1).size(), 1u) << "its canary has ended";
}

TEST_F(AliasPool, OldTarget_WhileTheNewOneWaits_IsNotEvicted) {
  wait_for_b();
  EXPECT_TRUE(bench.messages<wire::Unload>().empty());
  bench.advance_ms(1000);
  EXPECT_TRUE(bench.messages<wire::Unload>().empty());
  EXPECT_EQ(bench.machine.registry().models().at("a").row.state, ModelState::kReady);
}

/// Two models that are waited for together: the one that came does not make way for the other.
TEST_F(AliasPool, PendingTargets_WhileOneStillLoads_AreNotEvicted) {
  Bench local_bench(no_dwelling());
  local_bench.boot();
  local_bench.add_model(1024, 4, 16, true, "a");  // 65,100 bytes each
  local_bench.add_model(1024, 4, 16, false, "b");
  local_bench.add_model(1024, 4, 16, false, "c");
  wire::Hello hello = local_bench.hello("w1");
  hello.memory.total = hello.memory.free = 145'000;  // for two
  local_bench.step(FromWorker{kW1, hello});
  local_bench.make_ready(kW1);
  op.targets = parse_targets("a").value();
  local_bench.step(op);
  op.targets = parse_targets("b,c").value();
  op.when_ready = true;
  local_bench.step(op);
  ASSERT_EQ(local_bench.messages<wire::Load>(kW1).size(), 1u);
  local_bench.make_ready(kW1);
  ASSERT_EQ(local_bench.machine.registry().models().at("b").row.state, ModelState::kReady);
  local_bench.advance_ms(1000);
  EXPECT_TRUE(local_bench.messages<wire::Unload>().empty());
  EXPECT_EQ(local_bench.machine.registry().models().at("c").row.state, ModelState::kPlacing);
  local_bench.advance_ms(local_bench.machine.config().aliases_ready_timeout_ms);
  EXPECT_EQ(local_bench.messages<wire::Unload>(kW1).size(), 1u) << "it was given up";
}

}  // namespace
}  // namespace holdfast::core::alias_test
