// Goal: /v1/embeddings is OpenAI's: inputs of each kind, both encodings, fewer dimensions, usage; a
// request can be asked for again by its id or key. Method: a gateway over a fake daemon whose
// tokens are vectors.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "shared/wire/vector_text.h"
#include "tests/http/http_peer.h"

namespace holdfast::test::embeddings_test {
namespace {

using nlohmann::json;

constexpr const char* kPath = "/v1/embeddings";
const std::vector<float> kVector = {0.6F, 0.0F, -0.8F, 1e-30F};

class Embeddings : public testing::Test {
 protected:
  void SetUp() override {
    gateway.client.script.token_bytes = {{""}};
    gateway.client.script.extra = {wire::vector_text(kVector)};
    gateway.client.script.finish = wire::FinishReason::kStop;
  }
  Reply ask(const std::string& body, const std::string& headers = "") {
    return gateway.ask(post(kPath, body, headers));
  }
  std::string refused(const std::string& body) {
    const Reply reply = ask(body);
    EXPECT_EQ(reply.status, 400) << body;
    return json::parse(reply.body)["error"].value("param", "");
  }
  Gateway gateway;
};

TEST_F(Embeddings, Embeddings_WithTextsOrTokenIds_ReturnOneVectorEach) {
  const Reply reply = ask(R"({"model":"m","input":["a","b"],"user":"u"})");
  ASSERT_EQ(reply.status, 200) << reply.body;
  const json body = json::parse(reply.body);
  EXPECT_EQ(body["object"], "list");
  EXPECT_EQ(body["model"], "m");
  ASSERT_EQ(body["data"].size(), 2u);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(body["data"][i]["object"], "embedding");
    EXPECT_EQ(body["data"][i]["index"], i);
    EXPECT_EQ(body["data"][i]["embedding"].get<std::vector<float>>(), kVector);
  }
  EXPECT_EQ(body["usage"]["prompt_tokens"], body["usage"]["total_tokens"]);
  EXPECT_GT(body["usage"]["prompt_tokens"].get<int>(), 0);
  EXPECT_EQ(body["usage"].size(), 2u);
  const wire::Submit sent = gateway.client.last_submit();
  EXPECT_EQ(sent.prompts.size(), 2u);
  EXPECT_EQ(json::parse(sent.sampling.extra), json::parse(R"({"embedding":{"normalize":true}})"));
  EXPECT_FALSE(sent.max_tokens.has_value());
  ask(R"({"model":"m","input":[1,2,3],"pooling":"mean","normalize":false})");
  const wire::Submit ids = gateway.client.last_submit();
  ASSERT_EQ(ids.prompts.size(), 1u);
  EXPECT_EQ(ids.prompts[0].ids, (std::vector<wire::TokenId>{1, 2, 3}));
  EXPECT_EQ(json::parse(ids.sampling.extra),
            json::parse(R"({"embedding":{"normalize":false,"pooling":"mean"}})"));
  ask(R"({"model":"m","input":[[1],[2,3]]})");
  EXPECT_EQ(gateway.client.last_submit().prompts.size(), 2u);
}

TEST_F(Embeddings, Embeddings_WithBase64OrDimensions_AreEncodedAndShortened) {
  json body = json::parse(ask(R"({"model":"m","input":"a","encoding_format":"base64"})").body);
  const std::string text = body["data"][0]["embedding"];
  EXPECT_EQ(wire::read_vector("{\"embedding\":\"" + text + "\"}"), kVector);
  body = json::parse(ask(R"({"model":"m","input":"a","dimensions":2})").body);
  EXPECT_EQ(body["data"][0]["embedding"].get<std::vector<float>>(),
            (std::vector<float>{1.0F, 0.0F}));
  body = json::parse(ask(R"({"model":"m","input":"a","dimensions":1,"normalize":false})").body);
  EXPECT_EQ(body["data"][0]["embedding"].get<std::vector<float>>(), (std::vector<float>{0.6F}));
  EXPECT_EQ(refused(R"({"model":"m","input":"a","dimensions":5})"), "dimensions");
}

TEST_F(Embeddings, EmbeddingsRequest_WhenInvalid_NamesTheParameter) {
  EXPECT_EQ(refused(R"({"input":"a"})"), "model");
  EXPECT_EQ(refused(R"({"model":"m"})"), "input");
  EXPECT_EQ(refused(R"({"model":"m","input":[]})"), "input");
  EXPECT_EQ(refused(R"({"model":"m","input":["a",1]})"), "input");
  EXPECT_EQ(refused(R"({"model":"m","input":"a","encoding_format":"int8"})"), "encoding_format");
  EXPECT_EQ(refused(R"({"model":"m","input":"a","dimensions":0})"), "dimensions");
  EXPECT_EQ(refused(R"({"model":"m","input":"a","pooling":"none"})"), "pooling");
  const Reply ignored = ask(R"({"model":"m","input":"a","n":3})");
  EXPECT_EQ(ignored.headers.at("x-holdfast-ignored"), "n");
}

TEST_F(Embeddings, Embeddings_WithIdempotencyKeyOrId_AreReturnedAgain) {
  const std::string body = R"({"model":"m","input":"a","encoding_format":"base64"})";
  const Reply first = ask(body, "Idempotency-Key: k\r\n");
  ASSERT_EQ(first.status, 200);
  EXPECT_EQ(ask(body, "Idempotency-Key: k\r\n").body, first.body);
  EXPECT_EQ(gateway.client.submits(), 1);
  const std::string id = first.headers.at("x-request-id");
  EXPECT_EQ(gateway.ask(get("/v1/requests/" + id + "/stream")).body, first.body);
  const json info = json::parse(gateway.ask(get("/v1/requests/" + id)).body);
  EXPECT_EQ(info["endpoint"], kPath);
  EXPECT_EQ(info["public_id"], "embd-" + id);
}

}  // namespace
}  // namespace holdfast::test::embeddings_test
