#include "shared/huggingface/tokenizer_json.h"

#include <sys/stat.h>

#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <unordered_map>

#include "shared/gguf/parse.h"
#include "shared/huggingface/json_file.h"
#include "shared/huggingface/tokenizer_pipeline.h"
#include "shared/huggingface/tokenizer_words.h"
#include "shared/text/pretokenizer.h"

namespace holdfast::huggingface {
namespace {

using nlohmann::json;

constexpr const char* kMeta = "\xE2\x96\x81";  // U+2581
constexpr std::int64_t kVocabMax = 1 << 21;    // eight times the largest real one; bounds memory
enum Kind : std::int32_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUser = 4,
  kUnused = 5,
  kByte = 6
};

Error invalid(const std::string& what) {
  return {Errc::kFileInvalid, "read tokenizer.json: " + what};
}

bool is_byte_text(std::string_view text) {
  return text.size() == 6 && text.starts_with("<0x") && text[5] == '>' &&
         text.substr(3, 2).find_first_not_of("0123456789abcdefABCDEF") == std::string_view::npos;
}

bool is_pair(const json& in) {
  return in.is_array() && in.size() == 2;
}

/// Returns the content of {"content": …} or of a plain string.
std::string token_text(const json& in) {
  if (in.is_string()) return in.get<std::string>();
  if (in.is_object() && in.contains("content") && in["content"].is_string()) {
    return in["content"].get<std::string>();
  }
  return "";
}

class TokenizerReader {
 public:
  TokenizerReader(const json& tokenizer, gguf::Writer& writer)
      : tokenizer_(tokenizer), writer_(writer) {}

  Result<void> run(const json& settings, const json& config, const json& generation) {
    const auto model = tokenizer_.find("model");
    if (model == tokenizer_.end() || !model->is_object()) return invalid("there is no \"model\"");
    model_ = &*model;
    HOLDFAST_TRY(pipeline_, read_pipeline(tokenizer_));
    const std::string type = kind();
    HOLDFAST_CHECKED(refuse_steps(type));
    if (type == "BPE") {
      HOLDFAST_CHECKED(read_vocab());
      HOLDFAST_CHECKED(write_bpe());
    } else if (type == "WordPiece") {
      HOLDFAST_CHECKED(read_vocab());
      HOLDFAST_CHECKED(write_word_piece());
    } else if (type == "Unigram") {
      HOLDFAST_CHECKED(read_unigram());
      HOLDFAST_CHECKED(write_unigram());
    } else {
      return Error{Errc::kUnsupported,
                   "read tokenizer.json: model type " + gguf::quoted(type) + " is not supported"};
    }
    HOLDFAST_CHECKED(write_tokens(config));
    write_special(settings, config, generation);
    return {};
  }

 private:
  /// Returns the type of the model, which old files do not name.
  std::string kind() const {
    const std::string type = token_text(model_->value("type", json()));
    if (!type.empty()) return type;
    return model_->contains("merges") ? "BPE" : "WordPiece";
  }

  /// Refuses steps that this type of model does not have here; none is dropped silently.
  Result<void> refuse_steps(const std::string& type) const {
    const Pipeline& p = pipeline_;
    const bool words = type == "WordPiece";
    const bool unigram = type == "Unigram";
    struct Step {
      bool is_there;
      bool is_possible;
      const char* name;
    };
    const Step steps[] = {
        {unigram, p.meta, "a pre-tokenizer other than Metaspace"},
        {!p.patterns.empty(), p.byte_level, "Split or Digits"},
        {p.byte_level, type == "BPE", "ByteLevel"},
        {p.squeeze_spaces, unigram, "a step that joins spaces"},
        {p.strip, !p.charsmap.empty(), "Strip"},
        {!p.charsmap.empty(), unigram, "Precompiled"},
        {words, p.bert, "a pre-tokenizer other than BertPreTokenizer"},
        {p.bert, words, "BertNormalizer or BertPreTokenizer"},
        {p.lowercase, words, "Lowercase"},
    };
    for (const Step& step : steps) {
      if (!step.is_there || step.is_possible) continue;
      return Error{Errc::kUnsupported, std::string("read tokenizer.json: ") + step.name +
                                           " with a model of type " + type + " is not supported"};
    }
    return {};
  }

