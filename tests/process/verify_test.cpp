// Goal: `models verify` tells when a model is not what was registered: its file, its memory, or its
// answer; and it works during running work. Method: real processes and the real engine on a small
// model; the file is changed, and the stored answer is, as if a worker had computed something else.
#include <gtest/gtest.h>
#include <sqlite3.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/process/test_server.h"

namespace holdfast::process::verify_test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

json part(const json& document, const std::string& what) {
  for (const json& check : document.at("checks")) {
    if (check.at("what") == what) return check;
  }
  return nullptr;
}

TEST(Verify, ModelsVerify_WhenFileMemoryOrAnswerDiffers_ReportsIt) {
  const TempDir dir;
  const std::string file = dir.path() + "/m.gguf";
  fs::copy_file(demo_model(), file);
  TestServer server(dir.path() + "/state");
  ASSERT_TRUE(server.start({"--model", "m=" + file})) << server.errors();
  const auto verify = [&](int code) {
    const Ended ended = server.cli({"--json", "models", "verify", "m"});
    EXPECT_EQ(ended.code, code) << ended.out << ended.err;
    return json::parse(ended.out, nullptr, false);
  };
  json document = verify(0);
  EXPECT_NE(part(document, "golden answer")["found"].get<std::string>().find("stored"),
            std::string::npos)
      << document;
  EXPECT_TRUE(part(document, "memory")["ok"].get<bool>());
  EXPECT_TRUE(document["file"]["same_envelope"].get<bool>()) << document;
  // During running work, and after everything was killed: the same result.
  const auto client = server.client();
  wire::Submit submit = make_submit("one two three", 200, 3);
  submit.model = "m";
  ASSERT_TRUE(
      std::holds_alternative<wire::Accepted>(client->submit(client::Principal::local(), submit)));
  document = verify(0);
  EXPECT_NE(part(document, "golden answer")["found"].get<std::string>().find("the same"),
            std::string::npos)
      << document;
  ASSERT_EQ(server.stop(), 0);

  // The stored answer is replaced by another one: that of a sound machine, say.
  sqlite3* db = nullptr;
  ASSERT_EQ(sqlite3_open((server.state() + "/control.db").c_str(), &db), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(db,
                         "UPDATE flags SET value = replace(value, ' ', ' 1') WHERE name LIKE "
                         "'golden/%'",
                         nullptr, nullptr, nullptr),
            SQLITE_OK);
  EXPECT_EQ(sqlite3_changes(db), 1);
  sqlite3_close(db);
  ASSERT_TRUE(server.start({})) << server.errors();
  document = verify(1);
  const std::string differs = part(document, "golden answer")["found"];
  EXPECT_NE(differs.find("token 1 is "), std::string::npos) << differs;
  EXPECT_NE(differs.find("answers otherwise"), std::string::npos) << differs;

  // The same bytes written again, then other bytes, then none.
  fs::last_write_time(file, fs::last_write_time(file) + std::chrono::seconds(3));
  document = verify(1);
  EXPECT_NE(part(document, "file")["found"].get<std::string>().find("written again"),
            std::string::npos)
      << document;
  std::fstream(file, std::ios::in | std::ios::out | std::ios::binary).seekp(-1, std::ios::end)
      << 'x';
  document = verify(1);
  EXPECT_NE(part(document, "file")["found"].get<std::string>().find("another content"),
            std::string::npos)
      << document;
  fs::remove(file);
  EXPECT_EQ(server.cli({"models", "verify", "m"}).code, 1);
  EXPECT_EQ(server.cli({"models", "verify", "nobody"}).code, 3);
  EXPECT_EQ(server.stop(), 0);
  EXPECT_EQ(server.cli({"models", "verify", "m"}).code, 69);
}

}  // namespace
}  // namespace holdfast::process::verify_test
