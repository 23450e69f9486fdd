#include "shared/text/pretokenizer.h"

#include <algorithm>

#include "shared/text/regex_split.h"
#include "shared/text/word_rules.h"

namespace holdfast::text {
namespace {

// The patterns of the models' own tokenizer.json files; \s is spelt \p{wspace} because PCRE2 counts
// U+180E as \s and Unicode (and so the models' tokenizers) does not.
#define HOLDFAST_CONTRACTION R"((?i:'s|'t|'re|'ve|'m|'ll|'d))"
#define HOLDFAST_SPACES R"(\p{wspace}*[\r\n]+|\p{wspace}+(?!\P{wspace})|\p{wspace}+)"
#define HOLDFAST_SYMBOLS R"( ?[^\p{wspace}\p{L}\p{N}]+[\r\n]*)"
#define HOLDFAST_CASED(tail)                                                             \
  R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)" tail \
  R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)" tail

constexpr std::string_view kGpt2 =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\p{wspace}\p{L}\p{N}]+)"
    R"(|\p{wspace}+(?!\P{wspace})|\p{wspace}+)";
constexpr std::string_view kDigit = R"(\p{N})";
constexpr std::string_view kDigits3 = R"(\p{N}{1,3})";
constexpr std::string_view kLlama3 = HOLDFAST_CONTRACTION
    R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|)" HOLDFAST_SYMBOLS "|" HOLDFAST_SPACES;
constexpr std::string_view kMiniCpm = HOLDFAST_CONTRACTION
    R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+|)" HOLDFAST_SYMBOLS "|" HOLDFAST_SPACES;
constexpr std::string_view kQwen2 =
    HOLDFAST_CONTRACTION R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|)" HOLDFAST_SYMBOLS "|" HOLDFAST_SPACES;
constexpr std::string_view kNoContraction =
    R"([^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|)" HOLDFAST_SYMBOLS "|" HOLDFAST_SPACES;
constexpr std::string_view kQwen35 =
    HOLDFAST_CONTRACTION R"(|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N})"
                         R"(| ?[^\p{wspace}\p{L}\p{M}\p{N}]+[\r\n]*|)" HOLDFAST_SPACES;
constexpr std::string_view kSeedCoder = HOLDFAST_CONTRACTION
    R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\p{wspace}\p{L}\p{N}]+|)" HOLDFAST_SPACES;
constexpr std::string_view kExaoneMoe =
    HOLDFAST_CONTRACTION R"(|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N})"
                         R"(| ?[^\p{wspace}\p{L}\p{N}]+[\r\n/]?|\p{wspace}*[\r\n])"
                         R"(|\p{wspace}+(?!\P{wspace})|\p{wspace}+)";
constexpr std::string_view kJais2 = HOLDFAST_CONTRACTION
    R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|)" HOLDFAST_SYMBOLS R"(|\p{wspace}*[\r\n]+)"
    R"(|\p{wspace}{512}(?!\P{wspace})|\p{wspace}{256}(?!\P{wspace})|\p{wspace}{128}(?!\P{wspace}))"
    R"(|\p{wspace}{64}(?!\P{wspace})|\p{wspace}{32}(?!\P{wspace})|\p{wspace}{16}(?!\P{wspace}))"
    R"(|\p{wspace}{8}(?!\P{wspace})|\p{wspace}{4}(?!\P{wspace})|\p{wspace}{1,2}(?!\P{wspace}))"
    R"(|\p{wspace})";
constexpr std::string_view kTekken =
    HOLDFAST_CASED("") R"(|\p{N}| ?[^\p{wspace}\p{L}\p{N}]+[\r\n/]*|)" HOLDFAST_SPACES;
constexpr std::string_view kGpt4o = HOLDFAST_CASED(
    HOLDFAST_CONTRACTION "?") R"(|\p{N}{1,3}| ?[^\p{wspace}\p{L}\p{N}]+[\r\n/]*|)" HOLDFAST_SPACES;
