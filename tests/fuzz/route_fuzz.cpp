// Goal: no request, whatever its path, query, headers and body, makes an endpoint throw, stay
// silent or answer twice; every answer is JSON, text or events as it claims, and every error
// reports what is wrong. Method: the bytes are decisions: a route of the table with values of all
// kinds in its placeholders, written as HTTP, read by the parser and handled by the whole router,
// against a daemon in a class (stub_daemon.h), which checks what the daemon would be sent.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "control/gateway/dialects.h"
#include "control/gateway/http/http_parse.h"
#include "control/gateway/router.h"
#include "shared/base/bytes.h"
#include "shared/base/check.h"
#include "shared/base/json_text.h"
#include "tests/fuzz/body_members.h"
#include "tests/fuzz/stub_daemon.h"

namespace {

using namespace holdfast;
using namespace holdfast::gateway;

/// Collects the one answer. Posted work runs when the handler has returned.
class OneExchange final : public Exchange, public std::enable_shared_from_this<OneExchange> {
 public:
  explicit OneExchange(Request request) : request_(std::move(request)) {}
  const Request& request() const override { return request_; }
  void admit(Principal principal) override { request_.from = std::move(principal); }
  void set_body(std::string body) override { request_.body = std::move(body); }
  void post(std::function<void()> work) override { works_.push_back(std::move(work)); }
  void after(std::chrono::milliseconds, std::function<void()>) override {}
  void respond(Response response) override {
    CHECK(!answered_ && !streams_);
    answered_ = true;
    answer_ = std::move(response);
  }
  void begin_stream(Response head, std::string) override {
    CHECK(!answered_ && !streams_);
    streams_ = true;
    answer_ = std::move(head);
  }
  void write(std::string_view bytes) override {
    CHECK(streams_ && !answered_);
    answer_.body += bytes;
  }
  void end() override {
    CHECK(streams_ && !answered_);
    answered_ = true;
  }
  void abort() override { end(); }
  std::size_t pending_bytes() const override { return 0; }
  void on_drain(std::size_t, std::function<void()> work) override { post(std::move(work)); }
  void on_close(std::function<void()>) override {}
  bool closed() const override { return false; }
  void set_headers(const std::vector<Header>& headers) override { headers_ = headers; }

