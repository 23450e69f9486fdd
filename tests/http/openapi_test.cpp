// Goal: /openapi.json describes this server: every route, no other path, whole operations; /version
// and what a model can do; the client's own id of a request comes back. Method: the document of a
// gateway over a fake daemon, compared with the router's table.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <string>

#include "shared/base/version.h"
#include "tests/http/http_peer.h"

namespace holdfast::test::openapi_test {
namespace {

using nlohmann::json;

struct Openapi : testing::Test {
  Gateway gateway;
  json document() { return json::parse(gateway.ask(get("/openapi.json")).body); }
};

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

/// A path or pattern with "{}" for each of its parameters.
std::string plain(const std::string& path) {
  return std::regex_replace(path, std::regex("\\{[^}]*\\}"), "{}");
}

TEST_F(Openapi, Document_ComparedWithTheRouter_HasEveryRouteAndNoOther) {
  std::set<std::string> described, routed;
  const json paths = document().at("paths");
  for (const auto& [path, operations] : paths.items()) {
    for (const auto& [method, operation] : operations.items()) {
      described.insert(method + " " + plain(path));
    }
  }
  for (const gateway::Route& route : gateway::routes()) {
    routed.insert(lower(std::string(route.method)) + " " + plain(std::string(route.pattern)));
  }
  EXPECT_EQ(described, routed);
  EXPECT_GT(routed.size(), 50u);
}

TEST_F(Openapi, Operations_OfEachPath_AreWhole) {
  const json all = document();
  EXPECT_EQ(all["openapi"], "3.1.0");
  EXPECT_EQ(all["info"]["version"], kVersion);
  std::set<std::string> ids, tags;
  for (const json& tag : all["tags"]) tags.insert(tag["name"]);
  for (const auto& [path, operations] : all["paths"].items()) {
    std::set<std::string> parameters;
    for (const auto& [method, operation] : operations.items()) {
      SCOPED_TRACE(method + " " + path);
      EXPECT_TRUE(ids.insert(operation.at("operationId")).second) << operation["operationId"];
      EXPECT_FALSE(operation.at("summary").get<std::string>().empty());
      for (const json& tag : operation.at("tags")) EXPECT_TRUE(tags.contains(tag)) << tag;
      EXPECT_FALSE(operation.at("responses").empty());
      for (const json& parameter : operation.value("parameters", json::array())) {
        if (parameter.value("in", "") == "path") parameters.insert(parameter["name"]);
      }
    }
    const std::regex name("\\{([^}]*)\\}");
    std::set<std::string> expected;
    for (std::sregex_iterator it(path.begin(), path.end(), name), end; it != end; ++it) {
      expected.insert((*it)[1]);
    }
    EXPECT_EQ(parameters, expected) << path;
  }
}

/// Calls `found` with every "$ref" below `value`.
void references(const json& value, const std::function<void(const std::string&)>& found) {
  if (value.is_object() && value.contains("$ref")) found(value["$ref"]);
  if (!value.is_structured()) return;
  for (const json& child : value) references(child, found);
}

TEST_F(Openapi, References_OfTheDocument_LeadSomewhere) {
  const json all = document();
  std::size_t count = 0;
  references(all, [&](const std::string& where) {
    ++count;
    ASSERT_TRUE(where.starts_with("#/")) << where;
    EXPECT_TRUE(all.contains(json::json_pointer(where.substr(1)))) << where;
  });
  EXPECT_GT(count, 50u);
}

TEST_F(Openapi, Version_OverHttp_IsTheProgramsOwn) {
  EXPECT_EQ(json::parse(gateway.ask(get("/version")).body), json({{"version", kVersion}}));
}

TEST_F(Openapi, Models_InTheList_SayWhatTheyCanDo) {
  wire::ModelInfo chat;
  chat.name = "m";
  chat.chat = true;
  chat.output = "hermes+think";
  wire::ModelInfo encoder;
  encoder.name = "e";
  encoder.encoder = true;
  gateway.client.model_list = {chat, encoder};
  const json list = json::parse(gateway.ask(get("/v1/models")).body)["data"];
  EXPECT_EQ(list[0]["capabilities"],
            json::parse(R"({"completion":true,"chat":true,"embeddings":true,"tools":true,)"
                        R"("reasoning":true,"structured_output":true,"vision":false})"));
  EXPECT_EQ(list[0]["modalities"], json::parse(R"({"input":["text"],"output":["text"]})"));
  EXPECT_EQ(list[1]["capabilities"]["completion"], false);
  EXPECT_EQ(list[1]["capabilities"]["embeddings"], true);
  EXPECT_EQ(list[1]["modalities"]["output"], json::parse(R"(["vectors"])"));
}

TEST_F(Openapi, ClientRequestId_OnAnyRequest_ComesBackAndIsStored) {
  gateway.client.script.token_bytes = {{"x"}};
  const std::string body = R"({"model":"m","prompt":"a"})";
  const Reply reply = gateway.ask(post("/v1/completions", body, "X-Client-Request-Id: mine-7\r\n"));
  EXPECT_EQ(reply.headers.at("x-client-request-id"), "mine-7");
  EXPECT_NE(reply.headers.at("x-request-id"), "mine-7");
  EXPECT_NE(gateway.client.last_submit().meta.find(R"("client_id":"mine-7")"), std::string::npos);
  // A proxy's name for it.
  const Reply proxied = gateway.ask(get("/version", "X-Request-Id: proxy-1\r\n"));
  EXPECT_EQ(proxied.headers.at("x-client-request-id"), "proxy-1");
  // An id of another form is not sent back.
  const Reply odd = gateway.ask(post("/v1/completions", body, "X-Client-Request-Id: a b\r\n"));
  EXPECT_EQ(odd.headers.count("x-client-request-id"), 0u);
  const Reply lengthy = gateway.ask(
      post("/v1/completions", body, "X-Client-Request-Id: " + std::string(129, 'a') + "\r\n"));
  EXPECT_EQ(lengthy.headers.count("x-client-request-id"), 0u);
}

}  // namespace
}  // namespace holdfast::test::openapi_test