constexpr std::string_view kYoutuScripts =
    R"([\x{AC00}-\x{D7A3}\x{3131}-\x{318E}]+|[\x{FF01}\x{2026}\x{201C}\x{201D}\x{2018}\x{2019})"
    R"(\x{2014}\x{FF1A}\x{FF1B}\x{FF0C}\x{3001}-\x{303F}\x{FE30}-\x{FE4F}]+|[\x{3105}-\x{312F}]+)"
    R"(|[\x{4E00}-\x{9FA5}\x{3040}-\x{30FF}]+)";
constexpr std::string_view kYoutu = HOLDFAST_CASED(
    HOLDFAST_CONTRACTION "?") R"(|\p{N}| ?[^\p{wspace}\p{L}\p{N}]+[\r\n/]*|)" HOLDFAST_SPACES;
#define HOLDFAST_KIMI_UPPER R"((?:(?!\p{Han})[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]))"
#define HOLDFAST_KIMI_LOWER R"((?:(?!\p{Han})[\p{Ll}\p{Lm}\p{Lo}\p{M}]))"
constexpr std::string_view kKimi =
    R"(\p{Han}+|[^\r\n\p{L}\p{N}]?)" HOLDFAST_KIMI_UPPER "*" HOLDFAST_KIMI_LOWER
    "+" HOLDFAST_CONTRACTION R"(?|[^\r\n\p{L}\p{N}]?)" HOLDFAST_KIMI_UPPER "+" HOLDFAST_KIMI_LOWER
    "*" HOLDFAST_CONTRACTION R"(?|\p{N}{1,3}|)" HOLDFAST_SYMBOLS "|" HOLDFAST_SPACES;
constexpr std::string_view kDeepSeekLetters =
    R"(\p{wspace}?[)"
    R"(\x{41}-\x{5A}\x{61}-\x{7A}\x{B5}\x{C0}-\x{D6}\x{D8}-\x{F6}\x{F8}-\x{1BA})"
    R"(\x{1BC}-\x{1BF}\x{1C4}-\x{293}\x{295}-\x{2AF}\x{370}-\x{373}\x{376}\x{377})"
    R"(\x{37B}-\x{37D}\x{37F}\x{386}\x{388}-\x{38A}\x{38C}\x{38E}-\x{3A1})"
    R"(\x{3A3}-\x{3F5}\x{3F7}-\x{481}\x{48A}-\x{52F}\x{531}-\x{556}\x{10A0}-\x{10C5})"
    R"(\x{13A0}-\x{13F5}\x{13F8}-\x{13FD}\x{1C90}-\x{1CBA}\x{1CBD}-\x{1CBF})"
    R"(\x{1D00}-\x{1D2B}\x{1D6B}-\x{1D77}\x{1D79}-\x{1D9A}\x{1E00}-\x{1F15})"
    R"(\x{1F18}-\x{1F1D}\x{1F20}-\x{1F45}\x{1F48}-\x{1F4D}\x{1F50}-\x{1F57}\x{1F59})"
    R"(\x{1F5B}\x{1F5D}\x{1F5F}-\x{1F7D}\x{1F80}-\x{1FB4}\x{1FB6}-\x{1FBC}\x{1FBE})"
    R"(\x{1FC2}-\x{1FC4}\x{1FC6}-\x{1FCC}\x{1FD0}-\x{1FD3}\x{1FD6}-\x{1FDB})"
    R"(\x{1FE0}-\x{1FEC}\x{1FF2}-\x{1FF4}\x{1FF6}-\x{1FFC}\x{2102}\x{2107})"
    R"(\x{210A}-\x{2113}\x{2115}\x{2119}-\x{211D}\x{2124}\x{2126}\x{2128})"
    R"(\x{212A}-\x{212D}\x{212F}-\x{2134}\x{2139}\x{213C}-\x{213F}\x{2145}-\x{2149})"
    R"(\x{214E}\x{2183}\x{2184}\x{2C00}-\x{2C7B}\x{2C7E}-\x{2CE4}\x{2CEB}-\x{2CEE})"
    R"(\x{2CF2}\x{2CF3}\x{A640}-\x{A66D}\x{A680}-\x{A69B}\x{A722}-\x{A76F})"
    R"(\x{A771}-\x{A787}\x{A78B}-\x{A78E}\x{AB70}-\x{ABBF}\x{FB00}-\x{FB06})"
    R"(\x{FB13}-\x{FB17}\x{FF21}-\x{FF3A}\x{FF41}-\x{FF5A}\x{10400}-\x{1044F})"
    R"(\x{104B0}-\x{104D3}\x{104D8}-\x{104FB}\x{10C80}-\x{10CB2}\x{10CC0}-\x{10CF2})"
    R"(\x{118A0}-\x{118DF}\x{1E900}-\x{1E943})"
    R"(]+)";
