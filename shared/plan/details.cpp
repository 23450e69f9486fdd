// read_details: the values of a header besides the sizes, with each family's defaults.

#include <algorithm>
#include <cmath>

#include "shared/plan/expected.h"
#include "shared/plan/family.h"
#include "shared/plan/keys.h"

namespace holdfast::plan {
namespace {

/// A key of a feature that is not computed, with the numbers that disable it.
struct Refused {
  const char* suffix;
  double harmless;
  double also = 0;
  bool Family::*but_for = nullptr;  // a family that computes it
  bool Family::*or_for = nullptr;
};
constexpr Refused kRefused[] = {
    {"attention.max_alibi_bias", 0},
    {"attention.clamp_kqv", 0},
    {"attention.output_scale", 0, 1},
    {"attention.temperature_length", 0},
    {"attention.temperature_scale", 0, 0, &Family::temperature},
    {"attention.q_lora_rank", 0, 0, &Family::latent},
    {"attention.kv_lora_rank", 0, 0, &Family::latent},
    {"attention.shared_kv_layers", 0, 0, &Family::uneven},
    {"attention.relative_buckets_count", 0},
    {"use_parallel_residual", 0},
    {"router_logit_softcapping", 0},
    {"expert_group_count", 0, 1, &Family::expert_groups},
    {"expert_group_used_count", 0, 1, &Family::expert_groups},
    {"leading_dense_block_count", 0, 0, &Family::dense_first},
    {"moe_every_n_layers", 0, 1},
    {"interleave_moe_layer_step", 0, 1},
    {"nextn_predict_layers", 0, 0, &Family::next_layers},
    {"rope.scaling.alpha", 0},
    {"rope.scaling.yarn_log_multiplier", 0, 0, &Family::temperature, &Family::latent},
    {"embedding_length_out", 0},
    {"embedding_length_per_layer_input", 0, 0, &Family::layer_inputs},
    {"rescale_every_n_layers", 0}};

class DetailsReader {
 public:
  DetailsReader(const gguf::File& file, const ModelShape& shape)
      : file_(file), shape_(shape), keys_(file), family_(*find_family(shape.architecture)) {
    keys_.set_architecture(shape.architecture);
    out_.family = &family_;
  }

  Result<Details> run() {
    HOLDFAST_CHECKED(refuse());
    HOLDFAST_CHECKED(read_tensors());
    HOLDFAST_CHECKED(read_scales());
    HOLDFAST_CHECKED(read_rope());
    HOLDFAST_CHECKED(read_window());
    HOLDFAST_CHECKED(read_uneven());
    HOLDFAST_CHECKED(read_experts());
    HOLDFAST_CHECKED(read_groups());
    HOLDFAST_CHECKED(read_pooling());
    for (std::int64_t l = 0; l < shape_.layers; ++l) {
      const bool left_out = family_.no_rope_step > 0 && (l + 1) % family_.no_rope_step == 0;
      const bool far =
          family_.rope_in_windows && out_.window > 0 && !out_.windowed[static_cast<std::size_t>(l)];
      out_.rotated.push_back(rotates_ && !left_out && !far);
    }
    return std::move(out_);
  }

 private:
  bool has(const char* tensor) const { return file_.tensor(tensor) != nullptr; }
  bool uses(Use use, const char* tensor) const {
    return use == Use::kMust || (use == Use::kMay && has(tensor));
  }
  Error unsupported_key(const char* suffix, const std::string& what) const {
    return keys_.unsupported("key \"" + keys_.key(suffix) + "\" " + what);
  }

  Result<void> refuse() const {
    for (const Refused& r : kRefused) HOLDFAST_CHECKED(refuse_key(r));
    if (!family_.uneven) {
      HOLDFAST_CHECKED(refuse_other("attention.key_length_swa", shape_.head_dim));
      HOLDFAST_CHECKED(refuse_other("attention.value_length_swa", shape_.head_dim));
      HOLDFAST_CHECKED(refuse_other("rope.dimension_count_swa", shape_.rope_dims));
    }
    if (file_.has(keys_.key("rope.dimension_sections")) && !family_.rope_sections) {
      return unsupported_key("rope.dimension_sections", "is not supported");
    }
    return {};
  }
  /// Returns true if the key is refused for this family.
  bool is_refused(const Refused& r) const {
    const auto has_feature = [&](auto feature) { return feature != nullptr && family_.*feature; };
    return !has_feature(r.but_for) && !has_feature(r.or_for);
  }
  Result<void> refuse_key(const Refused& r) const {
    const std::string key = keys_.key(r.suffix);
    if (!file_.has(key) || !is_refused(r)) return {};
    const auto flag = file_.get_bool(key);
    const auto value = flag ? std::optional<double>(*flag ? 1 : 0) : file_.get_f64(key);
    if (value && (*value == r.harmless || *value == r.also)) return {};
    const std::string value_text = value ? " (" + printable_number(*value) + ")" : "";
    return unsupported_key(r.suffix, "asks for something that is not supported" + value_text);
  }
  /// Refuses a key of windowed layers with another value than that of the other layers.
  Result<void> refuse_other(const char* suffix, std::int64_t want) const {
    HOLDFAST_TRY(const auto value, keys_.find_int(suffix, Range{0, kContext.most}));
    if (value.value_or(want) == want) return {};
    return unsupported_key(suffix, "differs from that of the other layers");
  }
  static std::string printable_number(double value) {
    const auto whole = static_cast<std::int64_t>(value);
    return static_cast<double>(whole) == value ? std::to_string(whole) : std::to_string(value);
  }

