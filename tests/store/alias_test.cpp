// Goal: aliases, canaries and their decisions come back from the database as they went in, also
// into a file that an older program made; a reroute changes its request alone. Method: rows by
// hand, then a new store on the same file.
#include <gtest/gtest.h>

#include "control/core/canary.h"
#include "schema_sql.h"
#include "tests/store/temp_state.h"

namespace holdfast::store::alias_test {
namespace {

using core::AliasChange;

core::AliasRow alias_row() {
  core::AliasRow row;
  row.name = "chat";
  row.id = 3;
  row.targets = {{"a", 3}, {"b.q8_0", 1}};
  row.pending = {{"c", 1000}};
  row.pending_who = "ann";
  row.pending_ms = 5;
  row.created_ms = 6;
  row.changed_ms = 7;
  return row;
}

core::CanaryRow canary_row(std::int64_t id) {
  core::CanaryRow row;
  row.id = id;
  row.alias = "chat";
  row.model = "c";
  row.state = core::CanaryState::kRunning;
  std::int64_t value = 10;
  for (const core::CanaryField& field : core::canary_fields()) row.settings.*field.field = ++value;
  row.windows = 2;
  row.passed = 1;
  row.suspect = true;
  row.started_ms = 8;
  row.who = "ann";
  row.reason = "because";
  return row;
}

core::CanaryWindowRow window_row(std::int64_t canary, std::int64_t window) {
  core::CanaryWindowRow row;
  row.canary = canary;
  row.window = window;
  row.started_ms = 1;
  row.ended_ms = 2;
  row.decision = "roll back";
  row.reason = "slow";
  std::int64_t value = window * 100;
  for (const core::EvidenceField& field : core::evidence_fields()) {
    row.canary_side.*field.field = ++value;
    row.stable_side.*field.field = -value;
  }
  return row;
}

TEST(AliasRows, AliasesAndCanaries_WhenTheStoreIsReopened_AreTheSame) {
  const TempState state;
  {
    auto store = open_store(state.dir());
    commit(*store,
           {AliasChange{core::PutAlias{alias_row()}}, AliasChange{core::PutCanary{canary_row(1)}},
            AliasChange{core::PutCanary{canary_row(2)}},
            AliasChange{core::InsertCanaryWindow{window_row(2, 1)}},
            AliasChange{core::InsertCanaryWindow{window_row(2, 2)}},
            AliasChange{core::InsertAliasHistory{
                {"chat", 4, "ann", "created", "", "a=3,b.q8_0=1", "why"}}}});
    core::CanaryRow ended = canary_row(1);
    ended.state = core::CanaryState::kRolledBack;
    ended.ended_ms = 99;
    commit(*store, {AliasChange{core::PutCanary{ended}}});
  }
  auto store = open_store(state.dir());
  const core::Boot boot = store->load().value();
  ASSERT_EQ(boot.aliases.size(), 1u);
  const core::AliasRow alias = alias_row();
  EXPECT_EQ(boot.aliases[0].id, alias.id);
  EXPECT_EQ(boot.aliases[0].targets, alias.targets);
  EXPECT_EQ(boot.aliases[0].pending, alias.pending);
  EXPECT_EQ(boot.aliases[0].pending_who, "ann");
  EXPECT_EQ(boot.aliases[0].pending_ms, 5);
  EXPECT_EQ(boot.aliases[0].created_ms, 6);
  EXPECT_EQ(boot.aliases[0].changed_ms, 7);
  ASSERT_EQ(boot.canaries.size(), 2u);
  EXPECT_EQ(boot.canaries[0].state, core::CanaryState::kRolledBack);
  EXPECT_EQ(boot.canaries[0].ended_ms, 99);
  EXPECT_EQ(boot.canaries[1].state, core::CanaryState::kRunning);
  EXPECT_EQ(boot.canaries[1].settings, canary_row(2).settings);
  EXPECT_TRUE(boot.canaries[1].suspect);
  EXPECT_EQ(boot.canaries[1].passed, 1);
  EXPECT_EQ(boot.canaries[1].started_ms, 8);
  EXPECT_EQ(boot.canaries[1].windows, 2);
  EXPECT_EQ(boot.canaries[1].who, "ann");
  EXPECT_EQ(boot.canaries[1].reason, "because");
  EXPECT_EQ(boot.canaries[1].alias, "chat");
  EXPECT_EQ(boot.canaries[1].model, "c");

  const auto windows = store->canary_windows("chat", 10).value();
  ASSERT_EQ(windows.size(), 2u);
  EXPECT_EQ(windows[0].window, 2);
  EXPECT_EQ(windows[0].started_ms, 1);
  EXPECT_EQ(windows[0].ended_ms, 2);
  EXPECT_EQ(windows[0].decision, "roll back");
  EXPECT_EQ(windows[0].reason, "slow");
  for (const core::EvidenceField& field : core::evidence_fields()) {
    EXPECT_EQ(windows[0].canary_side.*field.field, window_row(2, 2).canary_side.*field.field);
    EXPECT_EQ(windows[0].stable_side.*field.field, window_row(2, 2).stable_side.*field.field);
  }
  const auto history = store->alias_history("chat", 10).value();
  ASSERT_EQ(history.size(), 1u);
  EXPECT_EQ(history[0].alias, "chat");
  EXPECT_EQ(history[0].to, "a=3,b.q8_0=1");
  EXPECT_EQ(store->canaries("chat", 1).value()[0].id, 2);
  EXPECT_TRUE(store->alias_history("other", 10).value().empty());
  commit(*store, {AliasChange{core::DeleteAlias{"chat"}}});
  EXPECT_TRUE(store->load().value().aliases.empty());
  EXPECT_EQ(store->alias_history("chat", 10).value().size(), 1u);
}

TEST(AliasRows, RerouteRequest_WhenCommitted_ChangesThatRequestAlone) {
  const TempState state;
  auto store = open_store(state.dir());
  for (const core::Seq seq : {1, 2}) {
    core::InsertRequest insert = request_row(seq);
    insert.row.alias = "chat";
    insert.row.route_key = 0xFFFF'0000'FFFF'0001ULL;
    insert.row.canary = 7;
    commit(*store, {insert});
  }
  commit(*store, {AliasChange{core::RerouteRequest{1, "stable", "sha-s", "m"}}});
  const core::RequestRow moved = store->find_by_id("r1").value()->row;
  EXPECT_EQ(moved.model + " " + moved.model_sha + " " + moved.rerouted_from, "stable sha-s m");
  EXPECT_EQ(moved.canary, 0);
  EXPECT_EQ(moved.alias, "chat");
  EXPECT_EQ(moved.route_key, 0xFFFF'0000'FFFF'0001ULL);
  const core::RequestRow other = store->find_by_id("r2").value()->row;
  EXPECT_EQ(other.model + " " + other.model_sha + other.rerouted_from, "m sha");
  EXPECT_EQ(other.canary, 7);
}

TEST(AliasRows, CanarySettings_WhenMissingOrMistyped_HaveDefaults) {
  const TempState state;
  auto store = open_store(state.dir());
  core::AliasRow alias = alias_row();
  alias.pending.clear();
  commit(*store, {AliasChange{core::PutAlias{alias}}, AliasChange{core::PutCanary{canary_row(1)}}});
  const auto& first = core::canary_fields()[0];
  const auto& second = core::canary_fields()[1];
  rewrite_rows(state.db(), "UPDATE canaries SET settings = '{\"" + std::string(first.name) +
                               "\": 77, \"" + second.name + "\": \"many\"}'");
  const core::Boot boot = store->load().value();
  EXPECT_TRUE(boot.aliases.at(0).pending.empty()) << "nothing waits";
  core::CanaryRow expected = canary_row(1);
  expected.settings = {};
  expected.settings.*first.field = 77;
  EXPECT_EQ(boot.canaries.at(0).settings, expected.settings);
}

TEST(AliasRows, Load_WhenARowIsDamaged_NamesIt) {
  const auto error_after = [](const std::string& sql) {
    const TempState state;
    auto store = open_store(state.dir());
    commit(*store,
           {AliasChange{core::PutAlias{alias_row()}}, AliasChange{core::PutCanary{canary_row(4)}},
            AliasChange{core::InsertCanaryWindow{window_row(4, 2)}}});
    rewrite_rows(state.db(), sql);  // with new checksums, so only their content is wrong
    const auto boot = store->load();
    if (!boot) return std::string(errc_name(boot.error().code)) + " " + boot.error().what;
    const auto windows = store->canary_windows("chat", 10);
    if (windows) return std::string("nothing");
    return std::string(errc_name(windows.error().code)) + " " + windows.error().what;
  };
  EXPECT_EQ(error_after(""), "nothing");
  for (const char* column : {"targets", "pending"}) {
    const std::string what =
        error_after(std::string("UPDATE aliases SET ") + column + " = 'a=3,b=x'");
    EXPECT_EQ(what.find("corrupt aliases: targets of chat: "), 0u) << what;
  }
  EXPECT_EQ(error_after("UPDATE canaries SET settings = '{'"),
            "corrupt canaries: settings of canary 4: the stored JSON is damaged");
  for (const char* column : {"canary_side", "stable_side"}) {
    EXPECT_EQ(error_after(std::string("UPDATE canary_windows SET ") + column + " = '[]'"),
              "corrupt canary_windows: window 2 of canary 4: the stored JSON is damaged");
  }
}

TEST(AliasRows, Open_WhenTheSchemaIsOlder_AddsTheAliasTables) {
  const TempState state;
  run_sql(state.db(), "BEGIN;" + std::string(kMigrations[0]) + kMigrations[1] +
                          "INSERT INTO models VALUES ('m','sha','/p',1,1,'llama',1,1,1,1,'f16',1,0,"
                          "1,1,1,'','',0,'registered','',1,1);"
                          "PRAGMA application_id=" +
                          std::to_string(kApplicationId) + "; PRAGMA user_version=2; COMMIT");
  auto store = open_store(state.dir());
  const core::Boot boot = store->load().value();
  ASSERT_EQ(boot.models.size(), 1u);
  EXPECT_EQ(boot.models[0].last_used_ms, 1);
  EXPECT_EQ(boot.models[0].tokenizer_sha, "");
  commit(*store, {AliasChange{core::PutAlias{alias_row()}}});
  EXPECT_EQ(store->load().value().aliases.size(), 1u);
}

}  // namespace
}  // namespace holdfast::store::alias_test