constexpr std::string_view kNewline = R"([\r\n])";
// In the model's file U+3000 is in the ranges of these two; the ids that other implementations
// agree on come out only if it is white space, as it is everywhere else.
constexpr std::string_view kDeepSeekSymbols =
    R"(\p{wspace}?[!-/:-~\x{FF01}-\x{FF0F}\x{FF1A}-\x{FF5E}\x{2018}-\x{201F}\x{3001}\x{3002}]+)";
// \s+$, written so that a long run inside the text is not tried again from each of its characters.
constexpr std::string_view kTrailingSpace = R"((?<!\p{wspace})\p{wspace}++$)";
constexpr std::string_view kDeepSeekCjk =
    R"([\x{4E00}-\x{9FA5}\x{800}-\x{2FFF}\x{3001}-\x{4E00}\x{AC00}-\x{D7FF}]+)";
constexpr std::string_view kHanKana = R"([\x{4E00}-\x{9FA5}\x{3040}-\x{30FF}]+)";
#define HOLDFAST_DEEPSEEK3 \
  R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+)"
constexpr std::string_view kDeepSeek3 =
    HOLDFAST_DEEPSEEK3 R"(| ?[\p{P}\p{S}]+[\r\n]*|)" HOLDFAST_SPACES;
constexpr std::string_view kSpark =
    HOLDFAST_DEEPSEEK3 R"(| ?[\p{P}\p{S}]+|[\r\n]|\p{wspace}+(?!\P{wspace})|\p{wspace}+)";
constexpr std::string_view kSpaceLetters = R"(\p{wspace}?\p{L}+)";
constexpr std::string_view kSpacePunctuation = R"(\p{wspace}?\p{P}+)";
constexpr std::string_view kFalconPunctuation = R"([\p{P}$+<=>^~|`]+)";
constexpr std::string_view kDefaultPunctuation = R"([\p{P}$+<=>^~|]+)";
constexpr std::string_view kThreeDigits = R"([0-9][0-9][0-9])";
constexpr std::string_view kNumbers = R"(\p{N}+)";
constexpr std::string_view kBloom =
    R"( ?[^(\p{wspace}|.,!?\x{2026}\x{3002}\x{FF0C}\x{3001}\x{964}\x{6D4}\x{60C})]+)";
constexpr std::string_view kSentinel = R"(<sentinel:[0-9]+>)";
constexpr std::string_view kImageToken = R"((?:IMGIMG)[A-I]{1,4}Z)";
constexpr std::string_view kTabOrSpaces = R"([\t\n]|    |  )";
constexpr std::string_view kOnePunctuation = R"([\p{P}!-/:-@\[-`{-~])";
constexpr std::string_view kLine = R"([^\n]+|\n+)";

using Family = WordRule::Family;
constexpr WordRule kNoRule{};
constexpr WordRule kGpt2Rule{.family = Family::kGpt2};
constexpr WordRule kStarcoderRule{.family = Family::kGpt2, .digits_first = true};
constexpr WordRule kLlama3Rule{.family = Family::kLlama3, .digits = 3};
constexpr WordRule kQwen2Rule{.family = Family::kLlama3, .digits = 1};
constexpr WordRule kQwen35Rule{.family = Family::kLlama3, .digits = 1, .marks_are_letters = true};
constexpr WordRule kNoContractionRule{
    .family = Family::kLlama3, .digits = 1, .contractions = false};