  Result<void> set_token(std::int64_t id, const std::string& text, std::int32_t type) {
    if (id < 0 || id >= kVocabMax) {
      return invalid("token " + gguf::quoted(text) + " has the id " + std::to_string(id));
    }
    const auto at = static_cast<std::size_t>(id);
    if (at >= tokens_.size()) {
      tokens_.resize(at + 1);
      types_.resize(at + 1, kUnused);
    }
    tokens_[at] = text;
    types_[at] = type;
    ids_[text] = static_cast<std::int32_t>(id);
    return {};
  }

  Result<void> read_vocab() {
    const auto vocab = model_->find("vocab");
    if (vocab == model_->end() || !vocab->is_object() || vocab->empty()) {
      return invalid("\"model.vocab\" is no object with tokens");
    }
    const bool bytes = model_->value("byte_fallback", json(false)) == true;
    for (const auto& [text, id] : vocab->items()) {
      if (!id.is_number_integer()) return invalid("token " + gguf::quoted(text) + " has no id");
      const bool is_byte = bytes && is_byte_text(text);
      HOLDFAST_CHECKED(set_token(id.get<std::int64_t>(), text, is_byte ? kByte : kNormal));
    }
    const std::string unknown = token_text(model_->value("unk_token", json()));
    if (const auto at = ids_.find(unknown); at != ids_.end()) {
      types_[static_cast<std::size_t>(at->second)] = kUnknown;
      writer_.set_u32("tokenizer.ggml.unknown_token_id", static_cast<std::uint32_t>(at->second));
    }
    return read_added();
  }

  Result<void> read_added() {
    const auto added = tokenizer_.find("added_tokens");
    if (added == tokenizer_.end() || added->is_null()) return {};
    if (!added->is_array()) return invalid("\"added_tokens\" is no array");
    for (const json& token : *added) {
      const std::string text = token_text(token);
      const auto id = token.is_object() ? token.find("id") : token.end();
      if (text.empty() || id == token.end() || !id->is_number_integer()) {
        return invalid("an entry of \"added_tokens\" has no content or no id");
      }
      HOLDFAST_CHECKED(set_token(id->get<std::int64_t>(), text, kind_of_added(token, text)));
    }
    return {};
  }
  std::int32_t kind_of_added(const json& token, const std::string& text) const {
    const auto existing = ids_.find(text);
    if (existing != ids_.end() && types_[static_cast<std::size_t>(existing->second)] == kUnknown) {
      return kUnknown;
    }
    return token.value("special", json(false)) == true ? kControl : kUser;
  }

  /// Reads merges "a b" or ["a", "b"].
  Result<std::vector<std::string>> read_merges() const {
    std::vector<std::string> out;
    const auto merges = model_->find("merges");
    if (merges == model_->end() || !merges->is_array()) return invalid("\"merges\" is no array");
    for (const json& merge : *merges) {
      if (merge.is_string()) {
        out.push_back(merge.get<std::string>());
        continue;
      }
      if (!is_pair(merge) || !merge[0].is_string() || !merge[1].is_string()) {
        return invalid("merge " + std::to_string(out.size()) + " is no pair of tokens");
      }
      const auto left = merge[0].get<std::string>();
      if (left.find(' ', 1) != std::string::npos) {
        return Error{Errc::kUnsupported, "read tokenizer.json: merge " +
                                             std::to_string(out.size()) +
                                             " has a space inside a token"};
      }
      out.push_back(left + " " + merge[1].get<std::string>());
    }
    return out;
  }

