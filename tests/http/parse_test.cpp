// Goal: what counts as a request is decided the same way however the bytes are cut, and everything
// that could be read in two ways is refused. Method: RequestParser is fed whole, byte by byte and
// with the next request behind; a table of bad requests with the status that each must give.
#include "control/gateway/http/http_parse.h"

#include <gtest/gtest.h>

namespace holdfast::gateway::parse_test {
namespace {

using State = RequestParser::State;

/// Feeds `bytes` in steps of `step` bytes; what was not taken is offered again. Returns the bytes
/// taken.
std::size_t feed(RequestParser& parser, const std::string& bytes, std::size_t step) {
  std::string waiting;
  std::size_t taken = 0;
  for (std::size_t at = 0; at < bytes.size(); at += step) {
    waiting += bytes.substr(at, step);
    const std::size_t n = parser.feed(waiting);
    taken += n;
    waiting.erase(0, n);
  }
  return taken;
}

const std::string kPost =
    "POST /v1/completions?x=1%20a&y HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nX-A: b "
    "\r\n\r\nhello";
const std::string kChunked =
    "POST /c HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
    "3;ext=1\r\nhel\r\n2\r\nlo\r\n0\r\nTrailer: x\r\n\r\n";

TEST(HttpParse, RequestParser_WhenBytesAreCutAnywhere_ReadsTheSameRequest) {
  for (const std::string& bytes : {kPost, kChunked}) {
    for (std::size_t step = 1; step <= bytes.size(); ++step) {
      RequestParser parser({});
      EXPECT_EQ(feed(parser, bytes, step), bytes.size()) << step;
      ASSERT_EQ(parser.state(), State::kDone) << step << parser.failure();
      EXPECT_EQ(parser.request().body, "hello");
      EXPECT_EQ(parser.request().method, "POST");
    }
  }
}

TEST(HttpParse, RequestParser_WithHeadersAndQuery_ReadsThem) {
  RequestParser parser({});
  parser.feed(kPost);
  const Request& request = parser.request();
  EXPECT_EQ(request.path, "/v1/completions");
  EXPECT_EQ(*request.query_value("x"), "1 a");
  EXPECT_EQ(*request.query_value("y"), "");
  EXPECT_EQ(*request.header("x-a"), "b");
  EXPECT_EQ(request.header("none"), nullptr);
  EXPECT_TRUE(request.keep_alive);
}

TEST(HttpParse, RequestParser_WithAFollowingRequest_LeavesItsBytes) {
  for (const std::string& bytes : {kPost, kChunked}) {
    RequestParser parser({});
    EXPECT_EQ(parser.feed(bytes + "\r\nGET / HTTP/1.1\r\n"), bytes.size());
    EXPECT_EQ(parser.state(), State::kDone);
  }
}

TEST(HttpParse, RequestParser_WithABlob_GivesItsBodyInPartsWithinABound) {
  const std::string head = "POST /api/blobs/sha256:x HTTP/1.1\r\nHost: h\r\n";
  const std::string bodies[] = {
      "Content-Length: 5\r\n\r\nhello",
      "Transfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n"};
  for (const std::string& body : bodies) {
    RequestParser parser({});
    std::string in, out;
    for (const char c : head + body) {
      in += c;
      in.erase(0, parser.feed(in));
      if (parser.state() != State::kHead) out += parser.take_body();
    }
    ASSERT_EQ(parser.state(), State::kDone) << parser.failure();
    EXPECT_EQ(parser.body_kind(), BodyKind::kBlob);
    EXPECT_EQ(out, "hello");
  }
  ParseLimits limits;
  limits.blob_bytes = 4;
  for (const std::string& body : bodies) {
    RequestParser parser(limits);
    feed(parser, head + body, 1);
    EXPECT_EQ(parser.failure_status(), 413);
  }
  // No memory is taken for a length that is only told.
  RequestParser parser({});
  parser.feed(head + "Content-Length: 1000000000000\r\n\r\n");
  EXPECT_EQ(parser.state(), State::kBody);
}

TEST(HttpParse, RequestParser_WhenMalformedOrAmbiguous_Refuses) {
  const std::string head = "POST / HTTP/1.1\r\nHost: h\r\n";
  const std::pair<std::string, int> cases[] = {
      {"\x16\x03\x01\x02\x00\x01\x00\x01\xfc", 400},             // TLS to a plain port
      {"GET / HTTP/1.1\nHost: h\n\n", 400},                      // bare LF
      {"GET / HTTP/1.1\rHost: h\r\n\r\n", 400},                  // bare CR
      {"GET / HTTP/1.1\r\nHost: h\r\nA: b\r\n c\r\n\r\n", 400},  // folded header
      {"GET / HTTP/1.1\r\n\r\n", 400},                           // no Host
      {"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400},     // two
      {"GET / HTTP/2.0\r\nHost: h\r\n\r\n", 505},
      {"PRI * HTTP/2.0\r\n\r\n", 505},
      {"GET  / HTTP/1.1\r\nHost: h\r\n\r\n", 400},
      {"GET /\r\n\r\n", 400},                       // HTTP/0.9
      {"GET / HTTP/1.1\r\nHost : h\r\n\r\n", 400},  // space before the colon
      {"GET nopath HTTP/1.1\r\nHost: h\r\n\r\n", 400},
      {"GET /?a=%zz HTTP/1.1\r\nHost: h\r\n\r\n", 400},
      {head + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
      {head + "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n", 400},
      {head + "Content-Length: 5\r\nContent-Length: 6\r\n\r\n", 400},
      {head + "Content-Length: -1\r\n\r\n", 400},
      {head + "Content-Length: 5x\r\n\r\n", 400},
      {head + "Content-Length: 99999999999999999999\r\n\r\n", 400},
      {head + "Transfer-Encoding: gzip, chunked\r\n\r\n", 501},
      {head + "Transfer-Encoding: xchunked\r\n\r\n", 501},
      {head + "Transfer-Encoding: chunked\r\n\r\nzz\r\n", 400},
      {head + "Transfer-Encoding: chunked\r\n\r\n2\r\nabXX0\r\n\r\n",
       400},  // no CRLF after a chunk
      {head + "Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n", 400},
      {head + "Expect: 200-ok\r\n\r\n", 417},
      {"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
      {std::string("GET / HTTP/1.1\r\nHost: h\r\nA: b\0c\r\n\r\n", 35), 400},
  };
  for (const auto& [bytes, status] : cases) {
    for (const std::size_t step : {bytes.size(), std::size_t{1}}) {
      RequestParser parser({});
      feed(parser, bytes, step);
      EXPECT_EQ(parser.state(), State::kFailed) << bytes;
      EXPECT_EQ(parser.failure_status(), status) << bytes << parser.failure();
    }
  }
}

TEST(HttpParse, RequestParser_WhenLimitsAreExceeded_Refuses) {
  const ParseLimits limits{256, 10};
  const std::pair<std::string, int> cases[] = {
      {"GET /" + std::string(300, 'a'), 414},
      {"GET / HTTP/1.1\r\nHost: h\r\nA: " + std::string(300, 'a'), 431},
      {"GET / HTTP/1.1\r\nHost: h\r\nA: " + std::string(300, 'a') + "\r\n\r\n", 431},
      {"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 11\r\n\r\n", 413},
      {"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nb\r\n", 413},
      {"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n6\r\nabcdef\r\n5\r\n", 413},
      {"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1;" +
           std::string(20'000, 'x'),
       400},
  };
  for (const auto& [bytes, status] : cases) {
    for (const std::size_t step : {bytes.size(), std::size_t{7}}) {
      RequestParser parser(limits);
      feed(parser, bytes, step);
      EXPECT_EQ(parser.failure_status(), status) << bytes << parser.failure();
    }
  }
  RequestParser parser(limits);
  parser.feed("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\n0123456789");
  EXPECT_EQ(parser.state(), State::kDone);
}

}  // namespace
}  // namespace holdfast::gateway::parse_test