constexpr WordRule kDeepSeekRule{.family = Family::kDeepSeek};
constexpr WordRule kSeedCoderRule{.family = Family::kLlama3, .digits = 1, .newline_tail = false};

// A splitting scheme and its names (source: tokenizer_pre in llama-vocab.cpp).
struct Scheme {
  std::vector<std::string_view> names;
  WordRule rule;  // family kNone: only by patterns
  std::vector<std::string_view> patterns;
  PreDefaults defaults{};
};

const std::vector<Scheme>& schemes() {
  static const std::vector<Scheme> all = {
      {{"llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2",
        "jina-v5-nano"},
       kLlama3Rule,
       {kLlama3},
       {.ignore_merges = true, .add_bos = true}},
      {{"dbrx", "smaug-bpe", "glm4", "chatglm-bpe"}, kLlama3Rule, {kLlama3}},
      {{"qwen2", "deepseek-r1-qwen", "kormo", "f2llmv2", "stablelm2", "hunyuan", "solar-open",
        "megrez", "grok-2", "bailingmoe", "bailingmoe2", "llada-moe"},
       kQwen2Rule,
       {kQwen2}},
      {{"qwen35"}, kQwen35Rule, {kQwen35}},
      {{"ufakzeka"}, kNoContractionRule, {kNoContraction}},
      {{"seed-coder"}, kSeedCoderRule, {kSeedCoder}},
      {{"minicpm5"}, kNoRule, {kDigits3, kMiniCpm}, {.ignore_merges = true}},
      {{"gpt-2", "phi-2", "jina-es", "jina-de", "jina-v2-es", "jina-v2-de", "gigachat", "a.x-4.0",
        "mellum", "modern-bert", "mpt", "olmo", "jais", "trillion", "granite-docling", "exaone4",
        "jina-v1-en", "jina-v2-code", "roberta-bpe"},
       kGpt2Rule,
       {kGpt2}},
      {{"starcoder", "refact", "command-r", "smollm", "codeshell", "exaone", "minerva-7b",
        "mellum2"},
       kStarcoderRule,
       {kDigit, kGpt2}},
      {{"deepseek-llm"},
       kDeepSeekRule,
       {kNewline, kDeepSeekLetters, kDeepSeekSymbols, kTrailingSpace, kDeepSeekCjk, kNumbers}},
      {{"deepseek-coder"},
       kNoRule,
       {kNewline, kSpaceLetters, kSpacePunctuation, kDeepSeekCjk, kDigit}},
      {{"deepseek-v3", "hunyuan-dense", "joyai-llm", "hy_v4"},
       kNoRule,
       {kDigits3, kHanKana, kDeepSeek3}},
      {{"spark2_5"}, kNoRule, {kDigits3, kHanKana, kSpark, kDigit}},
      {{"default"}, kNoRule, {kDefaultPunctuation, kGpt2, kNumbers, kThreeDigits}},
      {{"falcon"}, kNoRule, {kFalconPunctuation, kGpt2, kThreeDigits}},
      {{"tekken"}, kNoRule, {kTekken}, {.ignore_merges = true, .add_bos = true}},
      {{"gpt-4o", "llama4", "kanana2", "talkie", "minimax-m2"}, kNoRule, {kGpt4o}},
      {{"granite-embed-multi-97m"}, kNoRule, {kGpt4o}, {.ignore_merges = true}},
      {{"youtu"}, kNoRule, {kYoutuScripts, kYoutu}, {.ignore_merges = true}},
      {{"kimi-k2"}, kNoRule, {kKimi}},
      {{"exaone-moe"}, kNoRule, {kExaoneMoe}},
      {{"jais-2"}, kNoRule, {kJais2}},
      {{"laguna"}, kNoRule, {kLine, kQwen2}},
      {{"bloom", "poro-chat", "gpt3-finnish"}, kNoRule, {kBloom}},
      {{"viking"}, kNoRule, {kBloom, kDigit}},
      {{"chameleon"},
       kNoRule,
       {kSentinel, kImageToken, kTabOrSpaces, kDigit, kOnePunctuation, kGpt2},
       {.add_bos = true}},
  };
  return all;
}

