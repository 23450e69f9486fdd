// Goal: an upgrade under load costs nobody a token, and there is a way back. Streams go on over the
// restart with every token once, in order, and the text of an undisturbed server, whether the new
// programs have the same kernels and schema, newer kernels (what had begun ends on the old worker
// program, which was kept) or a newer schema. A downgrade is refused with the name of the copy that
// the upgrade made, and `db restore` brings the state back.
// Method: installed trees that are swapped by rename while `serve` runs with 32 streams of the demo
// model on the real engine; SIGTERM, as `systemctl restart` sends it, or SIGKILL of the supervisor.
// The newer programs are today's with one object of their own (tests/process/variants). Each kind
// once; 20 times with HOLDFAST_TEST_FULL=1.
#include <gtest/gtest.h>
#include <sqlite3.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "control/store/open.h"
#include "control/store/upgrade_copy.h"
#include "tests/process/http_stream.h"
#include "tests/process/test_server.h"

namespace holdfast::process::upgrade_test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr int kStreams = 32;

/// Lengths differ, so that at every moment some streams are in their middle.
std::int64_t tokens_of(int stream) {
  return 160 + 20 * (stream % 16);
}
constexpr std::int64_t kTokensOfAll = 2 * (16 * 160 + 20 * 120);

int rounds() {
  return std::getenv("HOLDFAST_TEST_FULL") != nullptr ? 20 : 1;
}

std::string built(const std::string& path) {
  return std::string(HOLDFAST_BUILD_DIR) + "/" + path;
}

/// An installation: DIR/bin/holdfast, and links to the programs that it starts in
/// DIR/libexec/holdfast.
class Tree {
 public:
  explicit Tree(std::string dir) : dir_(std::move(dir)) {
    fs::create_directories(dir_ + "/bin");
    fs::create_directories(libexec());
    std::error_code other_disk;
    fs::create_hard_link(built("bin/holdfast"), holdfast(), other_disk);
    if (other_disk) fs::copy_file(built("bin/holdfast"), holdfast());
    for (const auto& entry : fs::directory_iterator(built("bin"))) {
      const std::string name = entry.path().filename().string();
      const bool ours = name.starts_with("holdfast") && name.find("-bench") == std::string::npos;
      if (ours && name != "holdfast") put(name, entry.path().string());
    }
  }
  std::string holdfast() const { return dir_ + "/bin/holdfast"; }
  std::string libexec() const { return dir_ + "/libexec/holdfast"; }
  /// Puts a link to a program in the place of the one that is there.
  void put(const std::string& name, const std::string& program) const {
    const std::string path = libexec() + "/" + name;
    fs::create_directories(fs::path(path).parent_path());
    fs::remove(path);
    fs::create_symlink(program, path);
  }

 private:
  std::string dir_;
};

