#include "shared/text/vocab.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <set>

namespace holdfast::text {
namespace {

constexpr std::string_view kTokens = "tokenizer.ggml.tokens";
constexpr std::string_view kTokenType = "tokenizer.ggml.token_type";
constexpr std::string_view kScores = "tokenizer.ggml.scores";
constexpr std::string_view kAddBos = "tokenizer.ggml.add_bos_token";
constexpr std::string_view kAddEos = "tokenizer.ggml.add_eos_token";
constexpr std::string_view kBos = "tokenizer.ggml.bos_token_id";
constexpr std::string_view kEos = "tokenizer.ggml.eos_token_id";
constexpr std::string_view kUnknownId = "tokenizer.ggml.unknown_token_id";

// Keys of ids that end a generation, besides eos.
constexpr std::string_view kEndKeys[] = {
    "tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id", "tokenizer.ggml.fim_pad_token_id",
    "tokenizer.ggml.fim_rep_token_id", "tokenizer.ggml.fim_sep_token_id"};

// Checked, though unused here: a bad one means a bad file.
constexpr std::string_view kOtherIdKeys[] = {
    "tokenizer.ggml.padding_token_id", "tokenizer.ggml.seperator_token_id",
    "tokenizer.ggml.mask_token_id",    "tokenizer.ggml.cls_token_id",
    "tokenizer.ggml.fim_pre_token_id", "tokenizer.ggml.fim_suf_token_id",
    "tokenizer.ggml.fim_mid_token_id"};

// Texts of end tokens. Many files name only one; these mean the same in every model.
const std::set<std::string_view>& end_texts() {
  static const std::set<std::string_view> texts = {"<|eot_id|>",
                                                   "<|im_end|>",
                                                   "<|end|>",
                                                   "<|return|>",
                                                   "<|call|>",
                                                   "<|calls|>",
                                                   "<|flush|>",
                                                   "<end_of_turn>",
                                                   "<|endoftext|>",
                                                   "</s>",
                                                   "<|eom_id|>",
                                                   "<EOT>",
                                                   "_<EOT>",
                                                   "[EOT]",
                                                   "[EOS]",
                                                   "<|end_of_text|>",
                                                   "<end_of_utterance>",
                                                   "<eos>",
                                                   "<turn|>",
                                                   "<|tool_response>",
                                                   "<｜end▁of▁sentence｜>",
                                                   "[e~[",
                                                   "<|fim_pad|>",
                                                   "<fim-pad>",
                                                   "<fim_pad>",
                                                   "<PAD>",
                                                   "[PAD]",
                                                   "<|fim_repo|>",
                                                   "<|repo_name|>",
                                                   "<fim-repo>",
                                                   "<REPO>",
                                                   "<reponame>",
                                                   "<|file_sep|>"};
  return texts;
}

/// Returns the kind of a type as the files number them.
TokenKind kind_of_type(std::int64_t type) {
  return type >= 0 && type <= 6 ? static_cast<TokenKind>(type) : TokenKind::kUndefined;
}

// Recognises byte tokens of old files, which have no types, by their text.
void infer_kinds(Vocab& vocab) {
  if (vocab.model != "llama") return;
  for (std::size_t i = 0; i < vocab.texts.size(); ++i) {
    if (byte_of_token_text(vocab.texts[i]) >= 0) vocab.kinds[i] = TokenKind::kByte;
  }
}

Result<void> read_kinds(const gguf::File& file, Vocab& vocab) {
  const std::size_t count = vocab.texts.size();
  vocab.kinds.assign(count, TokenKind::kNormal);
  if (!file.has(kTokenType)) {
    infer_kinds(vocab);
    return {};
  }
  const auto types = file.get_ints(kTokenType);
  if (!types) return vocab_error(file, kTokenType, "expected an array of integers");
  if (types->size() < count) {
    return vocab_error(file, kTokenType,
                       "has " + std::to_string(types->size()) +
                           " entries; expected one for each of " + std::to_string(count) +
                           " tokens");
  }
  for (std::size_t i = 0; i < count; ++i) {
    vocab.kinds[i] = kind_of_type((*types)[i]);
    if (vocab.kinds[i] == TokenKind::kByte && byte_of_token_text(vocab.texts[i]) < 0) {
      return vocab_error(
          file, kTokens,
          "token " + std::to_string(i) + " is of type BYTE; expected a text like <0x0A>");
    }
  }
  return {};
}

Result<void> read_scores(const gguf::File& file, Vocab& vocab) {
  auto scores = file.get_floats(kScores);
  if (!scores) {
    const auto integers = file.get_ints(kScores);
    if (!integers) {
      return vocab_error(file, kScores,
                         "expected an array of floats (the models 'llama' and 't5' need it)");
    }
    scores.emplace(integers->begin(), integers->end());
  }
  if (scores->size() < vocab.texts.size()) {
    return vocab_error(file, kScores,
                       "has " + std::to_string(scores->size()) +
                           " entries; expected one for each of " +
                           std::to_string(vocab.texts.size()) + " tokens");
  }
  scores->resize(vocab.texts.size());
  for (std::size_t i = 0; i < scores->size(); ++i) {
    if (!std::isfinite((*scores)[i])) {
      return vocab_error(file, kScores, "entry " + std::to_string(i) + " is not a finite number");
    }
  }
  vocab.scores = std::move(*scores);
  return {};
}

// Reads an id; leaves `id` unchanged if the key is absent. All ones (a -1 written as u32) means
// "none".
Result<void> read_id(const gguf::File& file, std::string_view key, std::size_t count,
                     std::int32_t& id) {
  if (!file.has(key)) return {};
  const auto value = file.get_i64(key);
  if (!value) return vocab_error(file, key, "expected an integer");
  if (*value == -1 || *value == std::numeric_limits<std::uint32_t>::max()) {
    id = -1;
    return {};
  }
  if (*value < 0 || static_cast<std::uint64_t>(*value) >= count) {
    return vocab_error(
        file, key,
        "is " + std::to_string(*value) + "; expected a token id below " + std::to_string(count));
  }
  id = static_cast<std::int32_t>(*value);
  return {};
}

Result<void> read_flag(const gguf::File& file, std::string_view key, bool& flag) {
  if (!file.has(key)) return {};
  const auto value = file.get_bool(key);
  if (!value) return vocab_error(file, key, "expected a bool");
  flag = *value;
  return {};
}

// The ids and flags that a model has when its file does not name them.
struct ModelDefaults {
  std::string_view model;
  std::int32_t unknown = -1;
  std::int32_t bos = -1;
  std::int32_t eos = -1;
  bool add_bos = false;
  bool add_eos = false;
  bool add_space_prefix = false;
};

// The ids are those of the first models of these kinds; BERT has two, around every text.
constexpr ModelDefaults kModelDefaults[] = {{"llama", 0, 1, 2, true, false, true},
                                            {"bert", 100, 101, 102, true, true, false},
                                            {"t5", 2, -1, 1, false, true, true},
                                            {"gemma4", -1, -1, -1, true, false, false},
                                            {"gpt2", -1, -1, -1, false, false, false}};

ModelDefaults defaults_of(const Vocab& vocab) {
  const ModelDefaults* const found =
      std::find_if(std::begin(kModelDefaults), std::end(kModelDefaults),
                   [&](const ModelDefaults& d) { return d.model == vocab.model; });
  return found != std::end(kModelDefaults) ? *found : ModelDefaults{};
}

void set_default_ids(const ModelDefaults& defaults, Vocab& vocab) {
  const std::size_t count = vocab.texts.size();
  if (vocab.model == "llama" && count <= 2) return;
  const auto within = [count](std::int32_t id) {
    return static_cast<std::size_t>(id) < count ? id : -1;
  };
  vocab.unknown = within(defaults.unknown);
  vocab.bos = within(defaults.bos);
  vocab.eos = within(defaults.eos);
}

Result<void> read_end_ids(const gguf::File& file, Vocab& vocab) {
  const std::size_t count = vocab.texts.size();
  vocab.is_end.assign(count, false);
  for (const std::string_view key : kEndKeys) {
    std::int32_t id = -1;
    HOLDFAST_CHECKED(read_id(file, key, count, id));
    if (id >= 0) vocab.is_end[static_cast<std::size_t>(id)] = true;
  }
  for (const std::string_view key : kOtherIdKeys) {
    std::int32_t ignored = -1;
    HOLDFAST_CHECKED(read_id(file, key, count, ignored));
  }
  if (vocab.eos >= 0) vocab.is_end[static_cast<std::size_t>(vocab.eos)] = true;
  return {};
}

Result<void> read_flags(const gguf::File& file, const ModelDefaults& defaults, Vocab& vocab) {
  vocab.add_bos = defaults.add_bos && vocab.bos >= 0;
  vocab.add_eos = defaults.add_eos && vocab.eos >= 0;
  vocab.add_space_prefix = defaults.add_space_prefix;
  HOLDFAST_CHECKED(read_flag(file, kAddBos, vocab.add_bos));
  HOLDFAST_CHECKED(read_flag(file, kAddEos, vocab.add_eos));
  HOLDFAST_CHECKED(read_flag(file, "tokenizer.ggml.add_space_prefix", vocab.add_space_prefix));
  // The first converted files of "gemma4" say false.
  if (vocab.model == "gemma4") vocab.add_bos = vocab.bos >= 0;
  if (vocab.add_bos && vocab.bos < 0) {
    return vocab_error(file, kAddBos, "is true; expected " + std::string(kBos) + " beside it");
  }
  if (vocab.add_eos && vocab.eos < 0) {
    return vocab_error(file, kAddEos, "is true; expected " + std::string(kEos) + " beside it");
  }
  return {};
}

Result<void> read_ids(const gguf::File& file, Vocab& vocab) {
  const std::size_t count = vocab.texts.size();
  const ModelDefaults defaults = defaults_of(vocab);
  set_default_ids(defaults, vocab);
  if (vocab.model == "bert") {
    HOLDFAST_CHECKED(read_id(file, "tokenizer.ggml.cls_token_id", count, vocab.bos));
    HOLDFAST_CHECKED(read_id(file, "tokenizer.ggml.seperator_token_id", count, vocab.eos));
  }
  HOLDFAST_CHECKED(read_id(file, kBos, count, vocab.bos));
  HOLDFAST_CHECKED(read_id(file, kEos, count, vocab.eos));
  HOLDFAST_CHECKED(read_id(file, kUnknownId, count, vocab.unknown));
  HOLDFAST_CHECKED(read_end_ids(file, vocab));
  return read_flags(file, defaults, vocab);
}

bool is_plain(TokenKind kind) {
  return kind == TokenKind::kNormal || kind == TokenKind::kUndefined || kind == TokenKind::kUnused;
}

bool is_end_text(const Vocab& vocab, std::string_view text) {
  if (text.size() > 32 || !end_texts().contains(text)) return false;
  return vocab.model != "gemma4" || text != "</s>";  // an HTML tag there
}

bool has_text(const Vocab& vocab, std::initializer_list<std::string_view> any) {
  return std::any_of(any.begin(), any.end(), [&](std::string_view text) {
    return std::find(vocab.texts.begin(), vocab.texts.end(), text) != vocab.texts.end();
  });
}

void mark_end_texts(Vocab& vocab) {
  std::size_t harmony_end = vocab.texts.size();
  for (std::size_t i = 0; i < vocab.texts.size(); ++i) {
    if (!is_end_text(vocab, vocab.texts[i])) continue;
    vocab.is_end[i] = true;
    if (is_plain(vocab.kinds[i])) vocab.kinds[i] = TokenKind::kControl;  // the converter's error
    if (vocab.texts[i] == "<|end|>") harmony_end = i;
  }
  // In these two families <|end|> ends one message of an answer, not the answer.
  const bool harmony = harmony_end < vocab.texts.size() &&
                       has_text(vocab, {"<|return|>", "<|flush|>"}) &&
                       has_text(vocab, {"<|call|>", "<|calls|>"});
  if (harmony) vocab.is_end[harmony_end] = false;
}

// Phi-3's own tokenizer drops white space after its special tokens; GGUF has no key for that.
void mark_space_eaters(const gguf::File& file, Vocab& vocab) {
  vocab.rstrip.assign(vocab.texts.size(), false);
  std::string name(file.get_string("general.name").value_or(""));
  for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (name.find("phi-3") == std::string::npos && name.find("phi3") == std::string::npos) return;
  for (std::size_t i = 0; i < vocab.texts.size(); ++i) {
    const std::string_view text = vocab.texts[i];
    vocab.rstrip[i] = text != "<unk>" && text != "<s>" && text != "<|endoftext|>";
  }
}

}  // namespace

Error vocab_error(const gguf::File& file, std::string_view key, const std::string& cause) {
  return {Errc::kFileInvalid, "load tokenizer " + std::string(file.name()) + ": " +
                                  std::string(key) + ": " + cause +
                                  "; the file is damaged or was badly converted"};
}

bool says_add_bos(const gguf::File& file) {
  return file.has(kAddBos);
}

namespace {

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

}  // namespace

int byte_of_token_text(std::string_view text) {
  if (text.size() != 6 || text.substr(0, 3) != "<0x" || text[5] != '>') return -1;
  const int high = hex_digit(text[3]);
  const int low = hex_digit(text[4]);
  return high < 0 || low < 0 ? -1 : high * 16 + low;
}

namespace {

Result<std::string_view> read_model(const gguf::File& file) {
  constexpr std::string_view kModel = "tokenizer.ggml.model";
  const auto model = file.get_string(kModel);
  if (!model) return vocab_error(file, kModel, "expected a string");
  const bool supported = std::any_of(std::begin(kModelDefaults), std::end(kModelDefaults),
                                     [&](const ModelDefaults& d) { return d.model == *model; });
  if (!supported) {
    return Error{Errc::kUnsupported,
                 "load tokenizer " + std::string(file.name()) + ": " + std::string(kModel) + " '" +
                     std::string(model->substr(0, 80)) +
                     "' is not known here; expected llama, gpt2, bert, t5 or gemma4"};
  }
  return *model;
}

}  // namespace

Result<Vocab> read_vocab(const gguf::File& file) {
  Vocab vocab;
  HOLDFAST_TRY(vocab.model, read_model(file));
  vocab.pre = file.get_string("tokenizer.ggml.pre").value_or("default");
  vocab.chat_template = file.get_string("tokenizer.chat_template").value_or("");
  auto texts = file.get_strings(kTokens);
  if (!texts) return vocab_error(file, kTokens, "expected an array of strings");
  if (texts->empty()) return vocab_error(file, kTokens, "has no tokens; expected at least one");
  if (texts->size() > static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max() / 4)) {
    return vocab_error(file, kTokens, "has more tokens than 2^29");
  }
  vocab.texts = std::move(*texts);
  HOLDFAST_CHECKED(read_kinds(file, vocab));
  if (vocab.model == "llama" || vocab.model == "t5") HOLDFAST_CHECKED(read_scores(file, vocab));
  HOLDFAST_CHECKED(read_ids(file, vocab));
  mark_end_texts(vocab);
  mark_space_eaters(file, vocab);
  return vocab;
}

}  // namespace holdfast::text
