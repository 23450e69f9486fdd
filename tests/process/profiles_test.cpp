// Goal: what a name of a model adds to its file acts on every way in, a request's own values win,
// and it is there after any death; a request that was accepted is not changed by it any more.
// Method: a real server with the demo model; profiles by /api/create and `models add`; requests by
// the SDK, OpenAI's and Ollama's API, whose stored parameters and prompt tokens are read back.
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "shared/client/client.h"
#include "tests/process/http_stream.h"
#include "tests/process/test_server.h"

namespace holdfast::process::profiles_test {
namespace {

using nlohmann::json;

constexpr const char* kGoTemplate =
    "{{ if .System }}[{{ .System }}]{{ end }}{{ .Prompt }}>{{ .Response }}";

class Profiles : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(server.start({"--model", "demo=" + demo_model()})) << server.errors();
  }
  void TearDown() override {
    if (server.supervisor_pid() > 0) {
      EXPECT_EQ(server.stop(), 0) << server.errors();
    }
  }

  HttpAnswer post(const std::string& path, const json& body) const {
    return http_exchange(server.url(), http_post_text(path, body.dump()));
  }
  json ask(const std::string& path, const json& body) const {
    const HttpAnswer answer = post(path, body);
    EXPECT_EQ(answer.status, 200) << path << " " << body << "\n" << answer.body;
    return json::parse(answer.body, nullptr, false);
  }
  /// Creates "pirate" with all members; returns the lines of the answer.
  std::string create(double temperature = 0.25) const {
    const json body = {
        {"model", "pirate"},
        {"from", "demo"},
        {"template", kGoTemplate},
        {"system", "Arr"},
        {"parameters",
         {{"temperature", temperature},
          {"stop", {"ZZ"}},
          {"num_predict", 7},
          {"repeat_last_n", 5},
          {"num_gpu", 1}}},
        {"messages",
         {{{"role", "user"}, {"content", "Hi"}}, {{"role", "assistant"}, {"content", "Aye"}}}},
        {"license", {"L1", "L2"}}};
    const HttpAnswer answer = post("/api/create", body);
    EXPECT_EQ(answer.status, 200) << answer.body;
    return answer.body;
  }
  json document(const std::string& model) const { return ask("/api/show", {{"model", model}}); }

  /// The text of the prompt that a body of a chat becomes.
  std::string prompt_of(const std::string& model, const json& messages) const {
    const json tokens = ask("/tokenize", {{"model", model}, {"messages", messages}});
    return ask("/detokenize", {{"model", model}, {"tokens", tokens.at("tokens")}}).at("prompt");
  }
  /// The request as it is stored.
  wire::RequestInfo info_of(const std::string& id) const {
    const auto client = server.client();
    auto answer = client->status(client::AllTenants::local(), id);
    EXPECT_TRUE(std::holds_alternative<wire::RequestInfo>(answer)) << id;
    return std::get<wire::RequestInfo>(answer);
  }
  wire::RequestInfo posted(const std::string& path, const json& body) const {
    const HttpAnswer answer = post(path, body);
    EXPECT_EQ(answer.status, 200) << path << " " << body << "\n" << answer.body;
    return info_of(answer.headers.count("x-request-id") != 0 ? answer.headers.at("x-request-id")
                                                             : "");
  }
  wire::RequestInfo submitted(wire::Submit submit) const {
    submit.model = "pirate";
    wire::Prompt prompt;
    prompt.text = "To be";
    submit.prompts = {prompt};
    const auto client = server.client();
    auto answer = client->submit(client::Principal::local(), submit);
    EXPECT_TRUE(std::holds_alternative<wire::Accepted>(answer))
        << std::get<client::Failure>(answer).message;
    return std::get<wire::Accepted>(answer).info;
  }

  TempDir dir;
  TestServer server{dir.path() + "/state"};
};

const json kAsk = {{{"role", "user"}, {"content", "Q"}}};

