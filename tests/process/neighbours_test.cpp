// Goal: no route gives away anything of another tenant: neither its contents nor their existence,
// nor control of its work; neither alone, nor while others name its ids in POSTs, nor by a key that
// was revoked. Method: every route of the gateway's own table with every kind of id of another
// tenant in its path, its query and its headers, each answer compared with that to an id that does
// not exist. The daemon and the gateway are real; the tokens are the fake engine's.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sodium.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <nlohmann/json.hpp>
#include <regex>
#include <thread>

#include "control/gateway/router.h"
#include "shared/base/bytes.h"
#include "tests/process/http_stream.h"
#include "tests/process/test_server.h"

namespace holdfast::process::neighbours_test {
namespace {

using nlohmann::json;
using Headers = std::vector<std::pair<std::string, std::string>>;

constexpr const char* kSecretText = "what only ben knows";

std::string request_text(const std::string& method, const std::string& path, const Headers& headers,
                         const std::string& body = "", const std::string& type = "") {
  std::string out = method + " " + path + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n";
  for (const auto& [name, value] : headers) out += name + ": " + value + "\r\n";
  if (!type.empty()) out += "Content-Type: " + type + "\r\n";
  if (!body.empty() || method == "POST") {
    out += "Content-Length: " + std::to_string(body.size()) + "\r\n";
  }
  return out + "\r\n" + body;
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) {
    text.replace(at, from.size(), to);
  }
  return text;
}

/// An id as older versions derived it: by a hash that anybody can compute.
std::string public_id(const std::string& tenant, const std::string& prefix,
                      const std::string& key) {
  std::string name = tenant;
  name.append(1, '\0').append(prefix).append(1, '\0').append(key);
  std::array<std::byte, 32> digest{};
  crypto_generichash(reinterpret_cast<unsigned char*>(digest.data()), digest.size(),
                     reinterpret_cast<const unsigned char*>(name.data()), name.size(), nullptr, 0);
  return prefix + to_hex(digest).substr(0, 26);
}

/// An id of ben's, and one of the same form that does not exist.
struct OwnedId {
  std::string kind;
  std::string id;
  std::string nobodys() const {
    std::string other = id;
    for (std::size_t i = other.size(), left = 8; i-- > 0 && left > 0;) {
      if (std::isalnum(static_cast<unsigned char>(other[i])) == 0) continue;
      other[i] = other[i] == '0' ? '1' : '0';
      --left;
    }
    return other;
  }
};

/// A request that names an id somewhere.
struct Probe {
  std::string method, path;
  Headers headers;
  std::string body;
};

std::string body_for(const std::string& path, const std::string& id) {
  if (path == "/v1/chat/completions") {
    return R"({"model":"demo","max_tokens":2,"messages":[{"role":"user","content":"a"}]})";
  }
  if (path == "/v1/messages") {
    return R"({"model":"demo","max_tokens":2,"messages":[{"role":"user","content":"a"}]})";
  }
  if (path == "/v1/embeddings") return R"({"model":"demo","input":"a"})";
  if (path == "/v1/responses" || path == "/v1/responses/compact") {
    return json{{"model", "demo"}, {"input", "a"}, {"previous_response_id", id}}.dump();
  }
  if (path == "/v1/batches") {
    return json{
        {"input_file_id", id}, {"endpoint", "/v1/completions"}, {"completion_window", "24h"}}
        .dump();
  }
  if (path == "/tokenize") return R"({"prompt":"a"})";
  if (path == "/detokenize") return R"({"tokens":[1]})";
  return R"({"model":"demo","prompt":"a","max_tokens":2})";
}

/// All ways in which a request can give a route an id.
std::vector<Probe> probes_of(const gateway::Route& route, const std::string& id) {
  const std::string method(route.method);
  std::string path(route.pattern);
  const bool names = path.find('{') != std::string::npos;
  path = std::regex_replace(path, std::regex("\\{\\*?\\}"), id);
  std::vector<Probe> out;
  const std::string body = method == "POST" ? body_for(path, id) : "";
  const std::string event = id + ".0";
  if (names) {
    out.push_back({method, path, {}, body});
    if (method == "GET") {
      out.push_back({method, path + "?stream=true", {}, body});
      out.push_back({method, path, {{"Last-Event-ID", event}}, body});
    }
  } else if (method == "POST") {
    out.push_back({method, path, {{"Last-Event-ID", event}}, body});
    out.push_back({method, path, {{"Last-Event-ID", event}, {"Idempotency-Key", id}}, body});
    const bool turn = path == "/v1/responses" || path == "/v1/responses/compact";
    if (turn || path == "/v1/batches") out.push_back({method, path, {}, body});
    for (const std::string& item :
         turn ? std::vector<std::string>{"msg_" + id, id} : std::vector<std::string>()) {
      const json input = json::array({{{"type", "item_reference"}, {"id", item}}});
      out.push_back({method, path, {}, json{{"model", "demo"}, {"input", input}}.dump()});
    }
    if (path == "/v1/responses") {
      const std::string plain = R"({"model":"demo","input":"a"})";
      out.push_back({method, path, {{"Last-Event-ID", event}}, plain});
      out.push_back({method,
                     path,
                     {{"Last-Event-ID", event}},
                     R"({"model":"demo","input":"a","store":false})"});
    }
  } else {
    out.push_back({method, path, {}, ""});
    out.push_back({method, path + "?after=" + id, {}, ""});
  }
  return out;
}

class Neighbours : public testing::Test {
 protected:
  void start() {
    ASSERT_TRUE(server.start({"--model", "demo=" + demo_model(), "--engine", "fake"}))
        << server.errors();
  }
  json make_key(const std::vector<std::string>& args) {
    std::vector<std::string> all = {"--json", "keys", "create"};
    all.insert(all.end(), args.begin(), args.end());
    const Ended ended = server.cli(all);
    EXPECT_EQ(ended.code, 0) << ended.err;
    return json::parse(ended.out, nullptr, false);
  }
  HttpAnswer send(const Probe& probe, const std::string& key) {
    Headers headers = probe.headers;
    if (!key.empty()) headers.emplace_back("Authorization", "Bearer " + key);
    return http_exchange(server.url(), request_text(probe.method, probe.path, headers, probe.body,
                                                    probe.body.empty() ? "" : "application/json"));
  }
  json post(const std::string& path, const json& body, const std::string& key,
            const std::string& idempotency = "") {
    Probe probe{"POST", path, {}, body.dump()};
    if (!idempotency.empty()) probe.headers.emplace_back("Idempotency-Key", idempotency);
    const HttpAnswer answer = send(probe, key);
    EXPECT_EQ(answer.status, 200) << path << answer.body;
    return json::parse(answer.body, nullptr, false);
  }
  json get(const std::string& path, const std::string& key) {
    return json::parse(send({"GET", path, {}, ""}, key).body, nullptr, false);
  }
  std::string upload(const std::string& content, const std::string& key) {
    const std::string form =
        "--m\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nbatch\r\n--m\r\n"
        "Content-Disposition: form-data; name=\"file\"; filename=\"in.jsonl\"\r\n\r\n" +
        content + "\r\n--m--\r\n";
    Headers headers;
    if (!key.empty()) headers.emplace_back("Authorization", "Bearer " + key);
    const HttpAnswer answer = http_exchange(
        server.url(),
        request_text("POST", "/v1/files", headers, form, "multipart/form-data; boundary=m"));
    EXPECT_EQ(answer.status, 200) << answer.body;
    return json::parse(answer.body, nullptr, false).value("id", "");
  }
  static std::string batch_lines(int lines) {
    std::string out;
    for (int i = 0; i < lines; ++i) {
      out += json{{"custom_id", "line-" + std::to_string(i)},
                  {"method", "POST"},
                  {"url", "/v1/completions"},
                  {"body", {{"model", "demo"}, {"prompt", kSecretText}, {"max_tokens", 2}}}}
                 .dump() +
             "\n";
    }
    return out;
  }
  std::string op(const std::string& verb, const json& args) {
    const auto answer =
        server.operator_client()->op(client::AllTenants::local(), verb, args.dump());
    const auto* text = std::get_if<std::string>(&answer);
    EXPECT_NE(text, nullptr) << verb << ": " << std::get<client::Failure>(answer).message;
    return text == nullptr ? "{}" : *text;
  }

