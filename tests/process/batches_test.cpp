// Goal: files come back byte for byte; a batch gives each line exactly once, in order, with the
// answer that the same POST gets alone, whatever is killed; errors have OpenAI's form. Method:
// `holdfast serve` with the demo model, the HTTP endpoints, kills of gateway, daemon and worker
// while a batch runs.
#include <gtest/gtest.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/process/http_stream.h"
#include "tests/process/test_server.h"

namespace holdfast::process::batches_test {
namespace {

using nlohmann::json;

constexpr const char* kChat = "/v1/completions";

class BatchServerTest : public testing::Test {
 protected:
  void start(const std::vector<std::string>& more = {}) {
    std::vector<std::string> args = {"--model", "demo=" + demo_model(), "--threads", "1"};
    args.insert(args.end(), more.begin(), more.end());
    ASSERT_TRUE(server.start(args)) << server.errors();
  }
  /// Asks again while the server is in trouble, as a client with retries does.
  HttpAnswer ask(const std::string& request) {
    HttpAnswer answer;
    for (int i = 0; i < 300; ++i) {
      answer = http_exchange(server.url(), request);
      if (answer.complete && answer.status != 503 && answer.status != 504) return answer;
      usleep(50'000);
    }
    return answer;
  }
  json get(const std::string& path) {
    return json::parse(ask(http_get_text(path)).body, nullptr, false);
  }
  json post(const std::string& path, const json& body, const std::string& key = "") {
    std::vector<std::pair<std::string, std::string>> headers;
    if (!key.empty()) headers.emplace_back("Idempotency-Key", key);
    return json::parse(ask(http_post_text(path, body.dump(), headers)).body, nullptr, false);
  }
  HttpAnswer upload_raw(const std::string& content, const std::string& purpose,
                        const std::string& key = "", const std::string& more = "") {
    const std::string mark = "----mark";
    const std::string form =
        "--" + mark + "\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\n" + purpose +
        "\r\n" + more + "--" + mark +
        "\r\nContent-Disposition: form-data; name=\"file\"; filename=\"in put.jsonl\"\r\n"
        "Content-Type: application/octet-stream\r\n\r\n" +
        content + "\r\n--" + mark + "--\r\n";
    std::string request = "POST /v1/files HTTP/1.1\r\nHost: localhost\r\nContent-Type: " +
                          ("multipart/form-data; boundary=" + mark) +
                          "\r\nContent-Length: " + std::to_string(form.size()) + "\r\n";
    if (!key.empty()) request += "Idempotency-Key: " + key + "\r\n";
    return ask(request + "Connection: close\r\n\r\n" + form);
  }
  json upload(const std::string& content, const std::string& key = "") {
    return json::parse(upload_raw(content, "batch", key).body, nullptr, false);
  }
  std::string content(const std::string& id) {
    return ask(http_get_text("/v1/files/" + id + "/content")).body;
  }
  json make_batch(const std::string& file, const std::string& key = "") {
    return post("/v1/batches",
                {{"input_file_id", file}, {"endpoint", kChat}, {"completion_window", "24h"}}, key);
  }
  /// The batch when it has ended. Fails after a minute in which none of its lines ended.
  json wait_batch(const std::string& id) {
    json batch, counts;
    for (int i = 0; i < 1200; ++i) {
      batch = get("/v1/batches/" + id);
      if (batch.value("request_counts", json()) != counts) i = 0;
      counts = batch.value("request_counts", json());
      const std::string status = batch.value("status", "");
      if (status == "completed" || status == "failed" || status == "cancelled" ||
          status == "expired") {
        return batch;
      }
      usleep(50'000);
    }
    ADD_FAILURE() << "batch does not go on: " << batch.dump() << server.errors();
    return batch;
  }
  /// Lets the object's time run out.
  void expire(const std::string& id) {
    const auto client = server.operator_client();
    for (int i = 0; i < 100; ++i) {
      const auto found = client->op(client::AllTenants::local(), "objects.get",
                                    json{{"kind", "batch"}, {"id", id}}.dump());
      json object = json::parse(std::get<std::string>(found))["object"];
      object["body"]["expires_at"] = 1;
      const auto put = client->op(client::AllTenants::local(), "objects.put",
                                  json{{"kind", "batch"},
                                       {"id", id},
                                       {"version", object["version"]},
                                       {"body", object["body"]}}
                                      .dump());
      if (std::holds_alternative<std::string>(put)) return;
    }
    ADD_FAILURE() << "batch " << id << " cannot be changed";
  }
  static std::vector<json> lines_of(const std::string& text) {
    std::vector<json> lines;
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);) lines.push_back(json::parse(line));
    return lines;
  }