  Result<void> write_bpe() {
    HOLDFAST_TRY(const std::vector<std::string> merges, read_merges());
    for (const char* name : {"continuing_subword_prefix", "end_of_word_suffix"}) {
      if (!token_text(model_->value(name, json())).empty()) {
        return Error{Errc::kUnsupported,
                     std::string("read tokenizer.json: \"model.") + name + "\" is not supported"};
      }
    }
    writer_.set_strings("tokenizer.ggml.merges", merges);
    if (!pipeline_.byte_level) {
      if (!pipeline_.meta) {
        return Error{Errc::kUnsupported,
                     "read tokenizer.json: BPE that is neither byte-level nor "
                     "of sentencepiece's "
                     "kind is not supported"};
      }
      writer_.set_string("tokenizer.ggml.model", "llama");
      writer_.set_bool("tokenizer.ggml.add_space_prefix", pipeline_.prefix_space);
      write_scores(merges);
      return {};
    }
    writer_.set_string("tokenizer.ggml.model", "gpt2");
    const bool ignore_merges = model_->value("ignore_merges", json(false)) == true;
    const std::vector<std::string_view> patterns(pipeline_.patterns.begin(),
                                                 pipeline_.patterns.end());
    const std::string_view name = text::pre_tokenizer_name(patterns, ignore_merges);
    writer_.set_string("tokenizer.ggml.pre", name.empty() ? "patterns" : name);
    if (name.empty()) {
      writer_.set_strings("tokenizer.holdfast.patterns", pipeline_.patterns);
      writer_.set_bool("tokenizer.holdfast.ignore_merges", ignore_merges);
    }
    if (!pipeline_.form.empty()) writer_.set_string("tokenizer.holdfast.form", pipeline_.form);
    if (pipeline_.prefix_space) {
      return Error{Errc::kUnsupported,
                   "read tokenizer.json: ByteLevel with "
                   "add_prefix_space is not supported"};
    }
    return {};
  }

  /// Writes word pieces: those that begin a word get a leading U+2581, those inside a word lose
  /// their prefix.
  Result<void> write_word_piece() {
    if (model_->value("max_input_chars_per_word", json(100)) != 100) {
      return Error{Errc::kUnsupported,
                   "read tokenizer.json: \"model.max_input_chars_per_word\" is not 100"};
    }
    std::string prefix = token_text(model_->value("continuing_subword_prefix", json()));
    if (prefix.empty()) prefix = "##";
    for (std::size_t i = 0; i < tokens_.size(); ++i) {
      if (types_[i] != kNormal) continue;
      const bool inside = tokens_[i].size() > prefix.size() && tokens_[i].starts_with(prefix);
      tokens_[i] = inside ? tokens_[i].substr(prefix.size()) : kMeta + tokens_[i];
    }
    writer_.set_string("tokenizer.ggml.model", "bert");
    writer_.set_bool("tokenizer.holdfast.lowercase", pipeline_.lowercase);
    writer_.set_bool("tokenizer.holdfast.strip_accents", pipeline_.strip_accents);
    writer_.set_bool("tokenizer.holdfast.chinese", pipeline_.chinese);
    return {};
  }

  /// Reads [[text, score], …].
  Result<void> read_unigram() {
    const auto vocab = model_->find("vocab");
    if (vocab == model_->end() || !vocab->is_array() || vocab->empty()) {
      return invalid("\"model.vocab\" is no list of tokens");
    }
    const bool bytes = model_->value("byte_fallback", json(false)) == true;
    for (const json& entry : *vocab) {
      const auto id = static_cast<std::int64_t>(tokens_.size());
      if (!is_pair(entry) || !entry[0].is_string() || !entry[1].is_number()) {
        return invalid("token " + std::to_string(id) + " is no pair of a text and a score");
      }
      const auto text = entry[0].get<std::string>();
      const bool is_byte = bytes && is_byte_text(text);
      HOLDFAST_CHECKED(set_token(id, text, is_byte ? kByte : kNormal));
      scores_.push_back(entry[1].get<float>());
    }
    note_unknown();
    return read_added();
  }
  void note_unknown() {
    const json unknown = model_->value("unk_id", json());
    if (unknown.is_number_unsigned() && unknown.get<std::uint64_t>() < tokens_.size()) {
      types_[unknown.get<std::size_t>()] = kUnknown;
      writer_.set_u32("tokenizer.ggml.unknown_token_id", unknown.get<std::uint32_t>());
    }
  }

