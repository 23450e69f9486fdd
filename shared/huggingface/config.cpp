// Converts config.json to GGUF keys.

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "shared/base/json_text.h"
#include "shared/gguf/parse.h"
#include "shared/huggingface/families.h"

namespace holdfast::huggingface {
namespace {

using nlohmann::json;

constexpr std::int64_t kMost = 1 << 30;
constexpr std::int64_t kExpertsMost = 4096;
constexpr std::int64_t kStateHeadsMost = 1024;

class ConfigReader {
 public:
  ConfigReader(const json& config, const Family& family, gguf::Writer& writer)
      : config_(config), family_(family), names_(family.names), writer_(writer) {}

  Result<Sizes> run(const std::string& name) {
    writer_.set_string("general.architecture", family_.architecture);
    writer_.set_string("general.name", name);
    HOLDFAST_TRY(sizes_.layers, whole(names_.layers, -1));
    HOLDFAST_CHECKED(copy(names_.layers, "block_count"));
    HOLDFAST_CHECKED(copy(names_.context, "context_length"));
    HOLDFAST_CHECKED(copy(names_.width, "embedding_length"));
    HOLDFAST_CHECKED(feed_forward());
    HOLDFAST_CHECKED(copy("vocab_size", "vocab_size"));
    HOLDFAST_CHECKED(heads());
    HOLDFAST_TRY(const double eps, real(config_, names_.epsilon, -1));
    if (eps <= 0) return invalid(names_.epsilon, "is missing or not above 0");
    writer_.set_f32(key(family_.epsilon), static_cast<float>(eps));
    const auto tied = config_.find("tie_word_embeddings");
    sizes_.tied = tied != config_.end() && tied->is_boolean() ? tied->get<bool>() : family_.tied;
    HOLDFAST_CHECKED(refuse_features());
    HOLDFAST_CHECKED(family_keys());
    HOLDFAST_CHECKED(family_.states ? states() : windows());
    HOLDFAST_CHECKED(experts());
    if (family_.encoder) writer_.set_bool(key("attention.causal"), false);
    if (family_.rope) HOLDFAST_CHECKED(rope());
    return std::move(sizes_);
  }

 private:
  std::string key(const char* suffix) const {
    const bool whole = std::string_view(suffix).starts_with("tokenizer.");
    return (whole ? "" : std::string(family_.architecture) + ".") + suffix;
  }
  static Error invalid(const std::string& name, const std::string& why) {
    return {Errc::kFileInvalid, "read config.json: \"" + name + "\" " + why};
  }
  static Error unsupported(const std::string& what) {
    return {Errc::kUnsupported, "read config.json: " + what};
  }
  static bool absent(const json& in, const char* name) {
    const auto at = in.find(name);
    return at == in.end() || at->is_null();
  }

  Result<std::int64_t> whole(const char* name, std::int64_t fallback) const {
    if (absent(config_, name)) {
      if (fallback >= 0) return fallback;
      return invalid(name, "is missing");
    }
    const json& value = config_.at(name);
    if (!value.is_number_integer() || value < 1 || value > kMost) {
      return invalid(name, "is no whole number from 1 to 2^30");
    }
    return value.get<std::int64_t>();
  }
  static Result<double> real(const json& in, const char* name, double fallback) {
    if (absent(in, name)) return fallback;
    const json& value = in.at(name);
    if (!value.is_number() || !std::isfinite(value.get<double>())) {
      return invalid(name, "is no number");
    }
    return value.get<double>();
  }

  Result<void> copy(const char* from, const char* to) {
    HOLDFAST_TRY(const std::int64_t value, whole(from, -1));
    writer_.set_u32(key(to), static_cast<std::uint32_t>(value));
    return {};
  }

