// Goal: a chat prompt is byte for byte what Jinja2 renders from the model's own template, and fails
// where Jinja2 fails. Method: every case of conformance/chat.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "shared/jinja/chat_template.h"

namespace holdfast::text::chat_test {
namespace {

std::string read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream s;
  s << in.rdbuf();
  return s.str();
}

TEST(ChatConformance, ChatTemplate_OfEveryPublishedModel_RendersAsJinja2) {
  const char* dir = std::getenv("HOLDFAST_CONFORMANCE_DIR");
  const std::filesystem::path root =
      std::filesystem::path(dir != nullptr ? dir : HOLDFAST_SOURCE_DIR "/../shared/conformance") /
      "chat";
  if (!std::filesystem::exists(root)) GTEST_SKIP() << root << " is not there";
  int cases = 0;
  for (const auto& entry : std::filesystem::directory_iterator(root)) {
    if (entry.path().extension() != ".json") continue;
    const auto spec = nlohmann::ordered_json::parse(read_file(entry.path()));
    std::filesystem::path source = entry.path();
    source.replace_extension(".jinja");
    const auto tmpl = ChatTemplate::parse(read_file(source));
    ASSERT_TRUE(tmpl.has_value()) << source << ": " << tmpl.error().what;
    for (const auto& c : spec.at("cases")) {
      SCOPED_TRACE(source.filename().string() + " case " + std::to_string(cases++));
      ChatInput input;
      input.messages_json = c.at("messages").dump();
      if (c.contains("tools") && !c.at("tools").is_null()) input.tools_json = c.at("tools").dump();
      input.add_generation_prompt = c.value("add_generation_prompt", false);
      input.bos_token = spec.at("bos_token").get<std::string>();
      input.eos_token = spec.at("eos_token").get<std::string>();
      input.date = spec.at("date").get<std::string>();
      const auto text = tmpl.value()->render(input);
      if (c.contains("error")) {
        EXPECT_FALSE(text.has_value()) << "expected: " << c.at("error");
      } else {
        ASSERT_TRUE(text.has_value()) << text.error().what;
        EXPECT_EQ(text.value(), c.at("expected").get<std::string>());
      }
    }
  }
  EXPECT_GT(cases, 0);
}

}  // namespace
}  // namespace holdfast::text::chat_test
