// Goal: the check finds a byte that changed in any column of any row, with the table and the key;
// reads of such a row report the damage; an old database opens, and its rows get their checksums.
// Method: rows in every table, each value of each column changed past the store; the file itself
// with one byte flipped; a database as schema 7 leaves it.
#include "control/store/row_checksum.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "control/store/check.h"
#include "schema_sql.h"
#include "tests/store/temp_state.h"

namespace holdfast::store::row_checksum_test {
namespace {

namespace fs = std::filesystem;

core::InsertRequest echoed(core::Seq seq) {
  core::InsertRequest c = request_row(seq, "key" + std::to_string(seq));
  c.row.tenant = "tenant_marker";
  c.payload.meta = "meta_marker";
  c.payload.prompt_text = {"echo_marker"};
  c.payload.echo = true;
  return c;
}

/// Writes at least one row into every table.
void fill(Store& store) {
  ASSERT_TRUE(store.raise_epoch(1'000).has_value());
  commit(store, {echoed(1), echoed(2)});
  core::BeginAttempt attempt;
  attempt.seq = 1;
  attempt.fence = {1, 7};
  attempt.worker_key = "worker_marker";
  attempt.started_ms = 77;
  core::EndAttempt end{1, 0, {1, 7}, 88, 3, "reason_marker"};
  core::UpdateRequest update;
  update.seq = 2;
  update.state = core::RequestState::kSucceeded;
  update.finished_ms = 123'456;
  commit(store, {attempt, chunk(1, 0, {5, 6, 7}), progress(1, 3), end, update});
  core::ModelRow model;
  model.name = "model_marker";
  model.sha = "sha_marker";
  model.path = "/path_marker";
  core::LoadRow load;
  load.load_id = "load_marker";
  load.worker_key = "w";
  load.bytes = 4'711;
  core::InsertTransition transition{"model", "key_marker", "a", "b", 5, 6, 7, "because"};
  core::ConfigVersion version;
  version.version = 1;
  version.source = "source_marker";
  commit(store,
         {core::PutModel{model}, core::PutModelBlobs{"sha_marker", "tokenizer", "pieces_marker"},
          core::PutLoad{load}, transition, core::PutFlag{"flag_marker", "1"},
          core::InsertConfigVersion{version}});
  core::AliasRow alias;
  alias.name = "alias_marker";
  alias.id = 3;
  alias.targets = {{"model_marker", 100}};
  core::AliasHistoryRow history{"alias_marker", 5, "who_marker", "set", "", "m", "r"};
  core::CanaryRow canary;
  canary.id = 9;
  canary.alias = "alias_marker";
  canary.model = "canary_marker";
  core::CanaryWindowRow window;
  window.canary = 9;
  window.window = 1;
  window.decision = "decision_marker";
  commit(store, {core::AliasChange{core::PutAlias{alias}},
                 core::AliasChange{core::InsertAliasHistory{history}},
                 core::AliasChange{core::PutCanary{canary}},
                 core::AliasChange{core::InsertCanaryWindow{window}}});
  core::ObjectRow object;
  object.seq = 1;
  object.kind = "file";
  object.id = "object_marker";
  object.owner = "owner_marker";
  object.version = 1;
  object.body = R"({"body":"body_marker"})";
  object.bytes = 16;
  commit(store, {core::PutObject{object, "content_marker_!"}});
  ASSERT_TRUE(store.make_secret("secret_marker", "value_marker").has_value());
}

TEST(RowChecksum, Check_WhenAnyColumnOfAnyRowChanges_FindsIt) {
  const TempState state(true);
  const TempState snapshot(true);
  fill(*open_store(state.dir()));
  ASSERT_TRUE(check_file(state.db()).has_value());
  fs::copy_file(state.db(), snapshot.db());
  int changed = 0;
  for (const CheckedTable& table : checked_tables()) {
    ASSERT_NE(read_sql(state.db(), std::string("SELECT count(*) FROM ") + table.name), "0")
        << table.name << " has no row to damage";
    for (const char* column : table.columns) {
      // A number, the last letter of a text or a byte of a blob changes; NULL becomes a text.
      const std::string c = column;
      const std::string other = "CASE typeof(" + c + ") WHEN 'integer' THEN " + c +
                                " + 40 WHEN 'null' THEN '1' WHEN 'blob' THEN CAST(substr(" + c +
                                ", 2) AS BLOB) ELSE substr(" + c + ", 1, length(" + c +
                                ") - 1) || '~' END";
      const std::string where =
          std::string(" WHERE rowid = (SELECT min(rowid) FROM ") + table.name + ")";
      const bool keyed = std::string(table.name) == "choices" ||
                         std::string(table.name) == "attempts" ||
                         std::string(table.name) == "canary_windows";
      run_sql(state.db(), std::string("PRAGMA foreign_keys=OFF; PRAGMA ignore_check_constraints=ON;"
                                      " UPDATE OR IGNORE ") +
                              table.name + " SET " + c + " = " + other +
                              (keyed ? " WHERE 1" : where));
      const auto found = check_file(state.db());
      ASSERT_FALSE(found) << table.name << "." << c;
      EXPECT_EQ(found.error().code, Errc::kCorrupt);
      EXPECT_NE(found.error().what.find(std::string("table ") + table.name + ", row "),
                std::string::npos)
          << table.name << "." << c << ": " << found.error().what;
      ++changed;
      fs::copy_file(snapshot.db(), state.db(), fs::copy_options::overwrite_existing);
    }
  }
  EXPECT_GT(changed, 140);
  EXPECT_TRUE(check_file(state.db()).has_value());
}

TEST(RowChecksum, Check_WhenAByteIsFlipped_NamesTableAndKey) {
  const TempState state(true);
  fill(*open_store(state.dir()));
  std::ifstream in(state.db(), std::ios::binary);
  const std::string whole{std::istreambuf_iterator<char>(in), {}};
  struct Row {
    const char* marker;
    const char* table;
    const char* key;
  };
  for (const Row& row :
       {Row{"meta_marker", "payloads", "2"}, Row{"echo_marker", "payloads", "2"},
        Row{"tenant_marker", "requests", "2 (r2)"}, Row{"worker_marker", "attempts", "1/0"},
        Row{"reason_marker", "attempts", "1/0"}, Row{"/path_marker", "models", "model_marker"},
        Row{"pieces_marker", "model_blobs", "sha_marker"},
        Row{"source_marker", "config_versions", "1"}, Row{"key_marker", "transitions", "1"},
        Row{"who_marker", "alias_history", "1"}, Row{"canary_marker", "canaries", "9"},
        Row{"decision_marker", "canary_windows", "9/1"},
        Row{"owner_marker", "objects", "1 (file object_marker)"},
        Row{"body_marker", "objects", "row 1 (file object_marker)"},
        Row{"content_marker_!", "object_parts", "object row 1"}}) {
    // A marker may stand in the file more than once: in the table, an index, or an older copy.
    int found = 0;
    for (std::size_t at = whole.find(row.marker); at != std::string::npos;
         at = whole.find(row.marker, at + 1)) {
      std::string bad = whole;
      bad[at + 2] = static_cast<char>(bad[at + 2] ^ 0x04);
      std::ofstream(state.db(), std::ios::binary | std::ios::trunc) << bad;
      const auto checked = check_file(state.db());
      if (checked) continue;  // in a free part of a page, or an older copy
      const std::string& what = checked.error().what;
      found += what.find(row.table) != std::string::npos && what.find(row.key) != std::string::npos;
    }
    EXPECT_GE(found, 1) << row.marker;
  }
}

TEST(RowChecksum, Read_WhenARowIsDamaged_ReportsItAsCorrupt) {
  const TempState state(true);
  fill(*open_store(state.dir()));
  const std::string off = "PRAGMA ignore_check_constraints=ON; ";
  run_sql(state.db(), "UPDATE requests SET state='cancelled' WHERE seq=2");
  {
    auto store = open_store(state.dir());
    const auto found = store->find_by_id("r2").value();
    ASSERT_TRUE(found);
    EXPECT_EQ(found->row.state, core::RequestState::kFailed);
    EXPECT_EQ(found->row.error_code, "corrupt");
    const auto listed = store->list_requests({}).value();
    EXPECT_EQ(listed.rows.size(), 2u) << "the other one is there too";
  }
  run_sql(state.db(), "UPDATE payloads SET prompt_text='[\"other\"]' WHERE seq=1");
  {
    auto store = open_store(state.dir());
    const auto text = store->prompt_text(1);
    ASSERT_FALSE(text);
    EXPECT_EQ(text.error().code, Errc::kCorrupt);
    EXPECT_FALSE(store->find_by_id("r1").value()->damaged.empty());
  }
  run_sql(state.db(), "UPDATE objects SET owner='another'");
  EXPECT_EQ(open_store(state.dir())->find_object("file", "object_marker").error().code,
            Errc::kCorrupt);
  run_sql(state.db(), "UPDATE models SET sha='another'");
  const auto boot = open_store(state.dir())->load();
  ASSERT_TRUE(boot.has_value()) << boot.error().what;
  EXPECT_EQ(boot->models[0].state, core::ModelState::kFailed);
  run_sql(state.db(), "UPDATE flags SET value='0'");
  EXPECT_EQ(open_store(state.dir())->load().error().code, Errc::kCorrupt);
}

// An UPDATE must not make a good checksum of damage.
TEST(RowChecksum, Update_WhenTheRowIsAlreadyDamaged_DoesNotHideIt) {
  const TempState state(true);
  fill(*open_store(state.dir()));
  run_sql(state.db(), "UPDATE requests SET tenant='another', error='x' WHERE seq=1");
  {
    auto store = open_store(state.dir());
    core::UpdateRequest update;
    update.seq = 1;
    update.state = core::RequestState::kFailed;
    update.error = "ended";
    commit(*store, {update});
  }
  EXPECT_FALSE(check_file(state.db()));
}

// Rows whose damaged time says that they expire are not deleted.
TEST(RowChecksum, Expiry_WhenATimestampIsDamaged_DeletesNothing) {
  const TempState state(true);
  fill(*open_store(state.dir()));
  run_sql(state.db(), "UPDATE objects SET expires_ms=1; UPDATE requests SET finished_ms=1");
  auto store = open_store(state.dir());
  EXPECT_TRUE(store->expired_objects(1'000'000, 10).value().empty());
  const auto oldest = store->oldest(0, 10);
  ASSERT_TRUE(oldest.has_value());
  for (const auto& row : oldest.value().rows) EXPECT_EQ(row.finished_ms, 0);
}

TEST(RowChecksum, SumOldRows_WhenTheSchemaIsOlder_AddsChecksums) {
  const TempState state(true);
  fill(*open_store(state.dir()));
  // As an older program leaves the file: the same rows, no checksums.
  constexpr int kWithoutChecksums = 7;  // the schema before they came
  std::string undo = "DROP TABLE log_mark; ALTER TABLE models DROP COLUMN profile;";
  for (const CheckedTable& table : checked_tables()) {
    if (std::string(table.name) == "log_mark") continue;
    undo += std::string(" ALTER TABLE ") + table.name + " DROP COLUMN checksum;";
  }
  undo += " PRAGMA user_version=" + std::to_string(kWithoutChecksums);
  run_sql(state.db(), undo);
  ASSERT_TRUE(check_file(state.db()).has_value()) << "as it is";
  {
    auto store = open_store(state.dir());
    EXPECT_TRUE(store->load().has_value());
    EXPECT_TRUE(store->find_by_id("r1").value()->damaged.empty());
    commit(*store, {echoed(3), progress(1, 3)});
  }
  const auto before = check_file(state.db()).value();
  EXPECT_EQ(before.unsummed, 7) << "requests, payloads, choices of two, one attempt";
  EXPECT_GT(before.rows, 12);
  // A new row without a checksum is damage.
  run_sql(state.db(), "UPDATE requests SET checksum=NULL WHERE seq=3");
  EXPECT_FALSE(check_file(state.db()));
  EXPECT_EQ(sum_old_rows(state.db()).value(), 8);
  EXPECT_EQ(check_file(state.db()).value().unsummed, 0);
  EXPECT_TRUE(open_store(state.dir())->find_by_id("r1").value()->damaged.empty());
  run_sql(state.db(), "UPDATE requests SET tenant='another' WHERE seq=1");
  EXPECT_FALSE(check_file(state.db()));
}

TEST(RowChecksum, Check_WhenTokenRowsOrObjectPartsMoveOrVanish_FindsIt) {
  const TempState state(true);
  const TempState snapshot(true);
  fill(*open_store(state.dir()));
  fs::copy_file(state.db(), snapshot.db());
  for (const char* sql :
       {"UPDATE tail SET start=1", "UPDATE tail SET seq=2", "UPDATE tail SET choice=1",
        "DELETE FROM tail", "UPDATE object_parts SET at=1", "DELETE FROM object_parts",
        "UPDATE object_parts SET seq=5"}) {
    run_sql(state.db(), sql);
    const auto found = check_file(state.db());
    ASSERT_FALSE(found) << sql;
    EXPECT_NE(found.error().what.find("table "), std::string::npos) << found.error().what;
    fs::copy_file(snapshot.db(), state.db(), fs::copy_options::overwrite_existing);
  }
}

}  // namespace
}  // namespace holdfast::store::row_checksum_test
