// Goal: a start finds the use of each API key: its live requests and those of the last minute, also
// in a file that an older program made. Method: rows written, the store opened again.
#include <gtest/gtest.h>

#include "control/store/open.h"
#include "schema_sql.h"
#include "tests/store/temp_state.h"

namespace holdfast::store::keys_test {
namespace {

core::InsertRequest of_key(core::Seq seq, const std::string& key, std::int64_t created_ms) {
  core::InsertRequest insert = request_row(seq);
  insert.row.api_key = key;
  insert.row.created_ms = created_ms;
  return insert;
}

TEST(KeyRows, Load_AfterRestart_ReturnsTheUsageOfEachApiKey) {
  const TempState state;
  {
    auto store = open_store(state.dir());
    commit(*store, {of_key(1, "key_a", 1'000), of_key(2, "key_b", 5'000), of_key(3, "", 6'000),
                    of_key(4, "key_a", 7'000), of_key(5, "key_a", 8'000)});
    core::UpdateRequest ended;
    ended.seq = 5;
    ended.state = core::RequestState::kSucceeded;
    commit(*store, {ended});
  }
  auto store = open_store(state.dir());
  const core::Boot boot = store->load(1, 5'000).value();
  EXPECT_EQ(boot.unread, 3) << "unread ones are counted too";
  ASSERT_EQ(boot.keys.size(), 2u);
  EXPECT_EQ(boot.keys[0].key, "key_a");
  EXPECT_EQ(boot.keys[0].live, 2);
  EXPECT_EQ(boot.keys[0].created_ms, (std::vector<std::int64_t>{8'000, 7'000}));
  EXPECT_EQ(boot.keys[1].key, "key_b");
  EXPECT_EQ(boot.keys[1].live, 1);
  EXPECT_EQ(boot.keys[1].created_ms, (std::vector<std::int64_t>{5'000}));
  EXPECT_EQ(store->find_by_id("r4").value()->row.api_key, "key_a");
}

TEST(KeyRows, Open_WhenTheSchemaIsOlder_AddsTheApiKeyColumn) {
  const TempState state;
  std::string sql = "BEGIN;";
  for (int v = 0; v < 5; ++v) sql += kMigrations[v];
  sql +=
      "INSERT INTO requests(seq, id, tenant, body_hash, model, model_sha, state, priority,"
      " config_version, n, max_tokens, on_disconnect, created_ms) VALUES"
      " (1, 'r1', 't', 'h', 'm', 's', 'failed', 1, 1, 1, 8, 0, 77);"
      "PRAGMA application_id=" +
      std::to_string(kApplicationId) + "; PRAGMA user_version=5; COMMIT";
  run_sql(state.db(), sql);
  auto store = open_store(state.dir());
  EXPECT_TRUE(store->load(1, 0).value().keys.empty());
  EXPECT_EQ(read_sql(state.db(), "SELECT api_key || created_ms FROM requests"), "77");
  EXPECT_EQ(read_sql(state.db(), "PRAGMA user_version"), std::to_string(schema_version()));
}

}  // namespace
}  // namespace holdfast::store::keys_test