  Result<void> read_tensors() {
    out_.fused_qkv = family_.delta == DeltaNet::kNone && has("blk.0.attn_qkv.weight");
    out_.out_bias = uses(family_.out_bias, "blk.0.attn_output.bias");
    out_.ffn_bias = uses(family_.ffn_bias, "blk.0.ffn_down.bias");
    out_.gate_bias = family_.gated && out_.ffn_bias && has("blk.0.ffn_gate.bias");
    const auto rows = [&](const char* name, std::int64_t fallback) {
      const gguf::TensorInfo* tensor = file_.tensor(name);
      return tensor ? static_cast<std::int64_t>(tensor->dims[1]) : fallback;
    };
    if (family_.token_types) out_.type_rows = rows("token_types.weight", 2);
    if (!family_.positions) return {};
    out_.position_rows = rows("position_embd.weight", shape_.context);
    if (out_.position_rows >= shape_.context && out_.position_rows <= kContext.most) return {};
    return keys_.invalid("tensor \"position_embd.weight\" has " +
                         std::to_string(out_.position_rows) + " rows, expected those of " +
                         std::to_string(shape_.context) + " positions");
  }

  Result<void> read_scales() {
    HOLDFAST_CHECKED(read_attention_scale());
    HOLDFAST_TRY(out_.attention_cap,
                 keys_.find_float("attn_logit_softcapping", family_.attention_cap));
    HOLDFAST_TRY(out_.logit_cap, keys_.find_float("final_logit_softcapping", family_.logit_cap));
    if (family_.embedding_sqrt) out_.embedding_scale = std::sqrt(static_cast<double>(shape_.width));
    const struct {
      const char* suffix;
      double& to;
      bool divides;
    } scales[] = {{"embedding_scale", out_.embedding_scale, false},
                  {"residual_scale", out_.residual_scale, false},
                  {"logit_scale", out_.logit_scale, !family_.logit_factor}};
    for (const auto& s : scales) {
      HOLDFAST_TRY(const double value, keys_.find_float(s.suffix, 0));
      if (value == 0 || value == 1) continue;
      const bool factor = family_.logit_factor && &s.to == &out_.logit_scale;
      if (!family_.scale_keys && !factor) return unsupported_key(s.suffix, "is not supported here");
      s.to = s.divides ? 1 / value : value;
    }
    return {};
  }

  Result<void> read_attention_scale() {
    HOLDFAST_TRY(out_.attention_scale,
                 keys_.find_float("attention.scale", family_.attention_scale));
    if (family_.latent) {
      out_.attention_scale = 1 / std::sqrt(static_cast<double>(shape_.head_key));
    }
    const bool wide = family_.wide_scale_layers > 0 && shape_.layers == family_.wide_scale_layers;
    if (out_.attention_scale == 0 && wide) {
      out_.attention_scale =
          std::sqrt(static_cast<double>(shape_.heads) / static_cast<double>(shape_.width));
    }
    return {};
  }

  /// Reads the rotation. A factor of 0 or 1 changes nothing.
  Result<void> read_rope() {
    RopeSpec& r = out_.rope;
    HOLDFAST_TRY(const bool finetuned, keys_.find_bool("rope.scaling.finetuned", true));
    rotates_ = family_.rope != RopeStyle::kNone && !(family_.scale_keys && !finetuned);
    r.base = shape_.rope_base;
    r.dims = shape_.rope_dims;
    HOLDFAST_TRY(const double old_factor, keys_.find_float("rope.scale_linear", 1));
    HOLDFAST_TRY(r.factor, keys_.find_float("rope.scaling.factor", old_factor));
    if (r.factor == 0) r.factor = 1;
    HOLDFAST_TRY(const auto original,
                 keys_.find_int("rope.scaling.original_context_length", Range{0, kContext.most}));
    r.original_context = original.value_or(0);
    HOLDFAST_TRY(r.magnitude, keys_.find_float("rope.scaling.attn_factor", 0));
    HOLDFAST_CHECKED(read_scaling());
    HOLDFAST_CHECKED(read_temperature());
    if (r.magnitude == 0) r.magnitude = 1;
    return read_window_rope();
  }

