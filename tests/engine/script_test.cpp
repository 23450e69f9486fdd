// Goal: a fake engine with a script says its turns to the letter, through the tokenizer of its
// model; which turn depends on the prompt alone, and a sequence that is resumed anywhere goes on
// with the token that it would have had.
// Method: a byte-level tokenizer (the demo model's) and one of the SentencePiece kind, which puts a
// space in front of texts and has control tokens; ids are turned back into text.

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "shared/gguf/writer.h"
#include "worker/engine/fake_options.h"

namespace holdfast::engine::script_test {
namespace {

using nlohmann::json;
using Tokenizer = std::shared_ptr<const text::Tokenizer>;

const std::string kDemo = HOLDFAST_SOURCE_DIR "/ops/demo/holdfast-demo-Q8_0.gguf";

/// A vocabulary of the SentencePiece kind, as long as the test: the bytes, a space, a word and a
/// token with a name. No model: the engine reads its tokenizer alone.
class Synthetic {
 public:
  Synthetic() {
    add("<unk>", 2);
    add("<s>", 3);
    add("</s>", 3);
    for (int byte = 0; byte < 256; ++byte) {
      char name[8];
      std::snprintf(name, sizeof name, "<0x%02X>", static_cast<unsigned>(byte));
      add(name, 6);
    }
    for (const char* token_text : {"\u2581", "a", "\u2581a"}) add(token_text, 1);
    add("<tool_call>", 4);
    gguf::Writer writer;
    writer.set_string("tokenizer.ggml.model", "llama");
    writer.set_strings("tokenizer.ggml.tokens", texts_);
    writer.set_floats("tokenizer.ggml.scores", std::vector<float>(texts_.size(), 0));
    writer.set_i32s("tokenizer.ggml.token_type", types_);
    writer.set_u32("tokenizer.ggml.bos_token_id", 1);
    writer.set_u32("tokenizer.ggml.eos_token_id", 2);
    EXPECT_TRUE(writer.write(path, {}));
  }
  ~Synthetic() { std::filesystem::remove(path); }
  Synthetic(const Synthetic&) = delete;
  Synthetic& operator=(const Synthetic&) = delete;

  const std::string path = (std::filesystem::temp_directory_path() /
                            ("holdfast-script-" + std::to_string(::getpid()) + ".gguf"))
                               .string();