  Result<void> write_unigram() {
    writer_.set_string("tokenizer.ggml.model", "t5");
    writer_.set_bool("tokenizer.ggml.add_space_prefix", pipeline_.prefix_space);
    // Precompiled maps come from sentencepiece, whose normaliser also squeezes spaces.
    writer_.set_bool("tokenizer.ggml.remove_extra_whitespaces",
                     pipeline_.squeeze_spaces || !pipeline_.charsmap.empty());
    if (!pipeline_.form.empty()) writer_.set_string("tokenizer.holdfast.form", pipeline_.form);
    if (pipeline_.charsmap.empty()) return {};
    HOLDFAST_TRY(const std::vector<std::int32_t> bytes, from_base64(pipeline_.charsmap));
    writer_.set_i32s("tokenizer.ggml.precompiled_charsmap", bytes);
    return {};
  }

  /// Returns the bytes, one in each number.
  static Result<std::vector<std::int32_t>> from_base64(std::string_view text) {
    constexpr std::string_view kDigits =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    std::vector<std::int32_t> out;
    std::uint32_t bits = 0;
    int held = 0;
    for (const char c : text.substr(0, text.find('='))) {
      const std::size_t digit = kDigits.find(c);
      if (digit == std::string_view::npos) return invalid("precompiled_charsmap is no base64");
      bits = bits << 6 | static_cast<std::uint32_t>(digit);
      held += 6;
      if (held < 8) continue;
      held -= 8;
      out.push_back(static_cast<std::int32_t>(bits >> held & 255));
    }
    return out;
  }

  /// Writes as a token's score the index of the merge that makes it, so readers without merges
  /// agree.
  void write_scores(const std::vector<std::string>& merges) {
    std::vector<float> scores(tokens_.size(), 0.0f);
    for (std::size_t i = merges.size(); i-- > 0;) {
      std::string joined = merges[i];
      const std::size_t space = joined.find(' ', 1);
      if (space == std::string::npos) continue;
      joined.erase(space, 1);
      const auto at = ids_.find(joined);
      if (at == ids_.end()) continue;
      scores[static_cast<std::size_t>(at->second)] = -static_cast<float>(i + 1);
    }
    scores_ = std::move(scores);
  }

  /// Returns the rows that config.json says; nullopt without a usable number.
  static std::optional<std::size_t> rows_of(const json& config) {
    const auto size = config.find("vocab_size");
    const bool usable =
        size != config.end() && size->is_number_integer() && *size > 0 && *size <= kVocabMax;
    return usable ? std::optional(size->get<std::size_t>()) : std::nullopt;
  }

  /// Writes the tokens. Ids up to the model's own number of rows have a token each; a file with
  /// fewer is padded.
  Result<void> write_tokens(const json& config) {
    if (const std::optional<std::size_t> rows = rows_of(config)) {
      if (tokens_.size() > *rows) {
        return invalid("there are tokens up to id " + std::to_string(tokens_.size() - 1) +
                       ", but the model has " + std::to_string(*rows) + " rows");
      }
      tokens_.resize(*rows);
      types_.resize(*rows, kUnused);
    }
    for (std::size_t i = 0; i < tokens_.size(); ++i) {
      if (types_[i] == kUnused && tokens_[i].empty()) tokens_[i] = "[PAD" + std::to_string(i) + "]";
    }
    writer_.set_strings("tokenizer.ggml.tokens", tokens_);
    writer_.set_i32s("tokenizer.ggml.token_type", types_);
    if (!scores_.empty()) {
      scores_.resize(tokens_.size(), 0.0f);
      writer_.set_floats("tokenizer.ggml.scores", scores_);
    }
    return {};
  }

