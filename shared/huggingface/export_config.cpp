// Converts GGUF keys to config.json.

#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "shared/base/json_text.h"
#include "shared/gguf/parse.h"
#include "shared/gguf/quants.h"
#include "shared/huggingface/families.h"

namespace holdfast::huggingface {
namespace {

using nlohmann::json;

/// Returns the shortest decimal of this float, as a double: 1e-05, not 9.9999997e-06.
double shortest(double value) {
  char text[32];
  for (int digits = 6; digits <= 9; ++digits) {
    std::snprintf(text, sizeof text, "%.*g", digits, value);
    if (std::strtof(text, nullptr) == static_cast<float>(value)) break;
  }
  return std::strtod(text, nullptr);
}

Error unsupported(const gguf::File& file, const std::string& what) {
  return {Errc::kUnsupported, "convert " + std::string(file.name()) + ": " + what};
}

/// Returns Llama 3's parameters, if they give exactly the factors that the file has.
Result<json> llama3_scaling(const gguf::File& file, const gguf::TensorInfo& factors, double base,
                            double trained) {
  const auto n = static_cast<std::size_t>(factors.dims[0]);
  std::vector<float> have(n);
  HOLDFAST_CHECKED(gguf::dequantize_row(factors.type, factors.data.data(), have.data(), n));
  const double factor = n == 0 ? 1 : static_cast<double>(have.back());
  constexpr double kLow = 1, kHigh = 4;
  for (std::size_t i = 0; i < n; ++i) {
    const double wave =
        2 * M_PI * std::pow(base, static_cast<double>(2 * i) / static_cast<double>(2 * n));
    double divisor = wave > trained / kLow ? factor : 1;
    if (wave > trained / kHigh && wave <= trained / kLow) {
      const double blend = (trained / wave - kLow) / (kHigh - kLow);
      divisor = 1 / ((1 - blend) / factor + blend);
    }
    if (std::fabs(static_cast<double>(have[i]) / divisor - 1) > 1e-5) {
      return unsupported(file, "rope_freqs.weight is not Llama 3's with factors 1 and 4");
    }
  }
  return json{{"rope_type", "llama3"},
              {"factor", factor},
              {"low_freq_factor", kLow},
              {"high_freq_factor", kHigh},
              {"original_max_position_embeddings", static_cast<std::int64_t>(trained)}};
}

class ConfigWriter {
 public:
  ConfigWriter(const gguf::File& file, const Family& family) : file_(file), family_(family) {}

  Result<json> run() {
    out_["architectures"] = json::array({family_.huggingface_class});
    out_["model_type"] = family_.model_type;
    out_[family_.names.activation] = family_.activation;
    if (std::string_view(family_.architecture).starts_with("gemma")) {
      out_["hidden_activation"] = family_.activation;
    }
    family_keys();
    HOLDFAST_CHECKED(copy("block_count", family_.names.layers, true));
    HOLDFAST_CHECKED(copy("context_length", family_.names.context, true));
    HOLDFAST_CHECKED(copy("embedding_length", family_.names.width, true));
    HOLDFAST_CHECKED(feed_forward());
    HOLDFAST_CHECKED(heads());
    const gguf::TensorInfo* embedding = file_.tensor("token_embd.weight");
    if (embedding == nullptr) return unsupported(file_, "there is no token_embd.weight");
    out_["vocab_size"] = embedding->dims[1];
    used_.insert(key("vocab_size"));
    out_["tie_word_embeddings"] = file_.tensor("output.weight") == nullptr;
    const auto eps = real_key(family_.epsilon);
    if (!eps) return unsupported(file_, "there is no norm epsilon");
    out_[family_.names.epsilon] = shortest(*eps);
    for (const auto& [from, to] : {std::pair{"tokenizer.ggml.bos_token_id", "bos_token_id"},
                                   std::pair{"tokenizer.ggml.eos_token_id", "eos_token_id"},
                                   std::pair{"tokenizer.ggml.padding_token_id", "pad_token_id"}}) {
      if (const auto id = file_.get_u64(from)) out_[to] = *id;
    }
    if (family_.rope) HOLDFAST_CHECKED(rope());
    if (family_.rope) HOLDFAST_CHECKED(rotation());
    windows();
    HOLDFAST_CHECKED(biases());
    HOLDFAST_CHECKED(experts());
    HOLDFAST_CHECKED(nothing_left());
    return std::move(out_);
  }

