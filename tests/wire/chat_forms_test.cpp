// Goal: a history that a template refuses, or of which it drops a text, reaches the model in
// another form; what every form loses is reported; errors name the message. Method: small
// templates, each with one habit of published ones, under histories of all kinds.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "control/ingress/chat.h"
#include "control/ingress/chat_forms.h"
#include "tests/wire/made_tokenizer.h"

namespace holdfast::ingress::chat_forms_test {
namespace {

using json = nlohmann::ordered_json;

RenderedChat render(const std::string& source, const json& messages) {
  const auto tokenizer = test::make_tokenizer(source, {});
  auto chat = render_chat(json{{"messages", messages}}.dump(), *tokenizer, "2026-01-15");
  EXPECT_TRUE(chat) << (chat ? "" : chat.error().what);
  return chat ? std::move(*chat) : RenderedChat{};
}

std::string notes(const RenderedChat& chat) {
  std::string out;
  for (const std::string& note : chat.notes) out += (out.empty() ? "" : " ") + note;
  return out;
}

const json kTools = json::parse(R"([
    {"role":"user","content":"question"},
    {"role":"assistant","content":null,"tool_calls":[{"id":"call_Ab12Cd34Ef56","type":"function",
     "function":{"name":"clock","arguments":"{\"zone\":\"utc\"}"}}]},
    {"role":"tool","tool_call_id":"call_Ab12Cd34Ef56","content":"noon"},
    {"role":"user","content":"thanks"}])");
const json kSystem = json::parse(R"([
    {"role":"system","content":"riddles"},{"role":"user","content":"question"}])");

constexpr const char* kPlain =
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% for c in m.tool_calls %}"
    "[{{ c.id }} {{ c.function.name }} {{ c.function.arguments | tojson }}]{% endfor %}"
    "{{ '\\n' }}{% endfor %}";

TEST(ChatForms, Messages_WhenTemplateAcceptsThem_AreUnchanged) {
  const RenderedChat chat = render(kPlain, kTools);
  EXPECT_EQ(notes(chat), "");
  EXPECT_EQ(chat.text,
            "<user>question\n<assistant>[call_Ab12Cd34Ef56 clock {\"zone\": \"utc\"}]\n"
            "<tool>noon\n<user>thanks\n");
  EXPECT_EQ(notes(render(kPlain, kSystem)), "");
}

TEST(ChatForms, DeveloperRole_WhenTemplateLacksIt_BecomesSystem) {
  json messages = kSystem;
  messages[0]["role"] = "developer";
  EXPECT_EQ(render(kPlain, messages).text, "<system>riddles\n<user>question\n");
  const std::string knows = std::string("{# developer #}") + kPlain;
  EXPECT_EQ(render(knows, messages).text, "<developer>riddles\n<user>question\n");
}

TEST(ChatForms, SystemMessage_WhenTemplateHasNone_JoinsTheUserTurn) {
  for (const char* source :
       {"{% if messages[0].role == 'system' %}{{ raise_exception('System role not supported') }}"
        "{% endif %}{% for m in messages %}<{{ m.role }}>{{ m.content }}\n{% endfor %}",
        "{% for m in messages %}{% if m.role != 'system' %}<{{ m.role }}>{{ m.content }}\n"
        "{% endif %}{% endfor %}"}) {
    const RenderedChat chat = render(source, kSystem);
    EXPECT_EQ(chat.text, "<user>riddles\n\nquestion\n");
    EXPECT_EQ(notes(chat), "system-in-user");
  }
}

TEST(ChatForms, SystemMessages_WhenTemplateAllowsOneAtTheHead_AreJoined) {
  const char* source =
      "{% for m in messages %}{% if m.role == 'system' and not loop.first %}"
      "{{ raise_exception('system first') }}{% endif %}<{{ m.role }}>{{ m.content }}\n{% endfor %}";
  json messages = kSystem;
  messages.insert(messages.begin() + 1, json{{"role", "developer"}, {"content", "rhymes"}});
  messages.push_back({{"role", "system"}, {"content", "briefly"}});
  const RenderedChat chat = render(source, messages);
  EXPECT_EQ(chat.text, "<system>riddles\n\nrhymes\n<user>question\n<user>briefly\n");
  EXPECT_EQ(notes(chat), "system-joined");
}

TEST(ChatForms, Turns_WhenTemplateRequiresAlternation_AreJoined) {
  const char* source =
      "{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}"
      "{{ raise_exception('roles must alternate') }}{% endif %}<{{ m.role }}>{{ m.content }}\n"
      "{% endfor %}";
  const json messages = json::parse(R"([{"role":"user","content":"one"},
      {"role":"user","content":"two"},{"role":"assistant","content":"three"}])");
  const RenderedChat chat = render(source, messages);
  EXPECT_EQ(chat.text, "<user>one\n\ntwo\n<assistant>three\n");
  EXPECT_EQ(notes(chat), "turns-joined");
  const json late = json::parse(R"([{"role":"assistant","content":"hello"},
      {"role":"user","content":"one"}])");
  EXPECT_EQ(render(source, late).text, "<user>\n<assistant>hello\n<user>one\n");
}

TEST(ChatForms, ToolCallIds_WhenTemplateRequiresNineCharacters_AreShortened) {
  const std::string source =
      std::string(
          "{% for m in messages %}{% for c in m.tool_calls %}{% if c.id | length != 9 %}"
          "{{ raise_exception('ids must be alphanumeric strings of length 9') }}{% endif %}"
          "{% endfor %}{% endfor %}") +
      kPlain;
  const RenderedChat chat = render(source, kTools);
  EXPECT_EQ(notes(chat), "short-ids");
  EXPECT_NE(chat.text.find("[call00001 clock"), std::string::npos) << chat.text;
}