TEST_F(Profiles, Create_WithEachMember_StandsInShowAndList) {
  const std::string lines = create();
  EXPECT_NE(lines.find("num_gpu has no effect"), std::string::npos) << lines;
  EXPECT_TRUE(lines.ends_with("{\"status\":\"success\"}\n")) << lines;
  const json show = document("pirate");
  EXPECT_EQ(show["system"], "Arr");
  EXPECT_EQ(show["license"], "L1\n\nL2");
  EXPECT_NE(show["template"].get<std::string>().find("{%"), std::string::npos);
  const std::string parameters = show["parameters"];
  for (const char* one : {"temperature", "num_predict", "repeat_last_n", "stop", "\"ZZ\""}) {
    EXPECT_NE(parameters.find(one), std::string::npos) << parameters;
  }
  const std::string modelfile = show["modelfile"];
  EXPECT_NE(modelfile.find("SYSTEM \"\"\"Arr\"\"\""), std::string::npos) << modelfile;
  EXPECT_NE(modelfile.find("MESSAGE assistant"), std::string::npos) << modelfile;
  EXPECT_EQ(document("demo").count("system"), 0u) << "another name of the file";

  const json model = json::parse(server.cli({"--json", "models", "show", "pirate"}).out);
  EXPECT_EQ(model["profile"]["parameters"]["repeat_last_n"], 5);
  EXPECT_EQ(model["profile"]["parameters"]["max_tokens"], 7);
}

TEST_F(Profiles, Messages_OnEveryWayIn_HaveTemplateSystemAndPrelude) {
  create();
  EXPECT_EQ(prompt_of("pirate", kAsk), "[Arr]Hi>AyeQ>");
  const json own = {{{"role", "system"}, {"content", "Own"}}, {{"role", "user"}, {"content", "Q"}}};
  EXPECT_EQ(prompt_of("pirate", own), "[Own]Hi>AyeQ>") << "the request's system message wins";

  // The same prompt by each API, counted by its tokens.
  const auto tokens = static_cast<std::int64_t>(
      ask("/tokenize", {{"model", "pirate"}, {"messages", kAsk}}).at("tokens").size());
  const auto prompt_tokens = [](const wire::RequestInfo& info) { return info.prompt_tokens.at(0); };
  EXPECT_EQ(
      prompt_tokens(posted("/v1/chat/completions", {{"model", "pirate"}, {"messages", kAsk}})),
      tokens);
  EXPECT_EQ(prompt_tokens(posted("/api/chat", {{"model", "pirate"}, {"messages", kAsk}})), tokens);
  EXPECT_EQ(prompt_tokens(posted("/api/generate", {{"model", "pirate"}, {"prompt", "Q"}})), tokens);
  EXPECT_EQ(prompt_tokens(posted("/v1/responses", {{"model", "pirate"}, {"input", "Q"}})), tokens);
  EXPECT_EQ(prompt_tokens(posted("/v1/messages",
                                 {{"model", "pirate"}, {"max_tokens", 3}, {"messages", kAsk}})),
            tokens);
  EXPECT_EQ(ask("/v1/messages/count_tokens", {{"model", "pirate"}, {"messages", kAsk}})
                .at("input_tokens"),
            tokens);
  const auto raw = static_cast<std::int64_t>(
      ask("/tokenize", {{"model", "demo"}, {"prompt", "Q"}}).at("tokens").size());
  EXPECT_EQ(
      prompt_tokens(posted("/api/generate", {{"model", "pirate"}, {"prompt", "Q"}, {"raw", true}})),
      raw)
      << "raw has no template and no system message";
}