  /// Makes one of everything that has an id, for ben. His work waits while the queue is paused.
  std::vector<OwnedId> fill(const json& ben) {
    const std::string key = ben["key"];
    std::vector<OwnedId> out;
    wire::Submit submit = make_submit(kSecretText, 4, 7);
    const auto accepted =
        server.client()->submit(client::Principal::local("ben"), std::move(submit));
    const std::string request = std::get<wire::Accepted>(accepted).info.request_id;
    out.push_back({"request", request});
    out.push_back({"chatcmpl", "chatcmpl-" + request});
    out.push_back({"message", "msg_" + request});
    out.push_back({"choice", request + ".0"});
    const json body = {{"model", "demo"}, {"input", kSecretText}, {"background", true}};
    out.push_back({"response", post("/v1/responses", body, key)["id"]});
    out.push_back({"response by key", post("/v1/responses", body, key, "nightly")["id"]});
    const std::string file = upload(batch_lines(3), key);
    out.push_back({"file", file});
    const std::string batch = post(
        "/v1/batches",
        {{"input_file_id", file}, {"endpoint", "/v1/completions"}, {"completion_window", "24h"}},
        key, "nightly")["id"];
    out.push_back({"batch", batch});
    out.push_back({"line", batch + "_1"});
    out.push_back({"output file", "file-" + batch + "_output"});
    out.push_back({"key", ben["id"]});
    return out;
  }