  /// Copies the width of the feed-forward; GPT-2's null means four times the width.
  Result<void> feed_forward() {
    HOLDFAST_TRY(const std::int64_t width, whole(names_.width, -1));
    HOLDFAST_TRY(const std::int64_t ff,
                 whole(names_.ff, family_.rope || family_.encoder ? -1 : 4 * width));
    writer_.set_u32(key("feed_forward_length"), static_cast<std::uint32_t>(ff));
    return {};
  }

  Result<void> heads() {
    HOLDFAST_TRY(sizes_.heads, whole(names_.heads, -1));
    sizes_.kv_heads = sizes_.heads;
    if (names_.kv_heads != nullptr) {
      HOLDFAST_TRY(sizes_.kv_heads, whole(names_.kv_heads, sizes_.heads));
    }
    HOLDFAST_TRY(const std::int64_t width, whole(names_.width, -1));
    HOLDFAST_TRY(sizes_.head_dim, whole("head_dim", width / sizes_.heads));
    if (sizes_.head_dim < 2 || sizes_.head_dim % 2 != 0) {
      return invalid("head_dim",
                     "is " + std::to_string(sizes_.head_dim) + ", expected an even number");
    }
    const auto u32 = [](std::int64_t v) { return static_cast<std::uint32_t>(v); };
    writer_.set_u32(key("attention.head_count"), u32(sizes_.heads));
    writer_.set_u32(key("attention.head_count_kv"), u32(sizes_.kv_heads));
    if (!family_.rope) return {};
    HOLDFAST_TRY(const double outer, real(config_, "partial_rotary_factor", 1));
    HOLDFAST_TRY(const double part, real(rope_part(), "partial_rotary_factor", outer));
    sizes_.rope_dims = static_cast<std::int64_t>(part * static_cast<double>(sizes_.head_dim));
    if (!(part > 0 && part <= 1) || sizes_.rope_dims % 2 != 0) {
      return invalid("partial_rotary_factor", "leaves no even number of elements");
    }
    writer_.set_u32(key("rope.dimension_count"), u32(sizes_.rope_dims));
    if (!absent(config_, "head_dim")) {
      writer_.set_u32(key("attention.key_length"), u32(sizes_.head_dim));
      writer_.set_u32(key("attention.value_length"), u32(sizes_.head_dim));
    }
    return {};
  }

  /// Returns one name for the synonyms of an activation function.
  static std::string_view plain_name(std::string_view act) {
    return act == "swish" ? "silu" : act == "gelu_new" ? "gelu_pytorch_tanh" : act;
  }

  /// Returns the activation function that config.json names, else the family's.
  std::string activation() const {
    std::string act = family_.activation;
    for (const char* name : {names_.activation, "hidden_activation"}) {
      const auto at = config_.find(name);
      if (at != config_.end() && at->is_string()) act = at->get<std::string>();
    }
    act = plain_name(act);
    // The code of the first gemma computes with tanh what its config calls gelu.
    const bool gemma = std::string_view(family_.architecture) == "gemma";
    return act == "gelu" && gemma ? family_.activation : act;
  }

  Result<void> refuse_experts() const {
    for (const char* name : {"num_local_experts", "num_experts"}) {
      const bool supported =
          std::any_of(family_.keys.begin(), family_.keys.end(),
                      [&](const auto& k) { return std::string_view(k.huggingface) == name; });
      if (!supported && !absent(config_, name)) {
        return unsupported("\"" + std::string(name) + "\": a " + family_.model_type +
                           " model with experts is not supported");
      }
    }
    return {};
  }

  /// Refuses features that would load and then give other numbers than the model's own code.
  Result<void> refuse_features() const {
    const std::string act = activation();
    if (act != family_.activation) {
      return unsupported(std::string(names_.activation) + " " + gguf::quoted(act) +
                         " is not supported, expected \"" + family_.activation + "\"");
    }
    HOLDFAST_CHECKED(refuse_experts());
    HOLDFAST_CHECKED(refuse_values());
    const auto causal = config_.find("use_bidirectional_attention");
    if (causal != config_.end() && *causal == true) {
      return unsupported("use_bidirectional_attention is true, which is not supported");
    }
    return refuse_scales();
  }

