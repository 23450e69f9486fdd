// The vocabulary of synthetic models.

#include <cstdio>

#include "ops/model_tools/synth_family.h"

namespace holdfast::cli {
namespace {

constexpr const char* kChatTemplate = "{% for m in messages %}{{ m['content'] }}\n{% endfor %}";

}  // namespace

/// Sets a vocabulary of the SentencePiece kind: the 256 bytes, then made-up words, none of which
/// merge from others, so that any text encodes to its bytes.
void set_synth_tokenizer(gguf::Writer& writer, std::int64_t vocab) {
  constexpr std::int32_t kNormalToken = 1, kUnknown = 2, kControl = 3, kByte = 6;
  std::vector<std::string> tokens = {"<unk>", "<s>", "</s>"};
  std::vector<std::int32_t> types = {kUnknown, kControl, kControl};
  for (unsigned byte = 0; byte < 256; ++byte) {
    char text[8];
    std::snprintf(text, sizeof text, "<0x%02X>", byte);
    tokens.emplace_back(text);
    types.push_back(kByte);
  }
  for (auto i = static_cast<std::int64_t>(tokens.size()); i < vocab; ++i) {
    tokens.push_back("\xe2\x96\x81w" + std::to_string(i));
    types.push_back(kNormalToken);
  }
  std::vector<float> scores;
  for (std::int64_t i = 0; i < vocab; ++i) scores.push_back(-static_cast<float>(i));
  writer.set_string("tokenizer.ggml.model", "llama");
  writer.set_strings("tokenizer.ggml.tokens", tokens);
  writer.set_floats("tokenizer.ggml.scores", scores);
  writer.set_i32s("tokenizer.ggml.token_type", types);
  writer.set_u32("tokenizer.ggml.bos_token_id", 1);
  writer.set_u32("tokenizer.ggml.eos_token_id", 2);
  writer.set_u32("tokenizer.ggml.unknown_token_id", 0);
  writer.set_string("tokenizer.chat_template", kChatTemplate);
}

}  // namespace holdfast::cli