/// Rows of a statement, columns joined by "|".
std::vector<std::string> rows(const std::string& state, const std::string& statement) {
  sqlite3* db = nullptr;
  EXPECT_EQ(sqlite3_open_v2((state + "/control.db").c_str(), &db, SQLITE_OPEN_READONLY, nullptr),
            SQLITE_OK);
  sqlite3_busy_timeout(db, 5'000);
  std::vector<std::string> found;
  char* wrong = nullptr;
  sqlite3_exec(
      db, statement.c_str(),
      [](void* out, int columns, char** values, char**) {
        std::string row;
        for (int i = 0; i < columns; ++i) {
          row += (i > 0 ? "|" : "") + std::string(values[i] == nullptr ? "" : values[i]);
        }
        static_cast<std::vector<std::string>*>(out)->push_back(row);
        return 0;
      },
      &found, &wrong);
  EXPECT_EQ(wrong, nullptr) << wrong;
  sqlite3_free(wrong);
  sqlite3_close(db);
  return found;
}

std::string only(const std::string& state, const std::string& statement) {
  const std::vector<std::string> found = rows(state, statement);
  return found.size() == 1 ? found[0] : "(" + std::to_string(found.size()) + " rows)";
}

std::string body_of(int stream) {
  return json{{"model", "demo"},
              {"prompt", "The " + std::to_string(stream) + ". story begins"},
              {"max_tokens", tokens_of(stream)},
              {"temperature", 1.0},
              {"seed", 4'000 + stream},
              {"ignore_eos", true},
              {"stream", true}}
      .dump();
}

std::vector<std::string> serve_flags() {
  return {"--model", "demo=" + demo_model(), "--threads", "1", "--config", "drain.limit_ms=0"};
}

/// The texts of an undisturbed server, by stream; made once.
const std::vector<std::string>& references() {
  static const std::vector<std::string> texts = [] {
    const TempDir dir;
    TestServer server(dir.path() + "/state");
    std::vector<std::string> made;
    EXPECT_TRUE(server.start(serve_flags())) << server.errors();
    for (int i = 0; i < kStreams; ++i) {
      const SseResult result = stream_sse(server.url(), "/v1/completions", body_of(i),
                                          "k" + std::to_string(i), Resume::kPost);
      EXPECT_EQ(result.failure, "");
      EXPECT_EQ(result.index, tokens_of(i));
      made.push_back(result.text);
    }
    EXPECT_EQ(server.stop(), 0);
    return made;
  }();
  return texts;
}

/// Streams that run while the test does something else, each a client that comes back with its key
/// or its id.
class Streams {
 public:
  explicit Streams(std::function<std::string()> url) : results(kStreams), tokens_(kStreams) {
    for (int i = 0; i < kStreams; ++i) threads_.emplace_back([this, i, url] { run(i, url); });
  }
  ~Streams() { join(); }
  Streams(const Streams&) = delete;
  Streams& operator=(const Streams&) = delete;

  void join() {
    for (std::thread& thread : threads_) {
      if (thread.joinable()) thread.join();
    }
  }
  /// Waits until clients have seen so many tokens in all.
  void wait_for(std::int64_t tokens) const {
    for (int i = 0; i < 6'000 && sum_of_tokens() < tokens; ++i) usleep(2'000);
    EXPECT_GE(sum_of_tokens(), tokens);
  }
  std::int64_t sum_of_tokens() const {
    std::int64_t sum = 0;
    for (const auto& one : tokens_) sum += one.load();
    return sum;
  }
  std::vector<SseResult> results;

 private:
  void run(int i, const std::function<std::string()>& url) {
    constexpr Resume kWays[] = {Resume::kPost, Resume::kGet, Resume::kGetFrom};
    const auto at = static_cast<std::size_t>(i);
    results[at] = stream_sse(
        url, "/v1/completions", body_of(i), "k" + std::to_string(i), kWays[i % 3],
        [&](const SseResult& so_far) { tokens_[at] = so_far.index; }, true);
  }

  std::vector<std::atomic<std::int64_t>> tokens_;
  std::vector<std::thread> threads_;
};

enum class Kind : std::uint8_t { kSame, kKernels, kSchema };

/// Counts of one kind of upgrade, over all its rounds.
struct Counts {
  int rounds = 0, halfway = 0, resumed = 0, bound = 0, fresh = 0;
  int lost = 0, repeated = 0, differing = 0;
};

class Upgrade : public testing::TestWithParam<Kind> {
 protected:
  /// The tree of the newer version, beside the one in use.
  static void make_newer(const std::string& dir, Kind kind) {
    const Tree tree(dir);
    if (kind == Kind::kKernels) {
      tree.put("holdfast-worker", built("tests/newer-kernels/holdfast-worker"));
      tree.put("workers/cpu-r4/holdfast-worker", built("bin/holdfast-worker"));
    }
    if (kind == Kind::kSchema) tree.put("holdfastd", built("tests/newer-schema/holdfastd"));
  }
  static void swap(const std::string& dir) {
    fs::rename(dir + "/now", dir + "/before");
    fs::rename(dir + "/newer", dir + "/now");
  }
  static void stop(TestServer& server, bool killed) {
    if (killed) {
      server.kill_supervisor();
    } else {
      EXPECT_EQ(server.stop(), 0) << server.errors();
    }
  }
};

/// Counts what the clients saw and what the database has.
void count(const Streams& streams, const std::string& state, Counts& counts) {
  std::set<std::string> ids;
  for (int i = 0; i < kStreams; ++i) {
    const SseResult& result = streams.results[static_cast<std::size_t>(i)];
    EXPECT_EQ(result.failure, "") << i;
    ids.insert(result.request_id);
    counts.resumed += result.connections > 1 ? 1 : 0;
    counts.lost += result.finish != "length" || result.index != tokens_of(i) ? 1 : 0;
    const bool equal = result.text == references()[static_cast<std::size_t>(i)];
    counts.differing += equal ? 0 : 1;
    EXPECT_TRUE(equal) << i << ": " << result.text;
  }
  const auto number = [&](const std::string& sql) { return std::stoi(only(state, sql)); };
  counts.repeated += number("SELECT count(*) FROM requests") - kStreams;
  counts.repeated += kStreams - static_cast<int>(ids.size());
  counts.lost += kStreams - number("SELECT count(*) FROM requests WHERE state = 'succeeded'");
  EXPECT_EQ(only(state, "SELECT sum(next_index) FROM choices"), std::to_string(kTokensOfAll));
}

/// Requests that had begun ended on the old program, which is gone; the others began on the new
/// one.
void check_classes(const TestServer& server, Counts& counts) {
  const std::string revision = "substr(class, instr(substr(class, 5), '/') + 5, 3)";
  std::map<std::string, int> classes;
  for (const std::string& row :
       rows(server.state(), "SELECT " + revision + ", count(*) FROM requests GROUP BY 1")) {
    classes[row.substr(0, row.find('|'))] = std::stoi(row.substr(row.find('|') + 1));
  }
  EXPECT_EQ(classes.size(), 2U) << json(classes);
  counts.fresh += classes["r99"];
  const std::string on_old =
      "(SELECT count(*) FROM attempts a WHERE a.seq = r.seq AND a.worker_key LIKE 'bound-%')";
  EXPECT_EQ(only(server.state(), "SELECT count(*) FROM requests r WHERE " + revision +
                                     " = 'r99' AND " + on_old + " > 0"),
            "0")
      << "the old worker takes nothing new";
  counts.bound +=
      std::stoi(only(server.state(), "SELECT count(*) FROM requests r WHERE " + on_old + " > 0"));
  const auto running = [&] {
    return read_file(server.state() + "/run/supervisor.json").find("bound-") != std::string::npos;
  };
  for (int i = 0; i < 1'000 && running(); ++i) usleep(10'000);
  EXPECT_FALSE(running()) << server.errors();
  const std::string said = read_file(server.state() + "/serve.err");
  EXPECT_NE(said.find("goes on with them and takes no others"), std::string::npos) << said;
  EXPECT_NE(said.find("have ended: bound-"), std::string::npos) << said;
}

TEST_P(Upgrade, Streams_OverAnUpgrade_GetEveryTokenOnceAndTheSameText) {
  const Kind kind = GetParam();
  ASSERT_EQ(references().size(), static_cast<std::size_t>(kStreams));
  const auto begun = std::chrono::steady_clock::now();
  Counts counts;
  for (; counts.rounds < rounds(); ++counts.rounds) {
    const bool killed = (counts.rounds + (kind == Kind::kKernels ? 1 : 0)) % 2 == 0;
    SCOPED_TRACE("round " + std::to_string(counts.rounds) + (killed ? ", killed" : ", stopped"));
    const TempDir dir;
    const Tree tree(dir.path() + "/now");
    make_newer(dir.path() + "/newer", kind);
    TestServer server(dir.path() + "/state", tree.holdfast());
    std::vector<std::string> flags = serve_flags();
    ASSERT_TRUE(server.start(flags)) << server.errors();
    flags.insert(flags.end(), {"--http", server.url().substr(std::string("http://").size())});
    const std::string url = server.url();
    Streams streams([&url] { return url; });
    streams.wait_for(kTokensOfAll / 4);
    swap(dir.path());
    stop(server, killed);
    counts.halfway += std::stoi(only(server.state(),
                                     "SELECT count(*) FROM requests WHERE class != '' "
                                     "AND state IN ('queued', 'running')"));
    ASSERT_GT(counts.halfway, 0) << "nothing was interrupted";
    ASSERT_TRUE(server.start(flags)) << server.errors();
    streams.join();
    count(streams, server.state(), counts);
    if (kind == Kind::kKernels) check_classes(server, counts);
    EXPECT_EQ(server.cli({"db", "check"}).code, 0);
    EXPECT_EQ(server.stop(), 0);
    if (HasFailure()) FAIL() << server.errors();
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begun;
  std::printf(
      "%d upgrades, %d streams each, real engine: %d requests halfway, %d streams resumed, %d "
      "lost, %d repeated, "
      "%d differing",
      counts.rounds, kStreams, counts.halfway, counts.resumed, counts.lost, counts.repeated,
      counts.differing);
  if (kind == Kind::kKernels) {
    std::printf("; %d ended on the old worker, %d on the new one", counts.bound, counts.fresh);
  }
  std::printf("; %.1f s\n", took.count());
  EXPECT_GT(counts.resumed, 0);
  EXPECT_EQ(counts.lost + counts.repeated + counts.differing, 0);
  EXPECT_EQ(counts.bound, kind == Kind::kKernels ? counts.halfway : 0);
}

std::string kind_name(const testing::TestParamInfo<Kind>& info) {
  constexpr const char* kNames[] = {"same", "kernels", "schema"};
  return kNames[static_cast<std::size_t>(info.param)];
}

INSTANTIATE_TEST_SUITE_P(Kinds, Upgrade,
                         testing::Values(Kind::kSame, Kind::kKernels, Kind::kSchema), kind_name);

class Downgrade : public testing::Test {
 protected:
  std::string ask(const TestServer& server, const std::string& path, const json& body,
                  const std::string& key) const {
    std::vector<std::pair<std::string, std::string>> headers = {
        {"Authorization", "Bearer " + secret}};
    if (!key.empty()) headers.emplace_back("Idempotency-Key", key);
    const HttpAnswer answer =
        http_exchange(server.url(), body.is_null() ? http_get_text(path, headers)
                                                   : http_post_text(path, body.dump(), headers));
    return std::to_string(answer.status) + " " + answer.body;
  }
  static json body(const std::string& prompt) {
    return {{"model", "demo"}, {"prompt", prompt}, {"max_tokens", 8}, {"seed", 7}};
  }
  std::string completion(const TestServer& server, const std::string& key) const {
    return ask(server, "/v1/completions", body("of " + key), key);
  }
  std::string secret;
};

TEST_F(Downgrade, OlderProgram_WithANewerSchema_NamesTheCopyThatRestoreTakes) {
  const TempDir dir;
  const std::string state = dir.path() + "/state";
  const Tree older(dir.path() + "/older");
  const Tree newer(dir.path() + "/newer");
  newer.put("holdfastd", built("tests/newer-schema/holdfastd"));
  std::string answer;
  {
    TestServer server(state, older.holdfast());
    ASSERT_TRUE(server.start(serve_flags())) << server.errors();
    const Ended made = server.cli({"keys", "create", "mine", "--json"});
    ASSERT_EQ(made.code, 0) << made.err;
    secret = json::parse(made.out).value("key", "");
    ASSERT_NE(secret, "") << made.out;
    answer = completion(server, "before");
    ASSERT_EQ(answer.rfind("200 ", 0), 0U) << answer;
    EXPECT_EQ(server.stop(), 0);
  }
  {
    TestServer server(state, newer.holdfast());
    ASSERT_TRUE(server.start(serve_flags())) << server.errors();
    EXPECT_EQ(completion(server, "before"), answer);
    EXPECT_EQ(completion(server, "since").rfind("200 ", 0), 0U);
    EXPECT_EQ(server.stop(), 0);
  }
  const std::vector<store::UpgradeCopy> copies = store::upgrade_copies(state);
  ASSERT_EQ(copies.size(), 1U);
  EXPECT_EQ(copies[0].schema, store::schema_version());
  TestServer server(state, older.holdfast());
  ASSERT_FALSE(server.start(serve_flags()));
  EXPECT_NE(server.exit_code(), 0);
  const std::string said = read_file(state + "/serve.err");
  EXPECT_NE(said.find("made by a newer program"), std::string::npos) << said;
  EXPECT_NE(said.find("holdfast --state " + state + " db restore " + copies[0].path),
            std::string::npos)
      << said;
  const Ended restored = server.cli({"db", "restore", copies[0].path});
  ASSERT_EQ(restored.code, 0) << restored.err;
  ASSERT_TRUE(server.start(serve_flags())) << server.errors();
  EXPECT_EQ(completion(server, "before"), answer) << "key and answer are back";
  EXPECT_EQ(only(state, "SELECT group_concat(idem_key) FROM requests"), "before");
  EXPECT_EQ(completion(server, "after").rfind("200 ", 0), 0U);
  EXPECT_EQ(server.cli({"db", "check"}).code, 0);
  EXPECT_EQ(server.stop(), 0);
}

/// An upgrade of kernels without the old worker: today's answer is a typed end after the wait.
TEST_F(Downgrade, BoundRequest_WithoutItsOldWorker_WaitsAndEndsWithATypedError) {
  const TempDir dir;
  const Tree older(dir.path() + "/older");
  const Tree newer(dir.path() + "/newer");
  newer.put("holdfast-worker", built("tests/newer-kernels/holdfast-worker"));
  const std::string state = dir.path() + "/state";
  std::vector<std::string> flags = serve_flags();
  flags.insert(flags.end(), {"--config", "requests.class_wait_ms=3000"});
  {
    TestServer server(state, older.holdfast());
    ASSERT_TRUE(server.start(flags)) << server.errors();
    const std::string url = server.url();
    std::vector<std::thread> clients;
    for (int i = 0; i < 16; ++i) {
      clients.emplace_back([url, i] {
        json body = json::parse(body_of(i));
        body["n"] = 4;  // more work than is done before the kill
        (void)http_exchange(url, http_post_text("/v1/completions", body.dump()));
      });
    }
    const auto begun = [&] {
      return only(state, "SELECT count(*) FROM requests WHERE class != ''");
    };
    for (int i = 0; i < 1'000 && begun() == "0"; ++i) usleep(5'000);
    server.kill_supervisor();
    for (std::thread& client : clients) client.join();
  }
  const std::string halfway =
      only(state, "SELECT count(*) FROM requests WHERE class != '' AND state != 'succeeded'");
  ASSERT_NE(halfway, "0");
  TestServer server(state, newer.holdfast());
  ASSERT_TRUE(server.start(flags)) << server.errors();
  const std::string failed =
      "SELECT count(*) FROM requests WHERE error_code = 'determinism_class_unavailable'";
  for (int i = 0; i < 1'000 && only(state, failed) != halfway; ++i) usleep(10'000);
  EXPECT_EQ(only(state, failed), halfway);
  const std::string said = read_file(state + "/serve.err");
  EXPECT_NE(said.find("no worker program that is installed has it"), std::string::npos) << said;
  EXPECT_EQ(server.stop(), 0);
}

}  // namespace
}  // namespace holdfast::process::upgrade_test