TEST_F(Profiles, Parameters_OfTheRequest_WinOverThoseOfTheProfile) {
  create();
  const auto is_profiles = [](const wire::RequestInfo& info) {
    EXPECT_FLOAT_EQ(info.sampling.temperature, 0.25F);
    EXPECT_EQ(info.stops, std::vector<std::string>{"ZZ"});
    EXPECT_EQ(info.max_tokens, 7);
    EXPECT_NE(info.sampling.extra.find("\"repeat_last_n\":5"), std::string::npos);
  };
  wire::Submit older;  // as an SDK that does not say what it was given
  is_profiles(submitted(older));
  wire::Submit said;
  said.given.emplace();
  is_profiles(submitted(said));
  is_profiles(posted("/v1/chat/completions", {{"model", "pirate"}, {"messages", kAsk}}));
  is_profiles(posted("/v1/completions", {{"model", "pirate"}, {"prompt", "Q"}}));
  is_profiles(posted("/api/chat", {{"model", "pirate"}, {"messages", kAsk}}));

  said.given = {"temperature", "max_tokens"};
  said.max_tokens = 3;
  wire::RequestInfo own = submitted(said);
  EXPECT_FLOAT_EQ(own.sampling.temperature, 1.0F) << "the default, but the request's own";
  EXPECT_EQ(own.max_tokens, 3);
  EXPECT_EQ(own.stops, std::vector<std::string>{"ZZ"});
  own = posted("/v1/chat/completions", {{"model", "pirate"},
                                        {"messages", kAsk},
                                        {"temperature", 1},
                                        {"max_completion_tokens", 2},
                                        {"stop", "Q"},
                                        {"repeat_last_n", 9}});
  EXPECT_FLOAT_EQ(own.sampling.temperature, 1.0F);
  EXPECT_EQ(own.max_tokens, 2);
  EXPECT_EQ(own.stops, std::vector<std::string>{"Q"});
  EXPECT_NE(own.sampling.extra.find("\"repeat_last_n\":9"), std::string::npos);
  own = posted("/api/chat", {{"model", "pirate"},
                             {"messages", kAsk},
                             {"options", {{"temperature", 0.8}, {"num_predict", 4}}}});
  EXPECT_FLOAT_EQ(own.sampling.temperature, 0.8F) << "Ollama's default, but the request's own";
  EXPECT_EQ(own.max_tokens, 4);
  // Ollama's defaults hold where neither says something.
  EXPECT_EQ(own.sampling.top_k, 40);
}

TEST_F(Profiles, Profile_AfterKillsAndRestarts_IsTheSame) {
  create();
  const json before = document("pirate");
  ASSERT_TRUE(server.kill_child("daemon"));
  EXPECT_EQ(document("pirate"), before);
  server.kill_supervisor();
  ASSERT_TRUE(server.start({"--model", "demo=" + demo_model()})) << server.errors();
  EXPECT_EQ(document("pirate"), before);
  EXPECT_EQ(prompt_of("pirate", kAsk), "[Arr]Hi>AyeQ>");
  // A further registration without a profile leaves it, one with an empty profile removes it.
  const std::string path =
      json::parse(server.cli({"--json", "models", "show", "demo"}).out)["path"];
  ASSERT_EQ(server.cli({"models", "add", "pirate", path}).code, 0);
  EXPECT_EQ(document("pirate")["system"], "Arr");
  ASSERT_EQ(server.stop(), 0);
  ASSERT_TRUE(server.start({"--model", "demo=" + demo_model()})) << server.errors();
  EXPECT_EQ(document("pirate"), before);
  // Deleted with the name.
  ask("/api/generate", {{"model", "pirate"}, {"keep_alive", 0}});
  EXPECT_EQ(http_exchange(server.url(),
                          "DELETE /api/delete HTTP/1.1\r\nHost: localhost\r\nContent-Length: 18\r\n"
                          "\r\n{\"model\":\"pirate\"}")
                .status,
            200);
  EXPECT_EQ(post("/api/copy", {{"source", "demo"}, {"destination", "pirate"}}).status, 200);
  EXPECT_EQ(document("pirate").count("system"), 0u);
}

TEST_F(Profiles, AcceptedRequest_AfterANewProfile_StaysAsItWas) {
  create();
  wire::Submit submit;
  submit.given = {"max_tokens"};
  submit.max_tokens = 200;
  const wire::RequestInfo old = submitted(submit);
  create(0.75);
  const wire::RequestInfo now = info_of(old.request_id);
  EXPECT_FLOAT_EQ(now.sampling.temperature, 0.25F);
  EXPECT_EQ(now.prompt_tokens, old.prompt_tokens);
  EXPECT_FLOAT_EQ(submitted(submit).sampling.temperature, 0.75F);
}

TEST_F(Profiles, Copy_OfAName_HasItsProfile) {
  create();
  ask("/api/copy", {{"source", "pirate"}, {"destination", "mate"}});
  EXPECT_EQ(document("mate")["system"], "Arr");
  // Created from a name with a profile: what is not named is taken over.
  post("/api/create", {{"model", "cook"},
                       {"from", "pirate"},
                       {"system", "Stew"},
                       {"parameters", {{"temperature", 0.5}}}});
  EXPECT_EQ(prompt_of("cook", kAsk), "[Stew]Hi>AyeQ>");
  const json cook = json::parse(server.cli({"--json", "models", "show", "cook"}).out);
  EXPECT_EQ(cook["profile"]["parameters"]["temperature"], 0.5);
  EXPECT_EQ(cook["profile"]["parameters"]["max_tokens"], 7);
}