  Result<void> read_window_rope() {
    const RopeSpec& r = out_.rope;
    out_.window_rope = r;
    if (family_.window_rope_unscaled) out_.window_rope = RopeSpec{.base = r.base, .dims = r.dims};
    if (family_.window_rope_base > 0) out_.window_rope.base = family_.window_rope_base;
    HOLDFAST_TRY(const double swa, keys_.find_float("rope.freq_base_swa", 0));
    if (swa > 0) out_.window_rope.base = swa;
    return {};
  }

  /// Reads values that differ between layers, and the rotation of windowed ones.
  Result<void> read_uneven() {
    if (!family_.uneven) return {};
    HOLDFAST_TRY(out_.ff, keys_.find_each("feed_forward_length", kFf, shape_.layers));
    const char* suffix = "rope.dimension_count_swa";
    HOLDFAST_TRY(const auto dims, keys_.find_int(suffix, kHeadDim));
    const std::int64_t head_dim = window_head_dim(shape_);
    out_.window_rope.dims = dims.value_or(head_dim);
    if (out_.window_rope.dims > head_dim || out_.window_rope.dims % 2 != 0) {
      return keys_.invalid("key \"" + keys_.key(suffix) + "\" is " +
                           std::to_string(out_.window_rope.dims) +
                           ", expected an even number up to " + std::to_string(head_dim));
    }
    for (std::int64_t l = 0; l < shape_.layers; ++l) {
      const bool windowed = out_.windowed[static_cast<std::size_t>(l)];
      const std::string name = "blk." + std::to_string(l) + ".attn_v.weight";
      out_.keys_for_values.push_back(!windowed && !has(name.c_str()));
    }
    out_.layer_scale = family_.layer_scale && has("blk.0.layer_output_scale.weight");
    out_.gate_up_experts = has("blk.0.ffn_gate_up_exps.weight");
    return {};
  }

  /// Returns the type without a key: linear, or longrope where the file has its factors.
  static std::string_view default_scaling(bool lists, bool scales) {
    if (lists) return "longrope";
    return scales ? "linear" : "none";
  }

  /// Reads the way of scaling.
  Result<void> read_scaling() {
    const bool lists = has("rope_factors_long.weight") || has("rope_factors_short.weight");
    const bool scales = out_.rope.factor != 1;
    const std::string_view type =
        file_.get_string(keys_.key("rope.scaling.type")).value_or(default_scaling(lists, scales));
    if (lists && type != "longrope") {
      return keys_.unsupported("rope scaling " + printable(type) +
                               " together with the tensors \"rope_factors_…\" is not supported");
    }
    if (shape_.has_rope_freqs && scales && type != "none" && type != "llama3") {
      return keys_.unsupported("rope scaling " + printable(type) +
                               " together with the tensor \"rope_freqs.weight\" is not supported");
    }
    return shape_.has_rope_freqs ? read_llama3() : read_scaling_of(type, scales);
  }

  Result<void> read_scaling_of(std::string_view type, bool scales) {
    if (type == "llama3") return scales ? read_llama3() : Result<void>();
    if (type == "yarn") return read_yarn();
    if (type == "longrope") return read_longrope();
    if (type == "linear" && scales) out_.rope.scaling = RopeScaling::kLinear;
    if (type == "none" || type == "linear") return {};
    return keys_.unsupported("rope scaling " + printable(type) + " is not supported");
  }

  Result<void> read_llama3() {
    RopeSpec& r = out_.rope;
    r.scaling = RopeScaling::kLlama3;
    if (shape_.has_rope_freqs) return {};
    if (r.original_context == 0) {
      return keys_.unsupported("rope scaling \"llama3\" without key \"" +
                               keys_.key("rope.scaling.original_context_length") + "\"");
    }
    HOLDFAST_TRY(r.low_factor, keys_.find_float("rope.scaling.low_freq_factor", 1));
    HOLDFAST_TRY(r.high_factor, keys_.find_float("rope.scaling.high_freq_factor", 4));
    if (r.high_factor > r.low_factor) return {};
    return keys_.invalid("rope scaling \"llama3\": the high factor is not above the low one");
  }