  /// Returns the id of a number or of a token's text; -1 if there is no such token.
  std::int64_t id_of(const json& value) const {
    if (value.is_number_unsigned() && value.get<std::uint64_t>() < tokens_.size()) {
      return value.get<std::int64_t>();
    }
    const auto at = ids_.find(token_text(value));
    return at == ids_.end() ? -1 : at->second;
  }

  void write_id(const char* key, const json& value) {
    const std::int64_t id = id_of(value);
    if (id >= 0) writer_.set_u32(key, static_cast<std::uint32_t>(id));
  }

  /// The ids that a text begins and ends with when special tokens are added.
  struct Ends {
    std::string first;
    std::string last;
  };
  static void template_ends(const json& processor, Ends& out) {
    if (!processor.is_object()) return;
    const std::string type = token_text(processor.value("type", json()));
    if (type == "Sequence" && processor.contains("processors")) {
      for (const json& part : processor["processors"]) template_ends(part, out);
    }
    if (type == "BertProcessing" || type == "RobertaProcessing") bert_ends(processor, out);
    if (type == "TemplateProcessing" && processor.contains("single")) {
      single_ends(processor["single"], out);
    }
  }
  /// Reads ["[CLS]", 101], the form of BERT's first tokenizers.
  static void bert_ends(const json& processor, Ends& out) {
    for (const auto& [name, to] : {std::pair{"cls", &out.first}, std::pair{"sep", &out.last}}) {
      const json pair = processor.value(name, json());
      if (pair.is_array() && !pair.empty()) *to = token_text(pair[0]);
    }
  }
  /// Reads the special tokens before and after the sequence.
  static void single_ends(const json& single, Ends& out) {
    if (!single.is_array()) return;
    bool after_sequence = false;
    for (const json& part : single) {
      if (part.is_object() && part.contains("Sequence")) after_sequence = true;
      if (!part.is_object() || !part.contains("SpecialToken")) continue;
      const json& token = part["SpecialToken"];
      const std::string id = token.is_object() ? token_text(token.value("id", json())) : "";
      (after_sequence ? out.last : out.first) = id;
    }
  }

  bool is_token(const json& in) const { return ids_.find(token_text(in)) != ids_.end(); }

  /// Returns a token that the settings name, or else the one of config.json.
  json named_token(const json& settings, const json& config, const std::string& name) const {
    const json token = settings.value(name, json());
    return is_token(token) ? token : config.value(name + "_id", json());
  }

  void write_special(const json& settings, const json& config, const json& generation) {
    Ends ends;
    template_ends(tokenizer_.value("post_processor", json()), ends);
    json bos = named_token(settings, config, "bos_token");
    if (!ends.first.empty()) bos = ends.first;
    write_id("tokenizer.ggml.bos_token_id", bos);
    json eos = named_token(settings, config, "eos_token");
    if (eos.is_array() && !eos.empty()) eos = eos.front();
    write_end(eos, ends);
    write_id("tokenizer.ggml.padding_token_id", settings.value("pad_token", json()));
    write_id("tokenizer.ggml.mask_token_id", settings.value("mask_token", json()));
    write_further_ends(eos, {&generation, &config});
    if (!ends.last.empty()) write_id("tokenizer.ggml.seperator_token_id", ends.last);
    if (!ends.first.empty()) write_id("tokenizer.ggml.cls_token_id", ends.first);
    const bool has_bos = is_token(bos) || bos.is_number_unsigned();
    writer_.set_bool("tokenizer.ggml.add_bos_token", has_bos && adds_first(settings, ends));
    if (!ends.last.empty()) writer_.set_bool("tokenizer.ggml.add_eos_token", true);
  }

  /// Returns true if a text begins with a special token.
  bool adds_first(const json& settings, const Ends& ends) const {
    const bool has_template =
        tokenizer_.contains("post_processor") && tokenizer_["post_processor"].is_object();
    if (has_template) return !ends.first.empty();
    return settings.value("add_bos_token", json(false)) == true;
  }

