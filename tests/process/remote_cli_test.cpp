// Goal: with HOLDFAST_URL the verbs that ask a daemon give what they give by its socket, by an
// operator's key alone; a lost connection costs no text; a key goes to no other place; verbs of
// this machine say so. Method: `holdfast serve` with the fake engine, the same verbs by --state
// and by HOLDFAST_URL; the gateway killed in mid-answer; a server of the test that redirects.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>
#include <vector>

#include "ops/cli/reach.h"
#include "ops/cli/verbs.h"
#include "shared/remote/address.h"
#include "shared/remote/sse.h"
#include "tests/process/running.h"
#include "tests/process/test_server.h"

namespace holdfast::process::remote_cli_test {
namespace {

using nlohmann::json;
using Words = std::vector<std::string>;

/// A command line with these variables.
Words with_env(const Words& variables, const Words& args) {
  Words all = {"/usr/bin/env"};
  all.insert(all.end(), variables.begin(), variables.end());
  all.push_back(std::string(HOLDFAST_BIN_DIR) + "/holdfast");
  all.insert(all.end(), args.begin(), args.end());
  return all;
}

class RemoteCli : public testing::Test {
 protected:
  void start(const Words& more = {}) {
    Words flags = {"--model", "demo=" + demo_model(), "--engine", "fake"};
    flags.insert(flags.end(), more.begin(), more.end());
    ASSERT_TRUE(server.start(flags)) << server.errors();
  }
  Words command(const Words& args) const {
    Words variables = {"HOLDFAST_URL=" + server.url()};
    if (!key.empty()) variables.push_back("HOLDFAST_API_KEY=" + key);
    return with_env(variables, args);
  }
  Ended remote(const Words& args) const { return run_program(command(args)); }
  json document(const Words& args) const {
    Words all = {"--json"};
    all.insert(all.end(), args.begin(), args.end());
    const Ended ended = remote(all);
    EXPECT_EQ(ended.code, 0) << args[0] << ": " << ended.err;
    return json::parse(ended.out, nullptr, false);
  }
  json local_document(const Words& args) const {
    Words all = {"--json"};
    all.insert(all.end(), args.begin(), args.end());
    return json::parse(server.cli(all).out, nullptr, false);
  }
  std::string make_key(const std::string& role) const {
    return local_document({"keys", "create", role, "--role", role}).at("key");
  }

