#include "bench/neighbours_run/bodies.h"

#include <nlohmann/json.hpp>

namespace holdfast::bench {
namespace {

using nlohmann::json;

json with_arguments(const std::string& arguments) {
  const json call = {
      {"id", "a"}, {"type", "function"}, {"function", {{"name", "f"}, {"arguments", arguments}}}};
  return {{"model", "demo"},
          {"max_tokens", 2},
          {"messages",
           {{{"role", "assistant"}, {"content", nullptr}, {"tool_calls", json::array({call})}}}}};
}

/// n tools of one name, and that name as often among the allowed ones.
json with_tools(int n) {
  json tools = json::array();
  for (int i = 0; i < n; ++i) {
    tools.push_back({{"type", "function"}, {"function", {{"name", "a"}}}});
  }
  const json allowed = {{"mode", "required"}, {"tools", tools}};
  return {{"model", "demo"},
          {"messages", {{{"role", "user"}, {"content", "a"}}}},
          {"tools", tools},
          {"tool_choice", {{"type", "allowed_tools"}, {"allowed_tools", allowed}}}};
}

std::string with_numbers(int n) {
  std::string numbers = "1e14";
  for (int i = 1; i < n; ++i) numbers += ",1e14";
  return R"({"model":"demo","messages":[{"role":"user","content":"a"}],"tool_choice":"required",)"
         R"("tools":[{"type":"function","function":{"name":"f","parameters":{"enum":[)" +
         numbers + "]}}}]}";
}

}  // namespace

std::vector<Poison> poisons() {
  constexpr std::size_t kDepth = 150'000;
  json large = with_arguments("{}");
  large["messages"][0]["content"] = std::string(5'000'000, 'x');
  const std::string nested = std::string(kDepth, '[') + std::string(kDepth, ']');
  return {{"deep", with_arguments("{\"x\":" + nested + "}").dump()},
          {"tools", with_tools(8'000).dump()},
          {"numbers", with_numbers(200'000)},
          {"large", large.dump()}};
}

std::string batch_line(const std::string& id, const std::string& body) {
  return R"({"custom_id":")" + id + R"(","method":"POST","url":"/v1/chat/completions","body":)" +
         body + "}\n";
}

std::string good_body() {
  return R"({"model":"demo","messages":[{"role":"user","content":"To be"}],"max_tokens":4,)"
         R"("ignore_eos":true,"seed":1})";
}

}  // namespace holdfast::bench