  /// Writes the id that ends a text. GGUF has one for that and for the token that is appended.
  void write_end(const json& eos, const Ends& ends) {
    write_id("tokenizer.ggml.eos_token_id", eos);
    const auto last = ids_.find(ends.last);
    if (last == ids_.end() || id_of(eos) == last->second) return;
    if (kind() != "WordPiece") write_id("tokenizer.ggml.eom_token_id", eos);
    write_id("tokenizer.ggml.eos_token_id", ends.last);
  }

  /// Writes further ids that end a generation, from the first list; GGUF has a key for one.
  void write_further_ends(const json& eos, std::initializer_list<const json*> sources) {
    for (const json* in : sources) {
      const json list = in->value("eos_token_id", json());
      if (!list.is_array() || list.size() < 2) continue;
      for (const json& id : list) {
        if (!is_same_token(id, eos)) write_id("tokenizer.ggml.eot_token_id", id);
      }
      return;
    }
  }
  bool is_same_token(const json& id, const json& token) const {
    if (!id.is_number_unsigned()) return false;
    const auto at = id.get<std::size_t>();
    return token_text(token) == (at < tokens_.size() ? tokens_[at] : "");
  }

  const json& tokenizer_;
  gguf::Writer& writer_;
  const json* model_ = nullptr;
  Pipeline pipeline_;
  std::vector<std::string> tokens_;
  std::vector<std::int32_t> types_;
  std::vector<float> scores_;
  std::unordered_map<std::string, std::int32_t> ids_;
};

bool exists(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0;
}

/// Reads an object; empty if the file is absent.
Result<json> optional_object(const std::string& path) {
  if (!exists(path)) return json(json::object());
  HOLDFAST_TRY(const std::string text, read_text(path, kConfigBytesMax));
  return parse_object(text, path);
}

/// Returns the only template, or the "default" of a list of named ones.
std::string chat_template_of(const json& settings) {
  const json value = settings.value("chat_template", json());
  if (value.is_string()) return value.get<std::string>();
  std::string first;
  if (!value.is_array()) return first;
  for (const json& entry : value) {
    if (!entry.is_object() || !entry.contains("template") || !entry["template"].is_string())
      continue;
    const auto text = entry["template"].get<std::string>();
    if (entry.value("name", json()) == "default") return text;
    if (first.empty()) first = text;
  }
  return first;
}

}  // namespace

Result<void> tokenizer_to_keys(const std::string& folder, const nlohmann::json& config,
                               gguf::Writer& writer) {
  HOLDFAST_TRY(const json settings, optional_object(folder + "/tokenizer_config.json"));
  HOLDFAST_TRY(const json generation, optional_object(folder + "/generation_config.json"));
  std::string chat = chat_template_of(settings);
  if (exists(folder + "/chat_template.jinja")) {
    HOLDFAST_TRY(chat, read_text(folder + "/chat_template.jinja", kConfigBytesMax));
  }
  if (exists(folder + "/tokenizer.json")) {
    HOLDFAST_TRY(const std::string text, read_text(folder + "/tokenizer.json", kTokenizerBytesMax));
    HOLDFAST_TRY(const json tokenizer, parse_object(text, folder + "/tokenizer.json"));
    HOLDFAST_CHECKED(TokenizerReader(tokenizer, writer).run(settings, config, generation));
  } else if (config.value("model_type", json()) == "bert" && exists(folder + "/vocab.txt")) {
    HOLDFAST_TRY(const json tokenizer, words_to_tokenizer(folder + "/vocab.txt", settings));
    HOLDFAST_CHECKED(TokenizerReader(tokenizer, writer).run(settings, config, generation));
  }
  if (!chat.empty() && chat.size() <= gguf::kMaxStringBytes) {
    writer.set_string("tokenizer.chat_template", chat);
  }
  return {};
}

}  // namespace holdfast::huggingface
