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
Result<json> llama3_scaling(const gguf::File& file, const gguf::TensorInfo& factors, double base) {
  const auto n = static_cast<std::size_t>(factors.dims[0]);
  std::vector<float> have(n);
  HF_CHECKED(gguf::dequantize_row(factors.type, factors.data.data(), have.data(), n));
  const double factor = n == 0 ? 1 : static_cast<double>(have.back());
  constexpr double kLow = 1, kHigh = 4, kTrained = 8192;
  for (std::size_t i = 0; i < n; ++i) {
    const double wave =
        2 * M_PI * std::pow(base, static_cast<double>(2 * i) / static_cast<double>(2 * n));
    double divisor = wave > kTrained / kLow ? factor : 1;
    if (wave > kTrained / kHigh && wave <= kTrained / kLow) {
      const double blend = (kTrained / wave - kLow) / (kHigh - kLow);
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
              {"original_max_position_embeddings", static_cast<std::int64_t>(kTrained)}};
}

class ConfigWriter {
 public:
  ConfigWriter(const gguf::File& file, const Family& family) : file_(file), family_(family) {}

  Result<json> run() {
    out_["architectures"] = json::array({family_.hf_class});
    out_["model_type"] = family_.model_type;
    out_["hidden_act"] = "silu";
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

  Result<void> rope() {
    const double base = shortest(file_.get_f64(key("rope.freq_base")).value_or(10000));
    out_["rope_theta"] = base;
    if (const gguf::TensorInfo* factors = file_.tensor("rope_freqs.weight")) {
      HF_TRY(out_["rope_scaling"], llama3_scaling(file_, *factors, base));
      return {};
    }
    const auto type = file_.get_string(key("rope.scaling.type")).value_or("none");
    if (type == "none") return {};
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