 private:
  std::string key(const char* suffix) const {
    const bool whole = std::string_view(suffix).starts_with("tokenizer.");
    return (whole ? "" : std::string(family_.architecture) + ".") + suffix;
  }
  /// Reads a key and records that it was read.
  std::optional<double> real_key(const char* suffix) {
    const auto value = file_.get_f64(key(suffix));
    if (value) used_.insert(key(suffix));
    return value;
  }
  Result<void> copy(const char* from, const char* to, bool needed) {
    used_.insert(key(from));
    const auto value = file_.get_u64(key(from));
    if (value) out_[to] = *value;
    if (value || (!needed && !file_.has(key(from)))) return {};
    return unsupported(file_, "key \"" + key(from) + "\" is missing or differs between layers");
  }

  void family_keys() {
    for (const KeyRule& rule : family_.keys) {
      const auto value = real_key(rule.gguf);
      // null means "none" where a missing member means a default.
      const std::string_view name = rule.huggingface;
      const bool none_is_null =
          name == "sliding_window" || (value.has_value() && name.ends_with("softcapping"));
      if (none_is_null && value.value_or(0) == 0) {
        out_[rule.huggingface] = nullptr;
      } else if (value && rule.real) {
        out_[rule.huggingface] = shortest(*value);
      } else if (value) {
        out_[rule.huggingface] = static_cast<std::int64_t>(*value);
      }
    }
  }

  /// Copies the width of the feed-forward. Models with experts alone may have none, and the
  /// folder's number is then unused.
  Result<void> feed_forward() {
    const bool experts = file_.get_u64(key("expert_count")).value_or(0) > 0;
    HOLDFAST_CHECKED(copy("feed_forward_length", family_.names.ff, !experts));
    const gguf::TensorInfo* up = file_.tensor(expert_block() + "ffn_up_exps.weight");
    if (!out_.contains(family_.names.ff) && up != nullptr) out_[family_.names.ff] = up->dims[1];
    return {};
  }

  /// Returns the prefix of the first block with experts.
  std::string expert_block() const {
    const auto dense = file_.get_u64(key("leading_dense_block_count")).value_or(0);
    return "blk." + std::to_string(dense) + ".";
  }

  Result<void> heads() {
    const ConfigNames& names = family_.names;
    HOLDFAST_CHECKED(copy("attention.head_count", names.heads, true));
    HOLDFAST_CHECKED(copy("attention.head_count_kv", "num_key_value_heads", false));
    if (!out_.contains("num_key_value_heads")) out_["num_key_value_heads"] = out_[names.heads];
    if (names.kv_heads == nullptr) {
      if (out_["num_key_value_heads"] != out_[names.heads]) {
        return unsupported(file_, std::string("a ") + family_.model_type +
                                      " folder has no place for heads that share keys");
      }
      out_.erase("num_key_value_heads");
    }
    const std::uint64_t width = out_[names.width], heads = out_[names.heads];
    if (heads == 0) return unsupported(file_, "there are no heads");
    HOLDFAST_CHECKED(copy("attention.key_length", "head_dim", false));
    used_.insert(key("attention.value_length"));
    head_dim_ = file_.get_u64(key("attention.key_length")).value_or(width / heads);
    if (try_parse_json<json>(family_.defaults).contains("head_dim")) out_["head_dim"] = head_dim_;
    const std::uint64_t value_length =
        file_.get_u64(key("attention.value_length")).value_or(head_dim_);
    if (value_length != head_dim_) {
      return unsupported(file_,
                         "key \"" + key("attention.value_length") +
                             "\" is not the length of keys, which no folder has a place for");
    }
    if (family_.rope) return {};
    out_.erase("head_dim");
    if (head_dim_ * heads == width) return {};
    return unsupported(file_, std::string("a ") + family_.model_type +
                                  " folder has no place for heads of their own size");
  }

  /// Writes the windowed layers one by one, where the header lists them.
  void windows() {
    const std::uint64_t layers = out_[family_.names.layers];
    const auto list = file_.get_ints(key("attention.sliding_window_pattern"));
    const auto period = file_.get_u64(key("attention.sliding_window_pattern"));
    const bool specified = (list && list->size() == layers) || period.has_value();
    if (!specified || family_.window_period == 0) return;
    used_.insert(key("attention.sliding_window_pattern"));
    json types = json::array();
    for (std::uint64_t l = 0; l < layers; ++l) {
      const bool window = list ? (*list)[l] != 0 : *period == 0 || l % *period < *period - 1;
      types.push_back(window ? "sliding_attention" : "full_attention");
    }
    out_["layer_types"] = types;
  }

  /// Writes whether q, k and v have biases, and checks the others where one key covers all of them.
  Result<void> biases() {
    if (family_.bias_key == nullptr) return {};
    const bool qkv = file_.tensor("blk.0.attn_q.bias") != nullptr;
    const bool out = file_.tensor("blk.0.attn_output.bias") != nullptr;
    const bool ff = file_.tensor("blk.0.ffn_down.bias") != nullptr;
    out_[family_.bias_key] = qkv;
    const bool all = std::string_view(family_.bias_key) == "use_bias";
    const bool has_out_bias = to_huggingface(family_, "blk.0.attn_output.bias").has_value();
    if ((has_out_bias && out != qkv) || (all && ff != qkv)) {
      return unsupported(file_, std::string("biases of some matrices alone: ") + family_.bias_key +
                                    " of config.json is about all of them");
    }
    if (!all && to_huggingface(family_, "blk.0.ffn_down.bias")) out_["mlp_bias"] = ff;
    return {};
  }