  /// Refuses switches, except at the values that change nothing.
  Result<void> refuse_values() const {
    const std::vector<std::pair<const char*, json>> kHarmless = {
        {"use_sliding_window", false},
        {"mlp_only_layers", json::array()},
        {"decoder_sparse_step", 1},
        {"is_decoder", family_.encoder ? json(false) : json()},
        {"add_cross_attention", false},
        {"position_embedding_type", family_.encoder ? json("absolute") : json()},
        {"swiglu_limit", 7.0},
        {"n_group", 1},
        {"topk_group", 1},
        {"scoring_func", "sigmoid"},
        {"use_parallel_residual", false},
        {"qk_layernorm", false},
        {"use_qk_norm", family_.model_type == std::string_view("cohere") ? json(false) : json()},
        {"attn_output_gate", true},
        {"scale_attn_weights", true},
        {"scale_attn_by_inverse_layer_idx", false}};
    for (const auto& [name, harmless] : kHarmless) {
      if (absent(config_, name) || harmless.is_null() || config_.at(name) == harmless) continue;
      return unsupported(std::string(name) + " is " + gguf::quoted(config_.at(name).dump()) +
                         ", which is not supported");
    }
    return {};
  }

  /// Refuses numbers that the architecture fixes and some models have otherwise.
  Result<void> refuse_scales() const {
    HOLDFAST_CHECKED(refuse_query_scale());
    HOLDFAST_TRY(const std::int64_t step, whole("no_rope_layer_interval", 4));
    const std::int64_t usual = std::max<std::int64_t>(family_.window_period, 1);
    HOLDFAST_TRY(const std::int64_t period, window_period(usual));
    if (step != 4) return unsupported("no_rope_layer_interval is not 4");
    if (period != usual && absent(config_, "layer_types")) {
      return unsupported("sliding_window_pattern is not " + std::to_string(usual));
    }
    HOLDFAST_TRY(const double local, real(config_, "rope_local_base_freq", 10000));
    if (local != 10000) return unsupported("rope_local_base_freq is not 10000");
    return {};
  }

  Result<void> refuse_query_scale() const {
    HOLDFAST_TRY(const std::int64_t layers, whole(names_.layers, -1));
    HOLDFAST_TRY(const std::int64_t width, whole(names_.width, -1));
    HOLDFAST_TRY(const double scalar, real(config_, "query_pre_attn_scalar", -1));
    const std::string_view arch = family_.architecture;
    const bool wide = (arch == "gemma2" && layers == 46) || (arch == "gemma3" && layers == 62);
    const std::int64_t expected = wide ? width / sizes_.heads : sizes_.head_dim;
    if (scalar > 0 && scalar != static_cast<double>(expected)) {
      return unsupported("query_pre_attn_scalar is not " + std::to_string(expected));
    }
    return {};
  }

  /// Returns the period: a number, or the layers of a period as letters: "LLLG" is 4 (EXAONE 4).
  Result<std::int64_t> window_period(std::int64_t usual) const {
    const auto at = config_.find("sliding_window_pattern");
    if (at == config_.end() || !at->is_string()) return whole("sliding_window_pattern", usual);
    const auto letters = at->get<std::string>();
    const bool supported = !letters.empty() && letters.find('G') == letters.size() - 1 &&
                           letters.find_first_not_of('L') == letters.size() - 1;
    if (supported) return static_cast<std::int64_t>(letters.size());
    return unsupported("sliding_window_pattern is " + gguf::quoted(letters) +
                       ", expected letters L and one G behind them");
  }

  Result<void> family_keys() {
    for (const KeyRule& rule : family_.keys) {
      if (absent(config_, rule.huggingface)) {
        write_no_cap(rule);
      } else if (rule.real) {
        HOLDFAST_CHECKED(copy_real(rule));
      } else if (!is_none(rule)) {
        HOLDFAST_CHECKED(copy(rule.huggingface, rule.gguf));
      }
    }
    return {};
  }