 private:
  void add(const std::string& text, std::int32_t type) {
    texts_.push_back(text);
    types_.push_back(type);
  }
  std::vector<std::string> texts_;
  std::vector<std::int32_t> types_;
};

Tokenizer tokenizer_of(const std::string& path) {
  return text::Tokenizer::load(**gguf::File::open(path)).value();
}

std::unique_ptr<Engine> open(const json& script, const std::string& model) {
  auto engine = open_fake_engine(json{{"script", script}}.dump(), {}, {}, model);
  EXPECT_TRUE(engine) << (engine ? "" : engine.error().what);
  return std::move(engine).value();
}

SequenceSpec spec_of(const text::Tokenizer& tokenizer, const std::string& prompt) {
  SequenceSpec s;
  s.key = 1;
  s.prompt = tokenizer.encode(prompt, {}).value();
  s.max_tokens = 500;
  return s;
}

struct RunResult {
  std::vector<TokenId> ids;
  wire::FinishReason finish = wire::FinishReason::kNone;
};
RunResult run(Engine& engine, const SequenceSpec& spec) {
  RunResult result;
  const auto added = engine.add(spec);
  EXPECT_TRUE(added) << (added ? "" : added.error().what);
  while (added && result.finish == wire::FinishReason::kNone) {
    for (const Produced& p : engine.step()) {
      result.ids.insert(result.ids.end(), p.ids.begin(), p.ids.end());
      result.finish = p.finish;
    }
  }
  return result;
}

std::string say(Engine& engine, const text::Tokenizer& tokenizer, const std::string& prompt) {
  const RunResult result = run(engine, spec_of(tokenizer, prompt));
  EXPECT_EQ(result.finish, wire::FinishReason::kStop);
  EXPECT_TRUE(!result.ids.empty() && tokenizer.is_end(result.ids.back()));
  return text::decode(tokenizer,
                      {result.ids.begin(), result.ids.end() - (result.ids.empty() ? 0 : 1)}, true,
                      false);
}

TEST(FakeScript, ScriptedTurn_WithAnyText_IsGeneratedVerbatim) {
  const std::string call =
      "<think>\nA file.\n</think>\n\n<tool_call>\n{\"name\": \"write\", "
      "\"arguments\": {\"path\": \"/tmp/ä b\", \"n\": [1, 2]}}\n</tool_call>";
  const Synthetic synthetic;
  for (const std::string& model : {kDemo, synthetic.path}) {
    const Tokenizer tokenizer = tokenizer_of(model);
    for (const std::string& text :
         {call, std::string("One"), std::string("  two\n"), std::string("\n\n"), std::string()}) {
      auto engine = open({{{"say", text}}}, model);
      EXPECT_EQ(say(*engine, *tokenizer, "Write a file"), text) << model;
    }
  }
}

TEST(FakeScript, ScriptedTurn_WhenSeveralMatch_IsTheLast) {
  const Tokenizer tokenizer = tokenizer_of(kDemo);
  auto engine = open({{{"say", "nothing"}},
                      {{"when", "write a file"}, {"say", "call"}},
                      {{"when", "written"}, {"say", "done"}},
                      {{"when", {"title", "write a file"}}, {"say", "Files"}}},
                     kDemo);
  EXPECT_EQ(say(*engine, *tokenizer, "Hello"), "nothing");
  EXPECT_EQ(say(*engine, *tokenizer, "Please write a file."), "call");
  EXPECT_EQ(say(*engine, *tokenizer, "Please write a file. It is written."), "done");
  EXPECT_EQ(say(*engine, *tokenizer, "A title for: write a file"), "Files");
  EXPECT_EQ(say(*engine, *tokenizer, "A title for: write files"), "nothing");
}

TEST(FakeScript, Prompt_WhenNoTurnMatches_IsRefusedAndQuoted) {
  const Tokenizer tokenizer = tokenizer_of(kDemo);
  auto engine = open({{{"when", "Hello"}, {"say", "Good day"}}}, kDemo);
  const auto added = engine->add(spec_of(*tokenizer, "Good night"));
  ASSERT_FALSE(added);
  EXPECT_EQ(added.error().code, Errc::kInvalidRequest);
  EXPECT_NE(added.error().what.find("Good night"), std::string::npos) << added.error().what;
}

TEST(FakeScript, Resume_AtEveryToken_ContinuesTheScript) {
  const Tokenizer tokenizer = tokenizer_of(kDemo);
  const json script = {{{"say", "To be, or not to be: that is the question."}}};
  auto engine = open(script, kDemo);
  SequenceSpec spec = spec_of(*tokenizer, "Speak");
  const RunResult whole = run(*engine, spec);
  ASSERT_GT(whole.ids.size(), 10U);
  for (std::size_t n = 1; n < whole.ids.size(); ++n) {
    auto other = open(script, kDemo);
    EXPECT_EQ(other->describe().numerics_class, engine->describe().numerics_class);
    const auto cut = whole.ids.begin() + static_cast<std::ptrdiff_t>(n);
    spec.committed.assign(whole.ids.begin(), cut);
    EXPECT_EQ(run(*other, spec).ids, std::vector<TokenId>(cut, whole.ids.end())) << n;
  }
  // Another text is another numerics class: no sequence goes on there.
  auto changed = open({{{"say", "To be, or not to be: that is an answer."}}}, kDemo);
  EXPECT_NE(changed->describe().numerics_class, engine->describe().numerics_class);
  EXPECT_NE(open(json::array(), kDemo)->describe().numerics_class,
            engine->describe().numerics_class);
}

TEST(FakeScript, ControlTokenNames_WhenInAScript_BecomeThoseTokens) {
  const Synthetic synthetic;
  const Tokenizer tokenizer = tokenizer_of(synthetic.path);
  auto engine = open({{{"say", "ab</s>c"}}}, synthetic.path);
  const RunResult result = run(*engine, spec_of(*tokenizer, "x"));
  EXPECT_EQ(result.finish, wire::FinishReason::kStop);
  ASSERT_FALSE(result.ids.empty());
  EXPECT_EQ(result.ids.back(), tokenizer->eos());
  EXPECT_EQ(text::decode(*tokenizer, result.ids, false, false), "ab");
}

TEST(FakeScript, Script_WithMaxTokensOrStopStrings_EndsAsAnyOther) {
  const Tokenizer tokenizer = tokenizer_of(kDemo);
  auto engine = open({{{"say", "one two three four five"}}}, kDemo);
  SequenceSpec spec = spec_of(*tokenizer, "Count");
  spec.max_tokens = 3;
  const RunResult shortened = run(*engine, spec);
  EXPECT_EQ(shortened.finish, wire::FinishReason::kLength);
  EXPECT_EQ(shortened.ids.size(), 3U);
  spec.max_tokens = 100;
  spec.stops = {"three"};
  const RunResult stopped = run(*engine, spec);
  EXPECT_EQ(stopped.finish, wire::FinishReason::kStop);
  EXPECT_EQ(text::decode(*tokenizer, stopped.ids, false, false), "one two three");
  spec.stops.clear();
  spec.sampling.ignore_eos = true;
  EXPECT_EQ(run(*engine, spec).ids.size(), 100U);
}

TEST(FakeScript, Script_WhenInvalid_IsRefused) {
  for (const char* bad : {R"({"say":"a"})", R"([{"when":"a"}])", R"([{"say":1}])", R"(["a"])",
                          R"([{"say":"a","when":1}])", R"([{"say":"a","if":"b"}])"}) {
    const auto engine = open_fake_engine(std::string(R"({"script":)") + bad + "}", {}, {}, kDemo);
    ASSERT_FALSE(engine) << bad;
    EXPECT_EQ(engine.error().code, Errc::kInvalidRequest) << bad;
  }
  const auto nameless = open_fake_engine(R"({"script":[{"say":"a"}]})", {});
  ASSERT_FALSE(nameless);
  EXPECT_EQ(nameless.error().code, Errc::kInvalidRequest);
}

}  // namespace
}  // namespace holdfast::engine::script_test
