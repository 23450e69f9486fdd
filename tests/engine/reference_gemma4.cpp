// Gemma 4 after transformers' modeling_gemma4.py (the text model), with the names of its GGUF
// files.

#include <algorithm>
#include <cmath>

#include "tests/engine/reference_model.h"

namespace holdfast::reference {
namespace {

/// RotaryEmbedding of one head: element i turns with the one half of the rotated ones further on.
void turn_head(double* head, const Row& frequencies, double position) {
  const std::size_t half = frequencies.size();
  for (std::size_t i = 0; i < half; ++i) {
    const double c = std::cos(position * frequencies[i]), s = std::sin(position * frequencies[i]);
    const double a = head[i], b = head[i + half];
    head[i] = a * c - b * s;
    head[i + half] = b * c + a * s;
  }
}

}  // namespace

/// The value of a key that is a number, or one for each layer.
double Model::of_layer(const std::string& suffix, std::int64_t layer, double fallback) const {
  const auto list = file_.get_ints(arch_ + "." + suffix);
  if (!list || list->size() < 2) return number(suffix, fallback);
  return static_cast<double>((*list)[static_cast<std::size_t>(layer)]);
}

/// Gemma4RMSNorm without a scale.
Row Model::unit(const Row& x) const {
  double squares = 0;
  for (const double v : x) squares += v * v;
  const double mean = squares / static_cast<double>(x.size());
  Row y = x;
  for (double& v : y) v /= std::sqrt(mean + number("attention.layer_norm_rms_epsilon", 0));
  return y;
}

/// get_per_layer_inputs() and project_per_layer_inputs(): [tokens][layers x n].
Rows Model::gemma4_inputs(const std::vector<std::int32_t>& tokens, const Rows& x) {
  const auto n = static_cast<std::size_t>(number("embedding_length_per_layer_input", 0));
  if (n == 0) return {};
  const Matrix& table = matrix("per_layer_token_embd.weight");
  Rows out;
  for (std::size_t t = 0; t < tokens.size(); ++t) {
    Row all = times("per_layer_model_proj.weight", x[t]);
    for (double& v : all) v /= std::sqrt(static_cast<double>(width_));
    Row mixed;
    for (std::size_t at = 0; at < all.size(); at += n) {
      const auto first = all.begin() + static_cast<std::ptrdiff_t>(at);
      const Row normed =
          rms("per_layer_proj_norm", Row(first, first + static_cast<std::ptrdiff_t>(n)));
      mixed.insert(mixed.end(), normed.begin(), normed.end());
    }
    for (std::size_t i = 0; i < mixed.size(); ++i) {
      const double looked_up =
          table.values[static_cast<std::size_t>(tokens[t]) * mixed.size() + i] *
          std::sqrt(static_cast<double>(n));
      mixed[i] = (mixed[i] + looked_up) / std::sqrt(2.0);
    }
    out.push_back(std::move(mixed));
  }
  return out;
}

/// Rows of a product, each head normed (by `norms`; null: by no weights, and not rotated) and
/// rotated.
Row Model::gemma4_heads(const std::string& block, const char* matrix_name, const char* norms,
                        const Row& x, std::size_t position, std::int64_t layer) {
  const bool near = in_window_layer(layer);
  const double length = number(near ? "attention.key_length_swa" : "attention.key_length",
                               number("attention.key_length", 0));
  const double turned = number(near ? "rope.dimension_count_swa" : "rope.dimension_count", length);
  const double base = near ? number("rope.freq_base_swa", 1e4) : number("rope.freq_base", 1e4);
  Row frequencies;
  for (int i = 0; i < static_cast<int>(turned) / 2; ++i) {
    frequencies.push_back(std::pow(base, -2.0 * i / turned));
    if (!near && has("rope_freqs.weight")) {
      frequencies.back() /= matrix("rope_freqs.weight").values[static_cast<std::size_t>(i)];
    }
  }
  const Row all = times(block + matrix_name + ".weight", x);
  const auto head_dim = static_cast<std::ptrdiff_t>(length);
  Row out;
  for (auto at = all.begin(); at != all.end(); at += head_dim) {
    Row head(at, at + head_dim);
    head = norms == nullptr ? unit(head) : rms(block + norms, head);
    if (norms != nullptr) turn_head(head.data(), frequencies, static_cast<double>(position));
    out.insert(out.end(), head.begin(), head.end());
  }
  return out;
}

/// Gemma4TextAttention. Layers from the first sharing one on take the keys and values of the last
/// one of their kind before them; without a matrix of values these are the keys' products.
Rows Model::gemma4_attention(std::int64_t layer, const Rows& x) {
  const std::string block = "blk." + std::to_string(layer) + ".";
  const bool near = in_window_layer(layer);
  Rows q, out;
  auto& [keys, values] = last_[near];
  const auto sharing = static_cast<std::int64_t>(number("attention.shared_kv_layers", 0));
  const bool has_kv = layer < layers_ - sharing;
  if (has_kv) keys = values = {};
  for (std::size_t t = 0; t < x.size(); ++t) {
    q.push_back(gemma4_heads(block, "attn_q", "attn_q_norm", x[t], t, layer));
    if (!has_kv) continue;
    keys.push_back(gemma4_heads(block, "attn_k", "attn_k_norm", x[t], t, layer));
    const char* name = has(block + "attn_v.weight") ? "attn_v" : "attn_k";
    values.push_back(gemma4_heads(block, name, nullptr, x[t], t, layer));
  }
  const auto heads = static_cast<std::size_t>(heads_);
  const std::size_t length = q[0].size() / heads;
  const auto kv_heads = static_cast<std::size_t>(
      of_layer("attention.head_count_kv", layer, static_cast<double>(heads_)));
  const auto window = static_cast<std::size_t>(number("attention.sliding_window", 512));
  for (std::size_t t = 0; t < x.size(); ++t) {
    Row a(heads * length, 0);
    for (std::size_t h = 0; h < heads; ++h) {
      const std::size_t kv = h / (heads / kv_heads) * length;
      const std::size_t first = near && t + 1 > window ? t + 1 - window : 0;
      Row scores;  // as they are: the norms of queries and keys are scale enough
      for (std::size_t s = first; s <= t; ++s) {
        scores.push_back(0);
        for (std::size_t d = 0; d < length; ++d) {
          scores.back() += q[t][h * length + d] * keys[s][kv + d];
        }
        scores.back() *= number("attention.scale", 1);
      }
      const Row p = softmax(scores);
      for (std::size_t s = first; s <= t; ++s) {
        for (std::size_t d = 0; d < length; ++d) {
          a[h * length + d] += p[s - first] * values[s][kv + d];
        }
      }
    }
    out.push_back(times(block + "attn_output.weight", a));
  }
  return out;
}

/// Gemma4TextMLP, or one of Gemma4TextExperts, whose gate and up may be in one matrix.
Row Model::gemma4_gated(const std::string& block, const std::string& kind, const Row& x,
                        std::int64_t expert) {
  const std::string both = block + "ffn_gate_up" + kind + ".weight";
  const std::string down = block + "ffn_down" + kind + ".weight";
  const std::int64_t n = matrix(down).cols;
  Row gate, up;
  if (has(both)) {
    gate = times(both, x, 2 * expert * n, n);
    up = times(both, x, (2 * expert + 1) * n, n);
  } else {
    gate = times(block + "ffn_gate" + kind + ".weight", x, expert * n, n);
    up = times(block + "ffn_up" + kind + ".weight", x, expert * n, n);
  }
  for (std::size_t i = 0; i < up.size(); ++i) up[i] *= gelu_new(gate[i]);
  return times(down, up, expert * width_, width_);
}

/// Gemma4TextRouter and Gemma4TextExperts: the router and the experts norm the row by themselves.
Row Model::gemma4_experts(const std::string& block, const Row& x) {
  Row routed = unit(x);
  const Row& scale = matrix(block + "ffn_gate_inp.scale").values;
  for (std::size_t i = 0; i < routed.size(); ++i) {
    routed[i] *= scale[i] / std::sqrt(static_cast<double>(width_));
  }
  const Row p = softmax(times(block + "ffn_gate_inp.weight", routed));
  std::vector<std::size_t> order(p.size());
  for (std::size_t e = 0; e < order.size(); ++e) order[e] = e;
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return p[a] > p[b]; });
  order.resize(static_cast<std::size_t>(number("expert_used_count", 0)));
  double sum = 0;
  for (const std::size_t e : order) sum += p[e];
  const Row in = rms(block + "pre_ffw_norm_2", x);
  const double scale_of_all = number("expert_weights_scale", 1);  // of no published model
  Row y(x.size(), 0);
  for (const std::size_t e : order) {
    const double expert_scale = scale_of_all * matrix(block + "ffn_down_exps.scale").values[e];
    add(y, gemma4_gated(block, "_exps", in, static_cast<std::int64_t>(e)),
        p[e] / sum * expert_scale);
  }
  return rms(block + "post_ffw_norm_2", y);
}