  /// Writes 0 for a cap of null, which means none: without the key a header has its family's cap.
  void write_no_cap(const KeyRule& rule) {
    const bool cap = std::string_view(rule.gguf).ends_with("softcapping");
    if (cap && config_.contains(rule.huggingface)) writer_.set_f32(key(rule.gguf), 0);
  }

  /// Returns true if the number is a 0 that means "none".
  bool is_none(const KeyRule& rule) const {
    const std::string_view to = rule.gguf;
    const bool may_be_none = !to.ends_with("_count") || to.starts_with("leading_");
    return may_be_none && config_.at(rule.huggingface) == 0;
  }

  /// Copies a number, but for a scale of attention that is the usual one.
  Result<void> copy_real(const KeyRule& rule) {
    HOLDFAST_TRY(const double value, real(config_, rule.huggingface, 0));
    const double usual = 1 / std::sqrt(static_cast<double>(sizes_.head_dim));
    const bool same = static_cast<float>(value) == static_cast<float>(usual);
    if (std::string_view(rule.gguf) != "attention.scale" || !same)
      writer_.set_f32(key(rule.gguf), static_cast<float>(value));
    return {};
  }

  /// Returns the list of the layers' types, with an entry for each layer.
  Result<const json*> layer_types() const {
    const json& types = config_.at("layer_types");
    HOLDFAST_TRY(const std::int64_t layers, whole(names_.layers, -1));
    if (!types.is_array() || types.size() != static_cast<std::size_t>(layers)) {
      return invalid("layer_types", "is no list of an entry for each layer");
    }
    return &types;
  }

  /// Returns by layer 1 if it is windowed, else 0.
  static Result<std::vector<std::int32_t>> windowed_layers(const json& types) {
    std::vector<std::int32_t> windowed;
    for (const json& type : types) {
      const bool window = type == "sliding_attention";
      if (!window && type != "full_attention") {
        return unsupported("layer_types has " + gguf::quoted(type.dump()) +
                           ", expected full_attention or sliding_attention");
      }
      windowed.push_back(window ? 1 : 0);
    }
    return windowed;
  }

  /// Returns true if those layers are windowed that are so without a list.
  bool are_usual(const std::vector<std::int32_t>& windowed) const {
    const std::int64_t period = std::max<std::int64_t>(family_.window_period, 1);
    for (std::size_t l = 0; l < windowed.size(); ++l) {
      const auto layer = static_cast<std::int64_t>(l);
      const bool usual = period == 1 || layer % period < period - 1;
      if ((windowed[l] != 0) != usual) return false;
    }
    return true;
  }

  /// Writes which layers are windowed, where config.json lists them by layer.
  Result<void> windows() {
    if (absent(config_, "layer_types")) return {};
    HOLDFAST_TRY(const json* types, layer_types());
    HOLDFAST_TRY(const std::vector<std::int32_t> windowed, windowed_layers(*types));
    const bool any = std::find(windowed.begin(), windowed.end(), 1) != windowed.end();
    if (!any) {
      if (family_.window_period > 0) writer_.set_u32(key("attention.sliding_window"), 0);
      return {};
    }
    if (family_.window_period == 0) {
      return unsupported("layer_types has sliding_attention, which is not supported here");
    }
    if (absent(config_, "sliding_window")) {
      return unsupported("layer_types has sliding_attention without a sliding_window");
    }
    if (!are_usual(windowed)) {
      writer_.set_i32s(key("attention.sliding_window_pattern"), windowed);
    }
    return {};
  }