TEST_F(Profiles, WrongMembers_OfACreation_AreRefusedWithTheirNames) {
  const auto refused = [&](json body, const std::string& word) {
    body["model"] = "x";
    if (!body.contains("from")) body["from"] = "demo";
    const HttpAnswer answer = post("/api/create", body);
    EXPECT_EQ(answer.status, 400) << body << answer.body;
    EXPECT_NE(answer.body.find(word), std::string::npos) << answer.body;
  };
  refused({{"template", "{{ html .System }}"}}, "function html");
  refused({{"template", "{% if %}"}}, "chat template line 1");
  refused({{"parameters", {{"temperature", 1000}}}}, "0 to 100");
  refused({{"parameters", {{"stop", ""}}}}, "1 to 1024 bytes");
  refused({{"parameters", 7}}, "parameters");
  refused({{"system", 7}}, "system");
  refused({{"messages", {{{"content", "a"}}}}}, "role");
  refused({{"system", std::string(300'000, 'x')}}, "at most 262144");
  refused({{"quantize", "q4_0"}}, "holdfast quantize");
  refused({{"adapters", {{"a", "sha256:0"}}}}, "adapters");
  refused({{"from", ""}}, "from");
  EXPECT_EQ(post("/api/create", {{"model", "x"}, {"from", "nobody"}}).status, 404);
  EXPECT_EQ(post("/api/show", {{"model", "x"}}).status, 404) << "nothing was registered";
}

TEST_F(Profiles, ModelsAdd_WithFlags_IsWhatTheNameAdds) {
  const std::string path =
      json::parse(server.cli({"--json", "models", "show", "demo"}).out)["path"];
  const std::string file = dir.path() + "/template.txt";
  std::ofstream(file) << "{% for m in messages %}<{{ m.content }}>{% endfor %}";
  const Ended added =
      server.cli({"models", "add", "short", path, "--template", file, "--system", "Brief.",
                  "--parameter", "temperature=0.5", "--parameter", "repeat_penalty=1.5",
                  "--parameter", "stop=A", "--parameter", "stop=B"});
  ASSERT_EQ(added.code, 0) << added.err;
  EXPECT_EQ(prompt_of("short", kAsk), "<Brief.><Q>");
  const json parameters =
      json::parse(server.cli({"--json", "models", "show", "short"}).out)["profile"]["parameters"];
  EXPECT_EQ(parameters, json::parse(R"({"temperature":0.5,"repetition_penalty":1.5,
                                        "stop":["A","B"]})"));
  EXPECT_EQ(server.cli({"models", "add", "no", path, "--parameter", "x"}).code, 2);
  const Ended wrong = server.cli({"models", "add", "no", path, "--parameter", "top_p=7"});
  EXPECT_EQ(wrong.code, 4) << wrong.err;
  EXPECT_NE(wrong.err.find("0 to 1"), std::string::npos) << wrong.err;
  EXPECT_EQ(server.cli({"models", "add", "no", path, "--template", "/nowhere"}).code, 3);
}

TEST_F(Profiles, Tenants_WithoutTheRole_NeitherChangeNorSeeSystemMessages) {
  create();
  const json made = json::parse(server.cli({"--json", "keys", "create", "ann"}).out);
  const std::vector<std::pair<std::string, std::string>> key = {
      {"Authorization", "Bearer " + made.at("key").get<std::string>()}};
  const auto as_ann = [&](const std::string& path, const json& body) {
    return http_exchange(server.url(), http_post_text(path, body.dump(), key));
  };
  EXPECT_EQ(as_ann("/api/create", {{"model", "x"}, {"from", "demo"}, {"system", "s"}}).status, 403);
  const HttpAnswer show = as_ann("/api/show", {{"model", "pirate"}});
  EXPECT_EQ(show.status, 200);
  EXPECT_EQ(show.body.find("Arr"), std::string::npos) << show.body;
  EXPECT_NE(show.body.find("temperature"), std::string::npos) << show.body;
}

}  // namespace
}  // namespace holdfast::process::profiles_test