  const TempDir dir;
  TestServer server{dir.path() + "/state"};
};

/// The meaning of an answer, without the id in question and without what differs each time.
std::string tells(const HttpAnswer& answer, const std::string& id) {
  // A request's own new id appears in some refusals; it is random and only its own.
  static const std::regex made("this POST is [a-z]+ [0-9a-z_]+|request [0-9a-z]{26} is known");
  std::string body = std::regex_replace(replaced(answer.body, id, "ID"), made, "NEW");
  const json parsed = json::parse(answer.body, nullptr, false);
  // The id of a new object is random; the creation counts.
  const bool success = answer.status == 200 || answer.status == 202;
  if (success && parsed.is_object() && parsed.contains("id")) body = "made";
  const auto type = answer.headers.find("content-type");
  return std::to_string(answer.status) + " " + (type == answer.headers.end() ? "" : type->second) +
         " " + body;
}

/// Sends every id to every route as the holder of `key`, and ids that do not exist for comparison.
struct Swept {
  int probes = 0;
  int leaks = 0;
};
template <class Send>
Swept sweep(const std::vector<OwnedId>& owned_ids, const Send& send) {
  Swept out;
  for (const gateway::Route& route : gateway::routes()) {
    if (route.pattern == "/metrics") continue;  // refused to a client's key: another test
    for (const OwnedId& one : owned_ids) {
      const std::string other = one.nobodys();
      const auto probes = probes_of(route, one.id);
      const auto against = probes_of(route, other);
      for (std::size_t i = 0; i < probes.size(); ++i, ++out.probes) {
        const HttpAnswer theirs = send(probes[i]);
        const HttpAnswer none = send(against[i]);
        const bool leak = tells(theirs, one.id) != tells(none, other) ||
                          theirs.body.find(kSecretText) != std::string::npos;
        out.leaks += leak ? 1 : 0;
        EXPECT_FALSE(leak) << route.method << " " << probes[i].path << " (" << one.kind << ")\n"
                           << tells(theirs, one.id) << "\nagainst\n"
                           << tells(none, other);
      }
    }
  }
  return out;
}

/// Sends POSTs that name the ids, until it is destroyed.
template <class Send>
class Posters {
 public:
  Posters(const std::vector<OwnedId>& owned_ids, const Send& send) {
    for (std::size_t t = 0; t < 2; ++t) {
      threads_.emplace_back([this, t, &owned_ids, &send] {
        for (std::size_t i = t; !over_; ++i, ++posts_) {
          const std::string& id = owned_ids[i % owned_ids.size()].id;
          const json body = {{"model", "demo"}, {"input", "a"}, {"background", true}};
          Probe probe{"POST", "/v1/responses", {{"Last-Event-ID", id + ".0"}}, body.dump()};
          if (i % 2 == 1) probe.headers.emplace_back("Idempotency-Key", id);
          (void)send(probe);
        }
      });
    }
  }
  int stop() {
    over_ = true;
    for (std::thread& thread : threads_) thread.join();
    return posts_;
  }

