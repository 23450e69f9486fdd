// Goal: the console's page is served whole and can do no harm, its API is open to operators alone
// and to the verbs of its list alone, no other site's page gets through to it, and the daemon's
// answers are unchanged. Method: a gateway in this process over a fake daemon, with and without
// keys; hosts, origins and verbs tried one by one.
#include "control/gateway/console_api/console_files.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <regex>

#include "control/gateway/common/sampling_fields.h"
#include "control/gateway/console_api/history.h"
#include "control/gateway/http/page_guard.h"
#include "shared/client/api_key.h"
#include "shared/sampling/parameters.h"
#include "tests/http/http_peer.h"

namespace holdfast::gateway::console_test {
namespace {

using nlohmann::json;
using test::Gateway;
using test::get;
using test::Reply;

const char* const kVerbs[] = {"status",
                              "models.list",
                              "models.show",
                              "models.aliases",
                              "models.add",
                              "models.remove",
                              "models.alias_history",
                              "models.load",
                              "models.unload",
                              "models.pin",
                              "models.unpin",
                              "models.verify",
                              "models.alias",
                              "models.canary",
                              "models.canary_promote",
                              "models.canary_rollback",
                              "workers.list",
                              "workers.drain",
                              "models.alias_remove",
                              "workers.resume",
                              "requests.list",
                              "requests.show",
                              "requests.cancel",
                              "requests.requeue",
                              "requests.move",
                              "queue.stats",
                              "queue.pause",
                              "queue.resume",
                              "config.list",
                              "config.get",
                              "config.explain",
                              "config.history",
                              "config.diff",
                              "config.set",
                              "config.unset",
                              "config.rollback",
                              "db.stats",
                              "pulls.list",
                              "pulls.show",
                              "pulls.start",
                              "pulls.cancel"};
const char* const kNotThere[] = {"shutdown",    "supervisor.worker_exit",
                                 "objects.get", "objects.list",
                                 "objects.put", "objects.delete",
                                 "metrics",     "models.golden",
                                 "db.backup",   "keys.list",
                                 "statu",       "status2"};

/// Returns the bytes of a POST with these headers and no others but its length.
std::string raw_post(const std::string& verb, const std::string& headers,
                     const std::string& body = "{}") {
  return "POST /console/api/" + verb + " HTTP/1.1\r\n" + headers +
         "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}
const std::string kJson = "Content-Type: application/json\r\n";
const std::string kHere = "Host: 127.0.0.1:8080\r\n";

/// A gateway with the console, and with keys on request.
struct GatewayFixture {
  GatewayFixture() { gateway.context().operating = &gateway.client; }
  void add_key(const std::string& key, const std::string& role) {
    keys.push_back(
        {{"seq", keys.size() + 1},
         {"id", "key_" + role},
         {"owner", ""},
         {"version", 1},
         {"created_ms", 1},
         {"expires_ms", 0},
         {"bytes", 0},
         {"body", {{"hash", client::hash_api_key(key)}, {"role", role}, {"name", role}}}});
  }
  void ask_for_keys() {
    gateway.client.op_results["objects.list"] = json{{"more", false}, {"objects", keys}}.dump();
    gateway.context().access = std::make_shared<Access>(object_store, true);
  }
  int status(const std::string& request) { return gateway.ask(request).status; }

  Gateway gateway;
  ObjectStore object_store{gateway.client};
  json keys = json::array();
};

TEST(Console, ChatForm_WhenRead_HasParametersWithTheirRanges) {
  const auto page = std::find_if(console_files().begin(), console_files().end(),
                                 [](const ConsoleFile& file) { return file.name == "chat.js"; });
  ASSERT_NE(page, console_files().end());
  const std::string text(page->body);
  const std::size_t from = text.find("const kSampling = [");
  ASSERT_NE(from, std::string::npos);
  const std::string list = text.substr(from, text.find("];", from) - from);
  const std::regex row(R"(\['(\w+)', '[^']*', '([^']*)'\])");
  const std::regex range(R"(^-?[0-9.]+ to [0-9.]+)");
  int rows = 0;
  for (std::sregex_iterator at(list.begin(), list.end(), row), end; at != end; ++at, ++rows) {
    const std::string name = (*at)[1], hint = (*at)[2];
    if (name == "max_tokens") continue;
    const sampling::Parameter* parameter = sampling::find_parameter(name);
    ASSERT_NE(parameter, nullptr) << name;
    std::smatch found;
    if (std::regex_search(hint, found, range)) {
      sampling::Parameter over_http = *parameter;
      over_http.range = gateway::http_range(*parameter);
      EXPECT_EQ(found.str(), sampling::range_text(over_http)) << name;
    }
  }
  EXPECT_GE(rows, 7);
}

TEST(Console, ConsoleFiles_WhenRequested_AreServedWithCspAndNoPathTraversal) {
  Gateway gateway;
  ASSERT_GT(console_files().size(), 5u);
  for (const ConsoleFile& file : console_files()) {
    const std::string path = "/console/" + std::string(file.name);
    const Reply reply = gateway.ask(get(path));
    EXPECT_EQ(reply.status, 200) << path;
    EXPECT_EQ(reply.body, file.body);
    EXPECT_EQ(reply.headers.at("x-content-type-options"), "nosniff");
    EXPECT_EQ(reply.headers.at("referrer-policy"), "no-referrer");
    const std::string& policy = reply.headers.at("content-security-policy");
    for (const char* part : {"default-src 'none'", "script-src 'self'", "frame-ancestors 'none'",
                             "base-uri 'none'", "form-action 'none'", "connect-src 'self'"}) {
      EXPECT_NE(policy.find(part), std::string::npos) << part;
    }
    EXPECT_EQ(policy.find("unsafe"), std::string::npos);
    const std::string if_none_match = "If-None-Match: " + reply.headers.at("etag") + "\r\n";
    const Reply again = gateway.ask(get(path, if_none_match));
    EXPECT_EQ(again.status, 304);
    EXPECT_EQ(again.body, "");
    EXPECT_EQ(gateway.ask(get(path, "If-None-Match: \"other\"\r\n")).status, 200);
  }
  EXPECT_EQ(gateway.ask(get("/console")).body, gateway.ask(get("/console/index.html")).body);
  EXPECT_EQ(gateway.ask(get("/console/")).body, gateway.ask(get("/console")).body);
  EXPECT_EQ(gateway.ask(get("/console")).headers.at("content-type"), "text/html; charset=utf-8");
  for (const char* path : {"/console/none.js", "/console/..%2fREADME.md", "/console/embed.cmake"}) {
    EXPECT_EQ(gateway.ask(get(path)).status, 404) << path;
  }
}

TEST(Console, ConsolePage_ContainsNoInlineScriptOrRawMarkup) {
  const auto has = [](const std::string& text, const char* word) {
    return text.find(word) != std::string::npos;
  };
  for (const ConsoleFile& file : console_files()) {
    std::string text(file.body);
    if (file.name.ends_with(".js")) {
      for (const char* word : {"innerHTML", "outerHTML", "insertAdjacentHTML", "setHTML",
                               "document.write", "eval(", "Function(", "import("}) {
        EXPECT_FALSE(has(text, word)) << file.name << " " << word;
      }
    }
    // The namespace of SVG is a name, no address.
    for (std::size_t at; (at = text.find("http://www.w3.org/2000/svg")) != std::string::npos;) {
      text.erase(at, 26);
    }
    for (const char* word : {"http:", "https:", "\"//", "'//", "`//", "(//", "@import"}) {
      EXPECT_FALSE(has(text, word)) << file.name << " " << word;
    }
    if (!file.name.ends_with(".html")) continue;
    for (const char* word :
         {"<style", " style=", " onclick", " onload", " onerror", "javascript:"}) {
      EXPECT_FALSE(has(text, word)) << file.name << " " << word;
    }
    for (std::size_t at = 0; (at = text.find("<script", at)) != std::string::npos; ++at) {
      EXPECT_EQ(text.substr(at, 44), "<script type=\"module\" src=\"/console/main.js\"");
    }
  }
}

TEST(Console, ConsoleApi_WhenVerbIsNotAllowlisted_Returns404) {
  GatewayFixture fixture;
  for (const char* verb : kVerbs) {
    fixture.gateway.client.op_results[verb] = std::string("{\"said\": \"") + verb + "\"}";
    const Reply reply = fixture.gateway.ask(raw_post(verb, kHere + kJson, R"({"name": "a"})"));
    EXPECT_EQ(reply.status, 200) << verb;
    EXPECT_EQ(reply.body, fixture.gateway.client.op_results[verb]);
    EXPECT_EQ(reply.headers.at("cache-control"), "no-store");
    EXPECT_EQ(json::parse(fixture.gateway.client.op_args(verb)),
              (json{{"name", "a"}, {"who", "console"}}));
  }
  const int ops_before = fixture.gateway.client.ops();
  for (const char* verb : kNotThere) {
    EXPECT_EQ(fixture.status(raw_post(verb, kHere + kJson)), 404) << verb;
  }
  EXPECT_EQ(fixture.gateway.client.ops(), ops_before);
}

TEST(Console, KeylessGateway_WhenHostOrOriginIsForeign_Returns403) {
  GatewayFixture fixture;
  fixture.gateway.client.script.token_bytes = {{"a", "b"}};
  fixture.ask_for_keys();
  fixture.gateway.context().cors = Cors::allow({"https://app.example"}).value();
  const std::string body = R"({"model":"m","prompt":"x"})";
  const auto status = [&](const std::string& headers) {
    return fixture.status("POST /v1/completions HTTP/1.1\r\n" + headers +
                          "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body);
  };
  EXPECT_EQ(status("Host: localhost\r\n"), 200) << "a program sends no Origin";
  EXPECT_EQ(status("Host: anything\r\n"), 403);
  EXPECT_EQ(status("Host: localhost:8080\r\nOrigin: http://localhost:8080\r\n"), 200);
  EXPECT_EQ(status("Host: localhost:8080\r\nOrigin: https://app.example\r\n"), 200);
  for (const char* headers :
       {"Host: localhost:8080\r\nOrigin: http://evil.example\r\nContent-Type: text/plain\r\n",
        "Host: localhost:8080\r\nOrigin: null\r\n",
        // The site's name server made its name point here.
        "Host: evil.example:8080\r\nOrigin: http://evil.example:8080\r\n"}) {
    EXPECT_EQ(status(headers), 403) << headers;
  }
}

TEST(Console, ApiKey_WithForeignOrigin_IsAccepted) {
  GatewayFixture fixture;
  fixture.gateway.client.script.token_bytes = {{"a", "b"}};
  fixture.add_key("sk-client", "client");
  fixture.ask_for_keys();
  EXPECT_EQ(fixture.status(test::post("/v1/completions", R"({"model":"m","prompt":"x"})",
                                      "Authorization: Bearer sk-client\r\n"
                                      "Origin: http://other.example\r\n")),
            200);
}

TEST(Console, KeylessConsoleApi_WhenNotSameOriginOnLoopback_IsRefused) {
  GatewayFixture fixture;
  fixture.gateway.client.op_results["queue.pause"] = "{}";
  const auto status = [&](const std::string& headers) {
    return fixture.status(raw_post("queue.pause", headers));
  };
  EXPECT_EQ(status(kHere + kJson), 200);
  EXPECT_EQ(status("Host: localhost:8080\r\nOrigin: http://localhost:8080\r\n" + kJson), 200);
  EXPECT_EQ(status("Host: [::1]:8080\r\nSec-Fetch-Site: same-origin\r\n" + kJson), 200);
  EXPECT_EQ(status(kHere + "Content-Type: application/json; charset=utf-8\r\n"), 200);
  const int ops_before = fixture.gateway.client.ops();
  // Names of other sites that their name servers made to point here.
  for (const char* host : {"evil.example", "evil.example:8080", "127.0.0.1.evil.example",
                           "localhost.evil.example", "127.1", "127.0.0.256", "0", "[::2]", "",
                           "localhost:", "localhost:99999", "127.0.0.1:8080:1"}) {
    EXPECT_FALSE(is_loopback_host(host)) << host;
    EXPECT_EQ(status("Host: " + std::string(host) + "\r\n" + kJson), 403) << host;
    const std::string plain = "GET /console/api/history HTTP/1.1\r\nHost: " + std::string(host);
    EXPECT_EQ(fixture.status(plain + "\r\n\r\n"), 403) << host;
  }
  // Another site's page that sends a request here.
  for (const char* from : {"Origin: http://evil.example", "Origin: null",
                           "Origin: http://localhost", "Origin: https://127.0.0.1:8080",
                           "Sec-Fetch-Site: cross-site", "Sec-Fetch-Site: same-site"}) {
    EXPECT_EQ(status(kHere + from + "\r\n" + kJson), 403) << from;
  }
  // Types that a form or a script may send without a preflight request.
  for (const char* type :
       {"", "Content-Type: text/plain\r\n", "Content-Type: application/x-www-form-urlencoded\r\n",
        "Content-Type: multipart/form-data; boundary=a\r\n",
        "Content-Type: text/plain; a=application/json\r\n"}) {
    EXPECT_EQ(status(kHere + type), 415) << type;
  }
  EXPECT_EQ(fixture.status("OPTIONS /console/api/queue.pause HTTP/1.1\r\n" + kHere + "\r\n"), 405)
      << "no preflight is ever granted";
  EXPECT_EQ(fixture.gateway.client.ops(), ops_before) << "the daemon has heard of none of them";
}

TEST(Console, ConsoleApi_WithApiKeys_AdmitsOnlyOperators) {
  GatewayFixture fixture;
  fixture.add_key("hf_boss", "operator");
  fixture.add_key("hf_shop", "client");
  fixture.ask_for_keys();
  const std::string boss = "Host: any.name\r\nAuthorization: Bearer hf_boss\r\n";
  const std::string shop = kHere + "Authorization: Bearer hf_shop\r\n";
  for (const char* verb : kVerbs) {
    fixture.gateway.client.op_results[verb] = "{}";
    EXPECT_EQ(fixture.status(raw_post(verb, boss + kJson)), 200) << verb;
    EXPECT_EQ(fixture.status(raw_post(verb, shop + kJson)), 403) << verb;
    EXPECT_EQ(fixture.status(raw_post(verb, kHere + kJson)), 401) << verb;
    EXPECT_EQ(fixture.status(raw_post(verb, kHere + "x-api-key: hf_no\r\n" + kJson)), 401) << verb;
  }
  EXPECT_EQ(json::parse(fixture.gateway.client.op_args("config.set"))["who"],
            "console, key operator");
  EXPECT_EQ(fixture.status(raw_post("status", boss)), 415);
  const Reply refused = fixture.gateway.ask(raw_post("status", shop + kJson));
  const json error = json::parse(refused.body)["error"];
  EXPECT_EQ(error["code"], "unauthorized");
  EXPECT_NE(error["message"].get<std::string>().find("--role operator"), std::string::npos);
  const std::string history = "GET /console/api/history HTTP/1.1\r\n";
  EXPECT_EQ(fixture.status(history + boss + "\r\n"), 200);
  EXPECT_EQ(fixture.status(history + shop + "\r\n"), 403);
  EXPECT_EQ(fixture.status(history + kHere + "\r\n"), 401);
  EXPECT_EQ(fixture.status(get("/console")), 200) << "the page asks for the key";
}

TEST(Console, ConsoleApi_WhenDaemonRefuses_PassesTheErrorThrough) {
  GatewayFixture fixture;
  client::Failure failure;
  failure.code = Errc::kMemoryExhausted;
  failure.message = "it does not fit";
  failure.needed = 7;
  fixture.gateway.client.failure = failure;
  const Reply reply = fixture.gateway.ask(raw_post("models.load", kHere + kJson));
  EXPECT_EQ(reply.status, 503);
  const json error = json::parse(reply.body)["error"];
  EXPECT_EQ(error["code"], "memory_exhausted");
  EXPECT_EQ(error["message"], "it does not fit");
  EXPECT_EQ(error["needed"], 7);
  for (const char* body : {"[]", "{", "\"a\"", "{\"a\": \xff}"}) {
    EXPECT_EQ(fixture.status(raw_post("status", kHere + kJson, body)), 400) << body;
  }
  // The caller cannot be chosen in the arguments.
  fixture.gateway.client.failure.reset();
  fixture.gateway.client.op_results["config.set"] = "{}";
  EXPECT_EQ(fixture.status(raw_post("config.set", kHere + kJson, R"({"who": "root"})")), 200);
  EXPECT_EQ(json::parse(fixture.gateway.client.op_args("config.set"))["who"], "console");
}

TEST(Console, ConsoleApi_WhenDaemonIsSilent_ReturnsUnreachable) {
  GatewayFixture fixture;
  fixture.gateway.context().console_time = std::chrono::milliseconds(30);
  fixture.gateway.client.silent = true;
  const Reply reply = fixture.gateway.ask(raw_post("status", kHere + kJson));
  EXPECT_EQ(reply.status, 503);
  EXPECT_EQ(json::parse(reply.body)["error"]["code"], "unreachable");
}

/// A reading with bounds 1 s and 2 s; `counts` values at or below them, and in all.
Reading reading(std::int64_t epoch, double tokens, std::vector<double> counts) {
  Reading r;
  r.epoch = epoch;
  r.sums = {{"holdfast_generation_tokens_total", tokens}, {"holdfast_num_requests_waiting", 3}};
  r.times["holdfast_time_to_first_token_seconds"] = {{1, 2}, std::move(counts)};
  return r;
}

TEST(ConsoleHistory, Sample_WithTwoReadings_CoversOnlyTheInterval) {
  const Reading before = reading(1, 100, {4, 4, 4});
  const Sample sample = make_sample(before, reading(1, 150, {4, 8, 8}), 7, 5);
  EXPECT_TRUE(sample.up && sample.counted);
  EXPECT_EQ(sample.at_ms, 7);
  EXPECT_DOUBLE_EQ(sample.tokens, 10);
  EXPECT_DOUBLE_EQ(sample.waiting, 3);
  EXPECT_DOUBLE_EQ(sample.first_token_p50.value(), 1500) << "all four are between 1 and 2 s";
  EXPECT_DOUBLE_EQ(sample.first_token_p95.value(), 1950);
  EXPECT_FALSE(sample.gap_p50);
  const Sample none = make_sample(before, before, 7, 5);
  EXPECT_DOUBLE_EQ(none.tokens, 0);
  EXPECT_FALSE(none.first_token_p50) << "nothing was measured: that is not 0";
  EXPECT_FALSE(make_sample(std::nullopt, before, 7, 5).counted);
}

TEST(ConsoleHistory, Sample_WhenDaemonEpochChanges_CountsFromZero) {
  const Sample sample = make_sample(reading(1, 100, {4, 4, 4}), reading(2, 20, {1, 1, 1}), 7, 5);
  EXPECT_DOUBLE_EQ(sample.tokens, 4);
  EXPECT_DOUBLE_EQ(sample.first_token_p50.value(), 500);
  EXPECT_DOUBLE_EQ(quantile_ms(nullptr, {{1, 2}, {0, 0, 3}}, 0.5).value(), 2000)
      << "above all bounds: the last one is all that is known";
}

TEST(ConsoleHistory, History_WhenFullOrDaemonIsDown_StaysBoundedAndMarksDown) {
  Gateway gateway;
  gateway.client.op_results["metrics"] = R"({"families": [
    {"name": "holdfast_daemon_epoch", "type": "gauge", "labels": [], "rows": [[[], 1]]},
    {"name": "holdfast_num_requests_running", "type": "gauge", "labels": ["m"],
     "rows": [[["a"], 2], [["b"], 3]]}]})";
  auto metrics = std::make_shared<DaemonMetrics>(gateway.client);
  History history(metrics, {std::chrono::milliseconds(1), 5});
  const auto samples = [&] { return json::parse(history.document(0))["samples"]; };
  gateway.client.wait_for([&] { return samples().size() == 5; });
  const json document = json::parse(history.document(0));
  EXPECT_EQ(document["samples_max"], 5);
  const auto fields = document["fields"].get<std::vector<std::string>>();
  ASSERT_EQ(document["samples"][0].size(), fields.size());
  EXPECT_EQ(fields[7], "running");
  EXPECT_EQ(document["samples"][4][7], 5) << "over all labels";
  EXPECT_EQ(document["samples"][4][1], true);
  EXPECT_LE(samples().size(), 5u);
  const std::int64_t last = samples().back()[0];
  EXPECT_EQ(json::parse(history.document(last + 1'000'000))["samples"].size(), 0u);

  Gateway away;
  away.client.failure = client::Failure{};
  History nothing(std::make_shared<DaemonMetrics>(away.client), {std::chrono::milliseconds(1), 5});
  const auto rows = [&] { return json::parse(nothing.document(0))["samples"]; };
  away.client.wait_for([&] { return rows().size() == 5; });
  EXPECT_EQ(rows()[0][1], false);
  EXPECT_TRUE(rows()[0][7].is_null());
}

}  // namespace
}  // namespace holdfast::gateway::console_test