  Result<void> read_yarn() {
    RopeSpec& r = out_.rope;
    if (r.factor == 1) return {};
    r.scaling = RopeScaling::kYarn;
    r.whole_pairs = family_.yarn_whole_pairs;
    if (r.original_context == 0) r.original_context = shape_.context;
    HOLDFAST_TRY(r.ext_factor, keys_.find_float("rope.scaling.yarn_ext_factor", 1));
    HOLDFAST_TRY(r.beta_fast, keys_.find_float("rope.scaling.yarn_beta_fast", 32));
    HOLDFAST_TRY(r.beta_slow, keys_.find_float("rope.scaling.yarn_beta_slow", 1));
    HOLDFAST_TRY(const double more, keys_.find_float("rope.scaling.yarn_attn_factor", 1));
    if (r.beta_fast <= 0 || r.beta_slow <= 0) {
      return keys_.invalid("rope scaling \"yarn\": a beta is 0, expected a positive number");
    }
    if (r.magnitude == 0) r.magnitude = 1;
    r.magnitude *= more;
    HOLDFAST_TRY(const double all, keys_.find_float("rope.scaling.yarn_log_multiplier", 0));
    if (family_.latent) {  // scales the scores, by a tenth of the number in the models' configs
      const double more_of_each = 1 + all * std::log(r.factor);
      out_.attention_scale =
          more_of_each * more_of_each / std::sqrt(static_cast<double>(shape_.head_key));
      return {};
    }
    if (r.ext_factor != 0 && r.factor > 1) {
      r.magnitude *= (1 + 0.1 * std::log(r.factor)) / (1 + 0.1 * all * std::log(r.factor));
    }
    return {};
  }

  Result<void> read_temperature() {
    if (!family_.temperature) return {};
    RopeSpec& r = out_.rope;
    HOLDFAST_TRY(r.temperature, keys_.find_float("attention.temperature_scale", 0));
    if (r.temperature == 0) return {};
    if (r.original_context < 1) {
      return keys_.unsupported("key \"" + keys_.key("attention.temperature_scale") +
                               "\" without key \"" +
                               keys_.key("rope.scaling.original_context_length") + "\"");
    }
    if (shape_.rope_dims == shape_.head_dim) return {};
    return unsupported_key("attention.temperature_scale",
                           "is not supported where part of a head alone turns");
  }

  /// Reads longrope. Without a key the attention factor is √(1 + ln(context / original) /
  /// ln(original)).
  Result<void> read_longrope() {
    RopeSpec& r = out_.rope;
    r.scaling = RopeScaling::kLongrope;
    for (const char* name : {"rope_factors_long.weight", "rope_factors_short.weight"}) {
      if (has(name)) continue;
      return keys_.unsupported("rope scaling \"longrope\" without tensor \"" + std::string(name) +
                               "\"");
    }
    if (r.original_context < 2) {
      return keys_.unsupported("rope scaling \"longrope\" without key \"" +
                               keys_.key("rope.scaling.original_context_length") + "\"");
    }
    if (r.magnitude != 0) return {};
    const auto original = static_cast<double>(r.original_context);
    const double longer = std::max(static_cast<double>(shape_.context) / original, r.factor);
    if (longer > 1) r.magnitude = std::sqrt(1 + std::log(longer) / std::log(original));
    return {};
  }

  Result<void> read_window() {
    HOLDFAST_TRY(const auto window,
                 keys_.find_int("attention.sliding_window", Range{0, kContext.most}));
    out_.window = window.value_or(family_.window);
    out_.windowed.assign(static_cast<std::size_t>(shape_.layers), false);
    if (out_.window == 0) return {};
    const char* suffix = "attention.sliding_window_pattern";
    const auto list = file_.get_ints(keys_.key(suffix));
    if (list && !list->empty()) return read_window_list(suffix, *list);
    HOLDFAST_TRY(const auto named, keys_.find_int(suffix, Range{0, kLayers.most}));
    if (!named && family_.window_period == 0) {
      if (out_.window >= shape_.context) return {};
      return unsupported_key("attention.sliding_window",
                             "does not say for which layers of this architecture it is meant");
    }
    const std::int64_t period = named.value_or(family_.window_period);
    set_windows(period, named ? period == 0 : period == 1);
    return {};
  }

  /// Windows all layers, or all but the last one of each period.
  void set_windows(std::int64_t period, bool all) {
    for (std::int64_t l = 0; l < shape_.layers; ++l) {
      out_.windowed[static_cast<std::size_t>(l)] =
          all || l % std::max<std::int64_t>(period, 1) < period - 1;
    }
  }

