// Goal: the database holds what was committed, refuses files that it must not open, and says why.
// Method: real SQLite in a temporary directory; damage and foreign files are made with a second
// connection.
#include "control/store/store.h"

#include <gtest/gtest.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "control/store/backup.h"
#include "control/store/encode.h"
#include "control/store/open.h"
#include "schema_sql.h"
#include "tests/store/temp_state.h"

namespace holdfast::store::store_test {
namespace {

using core::Durability;

Errc open_error(const std::string& dir, std::string* what = nullptr) {
  OpenOptions options;
  options.state_dir = dir;
  options.lock_wait_ms = 0;
  const auto store = Store::open(options);
  if (store) return Errc::kInternal;
  if (what != nullptr) *what = store.error().what;
  return store.error().code;
}

TEST(Store, Open_WhenTheDatabaseIsNew_SetsPragmasAndIdentity) {
  const TempState state;
  auto db = open_database(real_disk(), state.dir());
  ASSERT_TRUE(db) << db.error().what;
  const auto pragma = [&](const char* name) {
    return query_text(db->get(), std::string("PRAGMA ") + name).value();
  };
  EXPECT_EQ(pragma("journal_mode"), "wal");
  EXPECT_EQ(pragma("synchronous"), "2");
  EXPECT_EQ(pragma("wal_autocheckpoint"), "0");
  EXPECT_EQ(pragma("foreign_keys"), "1");
  EXPECT_EQ(pragma("trusted_schema"), "0");
  EXPECT_EQ(pragma("application_id"), std::to_string(kApplicationId));
  EXPECT_EQ(pragma("user_version"), std::to_string(schema_version()));
}

TEST(Store, Request_WhenTheStoreIsReopened_ComesBackWhole) {
  const TempState state;
  auto store = open_store(state.dir());
  core::InsertRequest insert = request_row(1, "key");
  insert.payload.echo = true;
  insert.payload.prompt_text = {"héllo"};
  insert.row.total_deadline_ms = 77;
  commit(*store,
         {insert, chunk(1, 0, {10, 11}), progress(1, 2), chunk(1, 2, {12}), progress(1, 3)});
  store.reset();
  store = open_store(state.dir());
  const core::Boot boot = store->load().value();
  ASSERT_EQ(boot.requests.size(), 1u);
  const core::BootRequest& r = boot.requests[0];
  EXPECT_EQ(r.row.id, "r1");
  EXPECT_EQ(r.row.total_deadline_ms, 77);
  EXPECT_EQ(r.sampling.seed, 0xFFFF'FFFF'FFFF'FFFFULL);
  EXPECT_EQ(r.sampling.temperature, 0.7f);
  EXPECT_EQ(r.stops, insert.payload.stops);
  EXPECT_TRUE(r.echo);
  EXPECT_EQ(r.prompt_tokens, std::vector<std::int64_t>{4});
  EXPECT_EQ(r.choices[0].ids, (std::vector<core::TokenId>{10, 11, 12}));
  EXPECT_EQ(store->prompt_ids(1, 0).value(), insert.payload.prompt_ids[0]);
  EXPECT_EQ(store->prompt_text(1).value(), insert.payload.prompt_text);
  EXPECT_TRUE(store->find_by_key("t", "key").value().has_value());
  EXPECT_FALSE(store->find_by_key("other", "key").value().has_value());
  commit(*store, {request_row(2), request_row(3)});
  EXPECT_FALSE(store->find_by_key("t", "").value().has_value()) << "no key is nobody's key";
  EXPECT_FALSE(store->find_by_id("r4").value().has_value());
  store->release_memory();
  EXPECT_EQ(store->prompt_text(1).value(), insert.payload.prompt_text) << "read once more";
}

TEST(Store, FindById_WhenTheRequestIsQueued_ReturnsItsTokens) {
  const TempState state;
  auto store = open_store(state.dir());
  commit(*store, {request_row(1), chunk(1, 0, {10, 11}), progress(1, 2)});
  const core::BootRequest queued = store->find_by_id("r1").value().value();
  EXPECT_EQ(queued.choices[0].row.next_index, 2);
  EXPECT_EQ(queued.choices[0].ids, (std::vector<core::TokenId>{10, 11}));
}

TEST(Store, Load_WhenTheQueueIsLong_ReadsItInBatches) {
  const TempState state;
  auto store = open_store(state.dir());
  std::vector<core::RowChange> rows;
  for (core::Seq seq = 1; seq <= 9; ++seq) rows.push_back(request_row(seq));
  rows.push_back(core::UpdateRequest{4, core::RequestState::kRunning, core::PriorityClass::kNormal,
                                     "c", 1, 0, "", ""});
  rows.push_back(core::UpdateRequest{5, core::RequestState::kSucceeded,
                                     core::PriorityClass::kNormal, "c", 1, 2, "", ""});
  commit(*store, rows);
  const auto seqs = [](const std::vector<core::BootRequest>& requests) {
    std::vector<core::Seq> out;
    for (const core::BootRequest& r : requests) out.push_back(r.row.seq);
    return out;
  };
  const core::Boot boot = store->load(2).value();
  EXPECT_EQ(seqs(boot.requests), (std::vector<core::Seq>{1, 2, 4}));  // includes all that run
  EXPECT_EQ(boot.unread, 5);
  // Meanwhile one of them ends and a new one comes, which is not of the start's queue.
  commit(*store, {core::UpdateRequest{6, core::RequestState::kCancelled,
                                      core::PriorityClass::kNormal, "", 0, 3, "", ""},
                  request_row(10)});
  const core::BootQueuePage more = store->load_queue_page(3).value();
  EXPECT_EQ(seqs(more.requests), (std::vector<core::Seq>{3, 7, 8}));
  EXPECT_FALSE(more.last);
  const core::BootQueuePage end = store->load_queue_page(3).value();
  EXPECT_EQ(seqs(end.requests), std::vector<core::Seq>{9});
  EXPECT_TRUE(end.last);
  EXPECT_EQ(store->load().value().unread, 0);
  EXPECT_TRUE(store->load_queue_page(3).value().requests.empty());
}

TEST(Store, ListRequests_WithFilters_ReturnsPages) {
  const TempState state;
  auto store = open_store(state.dir());
  EXPECT_EQ(store->list_requests({}).value().next, 0) << "of none";
  for (core::Seq seq = 3; seq <= 9; ++seq) commit(*store, {request_row(seq)});
  rewrite_rows(state.db(), "UPDATE requests SET tenant='shop', model='n' WHERE seq IN (4, 8)");
  rewrite_rows(state.db(), "UPDATE requests SET state='failed' WHERE seq = 8");
  struct Found {
    std::vector<core::Seq> seqs;
    core::Seq next;
    bool operator==(const Found&) const = default;
  };
  const auto find = [&](const Store::RequestSearch& search) {
    const auto page = store->list_requests(search).value();
    Found found{{}, page.next};
    for (const core::RequestRow& row : page.rows) found.seqs.push_back(row.seq);
    return found;
  };
  EXPECT_EQ(find({}), (Found{{9, 8, 7, 6, 5, 4, 3}, 0}));
  EXPECT_EQ(find({.limit = 3}), (Found{{9, 8, 7}, 7}));
  EXPECT_EQ(find({.from = 7, .limit = 3}), (Found{{6, 5, 4}, 4}));
  EXPECT_EQ(find({.from = 4, .limit = 3}), (Found{{3}, 0}));
  EXPECT_EQ(find({.oldest_first = true, .limit = 3}), (Found{{3, 4, 5}, 5}));
  EXPECT_EQ(find({.oldest_first = true, .from = 7, .limit = 3}), (Found{{8, 9}, 0}));
  EXPECT_EQ(find({.model = "n"}), (Found{{8, 4}, 0}));
  EXPECT_EQ(find({.state = "failed", .tenant = "shop"}), (Found{{8}, 0}));
  EXPECT_EQ(find({.tenant = "shop", .id = "4"}), (Found{{4}, 0}));
  EXPECT_EQ(find({.id = "%"}), (Found{{}, 0}));
  // A search for a rare match goes in steps.
  EXPECT_EQ(find({.id = "4", .look_at = 3}), (Found{{}, 7}));
  EXPECT_EQ(find({.id = "4", .from = 7, .look_at = 3}), (Found{{4}, 4}));
  EXPECT_EQ(find({.id = "9", .oldest_first = true, .look_at = 3}), (Found{{}, 5}));
}

TEST(Store, Tokens_WithAnySpan_ReturnsIdsAndExtras) {
  const TempState state;
  auto store = open_store(state.dir());
  core::InsertChunk with_extra = chunk(1, 5, {5, 6});
  with_extra.extra = {"{\"a\":1}", std::string("\xc3", 1)};
  commit(*store, {request_row(1), chunk(1, 0, {0, 1, 2}), chunk(1, 3, {3, 4}), with_extra});
  for (std::int64_t start = 0; start < 7; ++start) {
    for (std::int64_t end = start + 1; end <= 7; ++end) {
      const domain::TokenRun span = store->tokens(1, 0, start, end).value();
      ASSERT_EQ(static_cast<std::int64_t>(span.ids.size()), end - start);
      for (std::int64_t i = start; i < end; ++i) {
        EXPECT_EQ(span.ids[static_cast<std::size_t>(i - start)], i);
      }
      if (end == 7) {
        EXPECT_EQ(span.extra.back(), std::string("\xc3", 1));
      }
    }
  }
  EXPECT_EQ(store->tokens(1, 0, 0, 8).error().code, Errc::kCorrupt);  // never a short answer
}

TEST(Store, Chunk_WhenDamaged_IsDetected) {
  const TempState state;
  auto store = open_store(state.dir());
  commit(*store, {request_row(1), chunk(1, 0, {1, 2})});
  store.reset();
  run_sql(state.db(), "UPDATE tail SET ids = x'0100000003000000'");
  store = open_store(state.dir());
  EXPECT_EQ(store->tokens(1, 0, 0, 2).error().code, Errc::kCorrupt);
}

TEST(Store, Load_WhenOneRequestIsDamaged_ReturnsTheOthers) {
  const TempState state;
  auto store = open_store(state.dir());
  commit(*store,
         {request_row(1), request_row(2), chunk(2, 0, {1}), progress(2, 1), request_row(3)});
  store.reset();
  run_sql(state.db(),
          "UPDATE payloads SET params = 'no JSON' WHERE seq = 1;"
          "UPDATE tail SET crc = 1 WHERE seq = 2");
  store = open_store(state.dir());
  const core::Boot boot = store->load().value();
  ASSERT_EQ(boot.requests.size(), 3u);
  EXPECT_NE(boot.requests[0].damaged, "");
  EXPECT_NE(boot.requests[1].damaged, "");
  EXPECT_EQ(boot.requests[2].damaged, "");
}

/// Writes three requests, the second with an open attempt; then the second is damaged.
TempState& damaged_by(const std::string& sql, TempState& state) {
  {
    auto store = open_store(state.dir());
    core::BeginAttempt attempt;
    attempt.seq = 2;
    attempt.fence = {1, 1};
    core::UpdateRequest started;
    started.seq = 2;
    started.state = core::RequestState::kRunning;
    started.started_ms = 5;
    commit(*store, {request_row(1), request_row(2), started, attempt, request_row(3)});
  }
  run_sql(state.db(), "PRAGMA foreign_keys=OFF; PRAGMA ignore_check_constraints=ON;" + sql);
  return state;
}

TEST(Store, Load_WhenARequestsRowsAreInvalid_MarksOnlyThatOneDamaged) {
  struct Case {
    const char* sql;
    const char* what;
  };
  for (const Case& c : {Case{"DELETE FROM payloads WHERE seq = 2", "payload"},
                        Case{"DELETE FROM choices WHERE seq = 2", "choices"},
                        Case{"UPDATE choices SET choice = 1 WHERE seq = 2", "choices"},
                        Case{"UPDATE choices SET prompt = -1 WHERE seq = 2", "choices"},
                        Case{"UPDATE choices SET prompt = 1 << 30 WHERE seq = 2", "choices"},
                        Case{"UPDATE attempts SET choice = 1 WHERE seq = 2", "attempts"},
                        Case{"UPDATE attempts SET choice = -1 WHERE seq = 2", "attempts"}}) {
    TempState state;
    auto store = open_store(damaged_by(c.sql, state).dir());
    const core::Boot boot = store->load().value();
    ASSERT_EQ(boot.requests.size(), 3u) << c.sql;
    const std::string says = std::string("read ") + c.what + " of request row 2: ";
    EXPECT_EQ(boot.requests[0].damaged, "") << c.sql;
    EXPECT_EQ(boot.requests[1].damaged.find(says), 0u) << boot.requests[1].damaged;
    EXPECT_EQ(boot.requests[2].damaged, "") << c.sql;
    EXPECT_EQ(store->find_by_id("r2").value()->damaged, boot.requests[1].damaged);
    EXPECT_EQ(store->find_by_id("r3").value()->damaged, "");
  }
}

TEST(Store, RequestState_WhenUnparsable_IsFailedAsCorrupt) {
  TempState state;
  auto store =
      open_store(damaged_by("UPDATE requests SET state='runnong' WHERE seq=2", state).dir());
  const auto page = store->list_requests({}).value();
  ASSERT_EQ(page.rows.size(), 3u);
  EXPECT_EQ(page.rows[0].state, core::RequestState::kQueued);
  EXPECT_EQ(page.rows[0].error, "");
  for (const core::RequestRow& row : {page.rows[1], store->find_by_id("r2").value()->row}) {
    EXPECT_EQ(row.id, "r2");
    EXPECT_EQ(row.state, core::RequestState::kFailed);
    EXPECT_EQ(row.error_code, "corrupt");
    EXPECT_EQ(row.error, "the state in request row 2 is damaged");
  }
  EXPECT_EQ(store->load().value().requests.size(), 2u) << "it does not run any more";
}

TEST(Store, FinishReason_WhenUnknown_IsError) {
  TempState state;
  damaged_by("", state);
  rewrite_rows(state.db(), "UPDATE choices SET finish='stap' WHERE seq=2");
  auto store = open_store(state.dir());
  EXPECT_EQ(store->find_by_id("r2").value()->choices.at(0).row.finish, core::FinishReason::kError);
}

TEST(Store, Apply_WhenTheFileIsCorrupt_FailsAndWritesNothing) {
  const TempState state;
  open_store(state.dir()).reset();
  const std::string root =
      read_sql(state.db(), "SELECT rootpage FROM sqlite_schema WHERE name = 'payloads'");
  {
    std::fstream file(state.db(), std::ios::binary | std::ios::in | std::ios::out);
    file.seekp((std::stoll(root) - 1) * 4096);
    file << std::string(100, '\x41');
  }
  auto store = open_store(state.dir());
  const auto refused =
      store->apply(std::vector<core::RowChange>{request_row(1)}, Durability::kFull);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::kCorrupt);
  EXPECT_EQ(refused.error().what.find("commit: run INSERT INTO payloads"), 0u)
      << refused.error().what;
  EXPECT_NE(refused.error().what.find("malformed"), std::string::npos) << refused.error().what;
  EXPECT_FALSE(
      store->apply(std::vector<core::RowChange>{core::PutFlag{"a", "1"}}, Durability::kFull));
  store.reset();
  EXPECT_EQ(read_sql(state.db(), "SELECT count(*) FROM requests"), "0");
}

TEST(Store, Apply_WhenOneRowViolatesAConstraint_RollsBackTheGroup) {
  const TempState state;
  auto store = open_store(state.dir());
  commit(*store, {request_row(1, "key")});
  // The second row breaks UNIQUE(tenant, idem_key): the first must not stay.
  const std::vector<core::RowChange> rows = {request_row(2), request_row(3, "key")};
  const Result<void> done = store->apply(rows, Durability::kFull);
  ASSERT_FALSE(done.has_value());
  EXPECT_EQ(done.error().code, Errc::kStorage);
  // The file's content counts as unknown from here on.
  EXPECT_FALSE(store->apply(std::vector<core::RowChange>{request_row(4)}, Durability::kFull));
  store.reset();
  EXPECT_EQ(read_sql(state.db(), "SELECT group_concat(id) FROM requests"), "r1");
}

TEST(Store, Apply_WhenTheDiskIsFull_RollsBackAndCanBeRetried) {
  // A cap on the pages gives SQLITE_FULL exactly as a full disk does.
  const TempState state;
  OpenOptions options;
  options.state_dir = state.dir();
  options.max_pages = 100;
  auto store = Store::open(options).value();
  core::InsertRequest big = request_row(2);
  big.payload.meta.assign(1 << 20, 'x');
  const std::vector<core::RowChange> rows = {request_row(1), big};
  EXPECT_EQ(store->apply(rows, Durability::kFull).error().code, Errc::kDiskFull);
  EXPECT_EQ(store->apply(rows, Durability::kNormal).error().code, Errc::kDiskFull);
  EXPECT_FALSE(store->find_by_id("r1").value().has_value());  // nothing of the group stayed
  commit(*store, {request_row(1)});
  EXPECT_TRUE(store->find_by_id("r1").value().has_value());
}

TEST(Store, Open_WhenTheFileCannotBeOpened_HintsAtPermissions) {
  const TempState state;
  ASSERT_EQ(mkdir(state.db().c_str(), 0700), 0);  // not even root opens a directory as a file
  OpenOptions options;
  options.state_dir = state.dir();
  const auto store = Store::open(options);
  ASSERT_FALSE(store);
  EXPECT_NE(store.error().what.find("writable for this user?"), std::string::npos);
}

TEST(Store, RaiseEpoch_WhenTheStoreIsReopened_OnlyIncreases) {
  const TempState state;
  for (std::uint64_t i = 1; i <= 3; ++i) {
    EXPECT_EQ(open_store(state.dir())->raise_epoch(5).value(), i);
  }
}

TEST(Store, Open_WhenAnotherProcessOwnsTheStore_NamesTheOwner) {
  const TempState state;
  const auto store = open_store(state.dir());
  std::string what;
  EXPECT_EQ(open_error(state.dir(), &what), Errc::kConflict);
  EXPECT_NE(what.find("pid=" + std::to_string(getpid()) + " role=daemon"), std::string::npos)
      << what;
}

TEST(Store, StateLock_WhenTheOwnerIsDead_IsFree) {
  const TempState state;
  const pid_t child = fork();
  if (child == 0) {
    auto lock = StateLock::acquire(state.dir(), "daemon", 0);
    _exit(lock ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  ASSERT_EQ(status, 0);
  EXPECT_NE(open_store(state.dir()), nullptr);
}

// A killed daemon holds its lock until the kernel is done with it; its successor waits for that.
TEST(Store, StateLock_WhenTheOwnerIsExiting_IsAcquiredAfterIt) {
  const TempState state;
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    auto lock = StateLock::acquire(state.dir(), "daemon", 0);
    if (!lock || write(ends[1], "x", 1) != 1) _exit(1);
    usleep(200'000);
    _exit(0);
  }
  char held = 0;
  ASSERT_EQ(read(ends[0], &held, 1), 1);
  EXPECT_TRUE(StateLock::acquire(state.dir(), "daemon").has_value());
  close(ends[0]);
  close(ends[1]);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST(Store, Open_WhenTheSchemaIsNewer_IsRefused) {
  const TempState state;
  open_store(state.dir()).reset();
  run_sql(state.db(), "PRAGMA user_version=999");
  std::string what;
  EXPECT_EQ(open_error(state.dir(), &what), Errc::kVersionNewer);
  EXPECT_NE(what.find("999"), std::string::npos) << what;
}

TEST(Store, Open_WhenTheFileIsForeignOrDamaged_IsRefused) {
  const TempState foreign;
  run_sql(foreign.db(), "CREATE TABLE mine(a); PRAGMA user_version=1");
  EXPECT_EQ(open_error(foreign.dir()), Errc::kCorrupt);
  // Only a file that is empty in every way becomes ours.
  for (int id : {0, 7}) {
    for (int version : {0, 1}) {
      for (const char* table : {"", "CREATE TABLE mine(a);"}) {
        const TempState state;
        run_sql(state.db(), std::string(table) + "PRAGMA application_id=" + std::to_string(id) +
                                ";PRAGMA user_version=" + std::to_string(version));
        const bool empty = id == 0 && version == 0 && *table == '\0';
        EXPECT_EQ(open_error(state.dir()), empty ? Errc::kInternal : Errc::kCorrupt)
            << id << " " << version << " " << table;
      }
    }
  }
  const TempState text;
  std::ofstream(text.db()) << std::string(8192, 'x');
  EXPECT_EQ(open_error(text.dir()), Errc::kCorrupt);
}

// Root may write everywhere, so as root a child of another user opens the store.
TEST(Store, Open_WhenTheDirectoryIsReadOnly_NamesIt) {
  const TempState state;
  ASSERT_EQ(chmod(state.dir().c_str(), 0555), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    constexpr uid_t kNobody = 65'534;
    if (geteuid() == 0 && setuid(kNobody) != 0) _exit(2);
    std::string what;
    const bool refused = open_error(state.dir(), &what) == Errc::kIo;
    _exit(refused && what.find(state.dir()) != std::string::npos ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  chmod(state.dir().c_str(), 0700);
}

TEST(Store, Migration_WhenItFails_IsRolledBack) {
  // A migration that meets a table of its own name fails as a whole; the file stays at version 0.
  const TempState state;
  run_sql(state.db(),
          "PRAGMA application_id=" + std::to_string(kApplicationId) + "; CREATE TABLE choices(x)");
  EXPECT_NE(open_error(state.dir()), Errc::kInternal);
  EXPECT_EQ(read_sql(state.db(), "PRAGMA user_version"), "0");
  EXPECT_EQ(read_sql(state.db(), "SELECT count(*) FROM sqlite_schema WHERE name='requests'"), "0");
}

TEST(Store, Open_WhenTheSchemaIsOlder_Migrates) {
  const TempState state;
  run_sql(state.db(), "BEGIN;" + std::string(kMigrations[0]) +
                          "INSERT INTO chunks VALUES (1, 0, 0, x'0700000008000000', NULL, " +
                          std::to_string(crc32c(std::string("\x07\0\0\0\x08\0\0\0", 8))) +
                          ");"
                          "PRAGMA application_id=" +
                          std::to_string(kApplicationId) + "; PRAGMA user_version=1; COMMIT");
  EXPECT_TRUE(check_file(state.db()));  // also while it has the older schema
  auto store = open_store(state.dir());
  EXPECT_EQ(read_sql(state.db(), "PRAGMA user_version"), std::to_string(schema_version()));
  commit(*store, {chunk(1, 2, {9})});
  EXPECT_EQ(store->tokens(1, 0, 0, 3)->ids, (std::vector<core::TokenId>{7, 8, 9}));
}

TEST(Store, Readers_WhileTheOwnerWrites_SeeCommittedRows) {
  const TempState state;
  auto store = open_store(state.dir());
  for (core::Seq seq = 1; seq <= 50; ++seq) {
    commit(*store, {request_row(seq)}, Durability::kNormal);
    EXPECT_EQ(read_sql(state.db(), "SELECT count(*) FROM requests"), std::to_string(seq));
    ASSERT_TRUE(store->checkpoint_all());
  }
}

TEST(Store, Checkpoint_WhileAReaderIsOpen_IsDeferredAndWritesGoOn) {
  const TempState state;
  OpenOptions options;
  options.state_dir = state.dir();
  options.idle_checkpoint_pages = 1;
  auto store = Store::open(options).value();
  commit(*store, {request_row(1)});
  sqlite3* reader = nullptr;
  ASSERT_EQ(sqlite3_open(state.db().c_str(), &reader), SQLITE_OK);
  ASSERT_TRUE(exec(reader, "BEGIN; SELECT count(*) FROM requests"));
  commit(*store, {request_row(2)});
  const std::int64_t pages = store->wal_pages();
  EXPECT_TRUE(store->checkpoint_if_due(true));
  EXPECT_TRUE(store->checkpoint_all());
  EXPECT_EQ(store->wal_pages(), pages) << "what the reader does not see stays in the log";
  EXPECT_EQ(query_int(reader, "SELECT count(*) FROM requests").value(), 1);
  commit(*store, {request_row(3)});
  sqlite3_close(reader);
  EXPECT_TRUE(store->checkpoint_all());
  EXPECT_EQ(store->wal_pages(), 0);
  store.reset();
  EXPECT_EQ(read_sql(state.db(), "SELECT count(*) FROM requests"), "3");
}

TEST(Store, Checkpoint_WhenDue_BoundsAndEmptiesTheLog) {
  const TempState state;
  auto store = open_store(state.dir());
  for (core::Seq seq = 1; seq <= 400; ++seq) {
    core::InsertRequest insert = request_row(seq);
    insert.payload.meta.assign(50'000, 'x');
    commit(*store, {insert}, Durability::kNormal);
    ASSERT_TRUE(store->checkpoint_if_due(false));
    ASSERT_LT(store->wal_pages(), 4100);
  }
  ASSERT_TRUE(store->checkpoint_all());
  EXPECT_EQ(store->wal_pages(), 0);
}

TEST(Store, Checkpoint_WhenIdle_MovesASmallLog) {
  const TempState state;
  OpenOptions options;
  options.state_dir = state.dir();
  options.idle_checkpoint_pages = 2;
  auto store = Store::open(options).value();
  ASSERT_TRUE(store->checkpoint_all());
  core::InsertRequest insert = request_row(1);
  insert.payload.meta.assign(50'000, 'x');
  commit(*store, {insert});
  const auto size = std::filesystem::file_size(state.db());
  ASSERT_TRUE(store->checkpoint_if_due(false));
  EXPECT_EQ(std::filesystem::file_size(state.db()), size) << "not while there is work";
  ASSERT_TRUE(store->checkpoint_if_due(true));
  EXPECT_GT(std::filesystem::file_size(state.db()), size);
}

TEST(Store, Checkpoint_AtEachLogLengthThreshold_IsDue) {
  struct Bound {
    std::int64_t OpenOptions::*pages;
    bool idle, truncates;
  };
  const Bound bounds[] = {{&OpenOptions::idle_checkpoint_pages, true, false},
                          {&OpenOptions::busy_checkpoint_pages, false, false},
                          {&OpenOptions::truncate_pages, false, true}};
  const auto fill = [](Store& store) {
    CHECK(store.checkpoint_all().has_value());
    core::InsertRequest insert = request_row(1);
    insert.payload.meta.assign(50'000, 'x');
    commit(store, {insert});
  };
  std::int64_t pages = 0;
  {
    const TempState state;
    auto store = open_store(state.dir());
    fill(*store);
    pages = store->wal_pages();
  }
  ASSERT_GT(pages, 10);
  for (const Bound& bound : bounds) {
    for (const std::int64_t more : {0, 1}) {
      const TempState state;
      OpenOptions options;
      options.state_dir = state.dir();
      options.*bound.pages = pages + more;
      auto store = Store::open(options).value();
      fill(*store);
      ASSERT_EQ(store->wal_pages(), pages);
      ASSERT_TRUE(store->checkpoint_if_due(bound.idle));
      EXPECT_EQ(store->wal_pages(), more == 0 ? 0 : pages);
      const bool empty = std::filesystem::file_size(state.db() + "-wal") == 0;
      EXPECT_EQ(empty, bound.truncates && more == 0);
    }
  }
}

TEST(Store, Stats_WhenRowsAreAddedAndDeleted_ReportsSizes) {
  const TempState state;
  auto store = open_store(state.dir());
  for (core::Seq seq = 1; seq <= 60; ++seq) commit(*store, {request_row(seq)});
  Store::Stats stats = store->stats().value();
  EXPECT_EQ(stats.page_bytes, 4096);
  EXPECT_GT(stats.pages, 10);
  EXPECT_EQ(stats.wal_pages, store->wal_pages());
  EXPECT_GT(stats.wal_pages, 60);
  EXPECT_EQ(stats.free_pages, 0);
  EXPECT_EQ(stats.schema, schema_version());
  EXPECT_GT(stats.disk_free, 0);
  std::vector<core::RowChange> gone;
  for (core::Seq seq = 1; seq <= 60; ++seq) gone.push_back(core::DeleteRequest{seq});
  commit(*store, gone);
  ASSERT_TRUE(store->checkpoint_all());
  stats = store->stats().value();
  EXPECT_EQ(stats.wal_pages, 0);
  EXPECT_GT(stats.free_pages, 0);
  EXPECT_EQ(static_cast<std::int64_t>(std::filesystem::file_size(state.db())), stats.pages * 4096);
  EXPECT_EQ(store->oldest(0, 10)->used_bytes, (stats.pages - stats.free_pages) * 4096);
}

TEST(Store, StatesAndFinishReasons_WhenStored_ComeBack) {
  const TempState state;
  auto store = open_store(state.dir());
  core::Seq seq = 0;
  for (int s = 0; s <= static_cast<int>(core::RequestState::kQuarantined); ++s) {
    for (int f = 0; f <= static_cast<int>(core::FinishReason::kExpired); ++f) {
      core::UpdateRequest request;
      request.seq = ++seq;
      request.state = static_cast<core::RequestState>(s);
      core::UpdateChoice choice;
      choice.seq = seq;
      choice.row.finish = static_cast<core::FinishReason>(f);
      commit(*store, {request_row(seq), request, choice});
      const core::BootRequest back = store->find_by_id("r" + std::to_string(seq)).value().value();
      EXPECT_EQ(back.row.state, request.state);
      EXPECT_EQ(back.choices.at(0).row.finish, choice.row.finish);
      EXPECT_EQ(back.damaged, "");
    }
  }
}

TEST(Store, PromptIds_WhenThePromptIsMissing_IsCorrupt) {
  const TempState state;
  auto store = open_store(state.dir());
  core::InsertRequest insert = request_row(1);
  insert.payload.prompt_ids = {{1, 2}, {3}};
  insert.choices.resize(2);
  insert.choices[1].choice = insert.choices[1].prompt = 1;
  commit(*store, {insert, request_row(2)});
  EXPECT_EQ(store->prompt_ids(1, 0).value(), (std::vector<core::TokenId>{1, 2}));
  EXPECT_EQ(store->prompt_ids(1, 1).value(), (std::vector<core::TokenId>{3}));
  EXPECT_EQ(store->find_by_id("r1").value()->prompt_tokens, (std::vector<std::int64_t>{2, 1}));
  for (const std::int32_t prompt : {-1, 2}) {
    EXPECT_EQ(store->prompt_ids(1, prompt).error().code, Errc::kCorrupt) << prompt;
  }
  EXPECT_EQ(store->prompt_ids(3, 0).error().code, Errc::kCorrupt);
  EXPECT_TRUE(store->prompt_text(1).value().empty());
  EXPECT_EQ(store->prompt_text(3).error().code, Errc::kCorrupt);
  run_sql(state.db(), "UPDATE payloads SET crc = crc + 1 WHERE seq = 1");
  store.reset();
  store = open_store(state.dir());
  EXPECT_EQ(store->prompt_ids(1, 0).error().code, Errc::kCorrupt);
  EXPECT_TRUE(store->prompt_ids(2, 0).has_value());
}

TEST(Store, DecodePrompts_WhenTruncatedOrExtended_IsCorrupt) {
  const std::vector<std::vector<core::TokenId>> prompts = {{1, 2, 3}, {}, {4}};
  const std::string bytes = encode_prompts(prompts);
  EXPECT_EQ(decode_prompts(bytes).value(), prompts);
  for (std::size_t n = 0; n < bytes.size(); ++n) {
    EXPECT_EQ(decode_prompts(bytes.substr(0, n)).error().code, Errc::kCorrupt) << n;
  }
  EXPECT_EQ(decode_prompts(bytes + "x").error().code, Errc::kCorrupt);
  EXPECT_EQ(decode_prompts(std::string("\xff\xff\xff\xff", 4)).error().code, Errc::kCorrupt);
  EXPECT_EQ(decode_ids("12345").error().code, Errc::kCorrupt);
  EXPECT_TRUE(decode_ids("").value().empty());
  EXPECT_EQ(decode_strings("{").error().code, Errc::kCorrupt);
}

TEST(Store, Parameters_WithEitherParser_SurviveARoundTrip) {
  // Parameters without stops, extra and scores of the prompt have a parser of our own, others the
  // JSON parser: both must agree.
  core::PayloadRow payload;
  wire::Sampling& s = payload.sampling;
  s = {0.1f, 40, 0.95f, 0.05f, 0xFFFF'FFFF'FFFF'FFFEULL, true, 3, 5, 1.1f, -0.3f, 1e-7f, ""};
  payload.echo = true;
  const auto same = [](const wire::Sampling& a, const wire::Sampling& b) {
    return a.temperature == b.temperature && a.top_k == b.top_k && a.top_p == b.top_p &&
           a.min_p == b.min_p && a.seed == b.seed && a.ignore_eos == b.ignore_eos &&
           a.min_tokens == b.min_tokens && a.logprobs == b.logprobs &&
           a.prompt_logprobs == b.prompt_logprobs && a.repetition_penalty == b.repetition_penalty &&
           a.extra == b.extra && a.presence_penalty == b.presence_penalty &&
           a.frequency_penalty == b.frequency_penalty;
  };
  for (const std::vector<std::string>& stops :
       {std::vector<std::string>{}, std::vector<std::string>{"a\"b", "\n"}}) {
    payload.stops = stops;
    for (const char* extra : {"", "{\"logit_bias\":{}}"}) {
      s.extra = extra;
      s.prompt_logprobs = s.prompt_logprobs == 4 ? -1 : 4;
      const Params back = decode_params(encode_params(payload)).value();
      EXPECT_TRUE(same(back.sampling, s));
      EXPECT_EQ(back.stops, stops);
      EXPECT_TRUE(back.echo);
    }
  }
  payload.stops = {"x"};
  s.extra = "{}";
  s.prompt_logprobs = 4;
  EXPECT_EQ(encode_params(payload),
            R"({"echo":true,"extra":"{}","frequency_penalty":1.0000000116860974e-07,)"
            R"("ignore_eos":true,"logprobs":5,"min_p":0.05000000074505806,"min_tokens":3,)"
            R"("presence_penalty":-0.30000001192092896,"prompt_logprobs":4,)"
            R"("repetition_penalty":1.100000023841858,"seed":18446744073709551614,"stops":["x"],)"
            R"("temperature":0.10000000149011612,"top_k":40,"top_p":0.949999988079071})");
  EXPECT_EQ(encode_params(core::PayloadRow()),
            R"({"echo":false,"extra":"","frequency_penalty":0,"ignore_eos":false,"logprobs":-1,)"
            R"("min_p":0,"min_tokens":0,"presence_penalty":0,"repetition_penalty":1,"seed":0,)"
            R"("stops":[],"temperature":1,"top_k":0,"top_p":1})");
  EXPECT_EQ(decode_params("{}").error().code, Errc::kCorrupt);
  const std::string whole = encode_params(core::PayloadRow());
  const auto parsed = nlohmann::json::parse(whole);
  for (const auto& [key, value] : parsed.items()) {
    auto cut = parsed;
    cut.erase(key);
    EXPECT_EQ(decode_params(cut.dump()).error().code, Errc::kCorrupt) << key;
    cut[key] = value;
    cut["later"] = 1;  // of a newer release: the JSON parser reads it all the same
    EXPECT_EQ(decode_params(cut.dump()).has_value(), true) << key;
  }
  // Cut, or with another byte, anywhere: damage, or what the JSON parser makes of it.
  for (std::size_t i = 0; i < whole.size(); ++i) {
    EXPECT_EQ(decode_params(whole.substr(0, i)).error().code, Errc::kCorrupt) << i;
    std::string other = whole;
    other[i] = '?';
    EXPECT_EQ(decode_params(other).error().code, Errc::kCorrupt) << i;
  }
  EXPECT_EQ(decode_params(whole + "x").error().code, Errc::kCorrupt);
  EXPECT_TRUE(decode_params(whole + " ").has_value());
}

TEST(Store, SetReserve_WhenEnlarged_AllocatesAtOnce) {
  const TempState state;
  auto store = open_store(state.dir());
  const auto has_file_of = [&](std::uint64_t bytes) {
    for (const auto& entry : std::filesystem::directory_iterator(state.dir())) {
      if (entry.is_regular_file() && entry.file_size() == bytes) return true;
    }
    return false;
  };
  EXPECT_FALSE(has_file_of(3 << 20));
  store->set_reserve(3 << 20);
  EXPECT_TRUE(has_file_of(3 << 20));
  EXPECT_TRUE(store->release_reserve());
  EXPECT_FALSE(has_file_of(3 << 20));
}

TEST(Store, ConfigVersions_WhenDamaged_AreDetected) {
  for (const char* bad :
       {"", "[]", "{}", "{\"settings\":7}", "{\"settings\":{\"a\":7}}", "{\"settings\":{\"a\":{}}}",
        "{\"settings\":{\"a\":{\"value\":1.5}}}", "{\"settings\":{\"a\":{\"value\":[]}}}"}) {
    EXPECT_EQ(decode_config(bad).error().code, Errc::kCorrupt) << bad;
  }
  const auto good =
      decode_config("{\"settings\":{\"a\":{\"value\":1},\"b\":{\"value\":\"x\",\"who\":7}}}");
  ASSERT_TRUE(good);
  EXPECT_EQ(good->settings.at("a").value, core::KnobValue(std::int64_t{1}));
  EXPECT_EQ(good->settings.at("b").value, core::KnobValue("x"));
  EXPECT_EQ(good->settings.at("b").who, "");
  // Imports only say where settings came from: damage in them does not prevent a start.
  const auto odd = decode_config(R"({"settings":{},"imports":7})");
  ASSERT_TRUE(odd);
  EXPECT_TRUE(odd->imports.empty());
  const auto half = decode_config(R"({"settings":{},"imports":{"env":7,"file":"a=1"}})");
  ASSERT_TRUE(half);
  EXPECT_EQ(half->imports, (std::map<std::string, std::string>{{"file", "a=1"}}));
}

TEST(Store, Crc32c_WhenGivenTestVectors_MatchesThem) {
  EXPECT_EQ(crc32c("123456789"), 0xE3069283u);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAu);
  EXPECT_EQ(crc32c("56789", crc32c("1234")), 0xE3069283u);
}

TEST(Store, Request_WhenDeleted_LeavesNoRows) {
  const TempState state;
  auto store = open_store(state.dir());
  for (core::Seq seq = 1; seq <= 3; ++seq) {
    commit(*store, {request_row(seq), chunk(seq, 0, {1, 2}), progress(seq, 2)});
  }
  EXPECT_EQ(store->oldest(0, 10)->rows.size(), 3u);
  EXPECT_EQ(store->oldest(2, 10)->rows.size(), 2u);
  EXPECT_EQ(store->oldest(0, 1).value().rows[0].seq, 1);
  EXPECT_GT(store->oldest(0, 1)->used_bytes, 4096);
  commit(*store, {core::DeleteRequest{2}});
  const Store::Stats stats = store->stats().value();
  for (const auto& [table, rows] : stats.rows) {
    if (table == "requests" || table == "choices" || table == "payloads" || table == "tail") {
      EXPECT_EQ(rows, 2) << table;
    }
  }
  EXPECT_EQ(read_sql(state.db(), "PRAGMA foreign_key_check"), "");
}

TEST(Store, ConfigVersion_WhenTheStoreIsReopened_ComesBackWhole) {
  const TempState state;
  core::ConfigVersion version;
  version.version = 3;
  version.at_ms = 77;
  version.source = "operator";
  version.who = "ann";
  version.change = "a -> b";
  version.settings["queue.max_requests"] = {5, "file", "/etc/hf.conf", 2, 66};
  version.imports["file"] = "queue.max_requests=5\n";
  {
    auto store = open_store(state.dir());
    commit(*store, {core::InsertConfigVersion{version}});
  }
  const core::Boot boot = open_store(state.dir())->load().value();
  ASSERT_EQ(boot.config_versions.size(), 1u);
  const core::ConfigVersion& back = boot.config_versions[0];
  EXPECT_EQ(back.version, 3);
  EXPECT_EQ(back.at_ms, 77);
  EXPECT_EQ(back.source, "operator");
  EXPECT_EQ(back.who, "ann");
  EXPECT_EQ(back.change, "a -> b");
  EXPECT_EQ(back.settings, version.settings);
  EXPECT_EQ(back.imports, version.imports);
}

}  // namespace
}  // namespace holdfast::store::store_test