 private:
  std::atomic<bool> over_{false};
  std::atomic<int> posts_{0};
  std::vector<std::thread> threads_;
};

TEST_F(Neighbours, EveryRoute_WithAnotherTenantsId_AnswersAsForAnUnknownOne) {
  start();
  const json ben = make_key({"ben", "--tenant", "ben"});
  const json ann = make_key({"ann", "--tenant", "ann"});
  const auto as_ann = [&](const Probe& probe) { return send(probe, ann["key"]); };
  op("queue.pause", json::object());
  const std::vector<OwnedId> owned_ids = fill(ben);
  const Swept alone = sweep(owned_ids, as_ann);
  Posters posters(owned_ids, as_ann);
  const Swept raced = sweep(owned_ids, as_ann);
  const int posts = posters.stop();
  // Nothing of ben's was touched.
  op("queue.resume", json::object());
  for (const OwnedId& one : owned_ids) {
    if (one.kind == "file") {
      EXPECT_EQ(get("/v1/files/" + one.id, ben["key"]).value("id", ""), one.id);
    }
    if (!one.kind.starts_with("re")) continue;  // requests and responses
    std::string state;
    for (int i = 0; i < 400 && state != "succeeded" && state != "cancelled"; ++i) {
      state = json::parse(op("requests.show", {{"id", one.id}})).value("state", "");
      usleep(50'000);
    }
    EXPECT_EQ(state, "succeeded") << one.kind;
  }
  // A revoked key is refused at once, after silence, on every route that requires one.
  ASSERT_EQ(server.cli({"keys", "revoke", ann["id"]}).code, 0);
  usleep(2'500'000);
  int revoked = 0;
  for (const gateway::Route& route : gateway::routes()) {
    const bool open = route.pattern.starts_with("/health") ||
                      (route.pattern.starts_with("/console") && route.method == "GET" &&
                       route.pattern != "/console/api/history");
    for (std::size_t i = 0; !open && i < owned_ids.size(); ++i, ++revoked) {
      const Probe probe = probes_of(route, owned_ids[i].id)[0];
      EXPECT_EQ(as_ann(probe).status, 401) << route.method << " " << probe.path;
    }
  }
  std::printf(
      "%zu routes x %zu ids: %d probes alone, %d raced with %d posts, %d revoked; %d leaks\n",
      gateway::routes().size(), owned_ids.size(), alone.probes, raced.probes, posts, revoked,
      alone.leaks + raced.leaks);
  EXPECT_GT(alone.probes + raced.probes + revoked, 1000);
  EXPECT_EQ(server.stop(), 0);
}

TEST_F(Neighbours, PublicId_WhenDerivedFromAnIdempotencyKey_IsNotComputableByOthers) {
  start();
  const json ben = make_key({"ben", "--tenant", "ben"});
  const std::string key = ben["key"];
  const json request = {{"model", "demo"}, {"input", kSecretText}, {"max_output_tokens", 2}};
  const std::string first = post("/v1/responses", request, key, "nightly")["id"];
  EXPECT_NE(first, public_id("ben", "resp_", "nightly"));
  EXPECT_EQ(post("/v1/responses", request, key, "nightly")["id"], first);
  ASSERT_TRUE(server.kill_child("daemon"));
  EXPECT_EQ(post("/v1/responses", request, key, "nightly")["id"], first) << "the secret is kept";
  // A response that an older version made under the same key is found, and its batch finishes once.
  const std::string old = public_id("ben", "resp_", "old");
  op("objects.put",
     {{"kind", "response"},
      {"id", old},
      {"owner", "ben"},
      {"body", {{"hash", "h"}, {"items", json::array()}, {"final", {{"id", old}}}}}});
  EXPECT_EQ(
      send({"POST", "/v1/responses", {{"Idempotency-Key", "old"}}, request.dump()}, key).status,
      422)
      << "it is known with another body";
  const std::string file = upload(batch_lines(4), key);
  const std::string batch = public_id("ben", "batch_", "old");
  json body = {{"id", batch},
               {"object", "batch"},
               {"endpoint", "/v1/completions"},
               {"errors", nullptr},
               {"input_file_id", file},
               {"completion_window", "24h"},
               {"status", "validating"},
               {"output_file_id", nullptr},
               {"error_file_id", nullptr},
               {"expires_at", 4'000'000'000},
               {"request_counts", {{"total", 0}, {"completed", 0}, {"failed", 0}}},
               {"_hash", "h"}};
  op("objects.put", {{"kind", "batch"}, {"id", batch}, {"owner", "ben"}, {"body", body}});
  op("objects.put",
     {{"kind", "batch.open"}, {"id", batch}, {"owner", "ben"}, {"body", json::object()}});
  json ended = json::object();
  for (int i = 0; i < 400 && ended.value("status", "") != "completed"; ++i) {
    ended = get("/v1/batches/" + batch, key);
    usleep(50'000);
  }
  EXPECT_EQ(ended.value("status", ""), "completed") << ended.dump() << server.errors();
  const json found = json::parse(op("requests.list", {{"tenant", "ben"}, {"id", batch}}));
  EXPECT_EQ(found["requests"].size(), 4u) << "each line once";
  EXPECT_EQ(send({"POST",
                  "/v1/batches",
                  {{"Idempotency-Key", "old"}},
                  json{{"input_file_id", file},
                       {"endpoint", "/v1/completions"},
                       {"completion_window", "24h"}}
                      .dump()},
                 key)
                .status,
            422);
  EXPECT_EQ(server.stop(), 0);
}

TEST_F(Neighbours, ApiKey_WhenCreatedOrRevoked_TakesEffectAtTheNextRequest) {
  start();
  const json boss = make_key({"boss", "--role", "operator"});
  const json client_key = make_key({"own"});
  EXPECT_EQ(client_key["tenant"], client_key["id"]) << "a tenant of its own";
  EXPECT_EQ(send({"GET", "/v1/models", {}, ""}, client_key["key"]).status, 200)
      << "its first request";
  EXPECT_EQ(send({"GET", "/v1/models", {}, ""}, "").status, 401);
  // Facts that a client's key does not see.
  EXPECT_FALSE(get("/v1/models", client_key["key"])["data"][0].contains("sha256"));
  EXPECT_TRUE(get("/v1/models", boss["key"])["data"][0].contains("sha256"));
  EXPECT_EQ(send({"GET", "/metrics", {}, ""}, client_key["key"]).status, 403);
  const json metrics = make_key({"scrape", "--role", "metrics"});
  EXPECT_EQ(send({"GET", "/metrics", {}, ""}, metrics["key"]).status, 200);
  EXPECT_EQ(send({"GET", "/v1/models", {}, ""}, metrics["key"]).status, 403);
  // An operator over the network cannot change a bound for such operators.
  const auto set = [&](const json& settings) {
    return send({"POST", "/console/api/config.set", {}, json{{"settings", settings}}.dump()},
                boss["key"])
        .status;
  };
  EXPECT_EQ(set({{"models.roots", "/"}}), 403);
  EXPECT_EQ(set({{"queue.max_requests", 77}}), 200);
  EXPECT_EQ(server.cli({"config", "set", "models.roots=/srv"}).code, 0);
  EXPECT_EQ(
      send({"POST", "/console/api/config.unset", {}, R"({"names":["models.roots"]})"}, boss["key"])
          .status,
      403);
  EXPECT_EQ(
      send({"POST", "/console/api/config.rollback", {}, R"({"version":0})"}, boss["key"]).status,
      403);
  // Refused after silence as well as at once.
  ASSERT_EQ(server.cli({"keys", "revoke", boss["id"]}).code, 0);
  usleep(3'000'000);
  EXPECT_EQ(set({{"queue.max_requests", 78}}), 401);
  EXPECT_EQ(server.stop(), 0);
}

/// Status and body of one GET as another user of this machine.
std::pair<int, std::string> get_as(uid_t user, const std::string& url, const std::string& path) {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    if (setresuid(user, user, user) != 0) _exit(1);
    const HttpAnswer answer = http_exchange(url, http_get_text(path));
    const std::string text = std::to_string(answer.status) + " " + answer.body;
    (void)!write(ends[1], text.data(), std::min<std::size_t>(text.size(), 4000));
    _exit(0);
  }
  close(ends[1]);
  std::string text;
  char buffer[4096];
  for (ssize_t n = 0; (n = read(ends[0], buffer, sizeof buffer)) > 0;) {
    text.append(buffer, static_cast<std::size_t>(n));
  }
  close(ends[0]);
  waitpid(child, nullptr, 0);
  return {std::atoi(text.c_str()), text};
}

TEST_F(Neighbours, Gateway_WithoutAnyApiKey_RefusesOtherUsersOfTheMachine) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can ask as somebody else";
  start();
  EXPECT_EQ(send({"GET", "/v1/models", {}, ""}, "").status, 200);
  for (const char* path :
       {"/v1/models", "/metrics", "/v1/files", "/console/api/history", "/v1/requests/x"}) {
    const auto [status, text] = get_as(65'534, server.url(), path);
    EXPECT_EQ(status, 401) << path << text;
    EXPECT_NE(text.find("holdfast keys create"), std::string::npos) << text;
  }
  EXPECT_EQ(get_as(65'534, server.url(), "/health/live").first, 200);
  // An error must not give away a file's first bytes.
  dir.write("secret", "root:secret");
  const HttpAnswer added = send({"POST",
                                 "/console/api/models.add",
                                 {},
                                 json{{"name", "x"}, {"path", dir.path() + "/secret"}}.dump()},
                                "");
  EXPECT_EQ(added.body.find("726f6f74"), std::string::npos) << added.body;
  EXPECT_EQ(added.body.find("root"), std::string::npos) << added.body;
  EXPECT_EQ(server.stop(), 0);
}

}  // namespace
}  // namespace holdfast::process::neighbours_test
