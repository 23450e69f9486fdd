// Goal: what another server was started with is told as ours, and nothing that was given is passed
// over in silence. Method: the translation itself on command lines and variables as people write
// them, each row of its table, and the program for its exit codes.
#include "ops/migrate/migrate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "control/core/config.h"
#include "ops/cli/verbs.h"
#include "tests/process/test_server.h"

namespace holdfast::process::migrate_test {
namespace {

using migrate::FlagRow;
using migrate::Migration;
using migrate::Target;
using nlohmann::json;

std::vector<std::string> split(std::string_view text) {
  std::istringstream words{std::string(text)};
  return {std::istream_iterator<std::string>(words), {}};
}

Migration translate(const std::string& server, const std::string& line,
                    const migrate::Environment& variables = {}) {
  return migrate::migrate(*migrate::find_server(server), split(line), variables);
}

/// The commands, separated by "; ".
std::string commands(const Migration& migration) {
  std::string text;
  for (const std::string& command : migration.commands) {
    text += (text.empty() ? "" : "; ") + command;
  }
  return text;
}

bool has(const std::vector<Migration::Remark>& remarks, const std::string& given) {
  return std::any_of(remarks.begin(), remarks.end(),
                     [&](const Migration::Remark& remark) { return remark.given == given; });
}

TEST(Migrate, Migrate_FromLlamaServer_IsAServeLine) {
  EXPECT_EQ(commands(translate("llama-server", "-m /m/Tiny-Q8_0.gguf")),
            "holdfast serve --model tiny-q8_0=/m/Tiny-Q8_0.gguf");
  EXPECT_EQ(commands(translate("llama-server",
                               "./llama-server --model a.gguf -a chat -c 4096 -t 8 -ngl 99 -ctk "
                               "q8_0 -ctv q8_0 --host 127.0.0.1 --port=9000")),
            "holdfast serve --http 127.0.0.1:9000 --model chat=a.gguf --context 4096 --device "
            "opencl:0 --kv-type int8 --threads 8");
  EXPECT_EQ(commands(translate("llama-server", "-m a.gguf -np 4 -c 4096 --host 0.0.0.0")),
            "holdfast serve --http '*:8080'; holdfast models add a a.gguf --context 4096 --slots 4 "
            "--load");
  const Migration all = translate("llama-server", "-m a.gguf -fa --no-mmap -c 0 -ngl 20");
  EXPECT_TRUE(all.unmapped.empty());
  EXPECT_EQ(commands(all), "holdfast serve --model a=a.gguf --device opencl:0+cpu");
  EXPECT_TRUE(has(all.remarks, "-fa"));
}

TEST(Migrate, Migrate_WithWhatHasNoCounterpart_NamesIt) {
  const Migration migration =
      translate("llama-server", "-m a.gguf --bogus 3 --lora l.gguf -ctk q4_0 -t many word --port");
  EXPECT_EQ(commands(migration), "holdfast serve --model a=a.gguf");
  ASSERT_EQ(migration.unmapped.size(), 6U);
  for (const char* given : {"--bogus", "--lora l.gguf", "-ctk q4_0", "-t many", "word", "--port"}) {
    EXPECT_TRUE(has(migration.unmapped, given)) << given;
  }
}

TEST(Migrate, Migrate_FromOllama_ReadsItsVariablesAndVerbs) {
  EXPECT_EQ(commands(translate("ollama", "ollama serve",
                               {{"OLLAMA_HOST", "http://localhost:9000/"},
                                {"OLLAMA_KEEP_ALIVE", "1h30m"},
                                {"OLLAMA_MAX_QUEUE", "64"},
                                {"OLLAMA_ORIGINS", "https://a.example,https://b.example"},
                                {"OLLAMA_CONTEXT_LENGTH", "8192"},
                                {"OLLAMA_FLASH_ATTENTION", "1"},
                                {"OLLAMA_DEBUG", "0"}})),
            "holdfast serve --http 127.0.0.1:9000 --context 8192 --cors-origin https://a.example "
            "--cors-origin https://b.example; holdfast config set models.idle_unload_s=5400 "
            "queue.max_requests=64");
  EXPECT_EQ(commands(translate("ollama", "", {{"OLLAMA_KEEP_ALIVE", "-1"}})),
            "holdfast serve --http 127.0.0.1:11434; holdfast config set models.idle_unload_s=0");
  EXPECT_EQ(commands(translate("ollama", "run llama3")), "holdfast chat llama3");
  EXPECT_EQ(commands(translate("ollama", "pull llama3")), "holdfast pull ollama://llama3");
  EXPECT_TRUE(has(translate("ollama", "", {{"OLLAMA_NEW", "1"}}).unmapped, "OLLAMA_NEW"));
  EXPECT_TRUE(has(translate("ollama", "", {{"OLLAMA_KEEP_ALIVE", "soon"}}).unmapped,
                  "OLLAMA_KEEP_ALIVE=soon"));
}

TEST(Migrate, Migrate_FromVllm_TakesEverySpelling) {
  const std::string expected =
      "holdfast serve --http '*:8000'; holdfast models add q ./qwen --context 4096 --slots 8 "
      "--load; holdfast config set models.memory_percent=85";
  for (const std::string start : {"vllm serve ./qwen", "serve ./qwen", "/usr/bin/vllm serve ./qwen",
                                  "python3 -m vllm.entrypoints.openai.api_server --model ./qwen"}) {
    const Migration migration =
        translate("vllm", start +
                              " --served_model_name q --max-model-len=4096 --max-num-seqs 8 "
                              "--gpu-memory-utilization 0.85");
    EXPECT_EQ(commands(migration), expected) << start;
    EXPECT_TRUE(migration.unmapped.empty());
  }
  EXPECT_TRUE(has(translate("vllm", "serve Qwen/Qwen3-8B").remarks, "Qwen/Qwen3-8B"));
}

TEST(Migrate, Migrate_WithASecret_DoesNotPrintIt) {
  for (const Migration& migration :
       {translate("llama-server", "--api-key hush"), translate("vllm", "--api-key=hush"),
        translate("vllm", "", {{"VLLM_API_KEY", "hush"}})}) {
    EXPECT_NE(commands(migration).find("holdfast keys create"), std::string::npos);
    for (const Migration::Remark& remark : migration.remarks) {
      EXPECT_EQ((remark.given + remark.why).find("hush"), std::string::npos) << remark.given;
    }
  }
}

TEST(Migrate, Migrate_WithOddWords_QuotesThemForAShell) {
  const Migration migration =
      migrate::migrate(*migrate::find_server("llama-server"), {"-m", "/m/it's a file.gguf"}, {});
  EXPECT_EQ(commands(migration), "holdfast serve --model 'it-s-a-file=/m/it'\\''s a file.gguf'");
}

bool is_flag_of(const char* verb, const std::string& flag) {
  const auto& arguments = cli::find_verb(verb)->arguments;
  return std::any_of(arguments.begin(), arguments.end(),
                     [&](const cli::Argument& argument) { return flag == argument.name; });
}

/// The fault of a row; empty if it has none.
std::string fault_of(const FlagRow& row) {
  const std::string ours(row.ours.substr(0, row.ours.find(' ')));
  const bool says = row.target == Target::kNoNeed || row.target == Target::kNothing;
  if (says && row.note.empty()) return "says nothing";
  const bool serve = row.target == Target::kServe || row.target == Target::kServeOnly;
  if (serve && !is_flag_of("serve", ours)) return "serve has no " + ours;
  if (row.target == Target::kAdd && !is_flag_of("models add", ours)) {
    return "models add has no " + ours;
  }
  if (row.target != Target::kSetting) return {};
  for (const core::Knob& knob : core::knobs()) {
    if (knob.name == row.ours) return {};
  }
  return "no knob " + ours;
}

TEST(MigrateTable, MigrateTable_InEachRow_NamesWhatIsThere) {
  for (const migrate::ServerTable& server : migrate::server_tables()) {
    std::set<std::string> names;
    for (const FlagRow& row : server.flags) {
      EXPECT_EQ(fault_of(row), "") << row.names;
      for (const std::string& name : split(row.names)) {
        EXPECT_TRUE(names.insert(name).second) << name << " is there twice";
      }
    }
    EXPECT_GE(names.size(), 20U) << server.name;
  }
}

TEST(MigrateVerb, MigrateVerb_WithAllMappedOrNot_SaysItByItsExitCode) {
  const auto run = [](std::vector<std::string> args) {
    args.insert(args.begin(), {"holdfast", "migrate", "from"});
    return run_program(args);
  };
  const Ended good = run({"llama-server", "--env", "LLAMA_ARG_PORT=9000", "--", "-m", "a.gguf"});
  EXPECT_EQ(good.code, 0) << good.out << good.err;
  EXPECT_EQ(good.out, "holdfast serve --http 127.0.0.1:9000 --model a=a.gguf\n");
  const Ended outranked =
      run({"llama-server", "--env", "LLAMA_ARG_PORT=9000", "--", "-m", "a.gguf", "--port", "9001"});
  EXPECT_NE(outranked.out.find(":9001"), std::string::npos) << outranked.out;
  const Ended some = run({"llama-server", "--json", "--", "-m", "a.gguf", "--bogus"});
  EXPECT_EQ(some.code, 1);
  const json document = json::parse(some.out);
  EXPECT_EQ(document["commands"][0], "holdfast serve --model a=a.gguf");
  EXPECT_EQ(document["unmapped"][0]["given"], "--bogus");
  const Ended near = run({"olama"});
  EXPECT_EQ(near.code, 2);
  EXPECT_NE(near.err.find("did you mean ollama?"), std::string::npos) << near.err;
  EXPECT_EQ(run({"vllm", "--env", "nonsense"}).code, 2);
}

}  // namespace
}  // namespace holdfast::process::migrate_test
