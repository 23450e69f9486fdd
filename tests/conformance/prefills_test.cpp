// Goal: with every published template an answer that the messages have begun goes on where they
// end: the prompt is the beginning of the prompt with the whole message, or, for reasoning, the
// opened answer with the reasoning in it. Method: every template of conformance/chat with a
// vocabulary of its own control tokens.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "control/ingress/chat.h"
#include "shared/chat/output_parser.h"
#include "tests/conformance/published.h"

namespace holdfast::ingress::prefills_test {
namespace {

using json = nlohmann::ordered_json;

const json kQuestion = {{"role", "user"}, {"content", "questionword"}};

Result<RenderedChat> render(const text::Tokenizer& tokenizer, const json& messages, json fields) {
  fields["messages"] = messages;
  return render_chat(fields.dump(), tokenizer, "2026-01-15");
}

TEST(Prefills, AssistantPrefill_WithEveryTemplate_ContinuesWhereTheTextEnds) {
  const auto sources = test::published_templates();
  if (sources.empty()) GTEST_SKIP() << "no templates; set HOLDFAST_CONFORMANCE_DIR";
  for (const auto& [name, source] : sources) {
    SCOPED_TRACE(name);
    const auto tokenizer = test::make_tokenizer(source, test::controls_of(source));
    const json messages = {kQuestion, {{"role", "assistant"}, {"content", "Answerword, so"}}};
    const auto begun = render(*tokenizer, messages, {{"continue_final_message", true}});
    ASSERT_TRUE(begun) << begun.error().what;
    EXPECT_TRUE(begun->text.ends_with("Answerword, so")) << begun->text;
    const auto whole = render(*tokenizer, messages, {{"add_generation_prompt", false}});
    ASSERT_TRUE(whole) << whole.error().what;
    EXPECT_TRUE(whole->text.starts_with(begun->text)) << whole->text;
  }
}

TEST(Prefills, AssistantPrefill_OfReasoning_ContinuesWhereTemplateSupportsIt) {
  const auto sources = test::published_templates();
  if (sources.empty()) GTEST_SKIP() << "no templates; set HOLDFAST_CONFORMANCE_DIR";
  int thinking = 0;
  for (const auto& [name, source] : sources) {
    SCOPED_TRACE(name);
    const auto tokenizer = test::make_tokenizer(source, test::controls_of(source));
    const json messages = {
        kQuestion, {{"role", "assistant"}, {"content", ""}, {"reasoning_content", "Okay, I"}}};
    const auto begun = render(*tokenizer, messages, {{"continue_final_message", true}});
    const bool knows = chat::detects_reasoning(source);
    ASSERT_EQ(begun.has_value(), knows) << (begun ? begun->text : begun.error().what);
    if (!knows) continue;
    ++thinking;
    EXPECT_TRUE(begun->text.ends_with("<think>\nOkay, I")) << begun->text;
    const auto opened = render(*tokenizer, json::array({kQuestion}), json::object());
    ASSERT_TRUE(opened);
    EXPECT_TRUE(begun->text.starts_with(opened->text)) << begun->text;
  }
  EXPECT_GE(thinking, 3);
}

}  // namespace
}  // namespace holdfast::ingress::prefills_test
