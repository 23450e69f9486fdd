// Goal: many long batches of one tenant do not hold up another tenant's short one. Method: real
// programs with the fake engine; one tenant makes more and longer batches than the gateway works on
// at once, then another makes one; when that has ended, the others have not.
#include <gtest/gtest.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/process/http_stream.h"
#include "tests/process/test_server.h"

namespace holdfast::process::batch_fairness_test {
namespace {

using nlohmann::json;

constexpr int kBatches = 6;  // the gateway works on four at once
constexpr int kLines = 3'000;

class BatchFairness : public testing::Test {
 protected:
  std::string make_key(const std::string& tenant) {
    const Ended ended = server.cli({"--json", "keys", "create", tenant, "--tenant", tenant});
    EXPECT_EQ(ended.code, 0) << ended.err;
    return json::parse(ended.out, nullptr, false).value("key", "");
  }
  json ask(const std::string& method, const std::string& path, const std::string& body,
           const std::string& type, const std::string& key) {
    const HttpAnswer answer = http_exchange(
        server.url(), method + " " + path +
                          " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                          "Authorization: Bearer " +
                          key + "\r\nContent-Type: " + type +
                          "\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body);
    EXPECT_EQ(answer.status, 200) << path << answer.body;
    return json::parse(answer.body, nullptr, false);
  }
  /// Returns the new batch's id.
  std::string make_batch(int lines, const std::string& key) {
    std::string content;
    for (int i = 0; i < lines; ++i) {
      content += json{{"custom_id", "line-" + std::to_string(i)},
                      {"method", "POST"},
                      {"url", "/v1/completions"},
                      {"body", {{"model", "demo"}, {"prompt", "To be"}, {"max_tokens", 2}}}}
                     .dump() +
                 "\n";
    }
    const std::string form =
        "--m\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nbatch\r\n--m\r\n"
        "Content-Disposition: form-data; name=\"file\"; filename=\"in.jsonl\"\r\n\r\n" +
        content + "\r\n--m--\r\n";
    const json file = ask("POST", "/v1/files", form, "multipart/form-data; boundary=m", key);
    const json body = {{"input_file_id", file["id"]},
                       {"endpoint", "/v1/completions"},
                       {"completion_window", "24h"}};
    return ask("POST", "/v1/batches", body.dump(), "application/json", key).value("id", "");
  }
  bool has_ended(const std::string& batch, const std::string& key) {
    return ask("GET", "/v1/batches/" + batch, "", "application/json", key).value("status", "") ==
           "completed";
  }

  const TempDir dir;
  TestServer server{dir.path() + "/state"};
};

TEST_F(BatchFairness, ShortBatch_NextToLongOnesOfAnotherTenant_EndsBeforeThem) {
  ASSERT_TRUE(server.start({"--model", "demo=" + demo_model(), "--engine", "fake"}))
      << server.errors();
  const std::string ann = make_key("ann");
  const std::string ben = make_key("ben");
  std::vector<std::string> long_ones;
  for (int i = 0; i < kBatches; ++i) long_ones.push_back(make_batch(kLines, ann));
  const std::string short_one = make_batch(4, ben);
  for (int i = 0; i < 1'200 && !has_ended(short_one, ben); ++i) usleep(50'000);
  ASSERT_TRUE(has_ended(short_one, ben)) << server.errors();
  int ended = 0;
  for (const std::string& batch : long_ones) ended += has_ended(batch, ann) ? 1 : 0;
  EXPECT_LE(ended, 1) << "one tenant's batches went first";
}

}  // namespace
}  // namespace holdfast::process::batch_fairness_test