  /// Writes the heads of recurrent layers, and which layers attend.
  Result<void> states() {
    HOLDFAST_TRY(sizes_.state_heads, whole("linear_num_value_heads", -1));
    HOLDFAST_TRY(sizes_.state_groups, whole("linear_num_key_heads", -1));
    HOLDFAST_TRY(sizes_.state_key, whole("linear_key_head_dim", -1));
    HOLDFAST_TRY(sizes_.state_value, whole("linear_value_head_dim", -1));
    const std::int64_t inner = sizes_.state_heads * sizes_.state_value;
    if (sizes_.state_heads > kStateHeadsMost || sizes_.state_heads % sizes_.state_groups != 0 ||
        inner > kMost) {
      return invalid("linear_num_value_heads",
                     "is " + std::to_string(sizes_.state_heads) + ", expected a multiple of the " +
                         std::to_string(sizes_.state_groups) + " heads of keys, at most " +
                         std::to_string(kStateHeadsMost));
    }
    writer_.set_u32(key("ssm.inner_size"), static_cast<std::uint32_t>(inner));
    HOLDFAST_TRY(const std::int64_t step, attention_step());
    writer_.set_u32(key("full_attention_interval"), static_cast<std::uint32_t>(step));
    const json sections = rope_part().value("mrope_section", json::array());
    std::vector<std::int32_t> of_four(4);
    if (!sections.is_array() || sections.size() > 4) {
      return invalid("rope_parameters.mrope_section", "is no list of at most four numbers");
    }
    for (std::size_t i = 0; i < sections.size(); ++i) {
      if (!sections[i].is_number_integer()) {
        return invalid("rope_parameters.mrope_section", "holds something else than numbers");
      }
      of_four[i] = sections[i].get<std::int32_t>();
    }
    if (sections.empty()) of_four[0] = static_cast<std::int32_t>(sizes_.rope_dims / 2);
    writer_.set_i32s(key("rope.dimension_sections"), of_four);
    return {};
  }

  /// Returns the period of the attending layers.
  Result<std::int64_t> attention_step() const {
    if (absent(config_, "layer_types")) return whole("full_attention_interval", 4);
    HOLDFAST_TRY(const json* list, layer_types());
    const json& types = *list;
    const auto first = std::find(types.begin(), types.end(), "full_attention");
    const auto step = static_cast<std::size_t>(first - types.begin()) + 1;
    for (std::size_t l = 0; l < types.size(); ++l) {
      const char* expected = (l + 1) % step == 0 ? "full_attention" : "linear_attention";
      if (step <= types.size() && types[l] == expected) continue;
      return unsupported("layer_types[" + std::to_string(l) + "] is " +
                         gguf::quoted(types[l].dump()) + ", expected " + expected +
                         " as the layers before it have it");
    }
    return static_cast<std::int64_t>(step);
  }

  Result<void> experts() {
    for (const KeyRule& rule : family_.keys) {
      if (std::string_view(rule.gguf) != "expert_count") continue;
      HOLDFAST_TRY(sizes_.experts, whole(rule.huggingface, -1));
      HOLDFAST_TRY(const std::int64_t used, whole("num_experts_per_tok", -1));
      if (sizes_.experts > kExpertsMost) return invalid(rule.huggingface, "is above 4096");
      if (used > sizes_.experts) {
        return invalid("num_experts_per_tok", "is " + std::to_string(used) + ", expected at most " +
                                                  std::to_string(sizes_.experts));
      }
    }
    if (!family_.norm_topk || absent(config_, "norm_topk_prob")) return {};
    const json& norm = config_.at("norm_topk_prob");
    if (!norm.is_boolean()) return invalid("norm_topk_prob", "is no boolean");
    if (norm != *family_.norm_topk) writer_.set_bool(key("expert_weights_norm"), norm.get<bool>());
    return {};
  }

  /// Returns the part of config.json about positions: all of it, or the object for that. Windowed
  /// layers may have one of their own (gemma 3), which must equal what the architecture has anyway.
  const json& rope_part() const {
    const json* part = &config_;
    for (const char* name : {"rope_parameters", "rope_scaling"}) {
      if (!absent(config_, name)) part = &config_.at(name);
    }
    if (part->is_object() && part->contains("full_attention")) part = &part->at("full_attention");
    return part->is_object() ? *part : config_;
  }

