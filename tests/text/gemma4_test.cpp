// Goal: text becomes the ids of Gemma 4's vocabulary, which is SentencePiece's with a list of
// merges. Method: small vocabularies made here with merges drawn at random, compared with the same
// rules on strings: a space is U+2581, newlines and the text between them are separate runs, a run
// of newlines is one token if there is such a token, a character that is no token is its bytes.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <random>

#include "shared/gguf/writer.h"
#include "shared/text/tokenizer.h"

namespace holdfast::text::gemma4_test {
namespace {

using Ids = std::vector<TokenId>;
constexpr EncodeOptions kPlain{.add_special = false, .parse_special = false};

struct Made {
  std::vector<std::string> texts;
  std::vector<std::int32_t> types;
  std::vector<std::string> merges;

  TokenId add(const std::string& text, std::int32_t type = 1) {
    texts.push_back(text);
    types.push_back(type);
    return static_cast<TokenId>(texts.size()) - 1;
  }
  bool has(const std::string& text) const {
    return std::find(texts.begin(), texts.end(), text) != texts.end();
  }
  gguf::Writer writer() const {
    gguf::Writer w;
    w.set_string("tokenizer.ggml.model", "gemma4");
    w.set_strings("tokenizer.ggml.tokens", texts);
    w.set_i32s("tokenizer.ggml.token_type", types);
    w.set_strings("tokenizer.ggml.merges", merges);
    w.set_u32("tokenizer.ggml.eos_token_id", 1);
    w.set_u32("tokenizer.ggml.bos_token_id", 2);
    return w;
  }
};

Result<std::shared_ptr<const Tokenizer>> load(gguf::Writer writer) {
  return Tokenizer::load(*gguf::File::from_bytes(writer.to_bytes().value(), "made.gguf").value());
}

/// Special tokens, bytes, characters, runs of newlines, then merges drawn at random.
Made random_vocabulary(std::mt19937& random) {
  Made made;
  for (const char* text : {"<pad>", "<eos>", "<bos>", "<|turn>", "<turn|>"}) made.add(text, 3);
  for (unsigned b = 0; b < 256; ++b) {
    char text[8];
    std::snprintf(text, sizeof text, "<0x%02X>", b);
    made.add(text, 6);
  }
  made.add("<|\"|>", 4);
  for (const char* text : {"\n", "\n\n", "\n\n\n"}) made.add(text);
  std::vector<std::string> parts = {"▁", "a", "b", "c", "é", "<", "/", "s", ">"};
  for (const std::string& part : parts) made.add(part);
  for (int n = 0; n < 50; ++n) {
    const std::string left = parts[random() % parts.size()];
    const std::string right = parts[random() % parts.size()];
    if (made.has(left + right)) continue;
    made.merges.push_back(left + " " + right);
    made.add(left + right);
    if (left.size() + right.size() <= 9) parts.push_back(left + right);
  }
  std::shuffle(made.merges.begin(), made.merges.end(), random);
  return made;
}

class Slow {
 public:
  explicit Slow(const Made& made) {
    for (std::size_t i = 0; i < made.texts.size(); ++i) {
      if (made.types[i] == 1) ids_[made.texts[i]] = static_cast<TokenId>(i);
      if (made.types[i] == 6 && first_byte_ < 0) first_byte_ = static_cast<TokenId>(i);
    }
    for (std::size_t i = 0; i < made.merges.size(); ++i) ranks_[made.merges[i]] = i;
  }

  /// `letters`: the characters of the text.
  Ids encode(const std::vector<std::string>& letters) const {
    Ids out;
    for (std::size_t at = 0; at < letters.size();) {
      std::vector<std::string> run;
      const bool newline = letters[at] == "\n";
      for (; at < letters.size() && (letters[at] == "\n") == newline; ++at) {
        run.push_back(letters[at] == " " ? "▁" : letters[at]);
      }
      std::string whole;
      for (const std::string& letter : run) whole += letter;
      if (newline && ids_.count(whole) > 0) {
        out.push_back(ids_.at(whole));
        continue;
      }
      for (const std::string& part : merged(run)) append(part, out);
    }
    return out;
  }

 private:
  std::vector<std::string> merged(std::vector<std::string> parts) const {
    for (;;) {
      std::size_t best = parts.size(), least = ranks_.size();
      for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
        const auto found = ranks_.find(parts[i] + " " + parts[i + 1]);
        if (found == ranks_.end() || found->second >= least) continue;
        least = found->second;
        best = i;
      }
      if (best == parts.size()) return parts;
      parts[best] += parts[best + 1];
      parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(best) + 1);
    }
  }
  void append(const std::string& part, Ids& out) const {
    const auto found = ids_.find(part);
    if (found != ids_.end()) return out.push_back(found->second);
    for (const char c : part) out.push_back(first_byte_ + static_cast<unsigned char>(c));
  }

