// Goal: whatever a client has written into a prompt or a conversation, the ingress helper makes ids
// of the vocabulary of it or reports what is wrong, and parses the sampling and grammar of the
// request without harm. Method: four small vocabularies of the existing kinds, with templates; the
// bytes are decisions: a text, ids, or a chat of json_maker.h.

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "control/ingress/grammar_check.h"
#include "control/ingress/prepare.h"
#include "shared/base/bytes.h"
#include "shared/base/check.h"
#include "shared/gguf/writer.h"
#include "shared/text/releaser.h"
#include "tests/fuzz/json_maker.h"

namespace {

using namespace holdfast;

constexpr const char* kTemplates[] = {
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content | trim }}{% if m.tool_calls %}"
    "{% for c in m.tool_calls %}<tool_call>{{ c.function | tojson }}</tool_call>{% endfor %}"
    "{% endif %}</s>{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}",
    "{{ bos_token }}{% if messages[0]['role'] == 'system' %}{% set s = messages[0]['content'] %}"
    "{% set messages = messages[1:] %}{% endif %}{% for m in messages %}{% if (m['role'] == 'user')"
    " != (loop.index0 % 2 == 0) %}{{ raise_exception('roles must take turns') }}{% endif %}"
    "{{ s + m['content'] if loop.first and s is defined else m.content }}{% endfor %}",
    "{% if tools is defined and tools %}{{ tools | tojson(indent=2) }}{% endif %}"
    "{% for m in messages %}{% set c = m.content %}{% if c is string and '</think>' in c %}"
    "{% set c = c.split('</think>')[-1].lstrip('\\n') %}{% endif %}{{ m.role ~ ': ' ~ c }}"
    "{% for call in m.tool_calls or [] %}{{ call.function.name }}({% for k, v in "
    "call.function.arguments | items %}{{ k }}={{ v | tojson }}{{ ', ' if not loop.last }}"
    "{% endfor %}){% endfor %}{% endfor %}{{ strftime_now('%d %b %Y') if enable_thinking }}",
    ""};

constexpr fuzz::Member kMembers[] = {
    {"messages", R"([%{"role":"user","content":~}%])"},
    {"messages", R"([{"role":"system","content":~},{"role":"user","content":[%{"type":"text",)"
                 R"("text":~}%]},{"role":"assistant","content":@,"tool_calls":[{"id":~,"function":)"
                 R"({"name":~,"arguments":{"a":@,~:@}}}]},{"role":"tool","content":~}])"},
    {"messages", R"([{"role":~,"content":@,"tool_calls":@,~:@},{"role":"user","content":null}])"},
    {"messages", R"([{"role":"user","content":[{"type":~,"text":@},@]}])"},
    {"tools", R"([{"type":"function","function":{"name":~,"parameters":@}}])"},
    {"tools", "@"},
    {"chat_template_kwargs", R"({"enable_thinking":true,"s":@,~:@})"},
    {"add_generation_prompt", "false"}};

constexpr fuzz::Member kExtra[] = {
    {"grammar", R"({"kind":"json_schema","source":"{\"type\":\"integer\"}","finish":true})"},
    {"grammar", R"({"kind":"regex","source":~})"},
    {"grammar", R"({"kind":"gbnf","source":"root ::= \"a\" | \"b\" root"})"},
    {"grammar", "@"},
    {"banned_strings", "[%~%]"},
    {"mirostat", "2"},
    {"logit_bias", R"({"5":@})"},
    {"embedding", R"({"pooling":"mean"})"}};

struct Vocabulary {
  std::vector<std::string> texts;
  std::vector<float> scores;
  std::vector<std::int32_t> types;
  std::vector<std::string> merges;
  void add(const std::string& text, float score, std::int32_t type) {
    texts.push_back(text);
    scores.push_back(score);
    types.push_back(type);
  }
};

constexpr std::int32_t kPlain = 1, kUnknown = 2, kControl = 3, kUser = 4, kByte = 6;

/// A vocabulary of SentencePiece's kind: bytes, then pieces.
Vocabulary spm_vocabulary() {
  Vocabulary out;
  out.add("<unk>", 0, kUnknown);
  out.add("<s>", 0, kControl);
  out.add("</s>", 0, kControl);
  for (unsigned b = 0; b < 256; ++b) {
    char text[8];
    std::snprintf(text, sizeof text, "<0x%02X>", b);
    out.add(text, 0, kByte);
  }
  float score = 0;
  for (const char* token_text :
       {"▁a", "ab", "▁", "▁▁", "a", "b", "us", "er", "user", "é", "🙂", "\n"}) {
    out.add(token_text, score, kPlain);
    score -= 1;
  }
  out.add("<|im_start|>", 0, kControl);
  out.add("<tool>", 0, kUser);
  return out;
}

/// Characters that stand for bytes, as GPT-2 has them.
std::string byte_character(unsigned b) {
  static unsigned next = 256;
  const bool visible = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
  const unsigned c = visible ? b : next++;
  if (c < 0x80) return std::string(1, static_cast<char>(c));
  return {static_cast<char>(0xC0 | c >> 6), static_cast<char>(0x80 | (c & 0x3F))};
}

Vocabulary byte_vocabulary() {
  Vocabulary out;
  for (unsigned b = 0; b < 256; ++b) out.add(byte_character(b), 0, kPlain);
  for (const char* merged : {"a b", "u s", "e r", "us er", "Ġ a", "Ġ Ġ", "1 2"}) {
    out.merges.emplace_back(merged);
    std::string joined = merged;
    joined.erase(joined.find(' '), 1);
    out.add(joined, 0, kPlain);
  }
  out.add("<|im_start|>", 0, kControl);
  out.add("<s>", 0, kControl);
  out.add("</s>", 0, kControl);
  return out;
}

