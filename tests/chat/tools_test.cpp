// Goal: tools as clients send them become functions that templates know; what is none is left out
// and named. Method: a table of forms.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "shared/chat/tools.h"

namespace holdfast::chat::tools_test {
namespace {

using json = nlohmann::ordered_json;

struct Case {
  const char* sent;
  const char* made;
  std::vector<std::string> left_out;
};

TEST(Tools, ToolDefinitions_WithAnyClientForm_BecomeFunctions) {
  const Case cases[] = {
      {"[]", "[]", {}},
      {R"([{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}])",
       R"([{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}])",
       {}},
      {R"([{"function":{"name":"f","parameters":null,"description":null}}])",
       R"([{"type":"function","function":{"name":"f"}}])",
       {}},
      {R"([{"name":"f","parameters":{}}])",
       R"([{"type":"function","function":{"name":"f","parameters":{}}}])",
       {}},
      {R"([{"type":"function","name":"f","strict":true,"parameters":{}}])",
       R"([{"type":"function","function":{"name":"f","strict":true,"parameters":{}}}])",
       {}},
      {R"([{"type":"custom","name":"f","input_schema":{"type":"object"}}])",
       R"([{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}])",
       {}},
      {R"([{"type":"namespace","name":"n","tools":[{"type":"function","name":"f"},
            {"type":"web_search"}]}])",
       R"([{"type":"function","function":{"name":"f"}}])",
       {"tools[0].tools[1]:web_search"}},
      {R"([{"name":"f"},{"type":"namespace","name":"n","tools":[{"name":"f"},{"name":"g"}]}])",
       R"([{"type":"function","function":{"name":"f"}},
           {"type":"function","function":{"name":"g"}}])",
       {"tools[1].tools[0]:f"}},
      {R"([{"type":"web_search"},{"type":"custom","custom":{"name":"c"}},{"name":"f"},
            {"type":"computer_20250124","name":"computer"},{"type":"mcp","server_label":"x"}])",
       R"([{"type":"function","function":{"name":"f"}}])",
       {"tools[0]:web_search", "tools[1]:custom", "tools[3]:computer_20250124", "tools[4]:mcp"}},
  };
  for (const Case& c : cases) {
    json tools = json::parse(c.sent);
    std::vector<std::string> left_out;
    const auto fault = normalize_tools(tools, &left_out);
    EXPECT_FALSE(fault) << c.sent << ": " << fault->where << " " << fault->what;
    EXPECT_EQ(tools, json::parse(c.made)) << c.sent;
    EXPECT_EQ(left_out, c.left_out) << c.sent;
  }
}

TEST(Tools, ToolDefinitions_WhenInvalid_NameTheFaultyPath) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"name":"f"})", "tools"},
      {R"(["f"])", "tools[0]"},
      {R"([{"type":"function","function":"f"}])", "tools[0].function"},
      {R"([{"type":"function","function":{}}])", "tools[0].function.name"},
      {R"([{"type":"function","function":{"name":""}}])", "tools[0].function.name"},
      {R"([{"name":"f","parameters":[]}])", "tools[0].parameters"},
      {R"([{"name":"f"},{"type":"function","function":{"name":"f"}}])", "tools[1].function.name"},
  };
  for (const auto& [sent, where] : cases) {
    json tools = json::parse(sent);
    const auto fault = normalize_tools(tools, nullptr);
    ASSERT_TRUE(fault) << sent;
    EXPECT_EQ(fault->where, where) << sent << " " << fault->what;
  }
}

}  // namespace
}  // namespace holdfast::chat::tools_test
