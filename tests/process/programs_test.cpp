// Goal: requests of current programs are answered, each stream ends as its dialect requires, and
// the table in docs/use/programs.md is true: what each calls, and which fields the server names as
// ignored. Method: the requests that tests/programs/run recorded, sent again to `holdfast serve`
// with a fake engine that always gives the same answer; versions are those of
// tests/programs/package.json.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>

#include "tests/process/http_stream.h"
#include "tests/process/test_server.h"

namespace holdfast::process::programs_test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

const std::string kPrograms = HOLDFAST_SOURCE_DIR "/tests/programs";
const std::string kTable = HOLDFAST_SOURCE_DIR "/docs/use/programs.md";

/// One line of the table.
struct Row {
  std::string packages;  // "`@openai/codex` 0.171.0"
  std::set<std::string> calls;
  std::set<std::string> ignored;
};

/// The texts between backquotes.
std::set<std::string> quoted(const std::string& cell) {
  static const std::regex kQuoted("`([^`]+)`");
  std::set<std::string> out;
  for (std::sregex_iterator it(cell.begin(), cell.end(), kQuoted), end; it != end; ++it) {
    out.insert((*it)[1]);
  }
  return out;
}

/// The rows | `NAME` … | packages | calls | ignored |, by NAME.
std::map<std::string, Row> read_table() {
  static const std::regex kLine(R"(\| `([a-z]+)`[^|]*\|([^|]*)\|([^|]*)\|([^|]*)\|)");
  std::map<std::string, Row> rows;
  std::istringstream lines(read_file(kTable));
  std::smatch found;
  for (std::string line; std::getline(lines, line);) {
    if (!std::regex_match(line, found, kLine)) continue;
    rows[found[1]] = {found[2], quoted(found[3]), quoted(found[4])};
  }
  return rows;
}

/// The requests of a program, in order.
std::vector<json> read_recorded(const std::string& program) {
  std::vector<json> requests;
  std::ifstream file(kPrograms + "/recorded/" + program + ".jsonl");
  for (std::string line; std::getline(file, line);) requests.push_back(json::parse(line));
  return requests;
}

std::set<std::string> recorded_programs() {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(kPrograms + "/recorded")) {
    names.insert(entry.path().stem());
  }
  return names;
}

/// The reason why these are no server-sent events; empty if they are. `last`: the name and the data
/// of the last one.
std::string check_events(const std::string& body, std::pair<std::string, std::string>* last) {
  std::istringstream lines(body);
  std::pair<std::string, std::string> event;
  if (!body.ends_with("\n\n")) return "it ends inside of an event";
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("event: ")) {
      event.first = line.substr(7);
    } else if (line.starts_with("data: ")) {
      event.second = line.substr(6);
      if (event.second != "[DONE]" && !json::accept(event.second)) return "no JSON: " + line;
    } else if (line.empty() && !event.second.empty()) {
      *last = std::exchange(event, {});
    } else if (!line.empty() && !line.starts_with("id: ") && !line.starts_with("retry: ") &&
               !line.starts_with(":")) {
      return "no line of an event: " + line;
    }
  }
  return "";
}

/// The reason why the answer breaks the dialect of `path`; empty if it does not.
std::string check_answer(const std::string& path, bool stream, const HttpAnswer& answer) {
  if (answer.status != 200 || !answer.complete) {
    return std::to_string(answer.status) + " " + answer.body;
  }
  if (!stream) return json::accept(answer.body) ? "" : "no JSON: " + answer.body;
  std::pair<std::string, std::string> last;
  const std::string fault = check_events(answer.body, &last);
  if (!fault.empty()) return fault;
  if (path.starts_with("/v1/responses")) {
    return last.first == "response.completed" ? "" : "its last event is " + last.first;
  }
  if (path.starts_with("/v1/messages")) {
    return last.first == "message_stop" ? "" : "its last event is " + last.first;
  }
  if (answer.body.find(R"("finish_reason":"stop")") == std::string::npos) return "no finish_reason";
  return last.second == "[DONE]" ? "" : "it ends with " + last.second;
}