  const TempDir dir;
  TestServer server{dir.path() + "/state"};
};

json body_of(int i) {
  return {{"model", "demo"},
          {"prompt", "Line " + std::to_string(i)},
          {"max_tokens", 40 + i % 9},
          {"seed", i},
          {"temperature", 0.8}};
}

std::string line_of(int i, const json& body, const std::string& url = kChat) {
  return json{{"custom_id", "line-" + std::to_string(i)},
              {"method", "POST"},
              {"url", url},
              {"body", body}}
             .dump() +
         "\n";
}

TEST_F(BatchServerTest, FilesApi_AfterADaemonKill_ReturnsTheSameBytes) {
  ASSERT_NO_FATAL_FAILURE(start());
  std::string big;
  for (int i = 0; big.size() < 3'000'000; ++i) big.push_back(static_cast<char>(i * 7 + i / 251));
  const json file = upload(big, "key-1");
  ASSERT_EQ(file["object"], "file") << file.dump();
  EXPECT_EQ(file["bytes"], big.size());
  EXPECT_EQ(file["filename"], "in put.jsonl");
  EXPECT_EQ(file["purpose"], "batch");
  EXPECT_EQ(file["status"], "processed");
  const std::string id = file["id"];
  ASSERT_TRUE(server.kill_child("daemon"));
  EXPECT_TRUE(content(id) == big) << "the content differs";
  EXPECT_EQ(upload(big, "key-1")["id"], id) << "the same POST makes one file";
  EXPECT_EQ(upload_raw("other", "batch", "key-1").status, 422);
  const json second = upload("x");
  const json list = get("/v1/files");
  ASSERT_EQ(list["data"].size(), 2u);
  EXPECT_EQ(list["data"][0]["id"], second["id"]) << "the newest first";
  EXPECT_EQ(get("/v1/files?limit=1&order=asc")["data"][0]["id"], id);
  EXPECT_EQ(get("/v1/files?limit=1&order=asc")["has_more"], true);
  EXPECT_EQ(get("/v1/files?order=asc&after=" + id)["data"].size(), 1u);
  EXPECT_EQ(get("/v1/files?purpose=vision")["data"].size(), 0u);
  EXPECT_EQ(get("/v1/files/" + id), file);
  const std::string removal = "DELETE /v1/files/" + id + " HTTP/1.1\r\nHost: localhost\r\n\r\n";
  EXPECT_EQ(json::parse(ask(removal).body)["deleted"], true);
  EXPECT_EQ(ask(removal).status, 404);
  EXPECT_EQ(ask(http_get_text("/v1/files/" + id + "/content")).status, 404);
  EXPECT_EQ(upload_raw("x", "nonsense").status, 400);
  EXPECT_EQ(upload_raw("", "batch").status, 400);
  EXPECT_EQ(ask(http_post_text("/v1/files", "{}")).status, 400);
  EXPECT_EQ(ask(http_get_text("/v1/files?limit=0")).status, 400);
  EXPECT_EQ(server.stop(), 0);
}

TEST_F(BatchServerTest, Batch_WhenProcessesAreKilled_AnswersEachLineOnceInOrder) {
  ASSERT_NO_FATAL_FAILURE(start());
  constexpr int kLines = 1000;
  const auto long_body = [](int i) {  // enough work that it is not done before the last kill
    json body = body_of(i);
    body["max_tokens"] = 100 + i % 9;
    return body;
  };
  std::string input;
  for (int i = 0; i < kLines; ++i) input += line_of(i, long_body(i));
  const json file = upload(input);
  const json batch = make_batch(file["id"], "once");
  ASSERT_EQ(batch["status"], "validating") << batch.dump();
  EXPECT_EQ(make_batch(file["id"], "once")["id"], batch["id"]);
  const std::string id = batch["id"];
  // Requests that have ended, by the daemon: the numbers in a batch are up to a second old.
  const auto ended = [&] {
    const json found = json::parse(
        server.cli({"--json", "requests", "list", "--limit", "1000"}).out, nullptr, false);
    if (!found.is_object() || !found.contains("requests")) return -1;  // the daemon was just killed
    int count = 0;
    for (const json& request : found["requests"]) count += request["state"] == "succeeded" ? 1 : 0;
    return count;
  };
  // Each process is killed three times, every time after some more lines are there.
  int victims = 0;
  for (int kill_at = 0, now = 0; victims < 9 && now < kLines;) {
    now = ended();
    if (now >= kill_at) {
      const char* names[] = {"gateway", "daemon", "worker-0"};
      EXPECT_TRUE(server.kill_child(names[victims % 3]));
      ++victims;
      kill_at = now + 10;
    }
    usleep(20'000);
  }
  EXPECT_EQ(victims, 9);
  const json end = wait_batch(id);
  ASSERT_EQ(end["status"], "completed") << end.dump() << server.errors();
  EXPECT_EQ(end["request_counts"], json({{"total", kLines}, {"completed", kLines}, {"failed", 0}}));
  EXPECT_TRUE(end["error_file_id"].is_null());
  const std::vector<json> lines = lines_of(content(end["output_file_id"]));
  ASSERT_EQ(lines.size(), static_cast<std::size_t>(kLines));
  for (int i = 0; i < kLines; ++i) {
    const json& line = lines[static_cast<std::size_t>(i)];
    ASSERT_EQ(line["custom_id"], "line-" + std::to_string(i));
    ASSERT_EQ(line["response"]["status_code"], 200) << line.dump();
    ASSERT_EQ(line["response"]["body"]["choices"].size(), 1u);
  }
  // One request for each line exists, and each ended well.
  const json requests =
      json::parse(server.cli({"--json", "requests", "list", "--limit", "1000"}).out);
  int of_batch = 0;
  for (const json& request : requests["requests"]) {
    of_batch += request["id"].get<std::string>().starts_with(id) ? 1 : 0;
  }
  EXPECT_EQ(of_batch, kLines);
  for (const int i : {0, 1, 77, 500, 998, 999}) {
    const json alone = post(kChat, long_body(i));
    EXPECT_EQ(lines[static_cast<std::size_t>(i)]["response"]["body"]["choices"], alone["choices"])
        << i;
  }
  EXPECT_EQ(server.stop(), 0);
}

TEST_F(BatchServerTest, Batch_WithInvalidLines_ReportsErrorsAsOpenAiDoes) {
  ASSERT_NO_FATAL_FAILURE(start());
  json bad = body_of(1);
  bad["temperature"] = 99;
  json stream = body_of(2);
  stream["stream"] = true;
  json unknown = body_of(3);
  unknown["model"] = "nobody";
  const json mixed = upload(line_of(0, body_of(0)) + line_of(1, bad) + "\n" + line_of(2, stream) +
                            line_of(3, unknown) + line_of(4, body_of(4)));
  const json end = wait_batch(make_batch(mixed["id"])["id"]);
  ASSERT_EQ(end["status"], "completed") << end.dump();
  EXPECT_EQ(end["request_counts"], json({{"total", 5}, {"completed", 2}, {"failed", 3}}));
  const auto good = lines_of(content(end["output_file_id"]));
  ASSERT_EQ(good.size(), 2u);
  EXPECT_EQ(good[1]["custom_id"], "line-4");
  const auto errors = lines_of(content(end["error_file_id"]));
  ASSERT_EQ(errors.size(), 3u);
  EXPECT_EQ(errors[0]["response"]["body"]["error"]["param"], "temperature");
  EXPECT_EQ(errors[1]["response"]["body"]["error"]["param"], "stream");
  EXPECT_EQ(errors[2]["response"]["status_code"], 404);
  // A file that is no batch fails.
  const json broken = upload(line_of(0, body_of(0)) + "{\n" + line_of(0, body_of(0)) +
                             line_of(2, body_of(2), "/v1/embeddings"));
  const json failed = wait_batch(make_batch(broken["id"])["id"]);
  EXPECT_EQ(failed["status"], "failed");
  ASSERT_EQ(failed["errors"]["data"].size(), 3u) << failed.dump();
  EXPECT_EQ(failed["errors"]["data"][0]["code"], "invalid_json_line");
  EXPECT_EQ(failed["errors"]["data"][0]["line"], 2);
  EXPECT_EQ(failed["errors"]["data"][1]["code"], "duplicate_custom_id");
  EXPECT_EQ(failed["errors"]["data"][2]["code"], "mismatched_endpoint");
  EXPECT_EQ(make_batch("file-none")["error"]["code"], "not_found");
  const json window =
      post("/v1/batches",
           {{"input_file_id", mixed["id"]}, {"endpoint", kChat}, {"completion_window", "soon"}});
  EXPECT_EQ(window["error"]["param"], "completion_window");
  EXPECT_EQ(get("/v1/batches")["data"].size(), 2u);
  EXPECT_EQ(get("/v1/batches/batch_none")["error"]["code"], "not_found");
  EXPECT_EQ(server.stop(), 0);
}

TEST_F(BatchServerTest, CancelledBatch_WithFinishedLines_RetainsTheirResults) {
  ASSERT_NO_FATAL_FAILURE(start());
  constexpr int kMany = 2000;  // counts are updated once a second, and some machines end 400 in two
  std::string input;
  for (int i = 0; i < kMany; ++i) {
    json body = body_of(i);
    body["max_tokens"] = 120;
    body["ignore_eos"] = true;
    input += line_of(i, body);
  }
  const std::string id = make_batch(upload(input)["id"])["id"];
  for (int i = 0; i < 400; ++i) {
    if (get("/v1/batches/" + id)["request_counts"].value("completed", 0) > 5) break;
    usleep(20'000);
  }
  const json cancelling = post("/v1/batches/" + id + "/cancel", json::object());
  EXPECT_EQ(cancelling["status"], "cancelling") << cancelling.dump();
  const json end = wait_batch(id);
  ASSERT_EQ(end["status"], "cancelled") << end.dump();
  EXPECT_FALSE(end["cancelled_at"].is_null());
  const auto done = lines_of(content(end["output_file_id"]));
  EXPECT_EQ(static_cast<int>(done.size()), end["request_counts"]["completed"].get<int>());
  EXPECT_GT(done.size(), 5u);
  EXPECT_LT(done.size(), std::size_t{kMany});
  for (std::size_t i = 0; i < done.size(); ++i) {
    EXPECT_EQ(done[i]["response"]["body"]["choices"][0]["finish_reason"], "length");
  }
  EXPECT_EQ(post("/v1/batches/" + id + "/cancel", json::object())["status"], "cancelled");
  EXPECT_EQ(server.stop(), 0);
}

// Lines that were cut off although all had begun: the client cancelled, so it is told "cancelled".
TEST_F(BatchServerTest, CancelledBatch_WhenAllLinesHadBegun_ReportsEachAsCancelled) {
  ASSERT_NO_FATAL_FAILURE(start());
  std::string input;
  for (int i = 0; i < 4; ++i) input += line_of(i, body_of(i));
  ASSERT_EQ(server.cli({"queue", "pause"}).code, 0);
  const std::string id = make_batch(upload(input)["id"])["id"];
  for (int i = 0; i < 400; ++i) {
    const json status = json::parse(server.cli({"--json", "status"}).out, nullptr, false);
    if (status.is_object() && status["queue"]["live_requests"] == 4) break;
    usleep(20'000);
  }
  EXPECT_EQ(post("/v1/batches/" + id + "/cancel", json::object())["status"], "cancelling");
  const json end = wait_batch(id);
  EXPECT_EQ(end["status"], "cancelled") << end.dump();
  EXPECT_EQ(end["request_counts"]["failed"], 4) << end.dump();
  const auto errors = lines_of(content(end["error_file_id"]));
  ASSERT_EQ(errors.size(), 4u);
  for (const json& one : errors) EXPECT_EQ(one["error"]["code"], "batch_cancelled") << one.dump();
  EXPECT_EQ(server.stop(), 0);
}

TEST_F(BatchServerTest, ExpiredBatch_WithUnfinishedLines_ReportsEachAsExpired) {
  ASSERT_NO_FATAL_FAILURE(start());
  ASSERT_EQ(server.cli({"queue", "pause"}).code, 0);
  std::string input;
  for (int i = 0; i < 100; ++i) input += line_of(i, body_of(i));
  const std::string id = make_batch(upload(input)["id"])["id"];
  expire(id);
  const json end = wait_batch(id);
  ASSERT_EQ(end["status"], "expired") << end.dump();
  EXPECT_EQ(end["request_counts"], json({{"total", 100}, {"completed", 0}, {"failed", 100}}));
  const auto errors = lines_of(content(end["error_file_id"]));
  ASSERT_EQ(errors.size(), 100u);
  for (int i = 0; i < 100; ++i) {
    const json& line = errors[static_cast<std::size_t>(i)];
    EXPECT_EQ(line["custom_id"], "line-" + std::to_string(i));
    EXPECT_EQ(line["error"]["code"], "batch_expired") << line.dump();
  }
  EXPECT_EQ(server.stop(), 0);
}

// The gateway dies between its writes; the next one neither repeats a line nor mistakes the end.
class BatchDeaths : public BatchServerTest, public testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    dir.write("crash.gateway", std::string(GetParam()) + "\n");
    setenv("HOLDFAST_CRASH_AT", ("@" + dir.path() + "/crash").c_str(), 1);
    ASSERT_NO_FATAL_FAILURE(start());
    unsetenv("HOLDFAST_CRASH_AT");
  }
  void TearDown() override {
    const std::string point(GetParam());
    EXPECT_EQ(read_file(dir.path() + "/crash.fired").rfind(point.substr(0, point.find(':')), 0), 0u)
        << server.errors();
    EXPECT_EQ(server.stop(), 0);
  }
};

TEST_P(BatchDeaths, Batch_WhenTheGatewayCrashesAtAPoint_AnswersEachLineOnce) {
  std::string input;
  for (int i = 0; i < 9; ++i) {
    json body = body_of(i);
    if (i % 3 == 1) body["temperature"] = 99;
    input += line_of(i, body);
  }
  const json end = wait_batch(make_batch(upload(input)["id"])["id"]);
  ASSERT_EQ(end["status"], "completed") << end.dump();
  EXPECT_EQ(end["request_counts"], json({{"total", 9}, {"completed", 6}, {"failed", 3}}));
  std::vector<std::string> order;
  for (const char* file : {"output_file_id", "error_file_id"}) {
    for (const json& line : lines_of(content(end[file]))) order.push_back(line["custom_id"]);
  }
  EXPECT_EQ(order, (std::vector<std::string>{"line-0", "line-2", "line-3", "line-5", "line-6",
                                             "line-8", "line-1", "line-4", "line-7"}));
}

TEST_P(BatchDeaths, ExpiredBatch_WhenTheGatewayCrashesAtAPoint_StaysExpired) {
  ASSERT_EQ(server.cli({"queue", "pause"}).code, 0);
  json wrong = body_of(0);  // its result comes at once, and is written at once
  wrong["temperature"] = 99;
  std::string input = line_of(0, wrong);
  for (int i = 1; i < 40; ++i) input += line_of(i, body_of(i));  // all begin
  const std::string id = make_batch(upload(input)["id"])["id"];
  for (int i = 0; i < 400; ++i) {
    const json counts = get("/v1/batches/" + id)["request_counts"];
    if (counts.is_object() && counts["failed"] == 1) break;
    usleep(20'000);
  }
  expire(id);
  const json end = wait_batch(id);
  EXPECT_EQ(end["status"], "expired") << end.dump();
  EXPECT_EQ(end["request_counts"], json({{"total", 40}, {"completed", 0}, {"failed", 40}}));
  EXPECT_EQ(lines_of(content(end["error_file_id"])).size(), 40u);
}

INSTANTIATE_TEST_SUITE_P(CrashPoints, BatchDeaths,
                         testing::Values("gateway.batch.appended", "gateway.batch.appended:2",
                                         "gateway.batch.closed"));

}  // namespace
}  // namespace holdfast::process::batches_test
