// Goal: whatever is wrong with a request, its client gets one answer that says so, the connection
// is closed exactly where it is unknown what follows, and bytes behind a bad request are never
// taken for another one. Method: the gateway on a socket. A table of requests that are wrong in
// their framing, each with a good request right behind it, which must not be answered; a table of
// requests that are wrong in their content alone, behind which it must be; and seeded damage to
// good requests, where the server's answers are counted against the parser's own reading of the
// same bytes.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "control/gateway/common/object_store.h"
#include "control/gateway/http/http_parse.h"
#include "tests/http/http_peer.h"

namespace holdfast::test::malformed_test {
namespace {

using nlohmann::json;

const std::string kNextRequest = get("/health/live");

void expect_error(const Reply& reply, int status, const std::string& request) {
  EXPECT_EQ(reply.status, status) << request << reply.body;
  EXPECT_TRUE(reply.complete) << request;
  const json document = json::parse(reply.body, nullptr, false);
  ASSERT_TRUE(document.is_object() && document.contains("error")) << request << reply.body;
  EXPECT_FALSE(document["error"].value("message", "").empty());
}

/// Heads and bodies whose end or whose meaning is ambiguous.
std::vector<std::pair<std::string, int>> badly_framed() {
  std::vector<std::pair<std::string, int>> out;
  const std::string line = "POST /v1/completions HTTP/1.1\r\nHost: h\r\n";
  // Every way to say two lengths, in both orders and in other cases.
  for (const char* length : {"Content-Length: 5", "content-length:5", "CONTENT-LENGTH: 0"}) {
    for (const char* chunked : {"Transfer-Encoding: chunked", "transfer-encoding:CHUNKED"}) {
      const std::string a = length + std::string("\r\n"), b = chunked + std::string("\r\n");
      for (const std::string& both : {a + b, b + a}) {
        out.emplace_back(line + both + "\r\n0\r\n\r\n", 400);
      }
    }
  }
  for (const char* value : {"5, 6", "+5", "-5", "5 5", "0x5", "5;", "\"5\"", "", "5e1",
                            "18446744073709551616", "99999999999999999999999"}) {
    out.emplace_back(line + "Content-Length: " + value + "\r\n\r\nhello", 400);
  }
  out.emplace_back(line + "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello", 400);
  out.emplace_back(line + "Content-Length: 2000000\r\n\r\n", 413);
  for (const char* value : {"gzip", "chunked, chunked", "gzip, chunked", "chunked, gzip",
                            "\"chunked\"", "chunked;q=1", "identity", "xchunked", ""}) {
    out.emplace_back(line + "Transfer-Encoding: " + value + "\r\n\r\n0\r\n\r\n", 501);
  }
  out.emplace_back(line + "Transfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n\r\n", 400);
  for (const char* name : {"Transfer-Encoding ", " Transfer-Encoding", "Transfer-Encoding\t",
                           "Transfer\x01-Encoding", "Transfer Encoding", "(Transfer-Encoding)"}) {
    out.emplace_back(line + name + ": chunked\r\n\r\n", 400);
  }
  const std::string chunked = line + "Transfer-Encoding: chunked\r\n\r\n";
  for (const char* body : {"5\nhello\r\n0\r\n\r\n", "5\r\nhello0\r\n\r\n", "5 \r\r\nhello",
                           "0x5\r\nhello\r\n0\r\n\r\n", "-5\r\n", "+5\r\nhello\r\n0\r\n\r\n",
                           "\r\n", "g\r\n", "10000000000000000\r\n",
                           "5\r\nhello\r\n0\r\nBad\r\n\r\n", "5\r\nhelloXX0\r\n\r\n", ";5\r\n"}) {
    out.emplace_back(chunked + body, 400);
  }
  out.emplace_back(chunked + "1e8480\r\n", 413);
  for (const char* head :
       {"GET / HTTP/1.1\n\n", "GET / HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", "GET / HTTP/1.1\r\nHost: a\r\n b\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nX: 1\r2\r\n\r\n", "GET\t/ HTTP/1.1\r\nHost: a\r\n\r\n",
        "G(T / HTTP/1.1\r\nHost: a\r\n\r\n", "GET /\x7f HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET / http/1.1\r\nHost: a\r\n\r\n", "GET / HTTP/1.1\r\n: a\r\n\r\n", "GET /\r\n\r\n",
        "GET http: HTTP/1.1\r\nHost: a\r\n\r\n"}) {
    out.emplace_back(head, 400);
  }
  for (const char* version : {"HTTP/1.1 ", "HTTP/0.9", "HTTP/1.2", "HTTP/2.0", "HTTP/9.9"}) {
    out.emplace_back("GET / " + std::string(version) + "\r\nHost: a\r\n\r\n", 505);
  }
  out.emplace_back("GET /" + std::string(20'000, 'a') + " HTTP/1.1\r\nHost: a\r\n\r\n", 414);
  out.emplace_back("GET / HTTP/1.1\r\nHost: a\r\nX: " + std::string(20'000, 'a') + "\r\n\r\n", 431);
  std::string many = "GET / HTTP/1.1\r\nHost: a\r\n";
  for (int i = 0; i < 2'000; ++i) many += "X" + std::to_string(i) + ": y\r\n";
  out.emplace_back(many + "\r\n", 431);
  out.emplace_back(line + "Expect: 101\r\nContent-Length: 1\r\n\r\nx", 417);
  return out;
}

TEST(Malformed, RequestFraming_WhenAmbiguous_ClosesAndIgnoresFollowingBytes) {
  Gateway gateway;
  for (const auto& [bytes, status] : badly_framed()) {
    Peer peer(gateway.address());
    peer.send(bytes + kNextRequest);
    const Reply reply = peer.read_reply();
    expect_error(reply, status, bytes.substr(0, 200));
    EXPECT_EQ(reply.headers.count("connection"), 1u) << bytes.substr(0, 200);
    EXPECT_EQ(peer.read_reply().status, 0)
        << "answered what stood behind: " << bytes.substr(0, 200);
    EXPECT_TRUE(peer.closed()) << bytes.substr(0, 200);
  }
  EXPECT_EQ(gateway.client.submits(), 0);
  EXPECT_EQ(gateway.ask(kNextRequest).status, 200);
}

struct BadContent {
  std::string request;
  int status;
};

/// Requests that are well delimited and wrong in their content.
std::vector<BadContent> badly_filled() {
  std::vector<BadContent> out;
  const std::string deep_list(100'000, '['), deep_object = [] {
    std::string text;
    for (int i = 0; i < 20'000; ++i) text += "{\"a\":";
    return text;
  }();
  std::string wide = "{";
  for (int i = 0; i < 5'000; ++i) wide += "\"k" + std::to_string(i) + "\":1,";
  wide += "\"z\":1}";
  const std::vector<std::string> bodies = {
      "",
      "{",
      "}",
      "[]",
      "null",
      "7",
      "\"text\"",
      "{\"model\":\"m\",}",
      "{'model':'m'}",
      "{\"model\":\"m\" \"prompt\":\"a\"}",
      "{\"model\":NaN,\"prompt\":\"a\"}",
      "\xef\xbb\xbf{\"model\":7}",
      "{\"model\":\"m\",\"prompt\":\"\xff\xfe\"}",
      "{\"model\":\"m\",\"prompt\":\"\xc0\xaf\"}",
      "{\"model\":\"m\",\"prompt\":\"\xed\xa0\x80\"}",
      "{\"model\":\"m\",\"prompt\":\"\xf4\x90\x80\x80\"}",
      "{\"model\":\"m\",\"prompt\":\"\\ud800\"}",
      std::string("{\"model\":\"m\0\"}", 14),
      deep_list,
      deep_object,
      "{\"model\":\"m\",\"prompt\":" + deep_list,
      wide,
      "{\"model\":7,\"prompt\":\"a\"}",
      "{\"model\":\"m\",\"prompt\":{}}",
      "{\"model\":\"m\",\"prompt\":[1,\"a\"]}",
      "{\"model\":\"m\",\"prompt\":[-1]}",
      "{\"model\":\"m\",\"prompt\":[1e99]}",
      "{\"model\":\"m\",\"prompt\":\"a\",\"n\":1e400}",
      "{\"model\":\"m\",\"prompt\":\"a\",\"temperature\":\"hot\"}",
      "{\"model\":\"m\",\"prompt\":\"a\",\"max_tokens\":-1}",
      "{\"model\":\"m\",\"prompt\":\"a\",\"max_tokens\":99999999999999999999}",
      "{\"model\":\"m\",\"prompt\":\"a\",\"stop\":[[]]}",
      "{\"model\":\"m\",\"prompt\":\"a\",\"stream\":\"yes\"}"};
  for (const std::string& body : bodies) {
    for (const char* path : {"/v1/completions", "/v1/chat/completions", "/v1/messages",
                             "/v1/embeddings", "/tokenize", "/detokenize"}) {
      // /tokenize does not check options of a generation.
      if (path == std::string_view("/tokenize") && body.find("\"a\",") != body.npos) continue;
      out.push_back({post(path, body), 400});
    }
  }
  for (const char* key : {"", "a b", "\x80"}) {
    out.push_back({post("/v1/completions", R"({"model":"m","prompt":"a"})",
                        "Idempotency-Key: " + std::string(key) + "\r\n"),
                   400});
  }
  out.push_back({get("/%0"), 404});
  out.push_back({get("/v1/models/%zz"), 404});
  out.push_back({get("/v1/requests/../../etc/passwd"), 404});
  out.push_back({"BREW /v1/models HTTP/1.1\r\nHost: h\r\n\r\n", 405});
  out.push_back({"DELETE /v1/models HTTP/1.1\r\nHost: h\r\n\r\n", 405});
  return out;
}

TEST(Malformed, RequestContent_WhenInvalid_LeavesTheConnectionOpen) {
  Gateway gateway;
  Peer peer(gateway.address());
  for (const BadContent& bad : badly_filled()) {
    peer.send(bad.request + kNextRequest);
    expect_error(peer.read_reply(), bad.status, bad.request.substr(0, 300));
    ASSERT_EQ(peer.read_reply().status, 200) << bad.request.substr(0, 300);
  }
  EXPECT_EQ(gateway.client.submits(), 0);
}

/// Stored objects have ids of visible ASCII: the daemon is asked about no others, and nothing
/// throws.
TEST(Malformed, ObjectIdOrKey_WhenNotVisibleAscii_IsRefusedByTheGateway) {
  Gateway gateway;
  gateway::ObjectStore object_store(gateway.client);
  gateway.context().operating = &gateway.client;
  gateway.context().object_store = &object_store;
  for (const std::string part : {"%FF", "a%00b", "%C3%A9", "a%20b"}) {
    const std::string file = "/v1/files/" + part, response = "/v1/responses/" + part;
    for (const std::string& request :
         {get(file), get(file + "/content"), get("/v1/files?after=" + part), get(response),
          get(response + "/input_items"), get("/v1/batches/" + part),
          post("/v1/batches/" + part + "/cancel", ""), post(response + "/cancel", ""),
          "DELETE " + file + " HTTP/1.1\r\nHost: h\r\n\r\n",
          "DELETE " + response + " HTTP/1.1\r\nHost: h\r\n\r\n"}) {
      expect_error(gateway.ask(request), 404, request);
    }
  }
  const std::string form =
      "--b\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nbatch\r\n"
      "--b\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\nx\r\n--b--\r\n";
  for (const std::string key : {"\xFF", "\xC3\xA9", "a b", ""}) {
    const std::string head = "POST /v1/files HTTP/1.1\r\nHost: h\r\nIdempotency-Key: " + key +
                             "\r\nContent-Type: multipart/form-data; boundary=b\r\n";
    const std::string request =
        head + "Content-Length: " + std::to_string(form.size()) + "\r\n\r\n" + form;
    expect_error(gateway.ask(request), 400, request);
  }
  EXPECT_EQ(gateway.client.ops(), 0);
}

enum class End { kBroken, kClosed, kOpen };

/// Counts the requests in these bytes, and tells what follows them.
std::pair<int, End> read_requests(std::string_view bytes) {
  for (int whole = 0;; ++whole) {
    gateway::RequestParser parser({});
    bytes.remove_prefix(parser.feed(bytes));
    if (parser.state() == gateway::RequestParser::State::kFailed) return {whole, End::kBroken};
    if (parser.state() != gateway::RequestParser::State::kDone) return {whole, End::kOpen};
    const gateway::Request& request = parser.request();
    if (!request.keep_alive || !request.http11) return {whole + 1, End::kClosed};
  }
}

TEST(Malformed, Requests_WhenRandomlyDamaged_AreAnsweredAsTheParserReads) {
  Gateway gateway;
  const std::string good =
      kNextRequest + post("/v1/completions", R"({"model":7})") +
      "POST /v1/completions HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
      "2\r\n{}\r\n0\r\n\r\n" +
      kNextRequest;
  std::mt19937_64 random(7);
  const std::string spice = std::string("\r\n\t :;,0aZ\"{}\x7f\xff\x01", 17) + '\0';
  int broken = 0;
  for (int i = 0; i < 1'500; ++i) {
    std::string bytes = good;
    for (std::uint64_t n = 1 + random() % 3; n > 0; --n) {
      const std::size_t at = random() % bytes.size();
      const char c = spice[random() % spice.size()];
      switch (random() % 3) {
        case 0:
          bytes[at] = c;
          break;
        case 1:
          bytes.insert(at, 1, c);
          break;
        default:
          bytes.erase(at, 1 + random() % 4);
      }
    }
    bytes += get("/health/live", "Connection: close\r\n");
    const auto [whole, end] = read_requests(bytes);
    broken += end == End::kBroken ? 1 : 0;
    Peer peer(gateway.address());
    peer.send(bytes);
    // Broken bytes get one complaint; where more could come, nothing is waited for.
    const int expected = whole + (end == End::kBroken ? 1 : 0);
    int answers = 0;
    while (answers < expected && peer.read_reply().status != 0) ++answers;
    EXPECT_EQ(answers, expected) << bytes;
    if (end != End::kOpen) {
      EXPECT_EQ(peer.read_reply().status, 0) << bytes;
      EXPECT_TRUE(peer.closed()) << bytes;
    }
  }
  EXPECT_GT(broken, 500);
  EXPECT_EQ(gateway.ask(kNextRequest).status, 200);
}

}  // namespace
}  // namespace holdfast::test::malformed_test
