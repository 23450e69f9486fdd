#include "shared/huggingface/tokenizer_pipeline.h"

#include <map>
#include <nlohmann/json.hpp>
#include <string_view>

#include "shared/gguf/parse.h"

namespace holdfast::huggingface {
namespace {

using nlohmann::json;

constexpr const char* kMeta = "\xE2\x96\x81";
constexpr std::string_view kGpt2 =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

std::string text_of(const json& in, const char* name) {
  const auto at = in.find(name);
  return at != in.end() && at->is_string() ? at->get<std::string>() : "";
}
bool flag_of(const json& in, const char* name, bool fallback) {
  const auto at = in.find(name);
  return at != in.end() && at->is_boolean() ? at->get<bool>() : fallback;
}

Error unsupported(const char* part, const std::string& what) {
  return {Errc::kUnsupported,
          std::string("read tokenizer.json: ") + part + " " + what + " is not supported"};
}

/// Spells \s and \S as the property that the models' tokenizers mean by them: PCRE2's \s has one
/// character more.
std::string for_pcre2(std::string_view pattern) {
  std::string out;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] != '\\' || i + 1 == pattern.size()) {
      out += pattern[i];
      continue;
    }
    const char next = pattern[++i];
    if (next == 's') {
      out += "\\p{wspace}";
    } else if (next == 'S') {
      out += "\\P{wspace}";
    } else {
      out += '\\';
      out += next;
    }
  }
  return out;
}

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (std::string_view("\\^$.[]|()?*+{}").find(c) != std::string_view::npos) out += '\\';
    out += c;
  }
  return out;
}

/// Returns {"Regex": …} or {"String": …} as a pattern.
std::string pattern_of(const json& in) {
  const auto at = in.find("pattern");
  if (at == in.end() || !at->is_object()) return "";
  const std::string regex = text_of(*at, "Regex");
  return regex.empty() ? escaped(text_of(*at, "String")) : for_pcre2(regex);
}

class PipelineReader {
 public:
  Result<void> normalizer(const json& in) {
    static const std::map<std::string_view, Read> readers = {
        {"Sequence", &PipelineReader::normalizers},
        {"NFC", &PipelineReader::normal_form},
        {"NFKC", &PipelineReader::normal_form},
        {"Lowercase", &PipelineReader::lowercase},
        {"Prepend", &PipelineReader::prepend},
        {"Replace", &PipelineReader::replace},
        {"Precompiled", &PipelineReader::precompiled},
        {"Strip", &PipelineReader::strip},
        {"BertNormalizer", &PipelineReader::bert_normalizer},
    };
    return read_by_type(readers, "normalizer", in);
  }

  Result<void> pre_tokenizer(const json& in) {
    static const std::map<std::string_view, Read> readers = {
        {"Sequence", &PipelineReader::pre_tokenizers},
        {"ByteLevel", &PipelineReader::byte_level},
        {"Split", &PipelineReader::split},
        {"Digits", &PipelineReader::digits},
        {"Punctuation", &PipelineReader::punctuation},
        {"Metaspace", &PipelineReader::metaspace},
        {"WhitespaceSplit", &PipelineReader::white_space_split},
        {"BertPreTokenizer", &PipelineReader::bert_pre_tokenizer},
    };
    return read_by_type(readers, "pre_tokenizer", in);
  }

  /// Reads the decoder: one of ByteLevel alone also shows that words are bytes.
  void decoder(const json& in) {
    if (text_of(in, "type") == "ByteLevel") out_.byte_level = true;
  }

  Pipeline take() { return std::move(out_); }

 private:
  using Read = Result<void> (PipelineReader::*)(const json&);

  /// Reads a step by its "type". `part`: where it stands, for errors.
  Result<void> read_by_type(const std::map<std::string_view, Read>& readers, const char* part,
                            const json& in) {
    const std::string type = text_of(in, "type");
    const auto reader = readers.find(type);
    if (reader == readers.end()) return unsupported(part, gguf::quoted(type));
    return (this->*reader->second)(in);
  }

  Result<void> normalizers(const json& in) {
    return each(in, "normalizers", &PipelineReader::normalizer);
  }
  Result<void> pre_tokenizers(const json& in) {
    return each(in, "pretokenizers", &PipelineReader::pre_tokenizer);
  }

  Result<void> normal_form(const json& in) {
    out_.form = text_of(in, "type") == "NFC" ? "nfc" : "nfkc";
    return {};
  }

  Result<void> lowercase(const json&) {
    out_.lowercase = true;
    return {};
  }