  std::map<std::string, TokenId> ids_;
  std::map<std::string, std::size_t> ranks_;
  TokenId first_byte_ = -1;
};

TEST(Gemma4, Encode_WithRandomTexts_EqualsNaiveMerging) {
  std::mt19937 random(5);
  const std::vector<std::string> letters = {"a", "b", " ", "c",  "é", "\n", " ", "世",
                                            "<", "/", "s", "\n", ">", "\t", "z"};
  for (int vocabulary = 0; vocabulary < 60; ++vocabulary) {
    const Made made = random_vocabulary(random);
    const auto tokenizer = load(made.writer());
    ASSERT_TRUE(tokenizer.has_value()) << tokenizer.error().what;
    const Slow slow(made);
    for (int round = 0; round < 60; ++round) {
      std::vector<std::string> characters;
      std::string text;
      for (std::size_t n = 1 + random() % (round % 3 == 0 ? 200 : 20); n > 0; --n) {
        characters.push_back(letters[random() % letters.size()]);
        text += characters.back();
      }
      const auto ids = (*tokenizer)->encode(text, kPlain);
      ASSERT_TRUE(ids.has_value());
      ASSERT_EQ(*ids, slow.encode(characters)) << '"' << text << '"';
      ASSERT_EQ(decode(**tokenizer, *ids, false, true), text);
    }
  }
}

TEST(Gemma4, SpecialTokens_WhenEncoded_HaveTheirIdsAndEndFlags) {
  std::mt19937 random(6);
  Made made = random_vocabulary(random);
  const TokenId quote = 5 + 256;
  const TokenId tag = made.add("</s>"), response = made.add("<|tool_response>", 4);
  gguf::Writer writer = made.writer();
  writer.set_bool("tokenizer.ggml.add_bos_token", false);  // as in the first published files
  const auto tokenizer = load(std::move(writer)).value();
  EXPECT_EQ(*tokenizer->encode("", {}), (Ids{2}));
  EXPECT_FALSE(tokenizer->adds_space_prefix());
  const Ids turn = *tokenizer->encode("<|turn>", {.add_special = false, .parse_special = true});
  EXPECT_EQ(turn, (Ids{3}));
  EXPECT_GT(tokenizer->encode("<|turn>", kPlain)->size(), 1U);
  EXPECT_EQ(tokenizer->encode("<|\"|>", kPlain)->at(0), quote);
  EXPECT_EQ(tokenizer->token_bytes(quote), "<|\"|>");
  for (const TokenId end : {TokenId{1}, TokenId{4}, response}) EXPECT_TRUE(tokenizer->is_end(end));
  EXPECT_FALSE(tokenizer->is_end(tag) || tokenizer->is_control(tag));
  EXPECT_EQ(tokenizer->token_bytes(tag), "</s>");
}

TEST(Gemma4, PlainText_WhenItSpellsASpecialToken_IsNotMergedIntoIt) {
  std::mt19937 random(8);
  Made made = random_vocabulary(random);
  made.add("<s>", 3);
  made.add("<s");
  made.merges.insert(made.merges.begin(), {"< s", "<s >"});
  const Ids ids = *load(made.writer()).value()->encode("<s>", kPlain);
  EXPECT_GT(ids.size(), 1U);
}

TEST(Gemma4, Load_WhenMergesAreMissing_IsRefused) {
  std::mt19937 random(9);
  const Made made = random_vocabulary(random);
  const auto refused = [](gguf::Writer writer, const char* why) {
    const auto loaded = load(std::move(writer));
    ASSERT_FALSE(loaded.has_value()) << why;
    EXPECT_EQ(loaded.error().code, Errc::kFileInvalid);
    EXPECT_NE(loaded.error().what.find("tokenizer.ggml.merges"), std::string::npos) << why;
  };
  gguf::Writer writer = made.writer();
  writer.set_strings("tokenizer.ggml.merges", {"a unknown"});
  refused(std::move(writer), "an unknown token");
  gguf::Writer none;
  none.set_string("tokenizer.ggml.model", "gemma4");
  none.set_strings("tokenizer.ggml.tokens", made.texts);
  none.set_i32s("tokenizer.ggml.token_type", made.types);
  refused(std::move(none), "no merges");
}

}  // namespace
}  // namespace holdfast::text::gemma4_test