  /// Reads a list of an entry for each layer.
  Result<void> read_window_list(const char* suffix, const std::vector<std::int64_t>& list) {
    if (static_cast<std::int64_t>(list.size()) != shape_.layers) {
      return keys_.invalid("key \"" + keys_.key(suffix) + "\" has " + std::to_string(list.size()) +
                           " entries, expected one for each of " + std::to_string(shape_.layers) +
                           " layers");
    }
    for (std::size_t l = 0; l < list.size(); ++l) out_.windowed[l] = list[l] != 0;
    return {};
  }

  Result<void> read_experts() {
    HOLDFAST_TRY(out_.expert_weights_norm,
                 keys_.find_bool("expert_weights_norm", family_.expert_weights_norm));
    HOLDFAST_TRY(out_.expert_weights_scale, keys_.find_float("expert_weights_scale", 1));
    if (out_.expert_weights_scale == 0) out_.expert_weights_scale = 1;
    const std::string bias = "blk." + std::to_string(shape_.dense_layers) + ".exp_probs_b.bias";
    HOLDFAST_CHECKED(read_router(has(bias.c_str())));
    out_.choice_bias = shape_.experts > 0 && uses(family_.choice_bias, bias.c_str());
    return {};
  }

  Result<void> read_router(bool has_bias) {
    HOLDFAST_TRY(const auto named, keys_.find_int("expert_gating_func", Range{0, 100}));
    const std::int64_t function = named.value_or(0);
    out_.router = family_.router;
    if (function == 1) out_.router = Router::kSoftmax;
    if (function == 2) out_.router = Router::kSigmoid;
    if (function > (family_.choice_bias != Use::kNo ? 2 : 1)) {
      return unsupported_key("expert_gating_func",
                             "is " + std::to_string(function) + ", which is not supported here");
    }
    // GLM-4.7-Flash's first files lack the key; DeepSeek-V2's have no bias.
    if (family_.latent && function == 0 && has_bias) out_.router = Router::kSigmoid;
    return {};
  }

  Result<void> read_groups() {
    if (!family_.expert_groups || shape_.experts == 0) return {};
    HOLDFAST_TRY(const auto groups, keys_.find_int("expert_group_count", kExpertGroups));
    HOLDFAST_TRY(const auto used, keys_.find_int("expert_group_used_count", kExpertGroups));
    out_.expert_groups = std::max<std::int64_t>(groups.value_or(1), 1);
    out_.expert_groups_used = std::max<std::int64_t>(used.value_or(out_.expert_groups), 1);
    const std::int64_t each = shape_.experts / out_.expert_groups;
    const bool fits = shape_.experts % out_.expert_groups == 0 &&
                      out_.expert_groups_used <= out_.expert_groups &&
                      shape_.experts_used <= each * out_.expert_groups_used;
    if (fits) return {};
    return keys_.invalid(
        "keys \"" + keys_.key("expert_group_count") + "\" and \"" +
        keys_.key("expert_group_used_count") + "\" are " + std::to_string(out_.expert_groups) +
        " and " + std::to_string(out_.expert_groups_used) + ", which do not fit " +
        std::to_string(shape_.experts_used) + " of " + std::to_string(shape_.experts) + " experts");
  }

  Result<void> read_pooling() {
    HOLDFAST_TRY(const auto type, keys_.find_int("pooling_type", Range{-1, 4}));
    if (!type || *type < 0) return {};
    if (*type == 4) return unsupported_key("pooling_type", "is 4 (rank), which is not supported");
    out_.pooling_named = true;
    out_.pooling = static_cast<Pooling>(*type);
    return {};
  }

  const gguf::File& file_;
  const ModelShape& shape_;
  KeyReader keys_;
  const Family& family_;
  bool rotates_ = false;
  Details out_;
};

}  // namespace

std::int64_t pages_of_layer(const ModelShape& shape, const Details& details, std::int64_t layer) {
  if (has_kv_pages(shape, layer)) return layer;
  const auto windowed = [&](std::int64_t l) {
    return details.windowed[static_cast<std::size_t>(l)];
  };
  for (std::int64_t l = shape.layers - shape.sharing_layers - 1; l >= 0; --l) {
    if (windowed(l) == windowed(layer)) return l;
  }
  return -1;
}

Result<Details> read_details(const gguf::File& file, const ModelShape& shape) {
  return DetailsReader(file, shape).run();
}

}  // namespace holdfast::plan
