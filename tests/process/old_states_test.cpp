// Goal: a state directory that an older build left is opened by this one without loss: requests
// that ran or waited finish once, with the text that the older build gives undisturbed; an open
// batch ends; stored answers stay the same; a repeated Idempotency-Key gets its old answer. Method:
// directories that an older build left when it was killed as a whole (tests/data/states, made by
// make-state there), one with the fake engine and one with the demo model.
#include <gtest/gtest.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "control/store/store.h"
#include "shared/base/clock.h"
#include "tests/process/http_stream.h"
#include "tests/process/test_server.h"

namespace holdfast::process::old_states_test {
namespace {

using nlohmann::json;

/// Runs one statement on the database while no process has it; the first column of its last row.
std::string sql(const std::string& state, const std::string& statement) {
  sqlite3* db = nullptr;
  std::string last;
  EXPECT_EQ(sqlite3_open((state + "/control.db").c_str(), &db), SQLITE_OK);
  char* wrong = nullptr;
  sqlite3_exec(
      db, statement.c_str(),
      [](void* out, int, char** values, char**) {
        *static_cast<std::string*>(out) = values[0] == nullptr ? "" : values[0];
        return 0;
      },
      &last, &wrong);
  EXPECT_EQ(wrong, nullptr) << wrong;
  sqlite3_free(wrong);
  sqlite3_close(db);
  return last;
}

class OldState : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const std::string archive =
        std::string(HOLDFAST_SOURCE_DIR "/tests/data/states/") + GetParam() + ".tar.gz";
    const Ended unpacked = run_program({"/usr/bin/tar", "-xzf", archive, "-C", dir.path()});
    ASSERT_EQ(unpacked.code, 0) << unpacked.err;
    expected = json::parse(read_file(dir.path() + "/expected.json"));
    // The same file at another path: a copy does not preserve its stamps.
    struct stat file = {};
    ASSERT_EQ(stat(demo_model().c_str(), &file), 0) << demo_model();
    const int64_t mtime_ns = int64_t{file.st_mtim.tv_sec} * 1'000'000'000 + file.st_mtim.tv_nsec;
    sql(server.state(),
        "UPDATE models SET path = '" + demo_model() + "', mtime_ns = " + std::to_string(mtime_ns));
    move_to_today();
  }
  /// Moves the ends that lie on the calendar: the state is opened as if it had been left a moment
  /// ago. Times that answers show stay.
  void move_to_today() {
    const std::int64_t now_ms = system_clock().wall_ms();
    const std::string later = std::to_string(now_ms + 86'400'000);
    sql(server.state(), "UPDATE requests SET finished_ms = " + std::to_string(now_ms) +
                            " WHERE finished_ms > 0; UPDATE objects SET expires_ms = " + later +
                            " WHERE expires_ms > 0");
    const std::string batch = "kind = 'batch'";
    json body = json::parse(sql(server.state(), "SELECT body FROM objects WHERE " + batch));
    body["expires_at"] = now_ms / 1000 + 86'400;
    const std::string text = body.dump();
    ASSERT_EQ(text.find('\''), std::string::npos);
    sql(server.state(), "UPDATE objects SET body = '" + text +
                            "', crc = " + std::to_string(store::crc32c(text)) + " WHERE " + batch);
  }
  void start() {
    std::vector<std::string> flags = {"--threads", "1"};
    for (const json& flag : expected["engine"]) flags.push_back(flag);
    ASSERT_TRUE(server.start(flags)) << server.errors();
  }
  HttpAnswer ask(const std::string& request) {
    HttpAnswer answer;
    for (int i = 0; i < 600; ++i) {
      answer = http_exchange(server.url(), request);
      if (answer.complete && answer.status != 503 && answer.status != 504) break;
      usleep(50'000);
    }
    return answer;
  }
  std::string get(const std::string& path) { return ask(http_get_text(path)).body; }
  std::string post(const std::string& path, const json& body, const std::string& key) {
    return ask(http_post_text(path, body.dump(), {{"Idempotency-Key", key}})).body;
  }
  /// Texts of the batch's lines, by custom_id, once it has ended.
  json batch_lines(const std::string& id) {
    json batch;
    for (int i = 0; i < 1200; ++i) {
      batch = json::parse(get("/v1/batches/" + id));
      if (batch["status"] == "completed") break;
      usleep(50'000);
    }
    EXPECT_EQ(batch["status"], "completed") << batch << server.errors();
    json texts;
    std::istringstream out(
        get("/v1/files/" + batch["output_file_id"].get<std::string>() + "/content"));
    for (std::string text; std::getline(out, text);) {
      const json line = json::parse(text);
      EXPECT_FALSE(texts.contains(line["custom_id"])) << "twice: " << text;
      texts[line["custom_id"]] = line["response"]["body"]["choices"][0]["text"];
    }
    return texts;
  }

  const TempDir dir;
  TestServer server{dir.path() + "/state"};
  json expected;
};

TEST_P(OldState, OlderState_WhenOpened_FinishesEverythingOnceWithTheSameBytes) {
  ASSERT_GT(expected["states"].value("running", 0), 0) << expected["states"];
  ASSERT_GT(expected["states"].value("queued", 0), 0) << expected["states"];
  start();
  for (const json& old : expected["repeated"]) {
    EXPECT_EQ(post(old["path"], old["body"], old["key"]), old["answer"]) << "a repeated key";
  }
  const json& response = expected["response"];
  // Its members had another order before the first start of a build that found it stored.
  EXPECT_EQ(json::parse(get("/v1/responses/" + response["id"].get<std::string>())),
            json::parse(response["answer"].get<std::string>()));
  for (const auto& [key, completion] : expected["completions"].items()) {
    const json answer = json::parse(post("/v1/completions", completion["body"], key));
    ASSERT_TRUE(answer.contains("choices")) << answer << server.errors();
    EXPECT_EQ(answer["choices"][0]["text"], completion["text"]) << key;
  }
  EXPECT_EQ(batch_lines(expected["batch"]), expected["lines"]);
  // Once more: answers stay the same, and nothing was made twice.
  for (const auto& [key, completion] : expected["completions"].items()) {
    const json answer = json::parse(post("/v1/completions", completion["body"], key));
    EXPECT_EQ(answer["choices"][0]["text"], completion["text"]) << key;
  }
  EXPECT_EQ(server.cli({"db", "check"}).code, 0);
  EXPECT_EQ(server.stop(), 0);
  EXPECT_EQ(sql(server.state(), "SELECT count(*) FROM requests WHERE state != 'succeeded'"), "0");
  EXPECT_EQ(sql(server.state(), "SELECT count(*) FROM requests"),
            std::to_string(expected["repeated"].size() + 1 + expected["completions"].size() +
                           expected["lines"].size()))
      << "nothing was made twice";
}

INSTANTIATE_TEST_SUITE_P(Builds, OldState, testing::Values("schema-006-fake", "schema-006-demo"),
                         [](const auto& info) {
                           return std::string(info.param).ends_with("fake") ? "fake" : "demo";
                         });

}  // namespace
}  // namespace holdfast::process::old_states_test
