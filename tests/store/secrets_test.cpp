// Goal: a database makes its secrets once and retains them, also a database that an older program
// made. Method: the store opened again and again, a file with the previous schema.
#include <gtest/gtest.h>

#include "control/store/open.h"
#include "schema_sql.h"
#include "tests/store/temp_state.h"

namespace holdfast::store::secrets_test {
namespace {

TEST(Secrets, Secret_WhenTheStoreIsReopened_IsTheSame) {
  const TempState state;
  {
    auto store = open_store(state.dir());
    EXPECT_EQ(store->secret("ids").value(), "");
    ASSERT_TRUE(store->make_secret("ids", std::string(32, 'a')));
    ASSERT_TRUE(store->make_secret("ids", std::string(32, 'b')));
    EXPECT_EQ(store->secret("ids").value(), std::string(32, 'a')) << "made once";
    ASSERT_TRUE(store->make_secret("prefix", std::string(31, 'c') + '\0'));
  }
  auto store = open_store(state.dir());
  ASSERT_TRUE(store->make_secret("ids", std::string(32, 'd')));
  EXPECT_EQ(store->secret("ids").value(), std::string(32, 'a'));
  EXPECT_EQ(store->secret("prefix").value(), std::string(31, 'c') + '\0') << "any bytes";
  EXPECT_EQ(store->secret("other").value(), "");
}

TEST(Secrets, Secret_WhenTheSchemaIsOlder_IsCreatedAfterMigration) {
  const TempState state;
  std::string sql = "BEGIN;";
  for (int v = 0; v < 6; ++v) sql += kMigrations[v];
  sql +=
      "PRAGMA application_id=" + std::to_string(kApplicationId) + "; PRAGMA user_version=6; COMMIT";
  run_sql(state.db(), sql);
  auto store = open_store(state.dir());
  ASSERT_TRUE(store->make_secret("ids", std::string(32, 'a')));
  EXPECT_EQ(store->secret("ids").value(), std::string(32, 'a'));
  EXPECT_EQ(read_sql(state.db(), "PRAGMA user_version"), std::to_string(schema_version()));
}

}  // namespace
}  // namespace holdfast::store::secrets_test
