#include "tests/wire/made_tokenizer.h"

#include <cstdio>

#include "control/ingress/chat.h"
#include "shared/gguf/gguf.h"
#include "shared/gguf/writer.h"

namespace holdfast::test {

std::shared_ptr<const text::Tokenizer> make_tokenizer(const std::string& chat_template,
                                                      const std::vector<std::string>& controls,
                                                      const std::vector<std::string>& words) {
  std::vector<std::string> texts;
  std::vector<std::int32_t> types;
  const auto add = [&](const std::string& text, std::int32_t type) {
    texts.push_back(text);
    types.push_back(type);
  };
  for (unsigned b = 0; b < 256; ++b) {
    char text[8];
    std::snprintf(text, sizeof text, "<0x%02X>", b);
    add(text, 6);
  }
  add("<bos>", 3);
  add("<eos>", 3);
  for (const std::string& text : controls) add(text, 3);
  for (const std::string& text : words) add(text, 4);
  gguf::Writer writer;
  writer.set_string("tokenizer.ggml.model", "gemma4");
  writer.set_strings("tokenizer.ggml.tokens", texts);
  writer.set_i32s("tokenizer.ggml.token_type", types);
  writer.set_strings("tokenizer.ggml.merges", {});
  writer.set_u32("tokenizer.ggml.bos_token_id", 256);
  writer.set_u32("tokenizer.ggml.eos_token_id", 257);
  if (!chat_template.empty()) writer.set_string("tokenizer.chat_template", chat_template);
  const auto file = gguf::File::from_bytes(writer.to_bytes().value(), "made.gguf");
  return text::Tokenizer::load(*file.value()).value();
}

int count_controls(const text::Tokenizer& tokenizer, const std::vector<text::TokenId>& ids) {
  int controls = 0;
  for (const text::TokenId id : ids) controls += tokenizer.is_control(id) ? 1 : 0;
  return controls;
}

Result<std::vector<text::TokenId>> chat_ids(const text::Tokenizer& tokenizer,
                                            const std::string& json) {
  HOLDFAST_TRY(const auto chat, ingress::render_chat(json, tokenizer, "2026-01-15"));
  return tokenizer.encode(chat.text, {false, true, chat.plain});
}

}  // namespace holdfast::test