class Programs : public testing::Test {
 protected:
  void SetUp() override {
    const std::string folder = dir.path() + "/model";
    ASSERT_EQ(run_program({"holdfast", "convert", demo_model(), folder}).code, 0);
    json config = json::parse(read_file(folder + "/config.json"));
    config["max_position_embeddings"] = 131072;
    dir.write("model/config.json", config.dump());
    dir.write("model/chat_template.jinja", read_file(kPrograms + "/chat_template.jinja"));
    ASSERT_TRUE(server.start({"--model", "m=" + folder, "--context", "131072", "--engine", "fake",
                              "--engine-options", R"({"script": [{"say": "Yes."}]})"}))
        << server.errors();
  }

  /// Sends a recorded request again. `response` is the id of the last response of the Responses
  /// API: recorded ids are another server's.
  HttpAnswer send(json request, std::string* response) const {
    std::vector<std::pair<std::string, std::string>> headers;
    for (const auto& [name, value] : request["headers"].items()) {
      if (name != "content-type") headers.emplace_back(name, value);
    }
    const std::string path = request["path"];
    if (request["method"] == "GET")
      return http_exchange(server.url(), http_get_text(path, headers));
    EXPECT_EQ(request["method"], "POST") << path;
    json& body = request["body"];
    if (body.value("previous_response_id", json()).is_string()) {
      body["previous_response_id"] = *response;
    }
    const HttpAnswer answer =
        http_exchange(server.url(), http_post_text(path, body.dump(), headers));
    std::smatch id;
    static const std::regex kId(R"x("id":"(resp_[^"]+)")x");
    if (std::regex_search(answer.body, id, kId)) *response = id[1];
    return answer;
  }

  const TempDir dir;
  TestServer server{dir.path() + "/state"};
};

TEST_F(Programs, RecordedRequests_OfEachProgram_AreAnsweredAsTheTableSays) {
  const std::map<std::string, Row> table = read_table();
  for (const std::string& program : recorded_programs()) {
    SCOPED_TRACE(program);
    ASSERT_TRUE(table.contains(program)) << kTable << " has no line of it";
    std::set<std::string> calls;
    std::set<std::string> ignored;
    std::string response;
    for (const json& request : read_recorded(program)) {
      const std::string path = request["path"];
      const bool stream = request.contains("body") && request["body"].value("stream", false);
      const HttpAnswer answer = send(request, &response);
      EXPECT_EQ(check_answer(path, stream, answer), "") << request.dump().substr(0, 300);
      calls.insert(request["method"].get<std::string>() + " " + path.substr(0, path.find('?')));
      const auto named = answer.headers.find("x-holdfast-ignored");
      if (named == answer.headers.end()) continue;
      std::istringstream names(named->second);
      for (std::string name; std::getline(names >> std::ws, name, ',');) ignored.insert(name);
    }
    EXPECT_EQ(calls, table.at(program).calls);
    EXPECT_EQ(ignored, table.at(program).ignored);
  }
  EXPECT_EQ(server.stop(), 0) << server.errors();
}

TEST(ProgramsTable, ProgramsTable_ListsEachProgramAtItsVersion) {
  const json packages = json::parse(read_file(kPrograms + "/package.json"))["dependencies"];
  std::set<std::string> names;
  for (const auto& [name, row] : read_table()) {
    names.insert(name);
    const std::set<std::string> told = quoted(row.packages);
    EXPECT_FALSE(told.empty()) << name;
    for (const std::string& package : told) {
      ASSERT_TRUE(packages.contains(package)) << package;
      const std::string line = "`" + package + "` " + packages[package].get<std::string>();
      EXPECT_NE((row.packages + " ").find(line), std::string::npos) << line;
    }
  }
  EXPECT_EQ(names, recorded_programs());
}

}  // namespace
}  // namespace holdfast::process::programs_test
