#include "bench/lib/disk.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <vector>

#include "control/store/disk.h"
#include "control/store/open.h"
#include "control/store/sqlite.h"

namespace holdfast::bench {
namespace {

constexpr int kCheckpointPages = 4000;

int on_wal(void* pages, sqlite3*, const char*, int count) {
  *static_cast<int*>(pages) = count;
  return SQLITE_OK;
}

/// The three statements of an admission, with values of the size that the daemon stores.
class BareRows {
 public:
  Result<void> prepare(sqlite3* db) {
    HOLDFAST_TRY(request_, store::Statement::prepare(
                               db,
                               "INSERT INTO requests(seq, id, tenant, idem_key, body_hash, model,"
                               " model_sha, state, priority, class, config_version, n, max_tokens,"
                               " on_disconnect, created_ms) VALUES (?,?,'default',NULL,?,'bench',?,"
                               "'queued',1,'',0,1,16,0,1700000000000)"));
    HOLDFAST_TRY(payload_, store::Statement::prepare(
                               db,
                               "INSERT INTO payloads(seq, params, meta, prompts, prompt_text, crc)"
                               " VALUES (?,?,'',?,NULL,12345)"));
    HOLDFAST_TRY(
        choice_,
        store::Statement::prepare(
            db, "INSERT INTO choices(seq, choice, prompt, prompt_tokens) VALUES (?,0,0,16)"));
    return {};
  }
  Result<void> insert(std::int64_t seq) {
    char id[32];
    std::snprintf(id, sizeof id, "01hf%022lld", static_cast<long long>(seq));
    HOLDFAST_CHECKED(
        request_.use().bind(seq).bind(std::string_view(id)).bind(hash_).bind(hash_).run());
    HOLDFAST_CHECKED(payload_.use().bind(seq).bind(params_).bind_blob(prompts_).run());
    return choice_.use().bind(seq).run();
  }

 private:
  store::Statement request_, payload_, choice_;
  const std::string hash_ = std::string(64, 'a');
  const std::string params_ = std::string(300, 'p');
  const std::string prompts_ = std::string(72, 'i');
};

}  // namespace

Result<Summary> measure_sync(const std::string& dir, int writes) {
  const std::string path = dir + "/sync-probe";
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (fd < 0) return Error{Errc::kIo, "open " + path + ": " + std::strerror(errno)};
  const std::string page(4096, 'x');
  std::vector<double> took;
  for (int i = 0; i < writes; ++i) {
    const std::int64_t begin = now_us();
    if (write(fd, page.data(), page.size()) != 4096 || fdatasync(fd) != 0) {
      close(fd);
      return Error{Errc::kIo, "write " + path + ": " + std::strerror(errno)};
    }
    took.push_back(static_cast<double>(now_us() - begin) / 1000);
  }
  close(fd);
  unlink(path.c_str());
  return summarize(std::move(took));
}

Result<BareSqlite> measure_bare_sqlite(const std::string& dir, int group, double seconds) {
  std::filesystem::create_directories(dir);
  HOLDFAST_TRY(store::Db db, store::open_database(store::real_disk(), dir));
  int wal_pages = 0;
  sqlite3_wal_hook(db.get(), &on_wal, &wal_pages);
  BareRows rows;
  HOLDFAST_CHECKED(rows.prepare(db.get()));
  std::vector<double> commits;
  std::int64_t seq = 0;
  const std::int64_t begin = now_us();
  const auto limit = static_cast<std::int64_t>(seconds * 1e6);
  while (now_us() - begin < limit) {
    HOLDFAST_CHECKED(store::exec(db.get(), "BEGIN IMMEDIATE"));
    for (int i = 0; i < group; ++i) HOLDFAST_CHECKED(rows.insert(++seq));
    const std::int64_t commit = now_us();
    HOLDFAST_CHECKED(store::exec(db.get(), "COMMIT"));
    commits.push_back(static_cast<double>(now_us() - commit) / 1000);
    if (wal_pages < kCheckpointPages) continue;
    sqlite3_wal_checkpoint_v2(db.get(), nullptr, SQLITE_CHECKPOINT_PASSIVE, nullptr, nullptr);
    wal_pages = 0;
  }
  BareSqlite result;
  result.rows_per_s = static_cast<double>(seq) * 1e6 / static_cast<double>(now_us() - begin);
  result.commit_ms = summarize(std::move(commits));
  return result;
}

}  // namespace holdfast::bench
