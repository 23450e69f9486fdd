// Keys of GGUF to config.json.

#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "shared/gguf/quants.h"
#include "shared/hf/families.h"

namespace holdfast::hf {
namespace {

using nlohmann::json;

/// The shortest decimal that is this float, as a double: 1e-05, not 9.9999997e-06.
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

/// Llama 3's numbers, if they give exactly the factors that the file has.
Result<json> llama3_scaling(const gguf::File& file, const gguf::TensorInfo& factors, double base,
                            double trained) {
  const auto n = static_cast<std::size_t>(factors.dims[0]);
  std::vector<float> have(n);
  HF_CHECKED(gguf::dequantize_row(factors.type, factors.data.data(), have.data(), n));
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
    out_["architectures"] = json::array({family_.hf_class});
    out_["model_type"] = family_.model_type;
    out_["hidden_act"] = family_.activation;
    if (std::string_view(family_.architecture).starts_with("gemma")) {
      out_["hidden_activation"] = family_.activation;
    }
    for (const KeyRule& rule : family_.keys) {
      const auto value = file_.get_f64(key(rule.gguf));
      if (!value) continue;
      if (rule.real) out_[rule.hf] = shortest(*value);
      if (!rule.real) out_[rule.hf] = static_cast<std::int64_t>(*value);
    }
    HF_CHECKED(copy("block_count", "num_hidden_layers", true));
    HF_CHECKED(copy("context_length", "max_position_embeddings", true));
    HF_CHECKED(copy("embedding_length", "hidden_size", true));
    HF_CHECKED(copy("feed_forward_length", "intermediate_size", true));
    HF_CHECKED(copy("attention.head_count", "num_attention_heads", true));
    HF_CHECKED(copy("attention.head_count_kv", "num_key_value_heads", false));
    HF_CHECKED(copy("attention.key_length", "head_dim", false));
    if (!out_.contains("num_key_value_heads")) {
      out_["num_key_value_heads"] = out_["num_attention_heads"];
    }
    const gguf::TensorInfo* embedding = file_.tensor("token_embd.weight");
    if (embedding == nullptr) return unsupported(file_, "there is no token_embd.weight");
    out_["vocab_size"] = embedding->dims[1];
    out_["tie_word_embeddings"] = file_.tensor("output.weight") == nullptr;
    const auto eps = file_.get_f64(key("attention.layer_norm_rms_epsilon"));
    if (!eps) return unsupported(file_, "there is no norm epsilon");
    out_["rms_norm_eps"] = shortest(*eps);
    for (const auto& [from, to] : {std::pair{"tokenizer.ggml.bos_token_id", "bos_token_id"},
                                   std::pair{"tokenizer.ggml.eos_token_id", "eos_token_id"}}) {
      if (const auto id = file_.get_u64(from)) out_[to] = *id;
    }
    HF_CHECKED(rope());
    HF_CHECKED(heads());
    return std::move(out_);
  }

 private:
  std::string key(const char* suffix) const {
    return std::string(family_.architecture) + "." + suffix;
  }
  Result<void> copy(const char* from, const char* to, bool needed) {
    const auto value = file_.get_u64(key(from));
    if (value) out_[to] = *value;
    if (value || (!needed && !file_.has(key(from)))) return {};
    return unsupported(file_, "key \"" + key(from) + "\" is missing or differs between layers");
  }

  /// Sizes of heads that other code would guess otherwise.
  Result<void> heads() {
    const std::uint64_t width = out_["hidden_size"], heads = out_["num_attention_heads"];
    if (heads == 0) return unsupported(file_, "there are no heads");
    const std::uint64_t size = file_.get_u64(key("attention.key_length")).value_or(width / heads);
    const std::uint64_t turned = file_.get_u64(key("rope.dimension_count")).value_or(size);
    if (std::string_view(family_.architecture).starts_with("gemma")) {
      out_["head_dim"] = size;
      const std::uint64_t layers = out_["num_hidden_layers"];
      const bool wide = layers == 46 || layers == 62;
      out_["query_pre_attn_scalar"] = wide ? width / heads : size;
    }
    if (turned != size) {
      out_["partial_rotary_factor"] = static_cast<double>(turned) / static_cast<double>(size);
    }
    return {};
  }

  Result<void> yarn() {
    json scaling = {{"rope_type", "yarn"}};
    scaling["factor"] = shortest(file_.get_f64(key("rope.scaling.factor")).value_or(1));
    const auto trained = file_.get_u64(key("rope.scaling.original_context_length"));
    if (trained) scaling["original_max_position_embeddings"] = *trained;
    for (const auto& [from, to] : {std::pair{"rope.scaling.yarn_beta_fast", "beta_fast"},
                                   std::pair{"rope.scaling.yarn_beta_slow", "beta_slow"}}) {
      if (const auto beta = file_.get_f64(key(from))) scaling[to] = shortest(*beta);
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
      HF_CHECKED(gguf::dequantize_row(t->type, t->data.data(), factors.data(), factors.size()));
      scaling[name] = json::array();
      for (const float f : factors) scaling[name].push_back(shortest(static_cast<double>(f)));
    }
    if (const auto factor = file_.get_f64(key("rope.scaling.attn_factor"))) {
      scaling["attention_factor"] = shortest(*factor);
    }
    out_["rope_scaling"] = scaling;
    HF_CHECKED(
        copy("rope.scaling.original_context_length", "original_max_position_embeddings", true));
    return {};
  }

  Result<void> rope() {
    const double base = shortest(file_.get_f64(key("rope.freq_base")).value_or(10000));
    out_["rope_theta"] = base;
    const std::string original = key("rope.scaling.original_context_length");
    const double trained = file_.get_f64(original).value_or(8192);
    if (const gguf::TensorInfo* factors = file_.tensor("rope_freqs.weight")) {
      HF_TRY(out_["rope_scaling"], llama3_scaling(file_, *factors, base, trained));
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
    const double factor = file_.get_f64(key("rope.scaling.factor")).value_or(1);
    out_["rope_scaling"] = {{"rope_type", "linear"}, {"factor", shortest(factor)}};
    return {};
  }

  const gguf::File& file_;
  const Family& family_;
  json out_ = json::object();
};

}  // namespace

Result<nlohmann::json> keys_to_config(const gguf::File& file, const Family& family) {
  return ConfigWriter(file, family).run();
}

}  // namespace holdfast::hf