/// Gemma4TextModel and Gemma4TextDecoderLayer, of embedded rows.
Rows Model::gemma4(const std::vector<std::int32_t>& tokens, Rows x) {
  const Rows inputs = gemma4_inputs(tokens, x);
  for (std::int64_t l = 0; l < layers_; ++l) {
    const std::string block = "blk." + std::to_string(l) + ".";
    Rows in = x;
    for (Row& row : in) row = rms(block + "attn_norm", row);
    const Rows a = gemma4_attention(l, in);
    for (std::size_t t = 0; t < x.size(); ++t) {
      add(x[t], rms(block + "post_attention_norm", a[t]));
      Row f = gemma4_gated(block, "", rms(block + "ffn_norm", x[t]), 0);
      if (has(block + "ffn_gate_inp.weight")) {
        f = rms(block + "post_ffw_norm_1", f);
        add(f, gemma4_experts(block, x[t]));
      }
      add(x[t], rms(block + "post_ffw_norm", f));
      if (!inputs.empty()) {
        Row gate = times(block + "inp_gate.weight", x[t]);
        const std::size_t first = static_cast<std::size_t>(l) * gate.size();
        for (std::size_t i = 0; i < gate.size(); ++i) {
          gate[i] = gelu_new(gate[i]) * inputs[t][first + i];
        }
        add(x[t], rms(block + "post_norm", times(block + "proj.weight", gate)));
      }
      if (!has(block + "layer_output_scale.weight")) continue;
      for (double& v : x[t]) v *= matrix(block + "layer_output_scale.weight").values[0];
    }
  }
  for (Row& row : x) row = rms("output_norm", row);
  return x;
}

}  // namespace holdfast::reference