TEST(ChatForms, ToolCallArguments_WhenTemplateReadsTextOrObjects_AreConverted) {
  const char* as_text =
      "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% for c in m.tool_calls %}"
      "{{ '[' + c.function.name + ' ' + c.function.arguments + ']' }}{% endfor %}\n{% endfor %}";
  const RenderedChat text = render(as_text, kTools);
  EXPECT_NE(text.text.find("[clock {\"zone\":\"utc\"}]"), std::string::npos) << text.text;
  EXPECT_EQ(notes(text), "arguments-as-text");
  const char* as_object =
      "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% for c in m.tool_calls %}"
      "[{{ c.function.name }}{% for k, v in c.function.arguments.items() %} {{ k }}={{ v }}"
      "{% endfor %}]{% endfor %}\n{% endfor %}";
  json broken = kTools;
  broken[1]["tool_calls"][0]["function"]["arguments"] = "{\"zone\": \"u";
  const RenderedChat object = render(as_object, broken);
  EXPECT_NE(object.text.find("[clock input={\"zone\": \"u]"), std::string::npos) << object.text;
  EXPECT_EQ(notes(object), "arguments-as-objects");
}

TEST(ChatForms, ToolCalls_WhenTemplateHasNoTools_BecomeText) {
  for (const char* source :
       {"{% for m in messages %}<{{ m.role }}>{{ m.content }}\n{% endfor %}",
        "{% for m in messages %}{% if m.role not in ['user', 'assistant'] %}"
        "{{ raise_exception('Only user and assistant roles are supported') }}{% endif %}"
        "<{{ m.role }}>{{ m.content }}\n{% endfor %}"}) {
    const RenderedChat chat = render(source, kTools);
    EXPECT_EQ(chat.text,
              "<user>question\n<assistant>{\"name\":\"clock\",\"arguments\":{\"zone\":\"utc\"}}\n"
              "<user>Result of clock:\nnoon\n<user>thanks\n");
    EXPECT_EQ(notes(chat), "calls-as-text");
  }
}

TEST(ChatForms, Messages_WhenTemplateHasSeveralLimits_CombineForms) {
  const char* source =  // of Gemma 2: no system, no tools, turns alternate
      "{% if messages[0].role == 'system' %}{{ raise_exception('System role not supported') }}"
      "{% endif %}{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}"
      "{{ raise_exception('Conversation roles must alternate user/assistant') }}{% endif %}"
      "<{{ m.role }}>{{ m.content }}\n{% endfor %}";
  json messages = kTools;
  messages.insert(messages.begin(), json{{"role", "system"}, {"content", "riddles"}});
  const RenderedChat chat = render(source, messages);
  EXPECT_EQ(notes(chat), "system-in-user calls-as-text turns-joined");
  for (const char* word : {"riddles", "question", "clock", "utc", "noon", "thanks"}) {
    EXPECT_NE(chat.text.find(word), std::string::npos) << word << "\n" << chat.text;
  }
}

TEST(ChatForms, Messages_WhenEveryFormDropsText_ReportTheLoss) {
  const char* source = "<{{ messages[0].content }}>";
  const json messages = json::parse(R"([{"role":"user","content":"one"},
      {"role":"assistant","content":"two"},{"role":"user","content":"three"}])");
  EXPECT_EQ(notes(render(source, messages)), "lost=messages[2]");
  const auto tokenizer = test::make_tokenizer(source, {});
  const json with_tools = {{"messages", {messages[0]}},
                           {"tools", {{{"type", "function"}, {"function", {{"name", "f"}}}}}}};
  EXPECT_EQ(notes(*render_chat(with_tools.dump(), *tokenizer, "2026-01-15")), "lost=tools");
}

TEST(ChatForms, TemplateError_WhenAMessageCausesIt_NamesTheMessage) {
  const auto tokenizer = test::make_tokenizer(
      "{% for m in messages %}{% if m.role == 'critic' %}{{ raise_exception('Unknown role') }}"
      "{% endif %}{{ m.content }}{% endfor %}",
      {});
  const auto chat = render_chat(
      R"({"messages":[{"role":"user","content":"a"},{"role":"critic","content":"b"},
          {"role":"user","content":"c"}]})",
      *tokenizer, "2026-01-15");
  ASSERT_FALSE(chat);
  EXPECT_EQ(chat.error().what, "messages[1]: chat template line 1: Unknown role");
}

TEST(ChatForms, FormTrials_WhenOrdered_TryFewerChangesFirst) {
  const auto trials = form_trials(kAllChatForms);
  EXPECT_EQ(trials[0], 0U);
  EXPECT_EQ(trials.size(), 192U) << "arguments are not both text and objects";
  const auto bits = [](std::uint32_t forms) { return __builtin_popcount(forms); };
  EXPECT_TRUE(std::is_sorted(trials.begin(), trials.end(),
                             [&](std::uint32_t a, std::uint32_t b) { return bits(a) < bits(b); }));
  EXPECT_EQ(form_trials(applicable_forms(kSystem, true)).size(), 4U);
  EXPECT_EQ(form_trials(applicable_forms(kSystem, false)).size(), 8U);
}

}  // namespace
}  // namespace holdfast::ingress::chat_forms_test
