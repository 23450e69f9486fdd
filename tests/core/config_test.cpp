// Goal: configuration is a chain of versions that can be trusted: what is set is in effect or says
// that it waits, bad values change nothing, the last change wins wherever it was made, and every
// value can be explained.
// Method: the pure functions, and the machine by events; restarts boot a second machine from the
// rows of the first.
#include "control/core/config_version.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/core/bench_machine.h"

namespace holdfast::core::config_test {
namespace {

constexpr PeerId kOperator = Bench::kOperator;

OpConfig set(const std::string& name, std::int64_t value) {
  return {kOperator, 1, "config.set", "ann", {{name, std::to_string(value)}}, {}};
}

ConfigImport import(const std::string& source, std::vector<Assignment> content) {
  return {source, "", std::move(content)};
}

Boot boot_with(const Bench& before, std::vector<ConfigImport> imports) {
  Boot boot = before.database();
  boot.imports = std::move(imports);
  return boot;
}

TEST(Config, ConfigSet_WhenValid_IsStoredAsAVersionAndInEffect) {
  Bench bench;
  bench.boot();
  bench.step(set("queue.max_requests", 7));
  EXPECT_EQ(bench.durability, Durability::kFull);
  EXPECT_EQ(bench.machine.config().queue_max_requests, 7);
  ASSERT_EQ(bench.written<InsertConfigVersion>().size(), 1u);
  const ConfigVersion v = bench.written<InsertConfigVersion>()[0].version;
  EXPECT_EQ(v.version, 1);
  EXPECT_EQ(v.who, "ann");
  EXPECT_EQ(v.change, "queue.max_requests 100000 -> 7");
  EXPECT_EQ(v.settings.at("queue.max_requests").value, KnobValue(std::int64_t{7}));
  bench.add_model();
  bench.submit(bench.submission("r1"));
  EXPECT_EQ(bench.written<InsertRequest>()[0].row.config_version, 1);
}

TEST(Config, RestartKnob_WhenSet_WaitsForTheRestart) {
  Bench bench;
  bench.boot();
  const std::int64_t before = bench.machine.config().link_high_water;
  bench.step(set("link.high_water", before + 1));
  EXPECT_EQ(bench.machine.config().link_high_water, before);
  EXPECT_EQ(bench.machine.config_history().config_version().settings.at("link.high_water").value,
            KnobValue(std::int64_t{before + 1}));
  bench.step(set("queue.max_requests", 9));  // another change must not let it slip in
  EXPECT_EQ(bench.machine.config().link_high_water, before);
  Bench again;
  again.boot(bench.database(), 2);
  EXPECT_EQ(again.machine.config().link_high_water, before + 1);
}

TEST(Config, EveryKnob_WhenSetAndUnset_TakesEffect) {
  for (const Knob& knob : knobs()) {
    Bench bench;
    bench.boot();
    const NamedKnob named(knob);
    const KnobValue standard = named.value(bench.machine.config());
    const KnobValue other = knob.text != nullptr              ? KnobValue("/srv/models")
                            : named.get(Config()) == knob.max ? KnobValue(knob.min)
                                                              : KnobValue(knob.max);
    bench.step(OpConfig{
        kOperator, 1, "config.set", "ann", {{std::string(knob.name), to_text(other)}}, {}});
    Bench again;
    again.boot(bench.database(), 2);
    EXPECT_EQ(named.value(again.machine.config()), other) << knob.name;
    EXPECT_EQ(named.value(bench.machine.config()), knob.restart ? standard : other) << knob.name;
    again.step(OpConfig{
        kOperator, 2, "config.unset", "ann", {{std::string(knob.name), std::nullopt}}, {}});
    Bench last;
    last.boot(again.database(), 3);
    EXPECT_EQ(named.value(last.machine.config()), standard) << knob.name;
  }
}

TEST(Config, SubjectKnob_WhenSetForOneOrAll_AppliesToThem) {
  for (const SubjectKind& kind : subject_kinds()) {
    for (const Knob& knob : kind.knobs) {
      if (knob.subject_text != nullptr) continue;  // prefix_group_test
      Bench bench;
      bench.boot();
      const std::string prefix(kind.prefix);
      const std::string knob_name(knob.name);
      const auto now = [&](const std::string& who) {
        return find_knob(prefix + "." + who + "." + knob_name)->get(bench.machine.config());
      };
      const std::int64_t standard = now("ann.lee@home");
      EXPECT_EQ(find_knob(prefix + ".ann.lee@home." + knob_name)->name(),
                prefix + ".ann.lee@home." + knob_name);
      bench.step(set(prefix + ".*." + knob_name, knob.max - 1));
      bench.step(set(prefix + ".ann.lee@home." + knob_name, knob.max));
      EXPECT_EQ(now("ann.lee@home"), knob.max) << knob_name;
      EXPECT_EQ(now("ann"), knob.max - 1) << knob_name;
      EXPECT_EQ(knobs_of({&bench.machine.config_history().config_version()}).size(),
                knobs().size() + 2);
      Bench again;
      again.boot(bench.database(), 2);
      EXPECT_EQ((again.machine.config().*kind.effective)("ann.lee@home").*knob.subject_field,
                knob.max);
      for (const std::string who : {"ann.lee@home", "*"}) {
        bench.step(OpConfig{kOperator,
                            2,
                            "config.unset",
                            "ann",
                            {{prefix + "." + who + "." + knob_name, std::nullopt}},
                            {}});
      }
      EXPECT_EQ(now("ann.lee@home"), standard) << knob_name;
    }
  }
  for (const char* bad : {"tenant.weight", "tenant..weight", "tenant.a.size", "tenant.", "tenant",
                          "worker.a.weight", "model.a.weight", "tenants.a.weight"}) {
    EXPECT_FALSE(find_knob(bad).has_value()) << bad;
  }
}

TEST(Config, SubjectKnob_WhenSetAtSeveralLevels_PrefersTheMostSpecific) {
  Config config;
  ASSERT_TRUE(set_knob(config, "models.replicas=5"));
  EXPECT_EQ(config.model("m").replicas, 5);
  ASSERT_TRUE(set_knob(config, "model.*.replicas=4"));
  EXPECT_EQ(config.model("m").replicas, 4);
  ASSERT_TRUE(set_knob(config, "model.m.replicas=0"));
  EXPECT_EQ(config.model("m").replicas, 0);
  EXPECT_EQ(config.model("other").replicas, 4);
  EXPECT_EQ(config.tenant("t").max_requests, config.queue_max_tenant_requests);
  EXPECT_EQ(config.tenant("t").weight, 1);
}

TEST(Config, ParseAssignment_WithSeveralEqualsSigns_SplitsAtTheFirst) {
  EXPECT_EQ(parse_assignment("a.b=c")->name, "a.b");
  EXPECT_EQ(parse_assignment("a.b=c")->value, "c");
  EXPECT_EQ(parse_assignment("a==b")->value, "=b");
  EXPECT_EQ(parse_assignment("a=")->value, "");
  EXPECT_FALSE(parse_assignment("=a"));
  EXPECT_FALSE(parse_assignment("a"));
  EXPECT_FALSE(parse_assignment(""));
}

TEST(Config, ConfigSet_WhenInvalid_ChangesNothing) {
  Bench bench;
  bench.boot();
  const std::vector<std::vector<Assignment>> bad = {
      {},
      {{"no.such_knob", "1"}},
      {{"queue.max_requests", "0"}},
      {{"queue.max_requests", "many"}},
      {{"queue.max_requests", "5"}, {"queue.max_bytes", "-1"}},  // one bad one spoils all
      {{"no.such_knob", std::nullopt}},
  };
  for (const auto& changes : bad) {
    bench.step(OpConfig{kOperator, 1, "config.set", "ann", changes, {}});
    ASSERT_EQ(bench.sent.size(), 1u);
    EXPECT_FALSE(std::get<SendOpResult>(bench.sent[0]).ok);
    EXPECT_EQ(bench.machine.config_history().config_version().version, 0);
  }
  bench.step(OpConfig{kOperator, 1, "config.rollback", "ann", {}, 4});
  EXPECT_EQ(std::get<SendOpResult>(bench.sent[0]).refusal.code, Errc::kNotFound);
  EXPECT_TRUE(bench.written<InsertConfigVersion>().empty());
}

TEST(Config, ConfigRollback_ToAnOldVersion_CreatesANewOne) {
  Bench bench;
  bench.boot();
  bench.step(set("queue.max_requests", 7));
  bench.step(set("queue.max_requests", 8));
  bench.step(OpConfig{kOperator, 3, "config.rollback", "bob", {}, 1});
  EXPECT_EQ(bench.machine.config().queue_max_requests, 7);
  EXPECT_EQ(bench.machine.config_history().config_version().version, 3);
  EXPECT_EQ(
      bench.machine.config_history().config_version().settings.at("queue.max_requests").version, 1);
  bench.step(OpConfig{kOperator, 4, "config.rollback", "bob", {}, 0});  // the defaults
  EXPECT_EQ(bench.machine.config().queue_max_requests, Config{}.queue_max_requests);
}

/// Knobs that are read once at a start say so, and no others do: operators go by it.
TEST(Config, RestartKnobs_AreThoseListed) {
  std::vector<std::string> names;
  for (const Knob& knob : knobs()) {
    if (knob.restart) names.emplace_back(knob.name);
  }
  std::sort(names.begin(), names.end());
  EXPECT_EQ(names,
            (std::vector<std::string>{
                "link.client_heartbeat_ms", "link.client_message_bytes", "link.client_timeout_ms",
                "link.high_water", "link.ingress_message_bytes", "link.outbox_messages",
                "link.worker_message_bytes", "queue.read_requests", "storage.refuse_lost_log",
                "storage.reserve_bytes", "workers.adoption_window_ms"}));
}

TEST(Config, SubjectKnobs_NeedNoRestart) {
  for (const SubjectKind& kind : subject_kinds()) {
    for (const Knob& knob : kind.knobs) {
      EXPECT_FALSE(knob.restart) << kind.prefix << " " << knob.name;
    }
  }
}

TEST(Config, RestartKnob_WhenImportedAtStart_TakesEffect) {
  Bench bench;
  bench.boot(boot_with(Bench(), {import("environment", {{"queue.read_requests", "7"}})}));
  EXPECT_TRUE(find_knob("queue.read_requests")->knob().restart);
  EXPECT_EQ(bench.machine.config().queue_read_requests, 7);
}

TEST(Config, ConfigImport_WhenUnchanged_DoesNotOverrideTheOperator) {
  Bench first;
  first.boot(boot_with(Bench(), {import("environment", {{"queue.max_requests", "50"}})}));
  EXPECT_EQ(first.machine.config().queue_max_requests, 50);
  first.step(set("queue.max_requests", 60));

  Bench second;  // the same environment: the operator's later word stands
  second.boot(boot_with(first, {import("environment", {{"queue.max_requests", "50"}})}), 2);
  EXPECT_EQ(second.machine.config().queue_max_requests, 60);
  EXPECT_TRUE(second.written<InsertConfigVersion>().empty());

  Bench third;  // a changed one is later still
  third.boot(boot_with(first, {import("environment", {{"queue.max_requests", "70"}})}), 2);
  EXPECT_EQ(third.machine.config().queue_max_requests, 70);
  EXPECT_EQ(
      third.machine.config_history().config_version().settings.at("queue.max_requests").source,
      "environment");
}

TEST(Config, ConfigImport_WhenItDropsAValue_ResetsItUnlessOthersSetIt) {
  Bench first;
  first.boot(boot_with(
      Bench(), {import("file", {{"queue.max_requests", "50"}, {"queue.max_preparing", "60"}})}));
  first.step(set("queue.max_preparing", 61));
  Bench second;
  second.boot(boot_with(first, {import("file", {})}), 2);
  EXPECT_EQ(second.machine.config().queue_max_requests, Config{}.queue_max_requests);
  EXPECT_EQ(second.machine.config().queue_max_preparing, 61);
}

TEST(Config, ConfigImport_FromSeveralSources_PrefersTheLatest) {
  Bench bench;
  Boot boot;
  boot.imports = {import("file", {{"queue.max_requests", "50"}}),
                  import("environment", {{"queue.max_requests", "51"}}),
                  import("command line", {{"queue.max_requests", "52"}})};
  bench.boot(boot);
  EXPECT_EQ(bench.machine.config().queue_max_requests, 52);
  EXPECT_EQ(bench.machine.config_history().versions().size(), 3u);
}

TEST(Config, UnknownKnob_WhenStored_IsPreservedWithoutEffect) {
  ConfigVersion old;
  old.version = 4;
  old.settings["from.another_release"] = {5, "operator", "ann", 4, 1};
  Boot boot;
  boot.config_versions = {old};
  Bench bench;
  bench.boot(boot);
  bench.step(set("queue.max_requests", 7));
  EXPECT_EQ(bench.machine.config_history().config_version().settings.count("from.another_release"),
            1u);
  bench.step(
      OpConfig{kOperator, 2, "config.unset", "ann", {{"from.another_release", std::nullopt}}, {}});
  EXPECT_EQ(bench.machine.config_history().config_version().settings.count("from.another_release"),
            0u);
}

TEST(Config, SetKnob_WhenInvalid_ExplainsTheError) {
  Config config;
  const auto wrong = [&](const std::string& assignment) {
    const Result<void> set = set_knob(config, assignment);
    return set ? std::string() : set.error().what;
  };
  EXPECT_EQ(wrong("tenant.t.weight=7"), "");
  EXPECT_EQ(wrong("tenant.t.weight=7x"), "config tenant.t.weight: \"7x\" is not a whole number")
      << "it has no unit";
  EXPECT_EQ(wrong("queue.max_requests=7 "),
            "config queue.max_requests: \"7 \" is not a whole number of " +
                std::string(find_knob("queue.max_requests")->knob().unit));
  EXPECT_EQ(wrong("tenant.t.weight=1001"),
            "config tenant.t.weight: 1001 is out of range; expected 1 to 1000 ");
  const std::string near = wrong("tenant.t.wait=7");
  EXPECT_NE(near.find("known here: tenant.NAME.weight, "), std::string::npos) << near;
  EXPECT_EQ(near.find("worker."), std::string::npos) << near;
  EXPECT_EQ(config.tenant("t").weight, 7) << "bad ones change nothing";
}

TEST(Config, FindKnob_WhenTheSubjectNameExceeds128Bytes_FindsNothing) {
  const std::string name(128, 'n');
  EXPECT_TRUE(find_knob("tenant." + name + ".weight").has_value());
  EXPECT_FALSE(find_knob("tenant." + name + "n.weight").has_value());
  EXPECT_FALSE(find_knob("tenant..weight").has_value());
  EXPECT_FALSE(find_knob("tenant.weight").has_value());
}

/// A database of another version: a value that a knob cannot hold leaves the knob as it is.
TEST(Config, RestoreKnob_WhenTheStoredTypeDiffers_LeavesTheValue) {
  Config config;
  const std::int64_t requests = config.queue_max_requests;
  find_knob("queue.max_requests")->restore(config, KnobValue(std::string("many")));
  EXPECT_EQ(config.queue_max_requests, requests);
  find_knob("queue.max_requests")->restore(config, KnobValue(std::int64_t{-5}));
  EXPECT_EQ(config.queue_max_requests, find_knob("queue.max_requests")->knob().min);
  find_knob("models.roots")->restore(config, KnobValue(std::string("/models")));
  EXPECT_EQ(config.model_roots, "/models");
  find_knob("models.roots")->restore(config, KnobValue(std::int64_t{5}));
  EXPECT_EQ(config.model_roots, "/models") << "5 is no directory";
}

TEST(Config, Setting_WhenSetToTheSameValue_RetainsItsVersion) {
  Bench bench;
  bench.boot();
  const auto setting = [&] {
    return bench.machine.config_history().config_version().settings.at("queue.max_requests");
  };
  bench.step(set("queue.max_requests", 7));
  bench.step(set("queue.max_requests", 7));
  EXPECT_EQ(bench.machine.config_history().config_version().version, 2);
  EXPECT_EQ(bench.machine.config_history().config_version().change, "no value changed");
  EXPECT_EQ(setting().version, 1);
  bench.step(set("queue.max_requests", 8));
  EXPECT_EQ(setting().version, 3);
  Bench next;
  next.boot(boot_with(bench, {import("file", {{"queue.max_requests", "8"}})}), 2);
  const auto imported =
      next.machine.config_history().config_version().settings.at("queue.max_requests");
  EXPECT_EQ(imported.source, "file") << "another source says the same";
  EXPECT_EQ(imported.version, 4);
}

TEST(Config, StartupConfig_WhenComputedBeforeAStart_IsWhatTheStartUses) {
  const Config base;
  EXPECT_EQ(startup_config(base, {}, {}).queue_max_requests, base.queue_max_requests);
  const ConfigImport file = import("file", {{"queue.max_requests", "8"}});
  EXPECT_EQ(startup_config(base, {}, {file}).queue_max_requests, 8);
  Bench bench;
  bench.boot(boot_with(Bench(), {file}));
  bench.step(set("queue.max_requests", 9));
  const auto versions = bench.machine.config_history().versions();
  EXPECT_EQ(startup_config(base, versions, {file}).queue_max_requests, 9)
      << "the file says nothing new";
  const ConfigImport bad = import("line", {{"queue.max_requests", "many"}});
  EXPECT_EQ(startup_config(base, versions, {bad}).queue_max_requests, 9)
      << "what is refused changes nothing";
  const ConfigImport line = import("line", {{"queue.max_requests", "10"}});
  EXPECT_EQ(startup_config(base, versions, {file, bad, line}).queue_max_requests, 10);
}

TEST(Config, ConfigHistory_BeyondItsLimit_DropsTheOldestVersion) {
  Bench bench;
  bench.boot();
  for (std::int64_t i = 1; i <= 1001; ++i) bench.step(set("queue.max_requests", i));
  EXPECT_EQ(bench.machine.config_history().versions().size(), kConfigVersionsMax);
  EXPECT_EQ(bench.machine.config_history().versions().front().version, 2);
  const auto back_to = [&](std::int64_t version) {
    bench.step(OpConfig{kOperator, 1, "config.rollback", "ann", {}, version});
    for (const Outgoing& out : bench.sent) {
      if (const auto* r = std::get_if<SendOpResult>(&out); r && !r->ok) return r->refusal.code;
    }
    return Errc::kInternal;
  };
  EXPECT_EQ(back_to(1), Errc::kNotFound);
  EXPECT_EQ(back_to(2), Errc::kInternal);
  EXPECT_EQ(bench.machine.config().queue_max_requests, 2);
}

}  // namespace
}  // namespace holdfast::core::config_test
