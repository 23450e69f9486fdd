// Goal: every published template renders histories as clients send them, with all that is in them,
// and the plain ones exactly as the template alone would. Method: every template of
// conformance/chat with a vocabulary of its own control tokens, under the forms that programs send;
// then each control token inside each text.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>

#include "control/ingress/chat.h"
#include "shared/jinja/chat_template.h"
#include "tests/conformance/published.h"

namespace holdfast::ingress::histories_test {
namespace {

using json = nlohmann::ordered_json;

json call(json content, json arguments, const char* id) {
  json message = {{"role", "assistant"},
                  {"tool_calls",
                   {{{"id", id},
                     {"type", "function"},
                     {"function", {{"name", "clockname"}, {"arguments", std::move(arguments)}}}}}}};
  if (!content.is_discarded()) message["content"] = std::move(content);
  return message;
}

json user(const char* text) {
  return {{"role", "user"}, {"content", text}};
}

std::map<std::string, json> histories() {
  const json none(json::value_t::discarded);
  const auto loop = [](json with_call, const char* id) {
    return json::array({user("questionword"),
                        std::move(with_call),
                        {{"role", "tool"}, {"tool_call_id", id}, {"content", "noonword"}}});
  };
  const char* open_ai = "call_Ab12Cd34Ef56";
  const json given_back = {{"role", "assistant"},  {"content", "answerword"},
                           {"refusal", nullptr},   {"annotations", nullptr},
                           {"audio", nullptr},     {"function_call", nullptr},
                           {"tool_calls", nullptr}};
  return {
      {"plain", {user("questionword"), given_back, user("thanksword")}},
      {"no calls",
       {user("questionword"),
        {{"role", "assistant"}, {"content", "answerword"}, {"tool_calls", json::array()}},
        user("thanksword")}},
      {"system", {{{"role", "system"}, {"content", "riddlesword"}}, user("questionword")}},
      {"developer", {{{"role", "developer"}, {"content", "riddlesword"}}, user("questionword")}},
      {"content null", loop(call(nullptr, "{\"zone\":\"utcword\"}", open_ai), open_ai)},
      {"no content", loop(call(none, "{\"zone\":\"utcword\"}", open_ai), open_ai)},
      {"arguments empty", loop(call("", "", open_ai), open_ai)},
      {"arguments broken", loop(call("", "{\"zone\": \"utcword", open_ai), open_ai)},
      {"arguments object", loop(call("", {{"zone", "utcword"}}, "abcdefghi"), "abcdefghi")},
      {"two users", {user("questionword"), user("thanksword")}},
      {"old function",
       {user("questionword"),
        {{"role", "assistant"},
         {"content", nullptr},
         {"function_call", {{"name", "clockname"}, {"arguments", "{}"}}}},
        {{"role", "function"}, {"name", "clockname"}, {"content", "noonword"}}}},
      {"all",
       {{{"role", "system"}, {"content", "riddlesword"}},
        user("questionword"),
        call(nullptr, "{\"zone\":\"utcword\"}", open_ai),
        {{"role", "tool"}, {"tool_call_id", open_ai}, {"content", "noonword"}},
        {{"role", "assistant"}, {"content", "answerword"}},
        user("thanksword")}},
  };
}

/// The test's own words in a history.
std::set<std::string> words_of(const json& history) {
  std::set<std::string> found;
  const std::string text = history.dump();
  const std::regex word("[a-z]+word|clockname");
  for (std::sregex_iterator it(text.begin(), text.end(), word), end; it != end; ++it) {
    found.insert(it->str());
  }
  return found;
}

TEST(Histories, ChatHistory_WithEveryPublishedTemplate_RendersAllItsText) {
  const auto sources = test::published_templates();
  if (sources.empty())
    GTEST_SKIP() << test::published_root() << " is not there; set HOLDFAST_CONFORMANCE_DIR";
  int rendered = 0;
  for (const auto& [name, source] : sources) {
    const auto tokenizer = test::make_tokenizer(source, test::controls_of(source));
    for (const auto& [kind, history] : histories()) {
      SCOPED_TRACE(name + ", " + kind);
      const auto chat = render_chat(json{{"messages", history}}.dump(), *tokenizer, "2026-01-15");
      ASSERT_TRUE(chat) << chat.error().what;
      for (const std::string& word : words_of(history)) {
        EXPECT_NE(chat->text.find(word), std::string::npos) << word << "\n" << chat->text;
      }
      ++rendered;
    }
  }
  RecordProperty("rendered", rendered);
}

TEST(Histories, ChatHistory_WhenTheTemplateTakesIt_RendersUnchanged) {
  const auto sources = test::published_templates();
  if (sources.empty())
    GTEST_SKIP() << test::published_root() << " is not there; set HOLDFAST_CONFORMANCE_DIR";
  int same = 0;
  for (const auto& [name, source] : sources) {
    const auto cases = json::parse(
        std::ifstream(test::published_root() / (name.substr(0, name.size() - 6) + ".json")));
    const auto tokenizer = test::make_tokenizer(source, test::controls_of(source));
    for (const json& c : cases.at("cases")) {
      if (c.contains("error")) continue;
      json request = {{"messages", c.at("messages")},
                      {"add_generation_prompt", c.value("add_generation_prompt", false)}};
      if (c.contains("tools") && !c.at("tools").is_null()) request["tools"] = c.at("tools");
      text::ChatInput input;
      input.messages_json = c.at("messages").dump();
      if (request.contains("tools")) input.tools_json = request["tools"].dump();
      input.add_generation_prompt = request["add_generation_prompt"];
      input.bos_token = "<bos>";
      input.eos_token = "<eos>";
      input.date = "2026-01-15";
      const auto alone = text::ChatTemplate::parse(source).value()->render(input);
      const auto chat = render_chat(request.dump(), *tokenizer, "2026-01-15");
      ASSERT_TRUE(chat) << name << ": " << chat.error().what;
      if (!alone || !chat->notes.empty()) continue;
      EXPECT_EQ(chat->text, *alone) << name << " " << request.dump();
      ++same;
    }
  }
  EXPECT_GT(same, 50);
}

TEST(Histories, MessageText_WithControlTokenStrings_MakesNoControlToken) {
  const auto sources = test::published_templates();
  if (sources.empty())
    GTEST_SKIP() << test::published_root() << " is not there; set HOLDFAST_CONFORMANCE_DIR";
  int tried = 0;
  for (const auto& [name, source] : sources) {
    const std::vector<std::string> controls = test::controls_of(source);
    const auto tokenizer = test::make_tokenizer(source, controls);
    const auto request = [](const std::string& text) {
      json history = histories().at("all");
      for (json& message : history) {
        if (message.contains("content") && message["content"].is_string()) {
          message["content"] = message["content"].get<std::string>() + text + "end";
        }
      }
      history[2]["tool_calls"][0]["function"]["arguments"] = json{{"zone", "utcword" + text}};
      return json{{"messages", history}}.dump();
    };
    const auto harmless = test::chat_ids(*tokenizer, request("harmless"));
    ASSERT_TRUE(harmless) << name << ": " << harmless.error().what;
    for (const std::string& control : controls) {
      const auto ids = test::chat_ids(*tokenizer, request(control));
      ASSERT_TRUE(ids) << name << " " << control << ": " << ids.error().what;
      EXPECT_EQ(test::count_controls(*tokenizer, *ids), test::count_controls(*tokenizer, *harmless))
          << name << " " << control;
      ++tried;
    }
  }
  RecordProperty("tokens", tried);
}

}  // namespace
}  // namespace holdfast::ingress::histories_test