class ByRule final : public PreTokenizer {
 public:
  ByRule(const Scheme& scheme, PreDefaults defaults) : rule_(scheme.rule) { defaults_ = defaults; }
  Result<void> split(std::string_view text, std::vector<std::uint32_t>& ends) const override {
    split_words(rule_, text, 0, ends);
    return {};
  }

 private:
  WordRule rule_;
};

class ByPatterns final : public PreTokenizer {
 public:
  ByPatterns(std::unique_ptr<const RegexSplitter> splitter, PreDefaults defaults)
      : splitter_(std::move(splitter)) {
    defaults_ = defaults;
  }
  Result<void> split(std::string_view text, std::vector<std::uint32_t>& ends) const override {
    return splitter_->split(text, ends);
  }

 private:
  std::unique_ptr<const RegexSplitter> splitter_;
};

}  // namespace

Result<std::unique_ptr<const PreTokenizer>> PreTokenizer::create(std::string_view name,
                                                                 bool by_regex) {
  using Made = std::unique_ptr<const PreTokenizer>;
  for (const Scheme& scheme : schemes()) {
    for (const std::string_view scheme_name : scheme.names) {
      if (scheme_name != name) continue;
      if (scheme.rule.family != Family::kNone && !by_regex) {
        return Made(std::make_unique<const ByRule>(scheme, scheme.defaults));
      }
      return Made(std::make_unique<const ByPatterns>(
          std::make_unique<const RegexSplitter>(scheme.patterns), scheme.defaults));
    }
  }
  std::string names;
  for (const std::string_view scheme_name : pre_tokenizer_names()) {
    names.append(names.empty() ? "" : ", ").append(scheme_name);
  }
  return Error{Errc::kUnsupported, "load tokenizer: tokenizer.ggml.pre '" +
                                       std::string(name.substr(0, 80)) +
                                       "' is not known here; expected one of " + names};
}

Result<std::unique_ptr<const PreTokenizer>> PreTokenizer::create_from(
    const std::vector<std::string_view>& patterns, PreDefaults defaults) {
  using Made = std::unique_ptr<const PreTokenizer>;
  for (const Scheme& scheme : schemes()) {
    if (scheme.patterns != patterns || scheme.rule.family == Family::kNone) continue;
    return Made(std::make_unique<const ByRule>(scheme, defaults));
  }
  HOLDFAST_TRY(auto splitter, RegexSplitter::compile(patterns));
  return Made(std::make_unique<const ByPatterns>(std::move(splitter), defaults));
}

std::vector<std::string_view> pre_tokenizer_names() {
  std::vector<std::string_view> names;
  for (const Scheme& scheme : schemes()) {
    names.insert(names.end(), scheme.names.begin(), scheme.names.end());
  }
  return names;
}

std::vector<std::string_view> pre_tokenizer_patterns(std::string_view name) {
  for (const Scheme& scheme : schemes()) {
    if (std::find(scheme.names.begin(), scheme.names.end(), name) != scheme.names.end()) {
      return scheme.patterns;
    }
  }
  return {};
}

std::string_view pre_tokenizer_name(const std::vector<std::string_view>& patterns,
                                    bool ignore_merges) {
  for (const Scheme& scheme : schemes()) {
    if (scheme.patterns == patterns && scheme.defaults.ignore_merges == ignore_merges) {
      return scheme.names.front();
    }
  }
  return {};
}

}  // namespace holdfast::text