  void run() {
    for (int steps = 0; !works_.empty(); ++steps) {
      CHECK(steps < 10'000);
      const std::function<void()> work = std::move(works_.front());
      works_.pop_front();
      work();
    }
    CHECK(answered_);
  }
  const Response& answer() const { return answer_; }
  const std::vector<Header>& headers() const { return headers_; }

 private:
  Request request_;
  std::deque<std::function<void()>> works_;
  Response answer_;
  std::vector<Header> headers_;
  bool answered_ = false;
  bool streams_ = false;
};

/// Objects that live as long as the gateway.
struct GatewayFixture {
  fuzz::StubDaemon daemon;
  ObjectStore object_store{daemon};
  Context open{daemon, [] { return std::string("req1"); }, {}};
  Context keyed{daemon, [] { return std::string("req1"); }, {}};
  Server::Handler open_handler, keyed_handler;
  GatewayFixture() {
    for (Context* context : {&open, &keyed}) {
      context->forms = &answer_forms();
      context->operating = &daemon;
      context->object_store = &object_store;
      context->cors = Cors::allow({"https://app.example"}).value();
      context->daemon_metrics = std::make_shared<DaemonMetrics>(daemon);
    }
    keyed.access = std::make_shared<Access>(object_store, true);
    keyed.access->start();
    open_handler = make_handler(open);
    keyed_handler = make_handler(keyed);
  }
};

constexpr const char* kParts[] = {
    "file-a",     "batch_a",      "resp_a",     "resp_b", "req1",        "r",      "m",
    "index.html", "models.alias", "config.set", "status", "objects.put", "%FF",    "%00",
    "a%2Fb",      "%C3%A9",       "%",          "..",     "a+b",         "%0d%0a", "a.1"};
constexpr const char* kQueries[] = {"limit=5",
                                    "limit=0",
                                    "limit=99999999999999999999",
                                    "order=asc",
                                    "order=x",
                                    "after=file-a",
                                    "after=%FF",
                                    "after=none",
                                    "from=0",
                                    "from=1,2",
                                    "from=9999999999999999999",
                                    "from=",
                                    "stream=true",
                                    "starting_after=0",
                                    "starting_after=-2",
                                    "since=1",
                                    "since=x",
                                    "purpose=batch",
                                    "purpose=%FF",
                                    "&&",
                                    "=",
                                    "a",
                                    "%=%"};
constexpr const char* kHeaders[] = {"Authorization: Bearer hf_client",
                                    "Authorization: Bearer hf_operator",
                                    "Authorization: bearer hf_metrics",
                                    "x-api-key: hf_operator",
                                    "Authorization: Basic x",
                                    "Content-Type: application/json",
                                    "Content-Type: multipart/form-data; boundary=b",
                                    "Content-Type: multipart/form-data; boundary=\"b\"",
                                    "Idempotency-Key: k",
                                    "Idempotency-Key: \xC3\xA9",
                                    "Idempotency-Key: \xFF",
                                    "Idempotency-Key:",
                                    "Last-Event-ID: req1.0",
                                    "Last-Event-ID: req1.1,1",
                                    "Last-Event-ID: resp_a.0",
                                    "Last-Event-ID: resp_a.99999999999999999999",
                                    "Last-Event-ID: \xFF.1",
                                    "X-On-Disconnect: continue",
                                    "X-On-Disconnect: x",
                                    "Origin: https://app.example",
                                    "Origin: https://other.example",
                                    "Sec-Fetch-Site: cross-site",
                                    "Access-Control-Request-Method: POST",
                                    "If-None-Match: x",
                                    "Range: bytes=0-1",
                                    "Prefer: respond-async",
                                    "anthropic-version: 2023-06-01",
                                    "Expect: 100-continue"};

/// A value for a line of the head, without bytes that end the line.
std::string plain(std::string_view bytes, bool spaces) {
  std::string out;
  for (const char c : bytes) {
    const auto u = static_cast<unsigned char>(c);
    if (u > 0x20 && u != 0x7f && c != '?' && c != '#') out += c;
    if (u == 0x20 && spaces) out += c;
  }
  return out;
}

std::string target_of(fuzz::Choices& choices, std::string_view pattern) {
  std::string out;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] != '{') {
      out += pattern[i];
      continue;
    }
    i = pattern.find('}', i);
    out += choices.likely(7) ? std::string(choices.from(kParts)) : plain(choices.bytes(8), false);
  }
  for (unsigned n = choices.below(3), i = 0; i < n; ++i) {
    out += i == 0 ? '?' : '&';
    out += choices.likely(7) ? std::string(choices.from(kQueries)) : plain(choices.bytes(8), false);
  }
  return out;
}

std::string form_of(fuzz::Choices& choices) {
  static constexpr const char* kFields[] = {
      "name=\"purpose\"\r\n\r\nbatch",
      "name=\"file\"; filename=\"a\"\r\n\r\nx",
      "name=\"file\"; filename=\"\xFF\"\r\nContent-Type: text/plain\r\n\r\n\x00\xFF",
      "name=\"expires_after[anchor]\"\r\n\r\ncreated_at",
      "name=\"expires_after[seconds]\"\r\n\r\n3600",
      "name=\"expires_after[seconds]\"\r\n\r\n-1",
      "name=\"\"\r\n\r\n",
      "name=x\r\n\r\ny"};
  std::string out;
  for (unsigned n = choices.below(6); n > 0; --n) {
    out += "--b\r\nContent-Disposition: form-data; ";
    out += choices.from(kFields);
    out += choices.likely(7) ? "\r\n" : "\n";
  }
  return out + (choices.likely(7) ? "--b--\r\n" : "--b");
}