  Result<void> prepend(const json& in) {
    if (text_of(in, "prepend") != kMeta) return unsupported("normalizer", gguf::quoted("Prepend"));
    out_.prefix_space = true;
    return {};
  }

  Result<void> precompiled(const json& in) {
    out_.charsmap = text_of(in, "precompiled_charsmap");
    return {};
  }

  Result<void> strip(const json&) {
    out_.strip = true;
    return {};
  }

  Result<void> bert_normalizer(const json& in) {
    if (!flag_of(in, "clean_text", true)) return unsupported("normalizer", "without clean_text");
    out_.bert = true;
    out_.lowercase = flag_of(in, "lowercase", true);
    out_.strip_accents = flag_of(in, "strip_accents", out_.lowercase);
    out_.chinese = flag_of(in, "handle_chinese_chars", true);
    return {};
  }

  Result<void> byte_level(const json& in) {
    out_.byte_level = true;
    out_.prefix_space = out_.prefix_space || flag_of(in, "add_prefix_space", false);
    if (flag_of(in, "use_regex", true)) out_.patterns.push_back(for_pcre2(kGpt2));
    return {};
  }

  Result<void> digits(const json& in) {
    const bool single = flag_of(in, "individual_digits", false);
    out_.patterns.push_back(single ? R"(\p{N})" : R"(\p{N}+)");
    return {};
  }

  Result<void> punctuation(const json& in) {
    const std::string behavior = text_of(in, "behavior");
    if (!behavior.empty() && behavior != "Isolated") {
      return unsupported("pre_tokenizer", gguf::quoted("Punctuation"));
    }
    out_.patterns.push_back(R"([\p{P}!-/:-@\[-`{-~])");
    return {};
  }

  Result<void> white_space_split(const json&) {
    out_.squeeze_spaces = true;
    return {};
  }

  Result<void> bert_pre_tokenizer(const json&) {
    out_.bert = true;
    return {};
  }

  Result<void> each(const json& in, const char* list, Read read) {
    const auto at = in.find(list);
    if (at == in.end() || !at->is_array()) return unsupported(list, "without its list");
    for (const json& part : *at) HOLDFAST_CHECKED((this->*read)(part));
    return {};
  }

  Result<void> replace(const json& in) {
    const std::string pattern = pattern_of(in);
    const std::string content = text_of(in, "content");
    if (pattern == " " && content == kMeta) {
      out_.meta = true;
      return {};
    }
    // Replaces runs of spaces by one, like sentencepiece's own normaliser.
    if (pattern == " {2,}" && (content == " " || content == kMeta)) {
      out_.squeeze_spaces = true;
      return {};
    }
    return unsupported("normalizer",
                       "Replace of " + gguf::quoted(pattern) + " by " + gguf::quoted(content));
  }

  Result<void> metaspace(const json& in) {
    out_.meta = true;
    const std::string scheme = text_of(in, "prepend_scheme");
    const bool prefix = scheme.empty() ? flag_of(in, "add_prefix_space", true) : scheme != "never";
    out_.prefix_space = out_.prefix_space || prefix;
    return {};
  }

  Result<void> split(const json& in) {
    const std::string behavior = text_of(in, "behavior");
    const std::string pattern = pattern_of(in);
    const bool invert = flag_of(in, "invert", false);
    if (pattern.empty()) return unsupported("pre_tokenizer", "Split without a pattern");
    // Merging a space with the word before it cuts only where no token of such a vocabulary
    // crosses.
    if (pattern == " " && behavior == "MergedWithPrevious" && !invert) return {};
    if ((behavior == "Isolated" && !invert) || (behavior == "Removed" && invert)) {
      out_.patterns.push_back(pattern);
      return {};
    }
    return unsupported("pre_tokenizer", "Split with behavior " + gguf::quoted(behavior));
  }

  Pipeline out_;
};

}  // namespace

Result<Pipeline> read_pipeline(const nlohmann::json& tokenizer) {
  PipelineReader reader;
  const auto part = [&](const char* name) {
    const auto at = tokenizer.find(name);
    return at != tokenizer.end() && at->is_object() ? &*at : nullptr;
  };
  if (const json* in = part("normalizer")) HOLDFAST_CHECKED(reader.normalizer(*in));
  if (const json* in = part("pre_tokenizer")) HOLDFAST_CHECKED(reader.pre_tokenizer(*in));
  if (const json* in = part("decoder")) reader.decoder(*in);
  return reader.take();
}

}  // namespace holdfast::huggingface