  Result<void> window_rope() const {
    if (absent(config_, "rope_parameters") || !config_.at("rope_parameters").is_object()) return {};
    const json local = config_.at("rope_parameters").value("sliding_attention", json());
    if (!local.is_object()) return {};
    HOLDFAST_TRY(const double base, real(local, "rope_theta", 10000));
    if (base == 10000 && local.value("rope_type", json("default")) == "default") return {};
    return unsupported("rope_parameters.sliding_attention is not of theta 10000 without scaling");
  }

  Result<void> rope() {
    for (const char* name : {"rope_parameters", "rope_scaling"}) {
      if (!absent(config_, name) && !config_.at(name).is_object()) {
        return invalid(name, "is no object");
      }
    }
    HOLDFAST_CHECKED(window_rope());
    const json& part = rope_part();
    HOLDFAST_TRY(const double outer, real(config_, "rope_theta", 10000));
    HOLDFAST_TRY(const double base, real(part, "rope_theta", outer));
    if (base <= 0) return invalid("rope_theta", "is not above 0");
    writer_.set_f32(key("rope.freq_base"), static_cast<float>(base));
    return &part == &config_ ? Result<void>() : scaled_rope(part, base);
  }

  /// Returns how `part` scales positions.
  static std::string scaling_type(const json& part) {
    std::string type = "default";
    for (const char* name : {"type", "rope_type"}) {
      const auto at = part.find(name);
      if (at != part.end() && at->is_string()) type = at->get<std::string>();
    }
    return type;
  }

  Result<void> scaled_rope(const json& part, double base) {
    const std::string type = scaling_type(part);
    if (type == "default") return {};
    if (type == "longrope" || type == "su") return longrope(part);
    HOLDFAST_TRY(const double factor, real(part, "factor", 0));
    if (factor < 1) return invalid("rope_scaling.factor", "is below 1 or missing");
    if (type == "linear") {
      writer_.set_string(key("rope.scaling.type"), "linear");
      writer_.set_f32(key("rope.scaling.factor"), static_cast<float>(factor));
      return {};
    }
    if (type == "yarn") return yarn(part, factor);
    if (type == "llama3") return llama3(part, base, factor);
    return unsupported("rope_scaling of type " + gguf::quoted(type) + " is not supported");
  }

  /// Refuses members of yarn that would give other numbers than ours.
  Result<void> refuse_yarn(const json& part) const {
    const json truncate = absent(part, "truncate") ? json(true) : part.at("truncate");
    if (truncate != family_.yarn_truncate) {
      return unsupported(std::string("rope_scaling.truncate is not ") +
                         (family_.yarn_truncate ? "true" : "false") + ", as it is expected here");
    }
    for (const char* name : {"attention_factor", "mscale", "mscale_all_dim"}) {
      if (!absent(part, name)) {
        return unsupported("rope_scaling with \"" + std::string(name) + "\" is not supported");
      }
    }
    return {};
  }

  Result<void> yarn(const json& part, double factor) {
    HOLDFAST_TRY(const std::int64_t context, whole("max_position_embeddings", -1));
    HOLDFAST_TRY(const double trained,
                 real(part, "original_max_position_embeddings", static_cast<double>(context)));
    if (trained < 1 || trained > static_cast<double>(kMost)) {
      return invalid("rope_scaling.original_max_position_embeddings", "is out of range");
    }
    HOLDFAST_CHECKED(refuse_yarn(part));
    writer_.set_string(key("rope.scaling.type"), "yarn");
    writer_.set_f32(key("rope.scaling.factor"), static_cast<float>(factor));
    writer_.set_u32(key("rope.scaling.original_context_length"),
                    static_cast<std::uint32_t>(trained));
    for (const auto& [from, to] : {std::pair{"beta_fast", "rope.scaling.yarn_beta_fast"},
                                   std::pair{"beta_slow", "rope.scaling.yarn_beta_slow"}}) {
      HOLDFAST_TRY(const double beta, real(part, from, -1));
      if (beta > 0) writer_.set_f32(key(to), static_cast<float>(beta));
    }
    return {};
  }

