// Goal: pages of other origins may read answers exactly where the operator said so, and the
// console's never. Method: the gateway on a socket; requests as browsers send them.
#include <gtest/gtest.h>

#include "tests/http/http_peer.h"

namespace holdfast::test::cors_test {
namespace {

using gateway::Cors;

constexpr const char* kPage = "Origin: https://app.example\r\n";

std::string ask_before(const std::string& path, const std::string& more) {
  return "OPTIONS " + path + " HTTP/1.1\r\nHost: test\r\n" + more + "\r\n";
}
std::string value(const Reply& reply, const std::string& name) {
  const auto found = reply.headers.find(name);
  return found == reply.headers.end() ? "" : found->second;
}
constexpr const char* kAllowed = "access-control-allow-origin";

TEST(CorsTest, Cors_WithoutAllowedOrigins_SendsNoHeaders) {
  Gateway gateway;
  const Reply reply = gateway.ask(get("/v1/models", kPage));
  EXPECT_EQ(reply.status, 200);
  for (const auto& [name, text] : reply.headers) {
    EXPECT_FALSE(name.starts_with("access-control")) << name;
    EXPECT_NE(name, "vary");
  }
  EXPECT_EQ(gateway
                .ask(ask_before("/v1/models",
                                kPage + std::string("Access-Control-Request-Method: GET\r\n")))
                .status,
            405);
}

TEST(CorsTest, Cors_WhenOriginIsAllowed_EchoesItAndNoOther) {
  Gateway gateway({}, nullptr,
                  Cors::allow({"https://app.example", "http://localhost:3000"}).value());
  for (const char* origin : {"https://app.example", "http://localhost:3000"}) {
    const Reply reply = gateway.ask(get("/v1/models", "Origin: " + std::string(origin) + "\r\n"));
    EXPECT_EQ(value(reply, kAllowed), origin);
    EXPECT_EQ(value(reply, "vary"), "Origin");
    EXPECT_NE(value(reply, "access-control-expose-headers").find("X-Request-Id"),
              std::string::npos);
    EXPECT_EQ(value(reply, "access-control-allow-credentials"), "");
  }
  for (const char* origin :
       {"https://app.example.evil.org", "http://app.example", "https://APP.example", "null",
        "https://app.example:8443", "https://app.example, https://evil.org", ""}) {
    const Reply reply = gateway.ask(get("/v1/models", "Origin: " + std::string(origin) + "\r\n"));
    EXPECT_EQ(reply.status, 200) << "the browser keeps it from the page, not we";
    EXPECT_EQ(value(reply, kAllowed), "") << origin;
    EXPECT_EQ(value(reply, "vary"), "Origin") << origin;
  }
  EXPECT_EQ(value(gateway.ask(get("/v1/models")), "vary"), "Origin");
}

TEST(CorsTest, Cors_WhenReplyIsAnErrorOrStream_SendsHeadersToo) {
  Gateway gateway({}, nullptr, Cors::allow({"https://app.example"}).value());
  gateway.client.script.token_bytes = {{"a", "b"}};
  for (const std::string& request :
       {get("/nowhere", kPage), get("/v1/completions", kPage), post("/v1/completions", "{", kPage),
        post("/v1/completions", R"({"model":"m","prompt":"x","stream":true})", kPage)}) {
    EXPECT_EQ(value(gateway.ask(request), kAllowed), "https://app.example") << request;
  }
}

TEST(CorsTest, Preflight_WhenOriginIsAllowed_ListsMethodsAndHeaders) {
  Gateway gateway({}, nullptr, Cors::allow({"https://app.example"}).value());
  const std::string preflight_headers =
      "Access-Control-Request-Method: POST\r\n"
      "Access-Control-Request-Headers: authorization,content-type,x-stainless-os\r\n";
  Reply reply = gateway.ask(ask_before("/v1/chat/completions", kPage + preflight_headers));
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.body, "");
  EXPECT_EQ(value(reply, kAllowed), "https://app.example");
  EXPECT_EQ(value(reply, "access-control-allow-methods"), "POST");
  EXPECT_EQ(value(reply, "access-control-allow-headers"),
            "authorization,content-type,x-stainless-os");
  EXPECT_EQ(value(reply, "access-control-max-age"), "600");
  EXPECT_EQ(value(reply, "vary"), "Origin");
  reply = gateway.ask(ask_before("/v1/files/f1", kPage + preflight_headers));
  EXPECT_EQ(value(reply, "access-control-allow-methods"), "GET, DELETE");

  reply = gateway.ask(ask_before("/v1/models", "Origin: https://evil.org\r\n" + preflight_headers));
  EXPECT_EQ(reply.status, 403);
  EXPECT_EQ(value(reply, kAllowed), "");
  reply = gateway.ask(ask_before("/v1/models", kPage));
  EXPECT_EQ(reply.status, 405) << "no preflight: it names no method";
  reply = gateway.ask(
      ask_before("/v1/models", kPage + std::string("Access-Control-Request-Method: GET\r\n"
                                                   "Access-Control-Request-Headers: a;b\"c\r\n")));
  EXPECT_EQ(value(reply, "access-control-allow-headers"), "") << "no list of names";
  EXPECT_EQ(gateway.ask(ask_before("/nowhere", kPage + preflight_headers)).status, 404);
}

TEST(CorsTest, Cors_WithWildcard_AllowsEveryOrigin) {
  Gateway gateway({}, nullptr, Cors::allow({"*"}).value());
  const Reply reply = gateway.ask(get("/v1/models", "Origin: https://any.org\r\n"));
  EXPECT_EQ(value(reply, kAllowed), "*");
  EXPECT_EQ(value(reply, "vary"), "");
  EXPECT_EQ(value(reply, "access-control-allow-credentials"), "");
}

TEST(CorsTest, Cors_WhenPathIsConsole_SendsNoHeaders) {
  for (const char* origin : {"*", "https://app.example"}) {
    const Cors cors = Cors::allow({origin}).value();
    for (const char* path : {"/console", "/console/api/status"}) {
      gateway::Request request;
      request.method = "OPTIONS";
      request.path = path;
      request.headers = {{"Origin", "https://app.example"},
                         {"Access-Control-Request-Method", "POST"}};
      EXPECT_TRUE(cors.headers(request).empty());
      EXPECT_FALSE(cors.preflight(request, "POST").has_value());
    }
  }
}

TEST(CorsTest, CorsConfig_WhenValueIsNotAnOrigin_IsRefused) {
  for (const char* wrong : {"", "app.example", "https://", "https://app.example/", "HTTPS://a.b",
                            "https://a.b/path", "https://a b", "null", "https://*.example",
                            "https://a.b\r\nX: y", "https://:80", "https://a.b:"}) {
    const auto cors = Cors::allow({"https://good.example", wrong});
    ASSERT_FALSE(cors.has_value()) << wrong;
    EXPECT_EQ(cors.error().code, Errc::kUsage);
  }
  EXPECT_TRUE(Cors::allow({"http://[::1]:3000", "chrome-extension://abcdef"}).has_value());
}

}  // namespace
}  // namespace holdfast::test::cors_test
