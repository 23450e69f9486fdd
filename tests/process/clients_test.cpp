// Goal: programs written for the client libraries that people use work unchanged against this
// server, and those libraries say what the server said.
// Method: `holdfast serve` with the demo model, a chat template and a key; the suites of
// tests/http/clients run in Node with the libraries that ops/test installs.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/process/http_stream.h"
#include "tests/process/model_hub.h"
#include "tests/process/test_server.h"

namespace holdfast::process::clients_test {
namespace {

namespace fs = std::filesystem;

constexpr const char* kTemplate =
    "{%- for m in messages %}{{ m.role }}: {{ m.content }}{% if m.tool_calls %}"
    "{{ m.tool_calls | tojson }}{% endif %}\n{% endfor %}"
    "{%- if tools %}{{ tools[0].function.name }} <tool_call>{...}</tool_call>{% endif %}";

class Clients : public testing::TestWithParam<const char*> {
 protected:
  /// The reason why the suites cannot run here; empty if they can.
  static std::string missing() {
    if (run_program({"/bin/sh", "-c", "command -v node"}).code != 0) return "no node on PATH";
    if (read_file(installed() + "/package-lock.json") !=
        read_file(sources() + "/package-lock.json")) {
      return "the client libraries are not in " + installed() +
             " as tests/http/clients/package-lock.json names them: ops/test installs them";
    }
    return "";
  }
  static std::string sources() { return std::string(HOLDFAST_SOURCE_DIR) + "/tests/http/clients"; }
  static std::string installed() { return std::string(HOLDFAST_BUILD_DIR) + "/clients"; }

  const TempDir dir;
  TestServer server{dir.path() + "/state"};
};

/// The lines of a TAP report that name a case or count cases.
std::string cases_of(const std::string& report) {
  std::string out;
  std::istringstream lines(report);
  for (std::string line; std::getline(lines, line);) {
    const bool printed = line.starts_with("ok ") || line.starts_with("not ok ") ||
                         line.starts_with("# pass ") || line.starts_with("# fail ");
    if (printed) out += line + "\n";
  }
  return out;
}

TEST_P(Clients, ClientLibrary_AgainstTheServer_PassesItsSuite) {
  const std::string reason = missing();
  if (!reason.empty()) GTEST_SKIP() << reason;
  ASSERT_EQ(run_program({"holdfast", "convert", demo_model(), dir.path() + "/model"}).code, 0);
  dir.write("model/chat_template.jinja", kTemplate);
  ASSERT_TRUE(server.start(
      {"--model", "m=" + dir.path() + "/model", "--threads", "1", "--config", "models.dwell_ms=0"}))
      << server.errors();
  // One of its cases waits for a request whose client has gone. The others could lose one to a host
  // that stalls the gateway between its SUBMIT and its ATTACH.
  if (std::string_view(GetParam()) == "openai") {
    ASSERT_EQ(server.cli({"config", "set", "requests.disconnect_grace_ms=600"}).code, 0);
  }
  const Ended made = server.cli({"keys", "create", "clients", "--json"});
  ASSERT_EQ(made.code, 0) << made.err;
  const std::string key = nlohmann::json::parse(made.out)["key"];
  const Ended operators = server.cli({"keys", "create", "ops", "--role", "operator", "--json"});
  ASSERT_EQ(operators.code, 0) << operators.err;
  const std::string operator_key = nlohmann::json::parse(operators.out)["key"];
  ModelHub hub;
  hub.put("org/demo", "demo-Q8_0.gguf", read_file(demo_model()));
  // The gateway reads keys once a second, and is open until it has read the first.
  for (int i = 0; i < 200; ++i) {
    if (http_exchange(server.url(), http_get_text("/v1/models")).status == 401) break;
    usleep(50'000);
  }

  // Node looks for libraries next to the file that imports them.
  const std::string suites = dir.path() + "/suites";
  fs::copy(sources(), suites);
  fs::create_directory_symlink(installed() + "/node_modules", suites + "/node_modules");
  const Ended result =
      run_program({"/usr/bin/env", "HOLDFAST_URL=" + server.url(), "HOLDFAST_API_KEY=" + key,
                   "HOLDFAST_OPERATOR_KEY=" + operator_key, "HOLDFAST_TEST_HUB=" + hub.host(),
                   "node", "--test-reporter=tap", suites + "/" + GetParam() + ".mjs"});
  const std::string cases = cases_of(result.out);
  std::printf("%s", cases.c_str());
  EXPECT_EQ(result.code, 0) << result.out << result.err;
  EXPECT_NE(cases.find("\n# fail 0\n"), std::string::npos) << result.out;
  EXPECT_EQ(cases.find("\n# pass 0\n"), std::string::npos) << "it had no cases";
  EXPECT_EQ(server.stop(), 0);
}

INSTANTIATE_TEST_SUITE_P(Npm, Clients,
                         testing::Values("openai", "responses", "anthropic", "ai", "ollama",
                                         "ollama_users"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace holdfast::process::clients_test
