// Goal: a body in gzip or deflate is the body that was packed, within the same bounds; a body that
// grows beyond them, is broken, or has another encoding is refused by that name. Method: bodies
// packed with zlib; the decoder in steps of all sizes, and a gateway on a socket.
#include "control/gateway/http/body_encoding.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <nlohmann/json.hpp>

#include "tests/http/http_peer.h"

namespace holdfast::test::body_encoding_test {
namespace {

using gateway::BodyDecoder;
using nlohmann::json;
using State = BodyDecoder::State;

constexpr int kGzip = 31, kZlib = 15, kRaw = -15;  // zlib's window bits

std::string packed(const std::string& text, int form) {
  z_stream z{};
  EXPECT_EQ(deflateInit2(&z, 9, Z_DEFLATED, form, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string out(deflateBound(&z, text.size()) + 64, '\0');
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  z.avail_in = static_cast<uInt>(text.size());
  z.next_out = reinterpret_cast<Bytef*>(out.data());
  z.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&z, Z_FINISH), Z_STREAM_END);
  out.resize(z.total_out);
  deflateEnd(&z);
  return out;
}

std::pair<State, std::string> unpacked(const std::string& bytes, bool gzip, std::size_t limit,
                                       std::size_t step = SIZE_MAX / 2) {
  BodyDecoder decoder(bytes, gzip, limit);
  State state = State::kIncomplete;
  while (state == State::kIncomplete) state = decoder.step(step);
  return {state, decoder.take()};
}

std::string some_text(std::size_t size) {
  std::string text;
  for (std::size_t i = 0; text.size() < size; ++i) text += std::to_string(i * i) + ", ";
  text.resize(size);
  return text;
}

TEST(BodyEncoding, BodyDecoder_WithGzipOrDeflateInSteps_ReturnsTheText) {
  for (const std::size_t size : {0U, 1U, 1'000U, 65'536U, 300'000U}) {
    const std::string text = some_text(size);
    for (const int form : {kGzip, kZlib, kRaw}) {
      const std::string bytes = packed(text, form);
      for (const std::size_t step : {std::size_t{0}, std::size_t{100'000}, SIZE_MAX / 2}) {
        const auto [state, out] = unpacked(bytes, form == kGzip, size, step);
        EXPECT_EQ(state, State::kDone) << size << " " << form;
        EXPECT_EQ(out, text);
      }
      if (size == 0) continue;
      EXPECT_EQ(unpacked(bytes, form == kGzip, size - 1).first, State::kTooLong);
      for (const std::size_t cut : {bytes.size() / 2, bytes.size() - 1}) {
        const auto [state, out] = unpacked(bytes.substr(0, cut), form == kGzip, size);
        EXPECT_EQ(state, State::kBroken) << size << " " << form << " " << cut;
      }
    }
  }
  const std::string one = packed("one", kGzip), two = packed("two", kGzip);
  EXPECT_EQ(unpacked(one + two, true, 6), std::pair(State::kDone, std::string("onetwo")));
  EXPECT_EQ(unpacked(one + two, true, 5).first, State::kTooLong);
  EXPECT_EQ(unpacked(one + "x", true, 100).first, State::kBroken);
  EXPECT_EQ(unpacked(packed("a", kZlib) + "x", false, 100).first, State::kBroken);
  EXPECT_EQ(unpacked("", true, 100).first, State::kBroken);
}

// A megabyte of members that make nothing ends within its bytes.
TEST(BodyEncoding, BodyDecoder_WithManyEmptyGzipMembers_EndsWithinTheBytes) {
  const std::string nothing = packed("", kGzip);
  std::string bytes;
  while (bytes.size() < 1024 * 1024) bytes += nothing;
  EXPECT_EQ(unpacked(bytes, true, 10, 1'000), std::pair(State::kDone, std::string()));
}

const std::string kBody = R"({"model":"m","prompt":"a"})";

Reply ask(Gateway& gateway, const std::string& body, const std::string& encoding,
          const std::string& more = "") {
  return gateway.ask(
      post("/v1/completions", body, "Content-Encoding: " + encoding + "\r\n" + more));
}

TEST(BodyEncoding, CompressedBody_WhenSent_ReadsAsTheUncompressedOne) {
  Gateway gateway;
  gateway.client.script.token_bytes = {{"b"}};
  for (const auto& [form, name] : {std::pair(kGzip, "gzip"),
                                   {kGzip, "x-GZIP"},
                                   {kZlib, "deflate"},
                                   {kRaw, "deflate"},
                                   {kGzip, "identity, gzip"}}) {
    const Reply reply = ask(gateway, packed(kBody, form), name);
    EXPECT_EQ(reply.status, 200) << name << reply.body;
    EXPECT_EQ(gateway.client.last_submit().prompts.at(0).text, "a");
  }
  EXPECT_EQ(ask(gateway, kBody, "identity").status, 200);
  // The same request, packed or not.
  const std::string key = "Idempotency-Key: k\r\n";
  ask(gateway, packed(kBody, kGzip), "gzip", key);
  EXPECT_EQ(gateway.ask(post("/v1/completions", kBody, key)).headers["x-holdfast-duplicate"],
            "true");
}

TEST(BodyEncoding, CompressedBody_WhenBrokenTooLargeOrUnsupported_IsRefused) {
  Gateway gateway;
  const std::string bomb =
      packed(R"({"model":"m","prompt":")" + std::string(64 << 20, 'a') + "\"}", kGzip);
  ASSERT_LT(bomb.size(), 1U << 20);
  const std::tuple<std::string, const char*, int> cases[] = {
      {kBody, "br", 415},
      {kBody, "zstd", 415},
      {packed(packed(kBody, kGzip), kGzip), "gzip, gzip", 415},
      {bomb, "gzip", 413},
      {packed(std::string((1 << 20) + 1, ' '), kZlib), "deflate", 413},
      {kBody, "gzip", 400},
      {packed(kBody, kGzip).substr(0, 20), "gzip", 400},
      {packed(kBody, kRaw) + "x", "deflate", 400}};
  for (const auto& [body, encoding, status] : cases) {
    Peer peer(gateway.address());
    peer.send(post("/v1/completions", body, std::string("Content-Encoding: ") + encoding + "\r\n"));
    Reply reply = peer.read_reply();
    EXPECT_EQ(reply.status, status) << encoding << reply.body;
    EXPECT_TRUE(json::parse(reply.body).contains("error"));
    EXPECT_EQ(reply.headers.count("accept-encoding"), status == 415 ? 1U : 0U);
    peer.send(get("/health/live"));
    EXPECT_EQ(peer.read_reply().status, 200) << "the connection goes on";
  }
  EXPECT_EQ(gateway.client.submits(), 0);
  const Reply of_messages = gateway.ask(post("/v1/messages", kBody, "Content-Encoding: br\r\n"));
  EXPECT_EQ(json::parse(of_messages.body)["type"], "error") << "in Anthropic's form";
}

}  // namespace
}  // namespace holdfast::test::body_encoding_test
