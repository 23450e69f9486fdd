#include "tests/store/temp_state.h"

#include <gtest/gtest.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>

#include "control/store/check.h"
#include "control/store/row_checksum.h"
#include "control/store/sqlite.h"

namespace holdfast::store {

TempState::TempState(bool in_memory) {
  const std::filesystem::path memory = "/dev/shm";
  const bool shm = in_memory && access(memory.c_str(), W_OK) == 0;
  const auto base = shm ? memory : std::filesystem::temp_directory_path();
  std::string pattern = (base / "hf-store-XXXXXX").string();
  CHECK(mkdtemp(pattern.data()) != nullptr);
  dir_ = pattern;
}

TempState::~TempState() {
  std::error_code ignored;
  std::filesystem::remove_all(dir_, ignored);
}

std::unique_ptr<Store> open_store(const std::string& dir) {
  OpenOptions options;
  options.state_dir = dir;
  options.lock_wait_ms = 0;
  auto store = Store::open(options);
  return std::move(store).value();
}

core::InsertRequest request_row(core::Seq seq, const std::string& idem_key) {
  core::InsertRequest insert;
  insert.row.seq = seq;
  insert.row.id = "r" + std::to_string(seq);
  insert.row.tenant = "t";
  insert.row.idem_key = idem_key;
  insert.row.body_hash = "h";
  insert.row.model = "m";
  insert.row.model_sha = "sha";
  insert.row.max_tokens = 100;
  insert.row.created_ms = 1;
  insert.choices.resize(1);
  insert.payload.sampling.seed = 0xFFFF'FFFF'FFFF'FFFFULL;
  insert.payload.sampling.temperature = 0.7f;
  insert.payload.stops = {"stop", std::string("\xff\x01", 2)};
  insert.payload.meta = "{}";
  insert.payload.prompt_ids = {{1, 2, 3, static_cast<core::TokenId>(seq)}};
  return insert;
}

core::InsertChunk chunk(core::Seq seq, std::int64_t start, std::vector<core::TokenId> ids) {
  return {{start, std::move(ids), {}}, seq, 0};
}

core::UpdateChoice progress(core::Seq seq, std::int64_t next_index) {
  core::UpdateChoice update;
  update.seq = seq;
  update.row.next_index = next_index;
  return update;
}

void commit(Store& store, const std::vector<core::RowChange>& rows, core::Durability durability) {
  const Result<void> done = store.apply(rows, durability);
  CHECK_MSG(done.has_value(), done.has_value() ? "" : done.error().what.c_str());
}

void rewrite_rows(const std::string& path, const std::string& sql) {
  std::string forget;
  for (const CheckedTable& table : checked_tables()) {
    forget += "; UPDATE " + std::string(table.name) + " SET checksum = NULL";
  }
  run_sql(path, sql + forget);
  EXPECT_TRUE(sum_old_rows(path).has_value());
}

void run_sql(const std::string& path, const std::string& sql) {
  sqlite3* db = nullptr;
  ASSERT_EQ(sqlite3_open(path.c_str(), &db), SQLITE_OK);
  char* why = nullptr;
  EXPECT_EQ(sqlite3_exec(db, sql.c_str(), nullptr, nullptr, &why), SQLITE_OK) << (why ? why : "");
  sqlite3_free(why);
  sqlite3_close(db);
}

std::string read_sql(const std::string& path, const std::string& sql) {
  sqlite3* db = nullptr;
  EXPECT_EQ(sqlite3_open_v2(path.c_str(), &db, SQLITE_OPEN_READONLY, nullptr), SQLITE_OK);
  auto text = query_text(db, sql);
  sqlite3_close(db);
  return text ? *text : "error: " + text.error().what;
}

}  // namespace holdfast::store