/// A body of the form that fits the path, or of another one.
std::string body_of(fuzz::Choices& choices, std::string_view path) {
  if (path == "/v1/files" && choices.likely(7)) return form_of(choices);
  static constexpr std::pair<std::string_view, std::size_t> kPaths[] = {
      {"/v1/completions", 0},      {"/v1/chat/completions", 1}, {"/v1/messages", 2},
      {"/v1/embeddings", 3},       {"/v1/responses", 4},        {"/tokenize", 5},
      {"/detokenize", 6},          {"/v1/batches", 7},          {"/console/api/{}", 8},
      {"/v1/responses/compact", 4}};
  std::string out;
  for (const auto& [candidate, form] : kPaths) {
    if (path != candidate || !choices.likely(7)) continue;
    fuzz::JsonMaker(choices, fuzz::kForms[form].members, &out).object(fuzz::kForms[form].required);
    return out;
  }
  return std::string(choices.rest());
}

std::string http_of(fuzz::Choices& choices) {
  const Route& route = choices.from(routes());
  static constexpr const char* kMethods[] = {"GET", "POST", "DELETE", "HEAD", "OPTIONS", "PUT"};
  std::string out(choices.likely(7) ? route.method : std::string_view(choices.from(kMethods)));
  out += ' ' + target_of(choices, route.pattern) + " HTTP/1.1\r\n";
  out += choices.likely(7) ? "Host: localhost\r\n" : "Host: evil.example\r\n";
  for (unsigned n = choices.below(5); n > 0; --n) {
    out += choices.likely(7) ? std::string(choices.from(kHeaders))
                             : "Idempotency-Key: " + plain(choices.bytes(12), true);
    out += "\r\n";
  }
  if (route.method != "POST") return out + "\r\n";
  if (route.pattern.starts_with("/console")) out += "Content-Type: application/json\r\n";
  if (route.pattern == "/v1/files") out += "Content-Type: multipart/form-data; boundary=b\r\n";
  const std::string body = body_of(choices, route.pattern);
  return out + "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

void check_events(std::string_view text) {
  CHECK(is_valid_utf8(text));
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    CHECK(end != std::string_view::npos);
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end + 1);
    if (line.starts_with("data: ") && line != "data: [DONE]") CHECK(is_json(line.substr(6)));
    CHECK(line.empty() || line.starts_with("data: ") || line.starts_with("id: ") ||
          line.starts_with("event: ") || line.starts_with("retry: ") || line.starts_with(":"));
  }
}

void check_answer(const OneExchange& exchange) {
  const Response& answer = exchange.answer();
  CHECK(answer.status >= 200 && answer.status <= 599 && reason_phrase(answer.status) != "Status");
  // A client's bytes are never the server's fault.
  CHECK(answer.status != 500);
  const std::string head = response_head(answer, true, false, 0);
  CHECK(head.find("\r\n\r\n") == head.size() - 4);
  if (answer.content_type.starts_with("text/event-stream")) return check_events(answer.body);
  if (answer.content_type != "application/json" || answer.status == 304) return;
  if (answer.body.empty() && answer.status == 200) return;  // a preflight of a browser
  CHECK(is_valid_utf8(answer.body) && is_json(answer.body));
  if (answer.status < 400) return;
  const auto body = nlohmann::json::parse(answer.body);
  if (body.contains("status")) return;  // of a health endpoint
  CHECK(!body.at("error").at("message").get<std::string>().empty());
  CHECK(!body.at("error").at("code").get<std::string>().empty());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static GatewayFixture* const fixture = new GatewayFixture;
  fixture->daemon.reset();
  fuzz::Choices choices(data, size);
  const unsigned how = choices.byte();
  fixture->daemon.refuses = (how & 0xF0) == 0x10;
  fixture->daemon.is_away = (how & 0xF0) == 0x20;
  const std::string bytes = how % 16 == 15 ? std::string(choices.rest()) : http_of(choices);
  RequestParser parser({2'048, 16'384, 16'384});
  parser.feed(bytes);
  if (parser.state() != RequestParser::State::kDone) return 0;
  const auto exchange = std::make_shared<OneExchange>(std::move(parser.request()));
  (how % 2 == 0 ? fixture->open_handler : fixture->keyed_handler)(exchange);
  exchange->run();
  check_answer(*exchange);
  return 0;
}
