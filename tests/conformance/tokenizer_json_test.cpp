// Goal: what `convert` writes as tokenizer.json reads back as the same tokenizer, for real
// vocabularies, whose ids other implementations computed.
// Method: each vocabulary of the conformance data through tokenizer.json and back; every text of
// NAME.gguf.inp against its line of ids.

#include <gtest/gtest.h>

#include <unistd.h>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "shared/huggingface/export.h"
#include "shared/huggingface/tokenizer_json.h"
#include "shared/text/tokenizer.h"

namespace holdfast::huggingface::tokenizer_json_test {
namespace {

std::string slurp(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

std::string folder() {
  const char* const set = std::getenv("HOLDFAST_CONFORMANCE_DIR");
  return (set != nullptr ? set : std::string(HOLDFAST_SOURCE_DIR) + "/../shared/conformance") +
         "/tokenizers/";
}

class ThroughTokenizerJson : public testing::TestWithParam<const char*> {};

TEST_P(ThroughTokenizerJson, TokenizerJson_WhenWrittenAndReadBack_GivesSameIds) {
  const std::string path = folder() + "ggml-vocab-" + GetParam() + ".gguf";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "no conformance data at " << path;
  const auto file = gguf::File::open(path).value();
  const auto written = keys_to_tokenizer(*file);
  ASSERT_TRUE(written.has_value()) << written.error().what;
  const std::string temp =
      (std::filesystem::temp_directory_path() /
       ("holdfast-tokenizer-json-" + std::string(GetParam()) + std::to_string(::getpid())))
          .string();
  std::filesystem::create_directories(temp);
  std::ofstream(temp + "/tokenizer.json") << written->dump();
  gguf::Writer writer;
  const auto read = tokenizer_to_keys(temp, nlohmann::json::object(), writer);
  std::filesystem::remove_all(temp);
  ASSERT_TRUE(read.has_value()) << read.error().what;
  const auto again = gguf::File::from_bytes(writer.to_bytes().value(), "again").value();
  // Splits of known models keep a name that other programs know.
  EXPECT_NE(again->get_string("tokenizer.ggml.pre").value_or("default"), "patterns");
  const auto tokenizer = text::Tokenizer::load(*again);
  ASSERT_TRUE(tokenizer.has_value()) << tokenizer.error().what;
  const std::string all = slurp(path + ".inp");
  std::ifstream lines(path + ".out");
  const std::string mark = "\n__ggml_vocab_test__\n";
  std::size_t begin = 0;
  std::string line;
  for (int n = 0; std::getline(lines, line) && begin != std::string::npos; ++n) {
    const std::size_t end = all.find(mark, begin);
    std::istringstream numbers(line);
    std::vector<text::TokenId> expected;
    for (text::TokenId id; numbers >> id;) expected.push_back(id);
    const std::string text = all.substr(begin, end == std::string::npos ? end : end - begin);
    EXPECT_EQ((*tokenizer)->encode(text, {.add_special = false, .parse_special = false}).value(),
              expected)
        << n << ": " << text;
    begin = end == std::string::npos ? end : end + mark.size();
  }
}

INSTANTIATE_TEST_SUITE_P(Files, ThroughTokenizerJson,
                         testing::Values("llama-spm", "phi-3", "gpt-2", "starcoder", "deepseek-llm",
                                         "qwen2"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::erase(name, '-');
                           return name;
                         });

}  // namespace
}  // namespace holdfast::huggingface::tokenizer_json_test