Vocabulary word_vocabulary() {
  Vocabulary out;
  out.add("[PAD]", 0, kControl);
  out.add("[UNK]", 0, kUnknown);
  out.add("[CLS]", 0, kControl);
  out.add("[SEP]", 0, kControl);
  for (const char* word : {"▁a", "▁b", "b", "▁user", "er", "▁é", "▁!", "▁<", "▁世"}) {
    out.add(word, 0, kPlain);
  }
  return out;
}

std::shared_ptr<const text::Tokenizer> load(const char* model, const Vocabulary& made,
                                            const char* chat_template) {
  gguf::Writer w;
  w.set_string("tokenizer.ggml.model", model);
  w.set_strings("tokenizer.ggml.tokens", made.texts);
  w.set_i32s("tokenizer.ggml.token_type", made.types);
  w.set_floats("tokenizer.ggml.scores", made.scores);
  if (!made.merges.empty()) {
    w.set_string("tokenizer.ggml.pre", "llama-bpe");
    w.set_strings("tokenizer.ggml.merges", made.merges);
  }
  w.set_u32("tokenizer.ggml.bos_token_id", 1);
  w.set_u32("tokenizer.ggml.eos_token_id", 2);
  if (*chat_template != '\0') w.set_string("tokenizer.chat_template", chat_template);
  const auto file = gguf::File::from_bytes(w.to_bytes().value(), "made.gguf");
  return text::Tokenizer::load(*file.value()).value();
}

using Tokenizers = std::vector<std::shared_ptr<const text::Tokenizer>>;

const Tokenizers& tokenizers() {
  static const Tokenizers made = {load("llama", spm_vocabulary(), kTemplates[0]),
                                  load("gpt2", byte_vocabulary(), kTemplates[1]),
                                  load("t5", spm_vocabulary(), kTemplates[2]),
                                  load("bert", word_vocabulary(), kTemplates[3]), nullptr};
  return made;
}

std::string words(fuzz::Choices& choices) {
  static constexpr const char* kWords[] = {"a",
                                           "ab",
                                           " ",
                                           "  ",
                                           "\n",
                                           "user",
                                           "12",
                                           "é",
                                           "世",
                                           "🙂",
                                           "</s>",
                                           "<s>",
                                           "[CLS]",
                                           "▁",
                                           "'s",
                                           "A",
                                           "\xE2\x80\x8D",
                                           "e\xCC\x81",
                                           "\t",
                                           "<tool>",
                                           "<|im_start|>",
                                           "\xC2\xA0",
                                           "<0x41>"};
  std::string text;
  while (!choices.empty()) {
    if (choices.byte() % 4 == 0) {
      text += choices.bytes(1 + choices.below(6));
    } else {
      text += choices.from(kWords);
    }
  }
  return text;
}

wire::Prompt prompt_of(fuzz::Choices& choices, unsigned how) {
  wire::Prompt prompt;
  if (how % 4 == 0) {
    prompt.text = words(choices);
  } else if (how % 16 == 1) {
    prompt.ids.emplace();
    while (!choices.empty()) prompt.ids->push_back(static_cast<int>(choices.byte()) - 1);
  } else {
    prompt.messages_json.emplace();
    fuzz::JsonMaker(choices, kMembers, &*prompt.messages_json).object(1);
  }
  return prompt;
}

void check_prepared(const wire::Prepared& made, const text::Tokenizer* tokenizer) {
  if (!made.ok) {
    CHECK(!made.refusal.message.empty() && made.refusal.code != Errc::kInternal);
    return;
  }
  CHECK(!made.ids.empty());
  for (const auto& ids : made.ids) {
    CHECK(!ids.empty());
    for (const text::TokenId id : ids) {
      CHECK(id >= 0 && (tokenizer == nullptr || id < tokenizer->vocab_size()));
    }
  }
  for (const std::string& text : made.text) CHECK(is_valid_utf8(text));
}

/// Checks the helper's answer about sampling and grammar.
void check_grammar_extra(fuzz::Choices& choices, const text::Tokenizer* tokenizer) {
  static ingress::GrammarCheck checker;
  std::string extra;
  fuzz::JsonMaker(choices, kExtra, &extra).object(0);
  const auto good = checker.check("m", tokenizer, extra);
  if (!good) CHECK(!good.error().what.empty());
}

void check_stops(const wire::Prompt& prompt) {
  if (!prompt.text || !is_valid_utf8(*prompt.text)) return;
  text::Releaser releaser({"ab", "</s>"});
  std::string visible;
  for (const char c : *prompt.text) visible += releaser.feed(std::string_view(&c, 1));
  visible += releaser.finish();
  CHECK(is_valid_utf8(visible) && visible.size() <= prompt.text->size());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Choices choices(data, size);
  const text::Tokenizer* tokenizer = choices.from(tokenizers()).get();
  const unsigned how = choices.byte();
  if (how % 8 == 7) {
    check_grammar_extra(choices, tokenizer);
    return 0;
  }
  wire::Prepare job;
  job.echo = (how & 64) != 0;
  job.add_special = (how & 128) != 0;
  job.prompts.push_back(prompt_of(choices, how));
  check_stops(job.prompts[0]);
  ingress::PrepareLimits limits;
  limits.prompt_bytes = 4'096;
  limits.prompt_ids = 200;
  const wire::Prepared made = ingress::prepare(job, tokenizer, limits);
  check_prepared(made, tokenizer);
  const wire::Prepared again = ingress::prepare(job, tokenizer, limits);
  CHECK(again.ok == made.ok && again.ids == made.ids && again.text == made.text);
  return 0;
}