  const TempDir dir;
  TestServer server{dir.path() + "/state"};
  std::string key;
};

std::set<std::string> names_of(const json& object) {
  std::set<std::string> names;
  for (const auto& [name, value] : object.items()) names.insert(name);
  return names;
}

TEST_F(RemoteCli, Questions_OverHttp_HaveTheDocumentsOfTheSocket) {
  start();
  key = make_key("operator");
  const Ended made = server.cli({"run", "demo", "a", "--max-tokens", "3"});
  ASSERT_EQ(made.code, 0) << made.err;
  const std::string id = local_document({"requests", "list"})["requests"][0]["id"];
  for (const Words& args : std::vector<Words>{{"models", "list"},
                                              {"models", "alias"},
                                              {"requests", "list"},
                                              {"requests", "list", "--with-state", "failed"},
                                              {"requests", "show", id},
                                              {"requests", "show", "cmpl-" + id},
                                              {"queue", "stats"},
                                              {"config", "list"},
                                              {"config", "get", "queue.max_requests"},
                                              {"config", "explain", "queue.max_requests"},
                                              {"config", "history"},
                                              {"config", "diff"}}) {
    json far = document(args), near = local_document(args);
    // Free memory of the machine may change between the two questions.
    for (int i = 0; i < 20 && far != near; ++i) far = document(args), near = local_document(args);
    EXPECT_EQ(far, near) << args[0] << " " << args[1];
  }
  // Their numbers change by themselves.
  EXPECT_EQ(names_of(document({"models", "show", "demo"})),
            names_of(local_document({"models", "show", "demo"})));
  EXPECT_EQ(names_of(document({"status"})), names_of(local_document({"status"})));
  EXPECT_EQ(names_of(document({"db", "stats"})), names_of(local_document({"db", "stats"})));
  EXPECT_EQ(names_of(document({"workers", "list"})["workers"][0]),
            names_of(local_document({"workers", "list"})["workers"][0]));
  EXPECT_TRUE(remote({"status"}).out.starts_with("asked " + server.url() + "\nholdfast "));
  const Ended table = remote({"models", "list"});
  EXPECT_EQ(table.out, server.cli({"models", "list"}).out);
  EXPECT_EQ(server.stop(), 0);
}

TEST_F(RemoteCli, Changes_OverHttp_AreMade) {
  start();
  key = make_key("operator");
  const auto said = [&](const Words& args) {
    const Ended ended = remote(args);
    EXPECT_EQ(ended.code, 0) << args[0] << " " << args[1] << ": " << ended.err;
    return ended.out;
  };
  EXPECT_EQ(said({"models", "add", "other", demo_model()}).substr(0, 7), "other: ");
  EXPECT_EQ(said({"models", "load", "other"}), "other: ready\n");
  EXPECT_EQ(local_document({"models", "show", "other"})["state"], "ready");
  EXPECT_EQ(said({"models", "pin", "other"}), "other: pinned\n");
  EXPECT_EQ(said({"models", "unpin", "other"}), "other: not pinned\n");
  EXPECT_EQ(said({"models", "alias", "both", "--to", "demo=50,other=50", "--when-ready"}),
            "both: demo 50 %, other 50 %\n");
  EXPECT_EQ(said({"models", "alias", "both", "--remove"}), "both: removed\n");
  EXPECT_EQ(remote({"models", "unload", "other"}).code, 0);
  EXPECT_EQ(said({"queue", "pause"}), "the queue is paused: nothing new starts\n");
  // A request waits in the paused queue.
  Running waiting(command({"run", "demo", "b", "--max-tokens", "2"}), dir.path() + "/waiting");
  json queued = json::array();
  for (int i = 0; i < 200 && queued.empty(); ++i) {
    queued = local_document({"requests", "list", "--with-state", "queued"})["requests"];
    usleep(20'000);
  }
  ASSERT_EQ(queued.size(), 1u);
  const std::string id = queued[0]["id"];
  EXPECT_EQ(remote({"requests", "move", id, "--priority", "batch"}).code, 0);
  EXPECT_EQ(local_document({"requests", "show", id})["priority"], 2) << "batch";
  EXPECT_EQ(remote({"requests", "cancel", id}).code, 0);
  EXPECT_EQ(waiting.end(0), 1);
  EXPECT_NE(waiting.output().find("request " + id + " cancelled"), std::string::npos)
      << waiting.output();
  EXPECT_EQ(said({"queue", "resume"}), "the queue runs\n");
  EXPECT_EQ(said({"workers", "drain", "worker-0"}), "worker-0: gets nothing new\n");
  EXPECT_EQ(said({"workers", "resume", "worker-0"}), "worker-0: gets work again\n");
  said({"config", "set", "queue.max_requests=77"});
  EXPECT_EQ(local_document({"config", "get", "queue.max_requests"})["value"], 77);
  EXPECT_NE(said({"config", "history"}).find("console, key operator"), std::string::npos);
  said({"config", "unset", "queue.max_requests"});
  EXPECT_EQ(remote({"models", "remove", "other"}).code, 0);
  EXPECT_EQ(remote({"models", "show", "other"}).code, 3);
  EXPECT_EQ(remote({"models", "add", "x", "relative.gguf"}).code, 2);
  EXPECT_EQ(server.stop(), 0);
}

TEST_F(RemoteCli, ApiKey_MissingOrWrongOrOfAClient_IsRefusedWithItsRole) {
  start();
  const std::string client_key = make_key("client");
  const std::string operator_key = make_key("operator");
  const auto refused = [&](const std::string& with, const std::string& expected) {
    key = with;
    const Ended ended = remote({"--json", "models", "list"});
    EXPECT_EQ(ended.code, 4) << ended.err;
    EXPECT_NE(ended.err.find(expected), std::string::npos) << ended.err;
    EXPECT_NE(ended.err.find("an operator's key is wanted, in HOLDFAST_API_KEY"), std::string::npos)
        << ended.err;
    EXPECT_EQ(json::parse(ended.out)["error"]["code"], "unauthorized");
  };
  // The gateway's list of keys may be a second old while there was none.
  for (int i = 0; i < 100 && remote({"models", "list"}).code == 0; ++i) usleep(50'000);
  refused("", "no key was sent");
  refused("hf_wrong", "a key was sent");
  refused(client_key, "role is client");
  key = client_key;
  EXPECT_EQ(remote({"run", "demo", "a", "--max-tokens", "2"}).code, 0) << "a client may run";
  EXPECT_EQ(remote({"requests", "show", "nix"}).code, 4);
  key.clear();
  EXPECT_EQ(remote({"run", "demo", "a"}).code, 4);
  // A file with the key; a key is no flag.
  const std::string file = dir.write("key", operator_key + "\n");
  const Words env = {"HOLDFAST_URL=" + server.url(), "HOLDFAST_API_KEY_FILE=" + file};
  EXPECT_EQ(run_program(with_env(env, {"models", "list"})).code, 0);
  const Words none = {env[0], "HOLDFAST_API_KEY_FILE=" + dir.path() + "/none"};
  const Ended missing = run_program(with_env(none, {"models", "list"}));
  EXPECT_EQ(missing.code, 1);
  EXPECT_NE(missing.err.find("HOLDFAST_API_KEY_FILE"), std::string::npos) << missing.err;
  EXPECT_EQ(run_program(with_env({env[0], "HOLDFAST_API_KEY=a b"}, {"status"})).code, 2);
  EXPECT_EQ(server.stop(), 0);
}

TEST_F(RemoteCli, Server_NamedTwice_IsThatOfTheFirstInOrder) {
  start();
  const Words url = {"HOLDFAST_URL=http://127.0.0.1:1"};
  const Ended away = run_program(with_env(url, {"models", "list"}));
  EXPECT_EQ(away.code, 69);
  EXPECT_NE(away.err.find("http://127.0.0.1:1 does not answer"), std::string::npos) << away.err;
  EXPECT_EQ(run_program(with_env(url, {"run", "demo", "a"})).code, 69);
  EXPECT_EQ(run_program(with_env(url, {"--state", server.state(), "models", "list"})).code, 0);
  const Words both = {url[0], "HOLDFAST_STATE=" + server.state()};
  EXPECT_EQ(run_program(with_env(both, {"models", "list"})).code, 0);
  EXPECT_EQ(run_program(with_env(both, {"--url", server.url(), "status"})).out.substr(0, 6),
            "asked ");
  EXPECT_EQ(run_program(with_env({}, {"--url", server.url(), "--state", "x", "status"})).code, 2);
  EXPECT_EQ(run_program(with_env({"HOLDFAST_URL=ftp://x"}, {"status"})).code, 2);
  const std::string url_before = server.url();
  EXPECT_EQ(server.stop(), 0);
  EXPECT_EQ(run_program(with_env({"HOLDFAST_URL=" + url_before}, {"--json", "status"})).code, 69);
}

TEST_F(RemoteCli, Verbs_OfThisMachineAlone_AreRefused) {
  const Words url = {"HOLDFAST_URL=http://127.0.0.1:1"};
  for (const Words& args : std::vector<Words>{{"serve"},
                                              {"db", "check"},
                                              {"db", "backup", "x"},
                                              {"db", "restore", "x"},
                                              {"models", "verify", "x"},
                                              {"keys", "list"},
                                              {"webhooks", "list"},
                                              {"convert", "a", "b"},
                                              {"quantize", "a", "b", "q8_0"}}) {
    const Ended ended = run_program(with_env(url, args));
    EXPECT_EQ(ended.code, 2) << args[0];
    EXPECT_NE(ended.err.find("HOLDFAST_URL"), std::string::npos) << ended.err;
  }
  EXPECT_EQ(run_program(with_env(url, {"version"})).code, 0);
  EXPECT_EQ(run_program(with_env(url, {"--json", "tokenize", demo_model(), "a"})).code, 0);
  EXPECT_EQ(
      run_program(with_env({}, {"--url", "http://127.0.0.1:1", "tokenize", demo_model(), "a"}))
          .code,
      2);
  EXPECT_EQ(run_program(with_env(url, {"run", demo_model(), "a"})).code, 2);
  EXPECT_EQ(run_program(with_env(url, {"run", "demo", "a", "--prompt-logprobs", "1"})).code, 2);
}

TEST_F(RemoteCli, Run_OverHttp_StreamsTheTextOfTheSocket) {
  start();
  for (const Words& more : std::vector<Words>{{"--raw"},
                                              {"--chat"},
                                              {},
                                              {"--temperature", "0.7", "--top-k", "5"},
                                              {"--logit-bias", "375=3", "--min-p", "0.1"}}) {
    Words args = {"run", "demo", "To be", "--max-tokens", "40", "--seed", "11"};
    args.insert(args.end(), more.begin(), more.end());
    const Ended ended = remote(args);
    EXPECT_EQ(ended.code, 0) << ended.err;
    EXPECT_EQ(ended.out, server.cli(args).out) << (more.empty() ? "" : more[0]);
  }
  // Without --max-tokens it is what the context leaves.
  json whole = document({"run", "demo", "a", "--seed", "2", "--raw", "--ignore-eos"});
  json local = local_document({"run", "demo", "a", "--seed", "2", "--raw", "--ignore-eos"});
  EXPECT_EQ(whole["choices"][0]["text"], local["choices"][0]["text"]);
  const std::string id = whole["id"];
  for (json* one : {&whole, &local}) {
    one->erase("id");
    (*one)["choices"][0].erase("ids");
  }
  EXPECT_EQ(whole, local);
  EXPECT_EQ(remote({"requests", "tail", id}).out, server.cli({"requests", "tail", id}).out);
  EXPECT_EQ(remote({"requests", "tail", "../x"}).code, 3);
  EXPECT_EQ(remote({"run", "none", "a"}).code, 3);
  EXPECT_EQ(remote({"run", "demo", "a", "--temperature", "-1"}).code, 4);
  EXPECT_EQ(server.stop(), 0);
}

TEST_F(RemoteCli, Run_OfTheRealEngine_HasTheSocketsTextAndStops) {
  ASSERT_TRUE(server.start({"--model", "demo=" + demo_model(), "--threads", "1"}))
      << server.errors();
  for (const Words& more : std::vector<Words>{{}, {"--chat"}, {"--stop", "e"}, {"--raw"}}) {
    Words args = {"run", "demo", "To be", "--max-tokens", "24", "--seed", "3"};
    args.insert(args.end(), more.begin(), more.end());
    const Ended ended = remote(args), local = server.cli(args);
    EXPECT_EQ(ended.code, local.code) << ended.err;
    EXPECT_EQ(ended.out, local.out);
    EXPECT_EQ(ended.err, local.err);
  }
  EXPECT_EQ(server.stop(), 0);
}

TEST_F(RemoteCli, Embed_OverHttp_HasTheVectorsOfTheFile) {
  ASSERT_TRUE(server.start({"--model", "demo=" + demo_model(), "--threads", "1"}))
      << server.errors();
  const json there = document({"embed", "demo", "one", "two"});
  const json here = local_document({"embed", demo_model(), "one", "two", "--threads", "1"});
  ASSERT_EQ(there["data"].size(), 2u);
  for (std::size_t i = 0; i < 2; ++i) {
    const auto a = there["data"][i]["embedding"].get<std::vector<float>>();
    const auto b = here["data"][i]["embedding"].get<std::vector<float>>();
    ASSERT_EQ(a.size(), b.size());
    for (std::size_t k = 0; k < a.size(); ++k) ASSERT_FLOAT_EQ(a[k], b[k]) << i << " " << k;
  }
  EXPECT_EQ(document({"embed", demo_model(), "one", "--threads", "1"})["data"].size(), 1u)
      << "a file of this machine stays one";
  EXPECT_EQ(remote({"embed", "none", "one"}).code, 3);
  EXPECT_EQ(remote({"embed", "demo", "one", "--device", "cpu"}).code, 2);
  EXPECT_EQ(server.stop(), 0);
}

TEST_F(RemoteCli, Run_WhenTheGatewayIsKilled_GoesOnWithoutLossOrRepeat) {
  start({"--engine-options", R"({"step_us": 20000})"});
  const Words args = {"run",    "demo", "To be", "--max-tokens", "200",
                      "--seed", "5",    "--raw", "--ignore-eos"};
  const std::string out = dir.path() + "/out";
  Running running(command(args), out);
  std::size_t length = 0;
  for (int kills = 0; kills < 3; ++kills) {
    for (int i = 0; i < 500 && running.output().size() <= length; ++i) usleep(10'000);
    ASSERT_GT(running.output().size(), length) << "text comes after kill " << kills;
    ASSERT_TRUE(server.kill_child("gateway"));
    usleep(150'000);
    length = running.output().size();
  }
  EXPECT_EQ(running.end(0, 60), 0);
  EXPECT_EQ(running.output(), server.cli(args).out);
  EXPECT_EQ(local_document({"requests", "list"})["requests"].size(), 2u) << "made once";
  EXPECT_EQ(server.stop(), 0);
}

TEST_F(RemoteCli, Run_WhenInterrupted_CancelsTheRequest) {
  start({"--engine-options", R"({"step_us": 20000})"});
  Running running(command({"run", "demo", "a", "--max-tokens", "400", "--raw", "--ignore-eos"}),
                  dir.path() + "/out");
  for (int i = 0; i < 500 && running.output().empty(); ++i) usleep(10'000);
  EXPECT_EQ(running.end(SIGINT), 1);
  EXPECT_NE(running.output().find(" cancelled"), std::string::npos) << running.output();
  EXPECT_EQ(local_document({"requests", "list"})["requests"][0]["state"], "cancelled");
  EXPECT_EQ(server.stop(), 0);
}

TEST_F(RemoteCli, Https_WithItsAuthority_IsTrustedAndWithoutItIsNot) {
  const std::string cert = dir.path() + "/cert.pem", tls_key = dir.path() + "/key.pem";
  const Ended made =
      run_program({"/usr/bin/openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                   "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", "/CN=holdfast",
                   "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", tls_key, "-out", cert});
  ASSERT_EQ(made.code, 0) << made.err;
  start({"--tls-cert", cert, "--tls-key", tls_key});
  ASSERT_TRUE(server.url().starts_with("https://"));
  const Words url = {"HOLDFAST_URL=" + server.url()};
  const Ended refused = run_program(with_env(url, {"status"}));
  EXPECT_EQ(refused.code, 69);
  EXPECT_NE(refused.err.find("HOLDFAST_CA_FILE"), std::string::npos) << refused.err;
  for (const char* name : {"HOLDFAST_CA_FILE=", "SSL_CERT_FILE="}) {
    const Words env = {url[0], name + cert};
    EXPECT_EQ(run_program(with_env(env, {"models", "list"})).code, 0) << name;
    EXPECT_EQ(run_program(with_env(env, {"run", "demo", "a", "--max-tokens", "2"})).code, 0);
  }
  const std::string plain = "HOLDFAST_URL=http" + server.url().substr(5);
  EXPECT_NE(run_program(with_env({plain}, {"status"})).code, 0);
  EXPECT_EQ(server.stop(), 0);
}

/// A server that gives every connection one answer and keeps what it was sent.
class OneAnswer {
 public:
  explicit OneAnswer(std::string answer) : answer_(std::move(answer)) {
    listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(bind(listener_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(listen(listener_, 8), 0);
    EXPECT_EQ(getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { serve(); });
  }
  ~OneAnswer() {
    shutdown(listener_, SHUT_RDWR);
    thread_.join();
    close(listener_);
  }
  OneAnswer(const OneAnswer&) = delete;
  OneAnswer& operator=(const OneAnswer&) = delete;
  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }
  int connections() const { return connections_; }

 private:
  void serve() {
    for (;;) {
      const int fd = accept(listener_, nullptr, nullptr);
      if (fd < 0) return;
      ++connections_;
      char bytes[4096];
      (void)!recv(fd, bytes, sizeof bytes, 0);
      (void)!send(fd, answer_.data(), answer_.size(), MSG_NOSIGNAL);
      shutdown(fd, SHUT_WR);
      while (recv(fd, bytes, sizeof bytes, 0) > 0) continue;
      close(fd);
    }
  }
  const std::string answer_;
  int listener_ = -1;
  int port_ = 0;
  std::atomic<int> connections_{0};
  std::thread thread_;
};

TEST_F(RemoteCli, Redirect_OfTheServer_IsRefusedAndNotFollowed) {
  const OneAnswer target("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}");
  const OneAnswer front("HTTP/1.1 307 Temporary Redirect\r\nLocation: " + target.url() +
                        "/console/api/status\r\nContent-Length: 0\r\n\r\n");
  const Words env = {"HOLDFAST_URL=" + front.url(), "HOLDFAST_API_KEY=hf_secret"};
  for (const Words& args : std::vector<Words>{{"status"}, {"run", "demo", "a"}}) {
    const Ended ended = run_program(with_env(env, args));
    EXPECT_EQ(ended.code, 4) << ended.err;
    EXPECT_NE(ended.err.find("redirect to " + target.url()), std::string::npos) << ended.err;
    EXPECT_EQ(ended.err.find("hf_secret"), std::string::npos);
  }
  EXPECT_EQ(front.connections(), 2);
  EXPECT_EQ(target.connections(), 0);
}

TEST_F(RemoteCli, Server_ThatIsNoHoldfast_IsNamedAsThat) {
  const OneAnswer other("HTTP/1.1 404 Not Found\r\nContent-Length: 5\r\n\r\nhello");
  const Ended ended = run_program(with_env({"HOLDFAST_URL=" + other.url()}, {"status"}));
  EXPECT_EQ(ended.code, 69);
  EXPECT_NE(ended.err.find("expected its gateway"), std::string::npos) << ended.err;
  const OneAnswer text("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
  EXPECT_NE(run_program(with_env({"HOLDFAST_URL=" + text.url()}, {"status"})).code, 0);
  EXPECT_EQ(run_program(with_env({"HOLDFAST_URL=" + text.url()}, {"run", "demo", "a"})).code, 69);
}

TEST_F(RemoteCli, Documents_OfAnotherForm_AreErrors) {
  const std::vector<Words> verbs = {
      {"status"},        {"config", "get", "x"},    {"models", "show", "x"},
      {"run", "x", "a"}, {"requests", "tail", "x"}, {"embed", "x", "a"}};
  const std::string event =
      R"(data: {"choices": [{"index": "x", "delta": 3}, 4], "error": {"code": 7}})";
  for (const std::string body :
       {"[]", "3", "{\"choices\": 3, \"data\": {\"a\": 1}}", event.c_str()}) {
    const std::string type = body == event ? "text/event-stream" : "application/json";
    std::string answer = "HTTP/1.1 200 OK\r\nX-Request-Id: x\r\nContent-Type: ";
    answer.append(type).append("\r\nContent-Length: ").append(std::to_string(body.size() + 2));
    answer.append("\r\n\r\n").append(body).append("\n\n");
    const OneAnswer strange(answer);
    for (const Words& args : verbs) {
      const Ended ended = run_program(with_env({"HOLDFAST_URL=" + strange.url()}, args));
      EXPECT_GE(ended.code, 0) << args[0] << " " << body << ": " << ended.err;
    }
  }
}

TEST(RemoteAddress, Url_WhenParsed_IsAPlainAddress) {
  for (const char* good : {"http://127.0.0.1:8080", "https://host.example", "http://[::1]:80",
                           "https://h/behind/a/proxy"}) {
    const auto url = remote::parse_url(std::string(good) + "/", "x");
    ASSERT_TRUE(url) << good;
    EXPECT_EQ(*url, good);
  }
  for (const char* bad :
       {"", "host:8080", "ftp://host", "http://", "http:///x", "http://h:", "http://h:x",
        "http://h:99999", "http://u:p@h", "http://h?x", "http://h#x", "http://h/\r\nX: y",
        "http://h h", "http://[::1", "http://[]:80"}) {
    const auto url = remote::parse_url(bad, "x");
    ASSERT_FALSE(url) << bad;
    EXPECT_EQ(url.error().code, Errc::kUsage);
  }
}

TEST(RemoteSse, Events_CutAnywhere_AreTheSame) {
  const std::string text =
      "retry: 250\n: keep-alive\nid: r.1\ndata: a\n\nevent: x\r\ndata: b\r\ndata:c\r\n\r\nid: "
      "r.2\n\n"
      "data: cut";
  for (std::size_t step = 1; step <= text.size(); ++step) {
    std::vector<std::string> events;
    remote::SseReader reader([&](const remote::SseEvent& event) {
      events.push_back(event.id + "|" + event.type + "|" + event.data);
      return true;
    });
    for (std::size_t at = 0; at < text.size(); at += step) {
      ASSERT_TRUE(reader.feed(std::string_view(text).substr(at, step)));
    }
    EXPECT_EQ(events, (std::vector<std::string>{"r.1||a", "|x|b\nc"})) << step;
  }
  remote::SseReader endless([](const remote::SseEvent&) { return true; });
  const std::string part(std::size_t{1} << 20, 'x');
  bool taken = true;
  for (int i = 0; i < 20 && taken; ++i) taken = endless.feed(part);
  EXPECT_FALSE(taken) << "an event has a bound";
}

TEST(RemoteReach, Verbs_OfTheTable_AreTheOnesThatAreMeant) {
  using cli::Reach;
  std::set<std::string> of_server;
  for (const cli::Verb& verb : cli::verb_table()) {
    if (cli::reach_of(verb.path) == Reach::kServer) of_server.insert(verb.path);
  }
  for (const char* path :
       {"serve", "db check", "db restore", "models verify", "keys create", "webhooks secret"}) {
    EXPECT_TRUE(of_server.contains(path)) << path;
  }
  for (const char* path :
       {"status", "models list", "requests tail", "config set", "db stats", "run"}) {
    ASSERT_NE(cli::find_verb(path), nullptr);
    EXPECT_EQ(cli::reach_of(path), Reach::kDaemon) << path;
  }
}

}  // namespace
}  // namespace holdfast::process::remote_cli_test