  /// Writes whether the weights of experts are normalised and scaled.
  Result<void> expert_weights() {
    const auto norm = file_.get_bool(key("expert_weights_norm"));
    used_.insert(key("expert_weights_norm"));
    const double scale = real_key("expert_weights_scale").value_or(1);
    const bool has_scale_key = out_.contains("routed_scaling_factor");
    if (scale != 0 && scale != 1 && !has_scale_key) {
      return unsupported(file_, "key \"" + key("expert_weights_scale") +
                                    "\" has no place in a folder of this family");
    }
    if (family_.norm_topk) {
      out_["norm_topk_prob"] = norm.value_or(*family_.norm_topk);
    } else if (!norm.value_or(true)) {
      return unsupported(file_, "key \"" + key("expert_weights_norm") +
                                    "\" is false, which has no place in a folder of this family");
    }
    return {};
  }

  Result<void> experts() {
    HOLDFAST_CHECKED(expert_weights());
    const gguf::TensorInfo* up = file_.tensor(expert_block() + "ffn_up_exps.weight");
    if (up == nullptr) return {};
    // The tensor's width: where the header has no key for it, and where a folder has one number for
    // both.
    if (out_.contains("moe_intermediate_size") || family_.norm_topk) {
      out_["moe_intermediate_size"] = up->dims[1];
    } else {
      used_.insert(key("expert_feed_forward_length"));
      out_[family_.names.ff] = up->dims[1];
    }
    const gguf::TensorInfo* shared = file_.tensor(expert_block() + "ffn_up_shexp.weight");
    for (const KeyRule& rule : family_.keys) {
      const bool about = std::string_view(rule.gguf) == "expert_shared_feed_forward_length";
      if (about && shared != nullptr) out_[rule.huggingface] = shared->dims[1];
    }
    return {};
  }

  /// Marks keys as read whose values are those that a folder implies.
  void use_harmless() {
    const struct {
      const char* suffix;
      double value;
    } harmless[] = {{"rope.freq_base_swa", 10000},
                    {"attention.key_length_swa", static_cast<double>(head_dim_)},
                    {"attention.value_length_swa", static_cast<double>(head_dim_)},
                    {"rope.scale_linear", 1},
                    {"embedding_scale", 1},
                    {"residual_scale", 1},
                    {"logit_scale", 1},
                    {"expert_gating_func", static_cast<double>(family_.gating)},
                    {"expert_group_count", 1},
                    {"expert_group_used_count", 1},
                    {"rope.scaling.factor", 1}};
    for (const auto& h : harmless) {
      if (file_.get_f64(key(h.suffix)) == h.value) used_.insert(key(h.suffix));
    }
    if (file_.get_bool(key("attention.causal")).value_or(!family_.encoder) != family_.encoder) {
      used_.insert(key("attention.causal"));
    }
    used_.insert(key("pooling_type"));        // pooling.cpp
    used_.insert(key("tensor_data_layout"));  // the first converters wrote it for every llama
    // Unused without scaling; converters of phi 3 write it all the same.
    const auto type = file_.get_string(key("rope.scaling.type")).value_or("none");
    if (type == "none" || type == "linear") {
      used_.insert(key("rope.scaling.original_context_length"));
    }
  }

  /// Refuses keys that were not read: their meaning would be lost.
  Result<void> nothing_left() {
    use_harmless();
    const std::string prefix = std::string(family_.architecture) + ".";
    for (const std::string& name : file_.keys()) {
      if (!name.starts_with(prefix) || used_.count(name) > 0) continue;
      const auto value = file_.get_f64(name);
      if (value && *value == 0) continue;
      if (file_.get_bool(name) == false && name != key("attention.causal")) continue;
      return unsupported(file_, "key " + gguf::quoted(name) + " has no place in a " +
                                    family_.model_type + " folder");
    }
    return {};
  }

