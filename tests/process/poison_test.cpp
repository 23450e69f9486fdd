// Goal: no body and no line of a batch hurts a neighbour: it alone is refused, in little memory,
// and no process dies; where a gateway does die over a line, that line is identified and ends as an
// error, also over restarts of everything, and the rest goes on. Method: `holdfast serve` with the
// demo model; bodies made to grow, as POSTs and as lines, while a neighbour asks; gateways that
// crash whenever they begin a certain line.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "tests/process/http_stream.h"
#include "tests/process/test_server.h"

namespace holdfast::process::poison_test {
namespace {

using nlohmann::json;

std::string nested(std::size_t depth) {
  return std::string(depth, '[') + std::string(depth, ']');
}

json with_arguments(const std::string& arguments) {
  return {{"model", "demo"},
          {"max_tokens", 2},
          {"messages",
           {{{"role", "assistant"},
             {"content", nullptr},
             {"tool_calls",
              {{{"id", "a"},
                {"type", "function"},
                {"function", {{"name", "f"}, {"arguments", arguments}}}}}}}}}};
}

/// A body with `n` tools of one name, and that name as often among the allowed ones.
json with_tools(int n) {
  json tools = json::array();
  for (int i = 0; i < n; ++i)
    tools.push_back({{"type", "function"}, {"function", {{"name", "a"}}}});
  return {
      {"model", "demo"},
      {"messages", {{{"role", "user"}, {"content", "a"}}}},
      {"tools", tools},
      {"tool_choice",
       {{"type", "allowed_tools"}, {"allowed_tools", {{"mode", "required"}, {"tools", tools}}}}}};
}

/// A body with numbers that get several times as long when they are written again.
std::string with_numbers(int n) {
  std::string numbers = "1e14";
  for (int i = 1; i < n; ++i) numbers += ",1e14";
  return R"({"model":"demo","messages":[{"role":"user","content":"a"}],"tool_choice":"required",)"
         R"("tools":[{"type":"function","function":{"name":"f","parameters":{"enum":[)" +
         numbers + "]}}}]}";
}

struct Poison {
  const char* name;
  std::string body;
};
std::vector<Poison> poisons() {
  json large = with_arguments("{}");
  large["messages"][0]["content"] = std::string(5'000'000, 'x');
  return {{"deep", with_arguments("{\"x\":" + nested(150'000) + "}").dump()},
          {"tools", with_tools(8'000).dump()},
          {"numbers", with_numbers(200'000)},
          {"large", large.dump()}};
}

std::int64_t peak_bytes(pid_t pid) {
  std::istringstream status(read_file("/proc/" + std::to_string(pid) + "/status"));
  for (std::string line; std::getline(status, line);) {
    if (line.rfind("VmHWM:", 0) == 0) return std::stoll(line.substr(6)) * 1024;
  }
  return -1;
}
constexpr std::int64_t kGatewayBytes = 256 << 20;

class PoisonServerTest : public testing::Test {
 protected:
  void start() {
    ASSERT_TRUE(server.start({"--model", "demo=" + demo_model(), "--threads", "1"}))
        << server.errors();
  }
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
  std::string upload(const std::string& content) {
    const std::string form =
        "--m\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nbatch\r\n--m\r\n"
        "Content-Disposition: form-data; name=\"file\"; filename=\"a.jsonl\"\r\n\r\n" +
        content + "\r\n--m--\r\n";
    const HttpAnswer answer =
        ask("POST /v1/files HTTP/1.1\r\nHost: localhost\r\nContent-Type: multipart/form-data; "
            "boundary=m"
            "\r\nContent-Length: " +
            std::to_string(form.size()) + "\r\nConnection: close\r\n\r\n" + form);
    return json::parse(answer.body, nullptr, false).value("id", "");
  }
  std::string make_batch(const std::string& content) {
    const json body = {{"input_file_id", upload(content)},
                       {"endpoint", "/v1/chat/completions"},
                       {"completion_window", "24h"}};
    const HttpAnswer answer = ask(http_post_text("/v1/batches", body.dump()));
    return json::parse(answer.body, nullptr, false).value("id", "");
  }
  json wait_batch(const std::string& id) {
    json batch;
    for (int i = 0; i < 1'200; ++i) {
      batch = get("/v1/batches/" + id);
      const std::string status = batch.is_object() ? batch.value("status", "") : "";
      if (status == "completed" || status == "failed") return batch;
      usleep(50'000);
    }
    ADD_FAILURE() << "batch does not end: " << batch.dump() << server.errors();
    return batch;
  }
  /// Lines by their custom ids.
  std::map<std::string, json> lines_of(const json& file) {
    std::map<std::string, json> lines;
    if (!file.is_string()) return lines;
    std::istringstream in(
        ask(http_get_text("/v1/files/" + file.get<std::string>() + "/content")).body);
    for (std::string line; std::getline(in, line);) {
      const json one = json::parse(line, nullptr, false);
      if (one.is_object()) lines[one.value("custom_id", "")] = one;
    }
    return lines;
  }

  const TempDir dir;
  TestServer server{dir.path() + "/state"};
};

std::string line_of(const std::string& id, const std::string& body) {
  return R"({"custom_id":")" + id + R"(","method":"POST","url":"/v1/chat/completions","body":)" +
         body + "}\n";
}

std::string good_body(int seed, int tokens = 4) {
  return json{{"model", "demo"},
              {"messages", {{{"role", "user"}, {"content", "To be"}}}},
              {"max_tokens", tokens},
              {"ignore_eos", true},
              {"seed", seed}}
      .dump();
}

/// A neighbour that sends one small request after the other.
class Neighbour {
 public:
  explicit Neighbour(const TestServer& server) : thread_([this, &server] { run(server); }) {}
  ~Neighbour() { end(); }
  void end() {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
  }
  int answers = 0;
  int failures = 0;
  std::chrono::milliseconds slowest{0};

 private:
  void run(const TestServer& server) {
    const std::string request = http_post_text(
        "/v1/completions", R"({"model":"demo","prompt":"To be","max_tokens":2,"ignore_eos":true})");
    while (!stop_) {
      const auto begun = std::chrono::steady_clock::now();
      const HttpAnswer answer = http_exchange(server.url(), request);
      ++(answer.status == 200 ? answers : failures);
      slowest = std::max(slowest, std::chrono::duration_cast<std::chrono::milliseconds>(
                                      std::chrono::steady_clock::now() - begun));
      usleep(10'000);
    }
  }
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

// A broken link is silent for ten seconds; half of that allows for a slow machine.
constexpr std::chrono::milliseconds kSlowest{5'000};

TEST_F(PoisonServerTest, PostBody_WhenItGrowsInMemory_IsRefusedWithoutHarm) {
  ASSERT_NO_FATAL_FAILURE(start());
  Neighbour neighbour(server);
  for (const char* path : {"/v1/chat/completions", "/tokenize"}) {
    for (const Poison& poison : poisons()) {
      const HttpAnswer answer = http_exchange(server.url(), http_post_text(path, poison.body));
      EXPECT_TRUE(answer.status == 400 || answer.status == 413)
          << path << " " << poison.name << " " << answer.status << answer.body.substr(0, 300);
    }
  }
  neighbour.end();
  EXPECT_EQ(neighbour.failures, 0);
  EXPECT_GT(neighbour.answers, 3);
  EXPECT_LT(neighbour.slowest, kSlowest);
  EXPECT_EQ(server.restarts_of("gateway"), 0) << server.errors();
  EXPECT_LT(peak_bytes(server.pid_of("gateway")), kGatewayBytes);
}

TEST_F(PoisonServerTest, BatchLine_WhenItGrowsInMemory_IsAnErrorOfItsOwn) {
  ASSERT_NO_FATAL_FAILURE(start());
  Neighbour neighbour(server);
  std::string content = line_of("first", good_body(1));
  for (const Poison& poison : poisons()) content += line_of(poison.name, poison.body);
  content += line_of("last", good_body(2));
  const json batch = wait_batch(make_batch(content));
  neighbour.end();
  EXPECT_EQ(batch["status"], "completed") << batch.dump();
  EXPECT_EQ(batch["request_counts"], (json{{"completed", 2}, {"failed", 4}, {"total", 6}}));
  const auto good = lines_of(batch["output_file_id"]);
  EXPECT_TRUE(good.contains("first") && good.contains("last"));
  const auto bad = lines_of(batch["error_file_id"]);
  for (const Poison& poison : poisons()) {
    ASSERT_TRUE(bad.contains(poison.name)) << poison.name;
    const json& response = bad.at(poison.name)["response"];
    EXPECT_EQ(response["status_code"], 400) << response.dump();
    EXPECT_FALSE(response["body"]["error"]["message"].get<std::string>().empty());
  }
  EXPECT_EQ(neighbour.failures, 0);
  EXPECT_LT(neighbour.slowest, kSlowest);
  EXPECT_EQ(server.restarts_of("gateway"), 0) << server.errors();
  EXPECT_LT(peak_bytes(server.pid_of("gateway")), kGatewayBytes);
}

/// A request is never sent to the daemon if its frame would break the link.
TEST_F(PoisonServerTest, ClientFrame_WhenTooLong_IsRefusedAndNotSent) {
  ASSERT_NO_FATAL_FAILURE(start());
  const auto client = server.client();
  Neighbour neighbour(server);
  wire::Submit submit = make_submit("To be", 4, 1);
  submit.meta = std::string(5'000'000, 'x');
  const auto begun = std::chrono::steady_clock::now();
  const auto answer = client->submit(client::Principal::local(), submit);
  const auto* failure = std::get_if<client::Failure>(&answer);
  ASSERT_NE(failure, nullptr);
  EXPECT_EQ(failure->code, Errc::kInvalidRequest) << failure->message;
  EXPECT_GT(failure->needed, 5'000'000);
  EXPECT_EQ(failure->largest, 4 << 20);
  EXPECT_LT(std::chrono::steady_clock::now() - begun, kSlowest);
  submit.meta = std::string(1'000'000, 'x');
  EXPECT_TRUE(
      std::holds_alternative<wire::Accepted>(client->submit(client::Principal::local(), submit)))
      << "the link holds";
  neighbour.end();
  EXPECT_EQ(neighbour.failures, 0);
}

class Env {
 public:
  Env(const char* name, const std::string& value) : name_(name) { setenv(name, value.c_str(), 1); }
  ~Env() { unsetenv(name_); }
  Env(const Env&) = delete;

 private:
  const char* name_;
};

/// Every gateway crashes when it begins the second line. The first one runs for long, so it stays
/// the first.
TEST_F(PoisonServerTest, BatchLine_WhenGatewaysCrashOverIt_IsQuarantined) {
  const Env env("HOLDFAST_CRASH_AT", "gateway.batch.begun:2!");
  ASSERT_NO_FATAL_FAILURE(start());
  const std::string id =
      make_batch(line_of("good", good_body(1, 200)) + line_of("bad", good_body(2)));
  const json batch = wait_batch(id);
  EXPECT_EQ(batch["status"], "completed") << batch.dump();
  EXPECT_TRUE(lines_of(batch["output_file_id"]).contains("good"));
  const auto bad = lines_of(batch["error_file_id"]);
  ASSERT_TRUE(bad.contains("bad"));
  EXPECT_EQ(bad.at("bad")["response"]["body"]["error"]["code"], "quarantined")
      << bad.at("bad").dump();
  EXPECT_EQ(server.restarts_of("gateway"), 2) << "two deaths, and no third";
  const pid_t gateway = server.pid_of("gateway");
  sleep(2);
  EXPECT_EQ(server.pid_of("gateway"), gateway);
}

/// The same while the file is read, when no line is known yet.
TEST_F(PoisonServerTest, BatchLine_WhenGatewaysCrashReadingIt_IsAnErrorOfItsOwn) {
  const Env env("HOLDFAST_CRASH_AT", "gateway.batch.read:2!");
  ASSERT_NO_FATAL_FAILURE(start());
  const json batch =
      wait_batch(make_batch(line_of("good", good_body(1)) + line_of("bad", good_body(2))));
  EXPECT_EQ(batch["status"], "completed") << batch.dump();
  EXPECT_TRUE(lines_of(batch["output_file_id"]).contains("good"));
  EXPECT_EQ(batch["request_counts"]["failed"], 1);
  EXPECT_EQ(server.restarts_of("gateway"), 2);
}

TEST_F(PoisonServerTest, Tokenize_WithALongText_TakesLittleGatewayMemory) {
  ASSERT_NO_FATAL_FAILURE(start());
  std::string text;
  while (text.size() < 900'000) text += "a b c d e f g h ";
  const json body = {{"model", "demo"}, {"prompt", text}, {"return_token_strs", true}};
  const HttpAnswer refused = http_exchange(server.url(), http_post_text("/tokenize", body.dump()));
  EXPECT_EQ(refused.status, 400) << refused.body.substr(0, 300);
  const json error = json::parse(refused.body, nullptr, false)["error"];
  EXPECT_EQ(error["largest"], 65'536) << refused.body.substr(0, 300);
  const json plain = {{"model", "demo"}, {"prompt", text}};
  for (int i = 0; i < 3; ++i) {
    const HttpAnswer told = http_exchange(server.url(), http_post_text("/tokenize", plain.dump()));
    ASSERT_EQ(told.status, 200) << told.body.substr(0, 300);
    const json answer = json::parse(told.body, nullptr, false);
    EXPECT_EQ(answer["tokens"].size(), answer["count"]);
    EXPECT_GT(answer["count"], 100'000);
  }
  EXPECT_LT(peak_bytes(server.pid_of("gateway")), kGatewayBytes);
}

/// Work counts before it is done: a request that is refused after its tokenization has been paid
/// for.
TEST_F(PoisonServerTest, Tokenization_WhenTheApiKeyIsOverItsRateLimit_IsRefused) {
  ASSERT_NO_FATAL_FAILURE(start());
  const Ended made = server.cli({"keys", "create", "k", "--requests-per-minute", "2", "--json"});
  ASSERT_EQ(made.code, 0) << made.err;
  const json key = json::parse(made.out, nullptr, false);
  const std::string secret = key.contains("key") ? key["key"].get<std::string>() : "";
  const std::vector<std::pair<std::string, std::string>> headers = {
      {"Authorization", "Bearer " + secret}};
  for (int i = 0; i < 100; ++i) {  // until the gateway has read the limit
    if (http_exchange(server.url(), http_get_text("/v1/models", headers)).status == 200) break;
    usleep(50'000);
  }
  std::string text;
  while (text.size() < 400'000) text += "a b c d e f g h ";
  const std::string body = json{{"model", "demo"}, {"prompt", text}, {"max_tokens", 1}}.dump();
  const std::string question = json{{"model", "demo"}, {"prompt", "a"}}.dump();
  std::map<int, int> requests, questions;
  for (int i = 0; i < 12; ++i) {
    ++requests[http_exchange(server.url(), http_post_text("/v1/completions", body, headers))
                   .status];
    ++questions[http_exchange(server.url(), http_post_text("/tokenize", question, headers)).status];
  }
  EXPECT_EQ(requests[400], 2) << "too long for the model, as their tokens show";
  EXPECT_EQ(requests[429], 10);
  EXPECT_EQ(questions[200], 2);
  EXPECT_EQ(questions[429], 10);
}

}  // namespace
}  // namespace holdfast::process::poison_test
