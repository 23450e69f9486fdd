// Goal: every row that the store writes has its right checksum, whether it was summed from what was
// bound or by SQL, and it is the number that an earlier program wrote.
// Method: each kind of change there is, one after another, with the whole file checked after each;
// the same with a store that is opened anew before each change; the text of the statements.
#include "control/store/summed.h"

#include <gtest/gtest.h>

#include <cctype>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

#include "control/store/check.h"
#include "control/store/row_checksum.h"
#include "tests/store/temp_state.h"

namespace holdfast::store::summed_test {
namespace {

namespace fs = std::filesystem;

core::InsertRequest two_choices(core::Seq seq) {
  core::InsertRequest c = request_row(seq, "key" + std::to_string(seq));
  c.row.route_key = 0xFFFF'FFFF'FFFF'FFF1ULL;
  c.row.n = 2;
  c.choices.resize(2);
  c.choices[1].choice = 1;
  c.payload.prompt_text = {"echo"};
  return c;
}

core::UpdateRequest update(core::Seq seq, core::RequestState state) {
  core::UpdateRequest c;
  c.seq = seq;
  c.state = state;
  c.numerics_class = "class";
  c.started_ms = 5;
  c.finished_ms = wire::is_terminal(state) ? 9 : 0;
  c.error = std::string("why\0not", 7);
  return c;
}

core::BeginAttempt begin(core::Seq seq, std::int32_t choice, std::uint64_t counter) {
  core::BeginAttempt c;
  c.seq = seq;
  c.choice = choice;
  c.fence = {1, counter};
  c.worker_key = "worker";
  c.started_ms = 7;
  return c;
}

void add_requests(std::vector<core::RowChange>& all) {
  for (const core::Seq seq : {1, 2, 3}) all.emplace_back(two_choices(seq));
  all.emplace_back(update(1, core::RequestState::kRunning));
  all.emplace_back(begin(1, 0, 1));
  all.emplace_back(begin(1, 1, 2));
  all.emplace_back(chunk(1, 0, {5, 6}));
  all.emplace_back(progress(1, 2));
  all.emplace_back(core::EndAttempt{1, 0, {1, 1}, 8, 2, "worker lost"});
  all.emplace_back(begin(1, 0, 3));
  all.emplace_back(core::InsertChunk{{0, {8}, {}}, 1, 1});
  core::UpdateChoice blamed = progress(1, 1);
  blamed.row.choice = 1;
  blamed.row.deaths = 2;
  blamed.row.error = "died";
  all.emplace_back(blamed);
  all.emplace_back(core::EndAttempt{1, 1, {1, 2}, 8, 2, "again"});
  all.emplace_back(core::AliasChange{core::RerouteRequest{2, "other", "other_sha", "m"}});
  all.emplace_back(update(2, core::RequestState::kCancelled));
  all.emplace_back(update(1, core::RequestState::kSucceeded));
  all.emplace_back(core::EndAttempt{1, 0, {1, 3}, 9, 2, "late"});
  all.emplace_back(core::DeleteRequest{3});
}

void add_models(std::vector<core::RowChange>& all) {
  core::ModelRow model;
  model.name = "m";
  core::LoadRow load;
  load.load_id = "load";
  for (const int again : {1, 2}) {
    model.slots = load.slots = again;
    model.reason = load.reason = "reason " + std::to_string(again);
    load.bytes = 100 * again;
    all.emplace_back(core::PutModel{model});
    all.emplace_back(core::PutModelBlobs{"sha", "tokenizer", "pieces " + model.reason});
    all.emplace_back(core::PutLoad{load});
    all.emplace_back(core::PutFlag{"flag", load.reason});
  }
  all.emplace_back(core::InsertTransition{"model", "m", "a", "b", 5, 6, 7, "because"});
  core::ConfigVersion version;
  version.version = 1;
  all.emplace_back(core::InsertConfigVersion{version});
  core::ModelRow gone;
  gone.name = "gone";
  all.emplace_back(core::PutModel{gone});
  all.emplace_back(core::DeleteModel{"gone"});
}

void add_aliases(std::vector<core::RowChange>& all) {
  core::AliasRow alias;
  alias.name = "alias";
  alias.id = 3;
  core::CanaryRow canary;
  canary.id = 9;
  canary.alias = "alias";
  for (const int again : {1, 2}) {
    alias.pending_who = canary.who = "who " + std::to_string(again);
    all.emplace_back(core::AliasChange{core::PutAlias{alias}});
    all.emplace_back(core::AliasChange{core::PutCanary{canary}});
  }
  all.emplace_back(core::AliasChange{
      core::InsertAliasHistory{core::AliasHistoryRow{"alias", 5, "w", "set", "", "m", "r"}}});
  core::CanaryWindowRow window;
  window.canary = 9;
  window.window = 1;
  all.emplace_back(core::AliasChange{core::InsertCanaryWindow{window}});
  core::AliasRow gone;
  gone.name = "gone";
  gone.id = 4;
  all.emplace_back(core::AliasChange{core::PutAlias{gone}});
  all.emplace_back(core::AliasChange{core::DeleteAlias{"gone"}});
}

void add_objects(std::vector<core::RowChange>& all) {
  core::ObjectRow object;
  object.seq = 1;
  object.kind = "file";
  object.id = "kept";
  object.body = "{}";
  object.version = 1;
  object.bytes = 4;
  all.emplace_back(core::PutObject{object, "part"});
  object.version = 2;
  object.body = R"({"changed":true})";
  object.bytes = 8;
  all.emplace_back(core::PutObject{object, "more"});
  object.seq = 2;
  object.id = "gone";
  object.bytes = 0;
  all.emplace_back(core::PutObject{object, ""});
  all.emplace_back(core::DeleteObject{2});
}

/// Every kind of change; those that change an existing row twice.
std::vector<core::RowChange> every_change() {
  std::vector<core::RowChange> all;
  add_requests(all);
  add_models(all);
  add_aliases(all);
  add_objects(all);
  return all;
}

std::string sums_of(const std::string& db) {
  std::string sums;
  for (const char* table : {"requests", "payloads", "choices", "attempts", "models", "loads",
                            "canaries", "aliases", "objects"}) {
    sums += read_sql(db, std::string("SELECT '") + table +
                             " ' || group_concat(checksum) || ';' FROM (SELECT checksum FROM " +
                             table + " ORDER BY checksum)");
  }
  return sums;
}

std::string unsummed_of(const std::string& db) {
  for (const CheckedTable& table : checked_tables()) {
    const std::string without =
        read_sql(db, std::string("SELECT count(*) FROM ") + table.name + " WHERE checksum IS NULL");
    if (without != "0") return table.name;
  }
  return "";
}

// Fails for a kind of change that every_change() lacks.
TEST(ChecksummedWrites, EveryChange_CoversAllRowAndAliasChanges) {
  std::set<std::size_t> rows;
  std::set<std::size_t> aliases;
  for (const core::RowChange& change : every_change()) {
    rows.insert(change.index());
    const auto* alias = std::get_if<core::AliasChange>(&change);
    if (alias != nullptr) aliases.insert(alias->index());
  }
  EXPECT_EQ(rows.size(), std::variant_size_v<core::RowChange>);
  EXPECT_EQ(aliases.size(), std::variant_size_v<core::AliasChange>);
}

TEST(ChecksummedWrites, Checksums_AfterEachKindOfChange_AreValid) {
  const std::vector<core::RowChange> all = every_change();
  std::string summed_here;
  for (std::size_t upto = 1; upto <= all.size(); ++upto) {
    // Tokens come in one group with their count.
    if (std::holds_alternative<core::InsertChunk>(all[upto - 1])) continue;
    const TempState state(true);
    {
      auto store = open_store(state.dir());
      ASSERT_TRUE(store->raise_epoch(1'000).has_value());
      for (std::size_t i = 0; i < upto; ++i) commit(*store, {all[i]});
    }
    const auto checked = check_file(state.db());
    ASSERT_TRUE(checked.has_value())
        << "change " << upto << ", kind " << all[upto - 1].index() << ": " << checked.error().what;
    EXPECT_EQ(unsummed_of(state.db()), "") << "change " << upto;
    summed_here = sums_of(state.db());
  }
  const TempState state(true);
  for (const core::RowChange& change : all) {
    auto store = open_store(state.dir());
    commit(*store, {change});
  }
  const auto checked = check_file(state.db());
  EXPECT_TRUE(checked.has_value()) << checked.error().what;
  EXPECT_EQ(sums_of(state.db()), summed_here) << "the first was summed by SQL";
}

// Sums that a rolled back group left in memory must not be used for a row.
TEST(ChecksummedWrites, PendingChecksums_WhenAGroupRollsBack_AreDiscarded) {
  const TempState state(true);
  {
    OpenOptions options;
    options.state_dir = state.dir();
    options.max_pages = 200;
    auto store = std::move(Store::open(options)).value();
    commit(*store, {two_choices(1)});
    core::InsertRequest large = two_choices(2);
    large.payload.meta = std::string(2 << 20, 'x');
    const auto full = store->apply(std::vector<core::RowChange>{large}, core::Durability::kFull);
    ASSERT_FALSE(full);
    ASSERT_EQ(full.error().code, Errc::kDiskFull);
    core::InsertRequest other = two_choices(2);
    other.row.tenant = "another";
    commit(*store, {update(1, core::RequestState::kRunning), progress(1, 0), other});
    commit(*store, {update(2, core::RequestState::kFailed)});
  }
  const auto checked = check_file(state.db());
  EXPECT_TRUE(checked.has_value()) << checked.error().what;
}

bool names_table(const std::string& text, const std::string& verb, const std::string& table) {
  const std::string words = verb + " " + table;
  for (std::size_t at = text.find(words); at != std::string::npos; at = text.find(words, at + 1)) {
    const char next = text[at + words.size()];
    if (next != '_' && std::isalnum(static_cast<unsigned char>(next)) == 0) return true;
  }
  return false;
}

// Rows of checked tables are written by statements of row_checksum.h and summed.h alone.
TEST(ChecksummedWrites, SqlStatements_WhenWritingCheckedTables_UseTheChecksumHelpers) {
  int files = 0;
  for (const auto& entry : fs::recursive_directory_iterator(HOLDFAST_SOURCE_DIR "/control")) {
    if (entry.path().extension() != ".cpp") continue;
    std::ifstream in(entry.path());
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    ++files;
    for (const CheckedTable& table : checked_tables()) {
      // A restore writes the epoch of a database that has no checksums yet.
      const bool older =
          entry.path().filename() == "restore.cpp" && std::string("epochs") == table.name;
      if (older) continue;
      EXPECT_FALSE(names_table(text, "INTO", table.name)) << entry.path() << " " << table.name;
      EXPECT_FALSE(names_table(text, "UPDATE", table.name)) << entry.path() << " " << table.name;
    }
  }
  EXPECT_GT(files, 20);
}

// Existing databases have sums of this hash, and the function that their rows are compared by gives
// what the migration's gave.
TEST(ChecksummedWrites, RowHash_WithFixedValues_IsUnchanged) {
  sqlite3* db = nullptr;
  ASSERT_EQ(sqlite3_open(":memory:", &db), SQLITE_OK);
  ASSERT_TRUE(define_checksums(db).has_value());
  EXPECT_EQ(query_int(db,
                      "SELECT row_checksum('a', 1, 'b', -1, 'c', NULL, 'd', x'00FF', 'e', '',"
                      " 'f', '1', 'g', '12', 'h', '123', 'i', '1234', 'j', '1234567',"
                      " 'k', '12345678', 'l', '1234567890123')")
                .value(),
            67'173'220'308'773);
  const std::string values = "'seq', 7, 'params', '{}', 'meta', '', 'prompt_text', NULL, 'crc', 99";
  EXPECT_EQ(query_int(db, "SELECT row_checksum(" + values + ")").value(), 103'549'080'364'400);
  EXPECT_EQ(query_int(db, "SELECT payloads_checksum(7, '{}', '', NULL, 99)").value(),
            103'549'080'364'400);
  sqlite3_close(db);
}

TEST(ChecksummedWrites, Crc32c_WithInstructionOrTable_GivesTheSameSum) {
  std::string bytes;
  for (int size = 0; size < 100; ++size) {
    EXPECT_EQ(crc32c(bytes), crc32c_by_table(bytes)) << size;
    EXPECT_EQ(crc32c(bytes, 77), crc32c_by_table(bytes, 77)) << size;
    bytes += static_cast<char>(size * 37);
  }
}

}  // namespace
}  // namespace holdfast::store::summed_test
