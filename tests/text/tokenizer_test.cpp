// Goal: text becomes the ids that the vocabulary's rules demand and comes back from them; a bad
// file is refused with the key that is wrong, never read past its bounds. Method: the demo model's
// vocabulary, and small vocabularies made here with the GGUF writer, compared with a slow reference
// that merges strings one pair at a time; then one broken key at a time.

#include "shared/text/tokenizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <random>

#include "shared/gguf/writer.h"

namespace holdfast::text::tokenizer_test {
namespace {

using Ids = std::vector<TokenId>;
constexpr EncodeOptions kPlain{.add_special = false, .parse_special = false};

std::shared_ptr<const gguf::File> file_of(gguf::Writer& writer) {
  auto bytes = writer.to_bytes();
  EXPECT_TRUE(bytes.has_value());
  auto file = gguf::File::from_bytes(std::move(*bytes), "made.gguf");
  EXPECT_TRUE(file.has_value());
  return *file;
}

std::shared_ptr<const Tokenizer> load_made(gguf::Writer& writer) {
  auto tokenizer = Tokenizer::load(*file_of(writer));
  EXPECT_TRUE(tokenizer.has_value()) << tokenizer.error().what;
  return tokenizer.has_value() ? *tokenizer : nullptr;
}

std::shared_ptr<const Tokenizer> demo() {
  const auto file = gguf::File::open(HOLDFAST_SOURCE_DIR "/ops/demo/holdfast-demo-Q8_0.gguf");
  EXPECT_TRUE(file.has_value());
  return Tokenizer::load(**file).value();
}

// ---- a SentencePiece vocabulary

struct Made {
  std::vector<std::string> texts;
  std::vector<float> scores;
  std::vector<std::int32_t> types;
  void add(std::string text, float score, std::int32_t type) {
    texts.push_back(std::move(text));
    scores.push_back(score);
    types.push_back(type);
  }
  gguf::Writer writer() const {
    gguf::Writer w;
    w.set_string("tokenizer.ggml.model", "llama");
    w.set_strings("tokenizer.ggml.tokens", texts);
    w.set_floats("tokenizer.ggml.scores", scores);
    w.set_i32s("tokenizer.ggml.token_type", types);
    return w;
  }
};

// ids: 0 <unk>, 1 <s>, 2 </s>, 3..258 bytes, then pieces.
Made sentence_piece() {
  Made made;
  made.add("<unk>", 0, 2);
  made.add("<s>", 0, 3);
  made.add("</s>", 0, 3);
  for (int b = 0; b < 256; ++b) {
    char text[8];
    std::snprintf(text, sizeof text, "<0x%02X>", static_cast<unsigned>(b));
    made.add(text, 0, 6);
  }
  float score = 0;
  for (const char* const token_bytes :
       {"▁a", "ab", "▁ab", "ba", "aa", "▁▁", "aab", "b▁", "▁▁▁", "abab", "é", "éa", "▁é", "世a"}) {
    made.add(token_bytes, score, 1);
    score -= 1;
    if (made.texts.size() % 3 == 0) score += 1;  // some scores are equal
  }
  for (const char* const token_bytes : {"a", "b", "▁"}) made.add(token_bytes, -100, 1);
  made.add("<tool>", 0, 4);
  return made;
}

// Merges strings by the rule itself: best score, then leftmost, until nothing merges.
std::vector<std::string> merge_slowly(
    std::vector<std::string> parts,
    const std::function<double(const std::string&, const std::string&)>& cost) {
  for (;;) {
    std::size_t best = parts.size();
    double least = std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
      const double here = cost(parts[i], parts[i + 1]);
      if (here < least) {
        least = here;
        best = i;
      }
    }
    if (best == parts.size()) return parts;
    parts[best] += parts[best + 1];
    parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
}

Ids reference_sentence_piece(const Made& made, const std::vector<std::string>& characters) {
  std::map<std::string, TokenId> ids;
  for (std::size_t i = 0; i < made.texts.size(); ++i) {
    if (made.types[i] == 1) ids.emplace(made.texts[i], static_cast<TokenId>(i));
  }
  const auto parts = merge_slowly(characters, [&](const std::string& a, const std::string& b) {
    const auto found = ids.find(a + b);
    return found == ids.end() ? std::numeric_limits<double>::infinity()
                              : -made.scores[static_cast<std::size_t>(found->second)];
  });
  Ids out;
  for (const std::string& part : parts) {
    const auto found = ids.find(part);
    if (found != ids.end()) {
      out.push_back(found->second);
    } else {
      for (const char c : part) out.push_back(3 + static_cast<unsigned char>(c));
    }
  }
  return out;
}

TEST(SentencePiece, Encode_WithRandomTexts_EqualsNaiveMerging) {
  const Made made = sentence_piece();
  gguf::Writer writer = made.writer();
  const auto tokenizer = load_made(writer);
  std::mt19937 random(3);
  const std::vector<std::string> letters = {"a", "b", " ", "é", "世", "a", "b", " "};
  for (int round = 0; round < 3'000; ++round) {
    std::string text;
    std::vector<std::string> characters{"▁"};
    for (std::size_t n = 1 + random() % (round % 2 == 0 ? 12 : 120); n > 0; --n) {
      const std::string& letter = letters[random() % letters.size()];
      text += letter;
      characters.push_back(letter == " " ? "▁" : letter);
    }
    const auto ids = tokenizer->encode(text, kPlain);
    ASSERT_TRUE(ids.has_value());
    ASSERT_EQ(*ids, reference_sentence_piece(made, characters)) << '"' << text << '"';
    ASSERT_EQ(decode(*tokenizer, *ids, false, true), text);
  }
}

TEST(SentencePiece, Encode_WithSpacePrefixAndSpecialTokens_GivesTheirIds) {
  gguf::Writer writer = sentence_piece().writer();
  writer.set_bool("tokenizer.ggml.add_eos_token", true);
  const auto tokenizer = load_made(writer);
  const TokenId a = tokenizer->encode("a", kPlain)->at(0);
  EXPECT_EQ(tokenizer->token_bytes(a), " a");
  EXPECT_EQ(*tokenizer->encode("", kPlain), Ids{});
  EXPECT_EQ(*tokenizer->encode("", {}), (Ids{1, 2}));
  EXPECT_EQ(*tokenizer->encode("a", {}), (Ids{1, a, 2}));
  EXPECT_EQ(*tokenizer->encode("a</s>a", {.add_special = false, .parse_special = true}),
            (Ids{a, 2, a}));
  EXPECT_GT(tokenizer->encode("</s>", kPlain)->size(), 1U);
  // A user-defined token is found even where special tokens are not parsed.
  const Ids tool = *tokenizer->encode("<tool>a", kPlain);
  EXPECT_EQ(tool, (Ids{tokenizer->vocab_size() - 1, a}));
  EXPECT_TRUE(tokenizer->is_end(2));
  EXPECT_TRUE(tokenizer->is_control(1));
  EXPECT_FALSE(tokenizer->is_end(a) || tokenizer->is_control(a));
  EXPECT_EQ(tokenizer->token_bytes(2), "");
  EXPECT_EQ(tokenizer->token_bytes(2, true), "</s>");
  EXPECT_EQ(tokenizer->token_bytes(-1), "");
  EXPECT_EQ(tokenizer->token_bytes(tokenizer->vocab_size()), "");
  EXPECT_EQ(tokenizer->token_bytes(3 + 0xE4), "\xE4");
  EXPECT_EQ(decode(*tokenizer, {1, a, a}, false, true), "a a");
  EXPECT_EQ(decode(*tokenizer, {a}, false, false), " a");
}

TEST(SentencePiece, Encode_WhenByteTokensAreMissing_GivesTheUnknownToken) {
  Made made;
  made.add("<unk>", 0, 2);
  made.add("<s>", 0, 3);
  made.add("</s>", 0, 3);
  made.add("▁", -1, 1);
  made.add("a", -1, 1);
  gguf::Writer writer = made.writer();
  EXPECT_EQ(*load_made(writer)->encode("a世a", kPlain), (Ids{3, 4, 0, 4}));
}

// ---- byte-level BPE

// A vocabulary of the 256 bytes in GPT-2's spelling, then the given merges' results, then one
// control token.
struct MadeBpe {
  std::vector<std::string> texts;
  std::vector<std::string> merges;
  gguf::Writer writer(const std::string& pre) const {
    gguf::Writer w;
    w.set_string("tokenizer.ggml.model", "gpt2");
    w.set_string("tokenizer.ggml.pre", pre);
    w.set_strings("tokenizer.ggml.tokens", texts);
    std::vector<std::int32_t> types(texts.size(), 1);
    types.back() = 3;
    w.set_i32s("tokenizer.ggml.token_type", types);
    w.set_strings("tokenizer.ggml.merges", merges);
    w.set_u32("tokenizer.ggml.eos_token_id", static_cast<std::uint32_t>(texts.size()) - 1);
    return w;
  }
};

std::string spelt(unsigned byte) {
  static const std::vector<std::string> all = [] {
    std::vector<std::string> made;
    unsigned free = 256;
    for (unsigned b = 0; b < 256; ++b) {
      const bool itself = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
      const unsigned p = itself ? b : free++;
      made.push_back(p < 128 ? std::string(1, static_cast<char>(p))
                             : std::string{static_cast<char>(0xC0 | p >> 6),
                                           static_cast<char>(0x80 | (p & 63))});
    }
    return made;
  }();
  return all[byte];
}

MadeBpe byte_level() {
  MadeBpe made;
  for (unsigned b = 0; b < 256; ++b) made.texts.push_back(spelt(b));
  const std::pair<std::string, std::string> merges[] = {
      {"a", "b"}, {"b", "a"},  {"ab", "ab"},     {"a", "a"},  {"aa", "ab"}, {"ba", "b"},
      {"Ġ", "a"}, {"Ġa", "b"}, {"abab", "abab"}, {"c", "ab"}, {"aa", "aa"}};
  for (const auto& [left, right] : merges) {
    made.merges.push_back(left + " " + right);
    made.texts.push_back(left + right);
  }
  made.texts.push_back("<|im_end|>");
  return made;
}

// Merges drawn at random from existing tokens, so that every order of ranks occurs.
MadeBpe random_merges(std::mt19937& random) {
  MadeBpe made;
  for (unsigned b = 0; b < 256; ++b) made.texts.push_back(spelt(b));
  std::vector<std::string> parts = {"a", "b", "c", "Ġ"};
  for (int n = 0; n < 40; ++n) {
    const std::string left = parts[random() % parts.size()];
    const std::string right = parts[random() % parts.size()];
    const auto end = made.texts.end();
    if (std::find(made.texts.begin(), end, left + right) != end) continue;
    made.merges.push_back(left + " " + right);
    made.texts.push_back(left + right);
    if (made.texts.back().size() <= 6) parts.push_back(left + right);
  }
  std::shuffle(made.merges.begin(), made.merges.end(), random);
  made.texts.push_back("<|im_end|>");
  return made;
}

void expect_equals_slow_merging(const MadeBpe& made, std::mt19937& random, int rounds) {
  gguf::Writer writer = made.writer("gpt-2");
  const auto tokenizer = load_made(writer);
  std::map<std::string, double> ranks;
  for (std::size_t i = 0; i < made.merges.size(); ++i) {
    ranks[made.merges[i]] = static_cast<double>(i);
  }
  std::map<std::string, TokenId> ids;
  for (std::size_t i = 0; i < made.texts.size(); ++i) {
    ids[made.texts[i]] = static_cast<TokenId>(i);
  }
  const auto rank = [&](const std::string& a, const std::string& b) {
    const auto found = ranks.find(a + " " + b);
    return found == ranks.end() ? std::numeric_limits<double>::infinity() : found->second;
  };
  for (int round = 0; round < rounds; ++round) {
    std::string text(round % 2 == 0 ? "" : " ");
    for (std::size_t n = 1 + random() % (round % 3 == 0 ? 200 : 20); n > 0; --n) {
      text += "abacab"[random() % 6];
    }
    std::vector<std::string> symbols;
    for (const char c : text) symbols.push_back(spelt(static_cast<unsigned char>(c)));
    Ids expected;
    for (const std::string& part : merge_slowly(symbols, rank)) expected.push_back(ids.at(part));
    const auto got = tokenizer->encode(text, kPlain);
    ASSERT_TRUE(got.has_value());
    ASSERT_EQ(*got, expected) << text;
    ASSERT_EQ(*tokenizer->encode(text, kPlain), expected) << "second time: " << text;
  }
}

TEST(Bpe, Encode_WithRandomTexts_EqualsNaiveMerging) {
  std::mt19937 random(4);
  expect_equals_slow_merging(byte_level(), random, 500);
  for (int vocabulary = 0; vocabulary < 60; ++vocabulary) {
    expect_equals_slow_merging(random_merges(random), random, 20);
  }
}

TEST(Bpe, Encode_WithIgnoreMerges_TakesWholeWords) {
  MadeBpe made = byte_level();
  made.texts.insert(made.texts.end() - 1, "cabba");  // a token that no merge makes
  const auto id = static_cast<TokenId>(made.texts.size()) - 2;
  gguf::Writer by_merges = made.writer("gpt-2");
  gguf::Writer by_words = made.writer("llama-bpe");
  EXPECT_GT(load_made(by_merges)->encode("cabba", kPlain)->size(), 1U);
  EXPECT_EQ(*load_made(by_words)->encode("cabba", kPlain), Ids{id});
}

TEST(Bpe, AddBos_WhenTheFileDoesNotSay_FollowsThePreTokenizer) {
  const auto first_of = [](const std::string& pre, std::optional<bool> says) {
    gguf::Writer writer = byte_level().writer(pre);
    writer.set_u32("tokenizer.ggml.bos_token_id", 7);
    if (says) writer.set_bool("tokenizer.ggml.add_bos_token", *says);
    return load_made(writer)->encode("a", {})->front();
  };
  EXPECT_EQ(first_of("gpt-2", std::nullopt), 'a');
  EXPECT_EQ(first_of("gpt-2", true), 7);
  EXPECT_EQ(first_of("llama-bpe", std::nullopt), 7);
  EXPECT_EQ(first_of("llama-bpe", false), 'a');
}

TEST(Bpe, SpecialToken_WhenSeveralMatch_IsTheLongest) {
  MadeBpe made = byte_level();
  made.texts.insert(made.texts.end() - 1, {"<|im", "<|im_end|>>", "m_end|>>!"});
  gguf::Writer writer = made.writer("gpt-2");
  std::vector<std::int32_t> types(made.texts.size(), 1);
  std::fill(types.end() - 4, types.end(), 3);
  writer.set_i32s("tokenizer.ggml.token_type", types);
  const auto end = static_cast<TokenId>(made.texts.size()) - 1;
  const auto tokenizer = load_made(writer);
  EXPECT_EQ(*tokenizer->encode("<|im_end|>>!<|im_end|>", {}), (Ids{end - 2, '!', end}));
  EXPECT_EQ(*tokenizer->encode("<|im_end|!", {}).value().begin(), end - 3);
  EXPECT_EQ(tokenizer->encode("<|im_end|>", kPlain)->size(), 10U);
}

// ---- both

TEST(Tokenizer, Decode_AfterEncode_GivesTheTextBack) {
  const auto tokenizer = demo();
  EXPECT_EQ(tokenizer->model(), "gpt2");
  EXPECT_EQ(tokenizer->vocab_size(), 1024);
  EXPECT_TRUE(tokenizer->is_end(tokenizer->eos()));
  EXPECT_FALSE(tokenizer->chat_template().empty());
  for (const std::string text :
       {"", " ", "To be, or not to be", "ünïcödé 世界 🚀\r\n\t ", "'tis  \n\n x\0y"}) {
    const auto ids = tokenizer->encode(text, kPlain);
    ASSERT_TRUE(ids.has_value());
    EXPECT_EQ(decode(*tokenizer, *ids, false, true), text);
  }
}

TEST(Tokenizer, Encode_WhenUtf8IsInvalid_RefusesWithTheOffset) {
  const auto tokenizer = demo();
  const std::pair<std::string, int> cases[] = {{"abc\xFF", 3},          {"\x80", 0},
                                               {"0123456789ü\xC3", 12}, {"\xED\xA0\x80", 0},
                                               {"12345678\xC0\xAF", 8}, {"\xF4\x90\x80\x80", 0},
                                               {"世\xE4\xB8", 3}};
  for (const auto& [text, offset] : cases) {
    const auto ids = tokenizer->encode(text, {});
    ASSERT_FALSE(ids.has_value());
    EXPECT_EQ(ids.error().code, Errc::kInvalidRequest);
    EXPECT_NE(ids.error().what.find("byte offset " + std::to_string(offset) + ";"),
              std::string::npos)
        << ids.error().what;
  }
}

TEST(Tokenizer, Encode_WithAWordOfAMegabyte_IsNotQuadratic) {
  gguf::Writer bpe = byte_level().writer("gpt-2");
  gguf::Writer spm = sentence_piece().writer();
  for (const auto& tokenizer : {demo(), load_made(bpe), load_made(spm)}) {
    for (const char* const unit : {"a", "ab", "x", "é", "aab"}) {
      std::string word;
      while (word.size() < 1'000'000) word += unit;
      const auto ids = tokenizer->encode(word, kPlain);  // quadratic work would run for hours
      ASSERT_TRUE(ids.has_value());
      ASSERT_EQ(decode(*tokenizer, *ids, false, true), word);
    }
  }
}

TEST(DetokenizerTable, DetokenizerTable_WhenParsedBack_EqualsTheTokenizer) {
  gguf::Writer writer = sentence_piece().writer();
  for (const auto& tokenizer : {demo(), load_made(writer)}) {
    const auto table = DetokenizerTable::parse(encode_detokenizer_table(*tokenizer));
    ASSERT_TRUE(table.has_value()) << table.error().what;
    ASSERT_EQ(table->size(), tokenizer->vocab_size());
    for (TokenId id = -2; id < table->size() + 2; ++id) {
      ASSERT_EQ(table->token_bytes(id), tokenizer->token_bytes(id));
      ASSERT_EQ(table->is_end(id), tokenizer->is_end(id));
      ASSERT_EQ(table->is_control(id), tokenizer->is_control(id));
      const bool named = tokenizer->is_control(id) && !tokenizer->is_end(id);
      ASSERT_EQ(table->control_text(id),
                named ? tokenizer->token_bytes(id, true) : std::string_view());
    }
  }
}

TEST(DetokenizerTable, Blob_WhenDamaged_IsRefused) {
  const std::string good = encode_detokenizer_table(*demo());
  for (std::size_t n : {0UL, 3UL, 4UL, 1000UL, 4UL + 1024 * 5 - 1, good.size() - 1}) {
    EXPECT_FALSE(DetokenizerTable::parse(good.substr(0, n)).has_value()) << n;
  }
  EXPECT_FALSE(DetokenizerTable::parse(good + "x").has_value());
  for (const std::size_t at : {3UL, 7UL, 400UL, 4UL + 1024 * 4 + 5}) {
    std::string bad = good;
    bad[at] = '\x7F';
    EXPECT_FALSE(DetokenizerTable::parse(bad).has_value()) << at;
  }
}

struct Broken {
  const char* name;
  const char* key;  // that the error must name
  std::function<void(gguf::Writer&)> change;
};

void expect_refused(const std::function<gguf::Writer()>& good, const std::vector<Broken>& cases) {
  for (const Broken& broken : cases) {
    gguf::Writer writer = good();
    broken.change(writer);
    const auto loaded = Tokenizer::load(*file_of(writer));
    ASSERT_FALSE(loaded.has_value()) << broken.name;
    EXPECT_EQ(loaded.error().code, Errc::kFileInvalid) << broken.name;
    EXPECT_NE(loaded.error().what.find(broken.key), std::string::npos)
        << broken.name << ": " << loaded.error().what;
  }
}

TEST(Tokenizer, Load_WhenAKeyIsInvalid_IsRefusedByKey) {
  using W = gguf::Writer;
  const std::string prefix = "tokenizer.ggml.";
  expect_refused(
      [] { return sentence_piece().writer(); },
      {{"no tokens", "tokens", [&](W& w) { w.set_strings(prefix + "tokens", {}); }},
       {"tokens of another type", "tokens",
        [&](W& w) {
          w.set_i32s(prefix + "tokens", {1, 2});
        }},
       {"scores too short", "scores",
        [&](W& w) {
          w.set_floats(prefix + "scores", {1, 2});
        }},
       {"scores not a number", "scores",
        [&](W& w) {
          std::vector<float> scores = sentence_piece().scores;
          scores[9] = std::nanf("");
          w.set_floats(prefix + "scores", scores);
        }},
       {"scores are text", "scores", [&](W& w) { w.set_string(prefix + "scores", "x"); }},
       {"types too short", "token_type", [&](W& w) { w.set_i32s(prefix + "token_type", {1}); }},
       {"byte token with bad text", "tokens",
        [&](W& w) {
          Made made = sentence_piece();
          made.texts[7] = "<0x-1>";
          w.set_strings(prefix + "tokens", made.texts);
        }},
       {"bos out of range", "bos_token_id",
        [&](W& w) { w.set_u32(prefix + "bos_token_id", 1'000'000); }},
       {"eos negative", "eos_token_id", [&](W& w) { w.set_i32(prefix + "eos_token_id", -2); }},
       {"eot out of range", "eot_token_id",
        [&](W& w) { w.set_u64(prefix + "eot_token_id", 1ULL << 40); }},
       {"padding out of range", "padding_token_id",
        [&](W& w) { w.set_u32(prefix + "padding_token_id", 0x7FFFFFFF); }},
       {"bos is text", "bos_token_id", [&](W& w) { w.set_string(prefix + "bos_token_id", "1"); }},
       {"add_bos without bos", "add_bos_token",
        [&](W& w) {
          w.set_i32(prefix + "bos_token_id", -1);
          w.set_bool(prefix + "add_bos_token", true);
        }},
       {"model is a number", "model", [&](W& w) { w.set_u32(prefix + "model", 1); }}});
  expect_refused(
      [] { return byte_level().writer("gpt-2"); },
      {{"merge without a space", "merges", [&](W& w) { w.set_strings(prefix + "merges", {"ab"}); }},
       {"empty merge", "merges", [&](W& w) { w.set_strings(prefix + "merges", {""}); }},
       {"merge of unknown tokens", "merges",
        [&](W& w) { w.set_strings(prefix + "merges", {"zzz a"}); }},
       {"merge into an unknown token", "merges",
        [&](W& w) { w.set_strings(prefix + "merges", {"z z"}); }},
       {"merges are numbers", "merges", [&](W& w) { w.set_i32s(prefix + "merges", {1}); }},
       {"endless special token", "tokens", [&](W& w) {
          MadeBpe made = byte_level();
          made.texts.back() = std::string(5'000, '<');
          w.set_strings(prefix + "tokens", made.texts);
        }}});
}

TEST(Tokenizer, Load_WhenTheModelIsUnknown_IsUnsupported) {
  gguf::Writer writer = byte_level().writer("gpt-2");
  writer.set_string("tokenizer.ggml.model", "something-else");
  const auto loaded = Tokenizer::load(*file_of(writer));
  ASSERT_FALSE(loaded.has_value());
  EXPECT_EQ(loaded.error().code, Errc::kUnsupported);
}

TEST(Tokenizer, PreTokenizer_WhenUnknown_IsTheDefaultWithAWarning) {
  gguf::Writer unknown = byte_level().writer("something-else");
  gguf::Writer plain = byte_level().writer("default");
  const auto a = load_made(unknown);
  const auto b = load_made(plain);
  const std::string text = "ab abc, 1234 (ab)";
  EXPECT_EQ(a->encode(text, kPlain).value(), b->encode(text, kPlain).value());
  EXPECT_NE(a->warning().find("'something-else'"), std::string_view::npos);
  EXPECT_EQ(b->warning(), "");
}

TEST(Tokenizer, OddVocabulary_WhenLoaded_Encodes) {
  // Duplicates, empty texts, bytes that are no UTF-8, odd types: legal, and never a crash.
  Made made = sentence_piece();
  for (const char* const odd : {"", "\xFF\xFE", "a", "ab", "\xE4\xB8", " ", "▁\xC0", "<0xZZ>"}) {
    made.add(odd, -3, static_cast<std::int32_t>(made.texts.size() % 9) - 1);
    if (made.types.back() == 6) made.types.back() = 77;
  }
  gguf::Writer writer = made.writer();
  const auto tokenizer = load_made(writer);
  for (const std::string text : {"abab 世 \xC3\xA9", "   ", "<0xZZ>"}) {
    const auto ids = tokenizer->encode(text, {});
    ASSERT_TRUE(ids.has_value());
    for (const TokenId id : *ids) ASSERT_TRUE(id >= 0 && id < tokenizer->vocab_size());
  }
}

}  // namespace
}  // namespace holdfast::text::tokenizer_test
