// Goal: the CLI's output is reliable: exit codes follow the typed errors, tables are aligned
// whatever the alphabet, and JSON of any shape is shown without a crash. Method: the functions
// themselves, no process.

#include "ops/terminal/output.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "ops/cli/verbs.h"
#include "ops/serve/state_dir.h"
#include "ops/terminal/render.h"
#include "tests/process/test_server.h"

namespace holdfast::cli::output_test {
namespace {

TEST(ExitCode, ExitCode_FollowsTheTypedError) {
  EXPECT_EQ(exit_code(Errc::kUsage), 2);
  EXPECT_EQ(exit_code(Errc::kNotFound), 3);
  EXPECT_EQ(exit_code(Errc::kModelNotFound), 3);
  for (const Errc refusal :
       {Errc::kQueueFull, Errc::kContextExceeded, Errc::kMemoryExhausted, Errc::kRateLimited,
        Errc::kDeadlineUnreachable, Errc::kModelFailed, Errc::kPlacementUnsupported,
        Errc::kNoChatTemplate, Errc::kQuarantined, Errc::kInvalidRequest, Errc::kUnauthorized,
        Errc::kDraining, Errc::kStorageFull, Errc::kConflict, Errc::kIdempotencyMismatch}) {
    EXPECT_EQ(exit_code(refusal), 4) << errc_name(refusal);
  }
  EXPECT_EQ(exit_code(Errc::kUnreachable), 69);
  for (const Errc other : {Errc::kIo, Errc::kFileInvalid, Errc::kCorrupt, Errc::kInternal}) {
    EXPECT_EQ(exit_code(other), 1) << errc_name(other);
  }
}

TEST(Table, Table_AlignsTextLeftAndNumbersRight) {
  Table table({"NAME", "N", "STATE"});
  table.add({"a", "5", "ready"});
  table.add({"Grüße", "1000", "failed"});
  EXPECT_EQ(table.str(false),
            "NAME      N  STATE\n"
            "a         5  ready\n"
            "Grüße  1000  failed\n");
  EXPECT_NE(table.str(true).find("\033[32mready\033[0m"), std::string::npos);
}

TEST(Render, RenderHuman_WithJsonOfAnyShape_PrintsIt) {
  const auto show = [](const char* text) {
    RenderOptions options;
    options.when_empty = "nothing";
    return render_human(nlohmann::json::parse(text), options);
  };
  EXPECT_EQ(show("{\"models\": []}"), "nothing\n");
  EXPECT_EQ(show("null"), "");
  EXPECT_EQ(show("{\"models\": [{\"name\": \"a\", \"kv_bytes\": 2048}]}"),
            "NAME  KV BYTES\na     2.0 KiB\n");
  EXPECT_EQ(show("{\"b\": true, \"id\": \"x\", \"deep\": {\"k\": [1, 2]}}"),
            "id  x\nb   yes\ndeep:\n  k  [1,2]\n");
  EXPECT_EQ(show("{\"created_ms\": 0, \"wait_ms\": 7}"), "created  -\nwait ms  7\n");
  EXPECT_EQ(show("[1, {\"a\": 2}]"), "[1,{\"a\":2}]\n");
}

TEST(VerbTable, VerbTable_IsConsistent) {
  for (const Verb& verb : verb_table()) {
    EXPECT_NE(verb.run, nullptr) << verb.path;
    EXPECT_NE(std::string(verb.help), "") << verb.path;
    const std::string path = verb.path;
    if (path.find(' ') != std::string::npos) {
      EXPECT_NE(std::string(group_help(path.substr(0, path.find(' ')))), "") << path;
    }
  }
  EXPECT_EQ(argument_key("-p,--prompt-tokens"), "prompt-tokens");
  EXPECT_EQ(argument_key("NAME"), "NAME");
}

TEST(LastLogLine, LastLogLine_WithAJsonOrPlainLine_ReturnsTheReason) {
  const process::TempDir dir;
  const std::string old = "an old line\n";
  const std::string log =
      dir.write("daemon.log", old +
                                  "{\"time\":\"t\",\"level\":\"error\",\"program\":"
                                  "\"holdfastd\",\"event\":\"no start\",\"what\":"
                                  "\"pid 7 has it\"}\n");
  EXPECT_EQ(last_log_line(log, static_cast<std::int64_t>(old.size())),
            "no start; what=pid 7 has it");
  EXPECT_EQ(last_log_line(dir.write("plain", "holdfastd: why: so\n"), 0), "why: so");
  EXPECT_EQ(last_log_line(log, 1'000'000), "");
  EXPECT_EQ(last_log_line(dir.path() + "/absent", 0), "");
}

}  // namespace
}  // namespace holdfast::cli::output_test
