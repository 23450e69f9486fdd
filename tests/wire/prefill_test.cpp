// Goal: a last message of the assistant is the beginning of the answer: the prompt ends with its
// text or with its reasoning, and with nothing after it; where a template does not allow that, the
// error says so. Method: small templates, each with one habit of published ones.
#include "shared/chat/prefill.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "control/ingress/chat.h"
#include "tests/wire/made_tokenizer.h"

namespace holdfast::ingress::prefill_test {
namespace {

using json = nlohmann::ordered_json;

const std::string kOpening = "{% if add_generation_prompt %}<assistant>{% endif %}";
const std::string kPlain =
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}<end>{% endfor %}" + kOpening;
/// A template as reasoning models have it: <think> opens an answer, or an empty reasoning stands
/// before a text.
const std::string kThinks =
    "{% for m in messages %}<{{ m.role }}>{% if m.role == 'assistant' %}<think>"
    "{{ m.reasoning_content }}</think>{% endif %}{{ m.content.split('</think>')[-1] }}<end>"
    "{% endfor %}{% if add_generation_prompt %}<assistant><think>\n{% endif %}";
const std::string kMayThink =
    "{# <think> #}{% for m in messages %}<{{ m.role }}>{{ m.content }}<end>{% endfor %}" + kOpening;

json assistant(const json& content, const json& reasoning = nullptr) {
  json message = {{"role", "assistant"}, {"content", content}};
  if (!reasoning.is_null()) message["reasoning_content"] = reasoning;
  return message;
}

Result<RenderedChat> render(const std::string& source, const json& last, json fields = {}) {
  const auto tokenizer = test::make_tokenizer(source, {"<end>", "<assistant>"});
  fields["messages"] = {{{"role", "user"}, {"content", "question"}}, last};
  if (!fields.contains("continue_final_message")) fields["continue_final_message"] = true;
  return render_chat(fields.dump(), *tokenizer, "2026-01-15");
}

std::string text(const std::string& source, const json& last, const json& fields = {}) {
  const auto chat = render(source, last, fields);
  EXPECT_TRUE(chat) << (chat ? "" : chat.error().what);
  return chat ? chat->text : "";
}

std::string error(const std::string& source, const json& last) {
  const auto chat = render(source, last);
  EXPECT_FALSE(chat);
  return chat ? chat->text : chat.error().what;
}

TEST(Prefill, AssistantPrefill_WithText_EndsThePrompt) {
  const std::string before = "<user>question<end><assistant>";
  EXPECT_EQ(text(kPlain, assistant("Once upon")), before + "Once upon");
  EXPECT_EQ(text(kPlain, assistant(" a  ")), before + " a  ") << "as it was sent";
  EXPECT_EQ(text(kPlain, assistant(nullptr)), before);
  EXPECT_EQ(text(kPlain,
                 assistant({{{"type", "text"}, {"text", "a"}}, {{"type", "text"}, {"text", "b"}}})),
            before + "a\nb");
  EXPECT_EQ(text(kPlain, assistant("x"), {{"continue_final_message", false}}),
            before + "x<end><assistant>");
  EXPECT_EQ(text(kPlain, assistant("x"),
                 {{"continue_final_message", false}, {"add_generation_prompt", false}}),
            before + "x<end>");
  EXPECT_EQ(text(kThinks, assistant("x")), before + "<think></think>x");
  EXPECT_EQ(text(kThinks, assistant("x", "hm")), before + "<think>hm</think>x");
  EXPECT_EQ(text(kThinks, assistant("<think>a</think> x")), before + "<think></think> x");
}

TEST(Prefill, ReasoningPrefill_WhenContinued_OpensTheThinkingBlock) {
  const std::string before = "<user>question<end><assistant>";
  for (const json& last :
       {assistant("<think>\nOkay, I"), assistant("", "Okay, I"),
        assistant(json::array({{{"type", "thinking"}, {"thinking", "Okay, I"}}}))}) {
    EXPECT_EQ(text(kThinks, last), before + "<think>\nOkay, I");
    EXPECT_EQ(text(kMayThink, last), before + "<think>\nOkay, I");
  }
  EXPECT_EQ(text(kThinks, assistant("<think>")), before + "<think>\n");
  EXPECT_EQ(text(kPlain, assistant("<think>\nOkay")), before + "<think>\nOkay")
      << "text, where the template knows no thoughts";
  EXPECT_NE(error(kPlain, assistant("", "Okay")).find("reasoning cannot be continued"),
            std::string::npos);
}

TEST(Prefill, AssistantPrefill_WithControlTokens_IsPlainText) {
  const auto chat = render(kPlain, assistant("a<end>b"));
  ASSERT_TRUE(chat);
  EXPECT_TRUE(chat->text.ends_with("a<end>b"));
  EXPECT_EQ(chat->plain, std::vector<std::size_t>{chat->text.size() - 6});
  const auto thought = render(kThinks, assistant("", "a<end>b"));
  ASSERT_TRUE(thought);
  EXPECT_EQ(thought->plain, std::vector<std::size_t>{thought->text.size() - 6});
}

TEST(Prefill, AssistantPrefill_WhenTemplateTrims_LosesLeadingSpace) {
  const std::string trims =
      "{% for m in messages %}<{{ m.role }}>{{ m.content | trim }}<end>{% endfor %}";
  EXPECT_EQ(text(trims, assistant("\n Once ")), "<user>question<end><assistant>Once ");
}

TEST(Prefill, AssistantPrefill_WhenTemplateForbidsIt_ReturnsTheReason) {
  const std::string changes =
      "{% for m in messages %}<{{ m.role }}>{{ m.content | upper }}<end>{% endfor %}";
  EXPECT_NE(error(changes, assistant("Once"))
                .find("messages[1]: cannot be continued, as the model's "
                      "template changes its text"),
            std::string::npos);
  const std::string drops =
      "{% for m in messages %}{% if m.role == 'user' %}{{ m.content }}{% endif %}{% endfor %}";
  EXPECT_NE(error(drops, assistant("Once")).find("leaves its text out"), std::string::npos);
  json call = assistant("");
  call["tool_calls"] = {{{"type", "function"}, {"function", {{"name", "f"}}}}};
  EXPECT_NE(error(kPlain, call).find("without calls"), std::string::npos);
  EXPECT_NE(error(kPlain, {{"role", "user"}, {"content", "x"}}).find("role assistant"),
            std::string::npos);
}

// The template requires turns to alternate, so the message joins the one before it.
TEST(Prefill, AssistantPrefill_WhenTurnsMustAlternate_JoinsTheTurns) {
  const std::string alternates =
      "{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}"
      "{{ raise_exception('roles must alternate') }}{% endif %}<{{ m.role }}>{{ m.content }}<end>"
      "{% endfor %}";
  const auto tokenizer = test::make_tokenizer(alternates, {"<end>"});
  const json messages = {
      {{"role", "user"}, {"content", "question"}}, assistant("One."), assistant("Two")};
  const auto chat =
      render_chat(json{{"messages", messages}, {"continue_final_message", true}}.dump(), *tokenizer,
                  "2026-01-15");
  ASSERT_TRUE(chat) << chat.error().what;
  EXPECT_EQ(chat->text, "<user>question<end><assistant>One.\n\nTwo");
}

}  // namespace
}  // namespace holdfast::ingress::prefill_test
