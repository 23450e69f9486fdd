// Goal: tokens of reasoning are counted between the marks, however the text is cut into tokens, and
// not beyond. Method: texts of each family, cut into tokens at every place.
#include "shared/chat/thinking.h"

#include <gtest/gtest.h>

namespace holdfast::chat::thinking_test {
namespace {

ThinkingMeter fed(const ThinkingMarks& marks, bool open, const std::vector<std::string>& tokens) {
  ThinkingMeter meter(marks, open);
  for (const std::string& token : tokens) meter.feed(token);
  return meter;
}

ThinkingMarks marks_of(const char* output) {
  return *thinking_marks(read_output(output));
}

TEST(Thinking, ThinkingMarks_WithEachModelFamily_AreItsTags) {
  EXPECT_FALSE(thinking_marks(read_output("none")));
  EXPECT_FALSE(thinking_marks(read_output("llama3")));
  EXPECT_EQ(marks_of("hermes+think").close, "</think>");
  EXPECT_EQ(marks_of("gemma").close, "<channel|>");
  const ThinkingMarks harmony = marks_of("harmony");
  EXPECT_TRUE(harmony.force.starts_with(harmony.close));
}

TEST(Thinking, ThinkingMeter_WithTextOutsideTheMarks_CountsOnlyInside) {
  const ThinkingMarks marks = marks_of("hermes+think");
  const auto whole = fed(marks, false, {"\n", "<think>", "a", "b", "\n", "</think>", "c"});
  EXPECT_EQ(whole.tokens(), 3);
  EXPECT_TRUE(whole.over());
  const auto open = fed(marks, true, {"a", "b", "</think>", "c", "<think>", "d"});
  EXPECT_EQ(open.tokens(), 2);
  EXPECT_TRUE(open.over()) << "it begins only once";
  EXPECT_EQ(fed(marks, false, {"a", "<think>", "b"}).tokens(), 0) << "not at the start";
  EXPECT_TRUE(fed(marks, true, {"a", "b"}).inside());
  EXPECT_EQ(fed(marks, true, {"a", "b"}).tokens(), 2);
}

TEST(Thinking, ThinkingMeter_WhenMarksAreSplitAcrossTokens_RecognizesThem) {
  const ThinkingMarks marks = marks_of("hermes+think");
  const std::string text = "<think>ab</think>c";
  for (std::size_t i = 1; i < text.size(); ++i) {
    for (std::size_t k = i + 1; k < text.size(); ++k) {
      const auto meter =
          fed(marks, false, {text.substr(0, i), text.substr(i, k - i), text.substr(k)});
      EXPECT_TRUE(meter.over()) << i << " " << k;
      EXPECT_LE(meter.tokens(), 1) << i << " " << k;
    }
  }
  // Text that only looks like the mark is a token as any other.
  EXPECT_EQ(fed(marks, true, {"a", "<", "b", "</", "think", "er", "</", "think", ">"}).tokens(), 6);
}

TEST(Thinking, ThinkingMeter_WithRepeatedHarmonyChannels_CountsAll) {
  const ThinkingMarks marks = marks_of("harmony");
  const auto meter =
      fed(marks, false,
          {"<|channel|>", "analysis", "<|message|>", "a", "b", "<|end|>", "<|start|>", "assistant",
           "<|channel|>", "commentary", "<|message|>", "x", "<|end|>", "<|start|>", "assistant",
           "<|channel|>", "analysis", "<|message|>", "c"});
  EXPECT_EQ(meter.tokens(), 3);
  EXPECT_TRUE(meter.inside());
}

}  // namespace
}  // namespace holdfast::chat::thinking_test