  /// Writes values that other code would derive differently.
  Result<void> rotation() {
    const std::string_view arch = family_.architecture;
    const std::uint64_t turned = file_.get_u64(key("rope.dimension_count")).value_or(head_dim_);
    used_.insert(key("rope.dimension_count"));
    if (arch.starts_with("gemma")) {
      const std::uint64_t layers = out_["num_hidden_layers"];
      const std::uint64_t width = out_["hidden_size"], heads = out_["num_attention_heads"];
      const bool wide = layers == 46 || layers == 62;
      out_["head_dim"] = head_dim_;
      out_["query_pre_attn_scalar"] = wide ? width / heads : head_dim_;
    }
    if (arch == "glm4moe") {
      out_["use_qk_norm"] = file_.tensor("blk.0.attn_q_norm.weight") != nullptr;
    }
    if (arch.starts_with("granite") && !out_.contains("attention_multiplier")) {
      const double usual = 1 / std::sqrt(static_cast<double>(head_dim_));
      out_["attention_multiplier"] = shortest(static_cast<double>(static_cast<float>(usual)));
    }
    if (turned != head_dim_ ||
        try_parse_json<json>(family_.defaults).contains("partial_rotary_factor")) {
      out_["partial_rotary_factor"] = static_cast<double>(turned) / static_cast<double>(head_dim_);
    }
    return {};
  }

  Result<void> yarn() {
    json scaling = {{"rope_type", "yarn"}};
    scaling["factor"] = shortest(real_key("rope.scaling.factor").value_or(1));
    used_.insert(key("rope.scaling.original_context_length"));
    const auto trained = file_.get_u64(key("rope.scaling.original_context_length"));
    if (trained) scaling["original_max_position_embeddings"] = *trained;
    for (const auto& [from, to] : {std::pair{"rope.scaling.yarn_beta_fast", "beta_fast"},
                                   std::pair{"rope.scaling.yarn_beta_slow", "beta_slow"}}) {
      if (const auto beta = real_key(from)) scaling[to] = shortest(*beta);
    }
    for (const char* other : {"rope.scaling.attn_factor", "rope.scaling.yarn_ext_factor",
                              "rope.scaling.yarn_attn_factor"}) {
      if (file_.has(key(other))) {
        return unsupported(file_, "key \"" + key(other) + "\" has no place in a folder");
      }
    }
    out_["rope_scaling"] = scaling;
    return {};
  }

  Result<void> longrope() {
    json scaling = {{"type", "longrope"}};
    for (const auto& [tensor, name] : {std::pair{"rope_factors_long.weight", "long_factor"},
                                       std::pair{"rope_factors_short.weight", "short_factor"}}) {
      const gguf::TensorInfo* t = file_.tensor(tensor);
      if (t == nullptr) return unsupported(file_, std::string("there is no ") + tensor);
      std::vector<float> factors(t->elements());
      HOLDFAST_CHECKED(
          gguf::dequantize_row(t->type, t->data.data(), factors.data(), factors.size()));
      scaling[name] = json::array();
      for (const float f : factors) scaling[name].push_back(shortest(static_cast<double>(f)));
    }
    if (const auto factor = real_key("rope.scaling.attn_factor")) {
      scaling["attention_factor"] = shortest(*factor);
      used_.insert(key("rope.scaling.factor"));  // the attention factor was made from it
    }
    out_["rope_scaling"] = scaling;
    HOLDFAST_CHECKED(
        copy("rope.scaling.original_context_length", "original_max_position_embeddings", true));
    return {};
  }

  Result<void> rope() {
    const double base = shortest(real_key("rope.freq_base").value_or(10000));
    out_["rope_theta"] = base;
    const std::string original = key("rope.scaling.original_context_length");
    const double trained = file_.get_f64(original).value_or(8192);
    used_.insert(key("rope.scaling.type"));
    if (file_.get_bool(key("rope.scaling.finetuned")).value_or(true)) {
      used_.insert(key("rope.scaling.finetuned"));
    }
    if (const gguf::TensorInfo* factors = file_.tensor("rope_freqs.weight")) {
      HOLDFAST_TRY(out_["rope_scaling"], llama3_scaling(file_, *factors, base, trained));
      used_.insert(original);
      return {};
    }
    const bool lists = file_.tensor("rope_factors_long.weight") != nullptr;
    const auto type =
        file_.get_string(key("rope.scaling.type")).value_or(lists ? "longrope" : "none");
    if (type == "longrope") return longrope();
    if (type == "none") return {};
    if (type == "yarn") return yarn();
    if (type != "linear") {
      return unsupported(file_, "rope scaling \"" + std::string(type) + "\" is not supported");
    }
    const double factor = real_key("rope.scaling.factor").value_or(1);
    out_["rope_scaling"] = {{"rope_type", "linear"}, {"factor", shortest(factor)}};
    return {};
  }

  const gguf::File& file_;
  const Family& family_;
  json out_ = json::object();
  std::set<std::string> used_;
  std::uint64_t head_dim_ = 0;
};

}  // namespace

Result<nlohmann::json> keys_to_config(const gguf::File& file, const Family& family) {
  return ConfigWriter(file, family).run();
}

}  // namespace holdfast::huggingface