  /// Reads two lists of divisors: for contexts up to the training context, and for longer ones.
  Result<void> longrope(const json& part) {
    HOLDFAST_TRY(const std::int64_t context, whole("max_position_embeddings", -1));
    HOLDFAST_TRY(const std::int64_t trained, whole("original_max_position_embeddings", context));
    for (const auto& [name, to] : {std::pair{"long_factor", &sizes_.long_factors},
                                   std::pair{"short_factor", &sizes_.short_factors}}) {
      const json list = part.value(name, json());
      if (!list.is_array() || list.size() != static_cast<std::size_t>(sizes_.rope_dims / 2)) {
        return invalid(std::string("rope_scaling.") + name, "is no list of a factor for each pair");
      }
      for (const json& factor : list) {
        if (!factor.is_number() || !(factor.get<double>() > 0)) {
          return invalid(std::string("rope_scaling.") + name, "holds something else than factors");
        }
        to->push_back(factor.get<float>());
      }
    }
    const double ratio = static_cast<double>(context) / static_cast<double>(trained);
    const double usual =
        ratio > 1 ? std::sqrt(1 + std::log(ratio) / std::log(static_cast<double>(trained))) : 1;
    HOLDFAST_TRY(const double magnitude, real(part, "attention_factor", usual));
    writer_.set_u32(key("rope.scaling.original_context_length"),
                    static_cast<std::uint32_t>(trained));
    writer_.set_f32(key("rope.scaling.attn_factor"), static_cast<float>(magnitude));
    return {};
  }

  /// Computes divisors of the frequencies: 1 for short waves, `factor` for long ones, a blend
  /// between.
  Result<void> llama3(const json& part, double base, double factor) {
    HOLDFAST_TRY(const double low, real(part, "low_freq_factor", 1));
    HOLDFAST_TRY(const double high, real(part, "high_freq_factor", 4));
    HOLDFAST_TRY(const double trained, real(part, "original_max_position_embeddings", 8192));
    if (!(low > 0) || !(high > low) || !(trained > 0)) {
      return invalid("rope_scaling", "has factors that do not fit together");
    }
    for (std::int64_t i = 0; i < sizes_.rope_dims; i += 2) {
      const double exponent = static_cast<double>(i) / static_cast<double>(sizes_.rope_dims);
      const double wave = 2 * M_PI * std::pow(base, exponent);
      double divisor = 1;
      if (wave > trained / low) {
        divisor = factor;
      } else if (wave > trained / high) {
        const double blend = (trained / wave - low) / (high - low);
        divisor = 1 / ((1 - blend) / factor + blend);
      }
      sizes_.rope_factors.push_back(static_cast<float>(divisor));
    }
    return {};
  }

  const json& config_;
  const Family& family_;
  const ConfigNames& names_;
  gguf::Writer& writer_;
  Sizes sizes_;
};

}  // namespace

Result<nlohmann::json> full_config(const nlohmann::json& config, const Family& family) {
  json out = try_parse_json<json>(family.defaults);
  const json* model_config = &config;
  if (family.text_config != nullptr) {
    const auto at = config.find(family.text_config);
    if (at == config.end() || !at->is_object()) {
      return Error{Errc::kFileInvalid, "read config.json: \"" + std::string(family.text_config) +
                                           "\" is missing or no object"};
    }
    model_config = &*at;
    for (const char* name : {"tie_word_embeddings", "quantization_config"}) {
      if (config.contains(name)) out[name] = config.at(name);
    }
  }
  for (const auto& [name, value] : model_config->items()) out[name] = value;
  return out;
}

Result<Sizes> config_to_keys(const json& config, const Family& family, const std::string& name,
                             gguf::Writer& writer) {
  return ConfigReader(config, family, writer).run(name);
}

}  // namespace holdfast::huggingface
