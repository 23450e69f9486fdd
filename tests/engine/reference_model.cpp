#include "tests/engine/reference_model.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "shared/gguf/quants.h"

namespace holdfast::reference {
namespace {

double silu(double x) {
  return x / (1 + std::exp(-x));
}
double gelu(double x) {
  return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
}

/// OpenAI's gpt_oss/torch/model.py, swiglu().
double swiglu_oai(double gate, double up) {
  gate = std::min(gate, 7.0);
  up = std::clamp(up, -7.0, 7.0);
  return gate / (1 + std::exp(-1.702 * gate)) * (up + 1);
}

}  // namespace

double gelu_new(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
}

void add(Row& y, const Row& b, double scale) {
  CHECK(y.size() == b.size());
  for (std::size_t i = 0; i < y.size(); ++i) y[i] += scale * b[i];
}

Row softmax(Row x) {
  const double top = *std::max_element(x.begin(), x.end());
  double sum = 0;
  for (double& v : x) sum += v = std::exp(v - top);
  for (double& v : x) v /= sum;
  return x;
}

double worst_error(const std::vector<float>& have, const Rows& want) {
  if (want.empty() || have.size() != want.size() * want[0].size()) return 1e9;
  double worst = 0;
  std::size_t at = 0;
  for (const Row& row : want) {
    double error = 0, norm = 0;
    for (const double v : row) {
      const double d = static_cast<double>(have[at++]) - v;
      error += d * d;
      norm += v * v;
    }
    worst = std::max(worst, std::sqrt(error / norm));
  }
  return worst;
}

Model::Model(const gguf::File& file, std::int64_t context) : file_(file), context_(context) {
  arch_ = std::string(file.get_string("general.architecture").value());
  const auto whole = [&](const char* key, double fallback) {
    return static_cast<std::int64_t>(number(key, fallback));
  };
  layers_ = whole("block_count", 0) - whole("nextn_predict_layers", 0);
  width_ = whole("embedding_length", 0);
  heads_ = whole("attention.head_count", 0);
  kv_heads_ = whole("attention.head_count_kv", static_cast<double>(heads_));
  head_ = whole("attention.key_length", static_cast<double>(width_ / heads_));
  rotary_ = whole("rope.dimension_count", static_cast<double>(head_));
  CHECK(layers_ > 0 && width_ > 0 && heads_ > 0 && kv_heads_ > 0);
}

double Model::number(const std::string& suffix, double fallback) const {
  const std::string key = arch_ + "." + suffix;
  if (const auto list = file_.get_ints(key); list && !list->empty()) {
    return static_cast<double>(list->front());
  }
  return file_.get_f64(key).value_or(fallback);
}

bool Model::has(const std::string& tensor) const {
  return file_.tensor(tensor) != nullptr;
}

const Model::Matrix& Model::matrix(const std::string& name) {
  const auto cached = cache_.find(name);
  if (cached != cache_.end()) return cached->second;
  const gguf::TensorInfo* t = file_.tensor(name);
  CHECK_MSG(t != nullptr, name.c_str());
  Matrix m;
  m.cols = static_cast<std::int64_t>(t->dims[0]);
  m.rows = static_cast<std::int64_t>(t->elements() / t->dims[0]);
  std::vector<float> floats(t->elements());
  const std::size_t row_bytes = gguf::row_bytes(t->type, t->dims[0]).value();
  for (std::int64_t r = 0; r < m.rows; ++r) {
    CHECK(gguf::dequantize_row(t->type, t->data.data() + static_cast<std::size_t>(r) * row_bytes,
                               floats.data() + r * m.cols, t->dims[0])
              .has_value());
  }
  m.values.assign(floats.begin(), floats.end());
  return cache_.emplace(name, std::move(m)).first->second;
}

/// y = W x for rows [first, first + rows) of W (0 = all).
Row Model::times(const std::string& name, const Row& x, std::int64_t first, std::int64_t rows) {
  const Matrix& m = matrix(name);
  CHECK(m.cols == static_cast<std::int64_t>(x.size()));
  Row y;
  for (std::int64_t r = first; r < first + (rows > 0 ? rows : m.rows); ++r) {
    double sum = 0;
    for (std::int64_t c = 0; c < m.cols; ++c) {
      sum += m.values[static_cast<std::size_t>(r * m.cols + c)] * x[static_cast<std::size_t>(c)];
    }
    y.push_back(sum);
  }
  return y;
}

void Model::add_bias(const std::string& name, Row& y, std::int64_t first) {
  if (!has(name)) return;
  const Row& b = matrix(name).values;
  for (std::size_t i = 0; i < y.size(); ++i) y[i] += b[static_cast<std::size_t>(first) + i];
}

Row Model::rms(const std::string& name, const Row& x) {
  double squares = 0;
  for (const double v : x) squares += v * v;
  const double eps = number("attention.layer_norm_rms_epsilon", 0);
  const double scale = 1 / std::sqrt(squares / static_cast<double>(x.size()) + eps);
  Row y = x;
  const Row& w = matrix(name + ".weight").values;
  CHECK(w.size() == x.size());
  for (std::size_t i = 0; i < y.size(); ++i) y[i] *= scale * w[i];
  return y;
}

Row Model::layer_norm(const std::string& name, const Row& x) {
  const auto n = static_cast<double>(x.size());
  double mean = 0, variance = 0;
  for (const double v : x) mean += v / n;
  for (const double v : x) variance += (v - mean) * (v - mean) / n;
  Row y = x;
  const Row& w = matrix(name + ".weight").values;
  const double eps = number("attention.layer_norm_epsilon", 0);
  for (std::size_t i = 0; i < y.size(); ++i) {
    y[i] = (x[i] - mean) / std::sqrt(variance + eps) * w[i];
  }
  if (!is("command-r") && !is("cohere2")) add(y, matrix(name + ".bias").values);
  return y;
}

Row Model::norm(const std::string& name, const Row& x) {
  for (const char* one :
       {"gpt2", "starcoder2", "bert", "stablelm", "nemotron", "command-r", "cohere2"}) {
    if (is(one)) return layer_norm(name, x);
  }
  return rms(name, x);
}

bool Model::in_window_layer(std::int64_t layer) const {
  const double window = number("attention.sliding_window", is("gemma2")    ? 4096
                                                           : is("gpt-oss") ? 128
                                                           : is("gemma4")  ? 512
                                                                           : 0);
  if (window == 0) return false;
  const std::string key = arch_ + ".attention.sliding_window_pattern";
  if (const auto list = file_.get_ints(key)) return (*list)[static_cast<std::size_t>(layer)] != 0;
  // Every n-th layer sees all: Gemma 2's and gpt-oss's second, the sixth of Gemma 3 and 4, the
  // fourth of OLMo 3, EXAONE 4 and Command R7B.
  const auto n =
      static_cast<std::int64_t>(number("attention.sliding_window_pattern", is("gemma2")    ? 2
                                                                           : is("gemma3")  ? 6
                                                                           : is("gemma4")  ? 6
                                                                           : is("olmo2")   ? 4
                                                                           : is("exaone4") ? 4
                                                                           : is("cohere2") ? 4
                                                                           : is("gpt-oss") ? 2
                                                                                           : 0));
  return n == 0 || (layer + 1) % n != 0;
}

double Model::yarn(double f, std::int64_t pair, double base, double factor, double& magnitude) {
  const double original =
      number("rope.scaling.original_context_length", number("context_length", 0));
  const auto dims = static_cast<double>(rotary_);
  const auto correction = [&](double rotations) {
    return dims * std::log(original / (rotations * 2 * std::numbers::pi)) / (2 * std::log(base));
  };
  double low = correction(number("rope.scaling.yarn_beta_fast", 32));
  double high = correction(number("rope.scaling.yarn_beta_slow", 1));
  if (!is("gpt-oss")) {  // its config says "truncate": false
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, dims - 1);
  if (low == high) high += 0.001;
  const double ramp = std::clamp((static_cast<double>(pair) - low) / (high - low), 0.0, 1.0);
  magnitude *= 0.1 * std::log(factor) + 1;
  magnitude /= 0.1 * number("rope.scaling.yarn_log_multiplier", 0) * std::log(factor) + 1;
  if (is("deepseek2"))
    magnitude = number("rope.scaling.attn_factor", 1);  // mscale / mscale_all_dim
  return f / factor * ramp + f * (1 - ramp);
}

double Model::frequency(std::int64_t pair, bool windowed, double& magnitude) {
  double base = number("rope.freq_base", 10000);
  if (windowed && is("gemma3")) base = 10000;
  if (windowed) base = number("rope.freq_base_swa", base);
  const double f = std::pow(base, -2 * static_cast<double>(pair) / static_cast<double>(rotary_));
  magnitude = 1;
  if (windowed && (is("gemma3") || is("olmo2"))) return f;  // scaling is for the other layers
  const double factor = number("rope.scaling.factor", 1);
  const double original = number("rope.scaling.original_context_length", 0);
  magnitude = number("rope.scaling.attn_factor", 1);
  if (has("rope_factors_long.weight")) {
    const double longer = number("context_length", 0) / original;
    if (!file_.has(arch_ + ".rope.scaling.attn_factor") && longer > 1) {
      magnitude = std::sqrt(1 + std::log(longer) / std::log(original));
    }
    const bool far = static_cast<double>(context_) > original;
    const char* list = far ? "rope_factors_long.weight" : "rope_factors_short.weight";
    return f / matrix(list).values[static_cast<std::size_t>(pair)];
  }
  if (has("rope_freqs.weight")) {
    return f / matrix("rope_freqs.weight").values[static_cast<std::size_t>(pair)];
  }
  const std::string type(file_.get_string(arch_ + ".rope.scaling.type").value_or("none"));
  if (type == "linear") return f / factor;
  if (type == "llama3") {
    const double length = 2 * std::numbers::pi / f;
    if (length < original / 4) return f;
    if (length > original) return f / factor;
    const double smooth = (original / length - 1) / (4 - 1);
    return (1 - smooth) * f / factor + smooth * f;
  }
  if (type == "yarn") return yarn(f, pair, base, factor, magnitude);
  CHECK_MSG(type == "none" || type == "longrope", type.c_str());
  return f;
}

/// Applies the rotary embedding of each head. Files of some families have the rows of q and k
/// reordered so that the two halves of a pair lie side by side.
void Model::apply_rope(Row& x, std::int64_t heads, std::int64_t position, std::int64_t layer) {
  if (is("gpt2") || is("bert")) return;
  if (is("smollm3") && (layer + 1) % 4 == 0) return;
  const bool finetuned = file_.get_bool(arch_ + ".rope.scaling.finetuned").value_or(true);
  if (arch_.rfind("granite", 0) == 0 && !finetuned) return;
  const bool near_alone = is("cohere2") || is("exaone4");
  if (near_alone && number("attention.sliding_window", 0) > 0 && !in_window_layer(layer)) return;
  auto& rope_table = rope_tables_[in_window_layer(layer)];
  for (auto i = static_cast<std::int64_t>(rope_table.size()); i < rotary_ / 2; ++i) {
    double magnitude = 1;
    const double f = frequency(i, in_window_layer(layer), magnitude);
    rope_table.emplace_back(f, magnitude);
  }
  bool side_by_side = arch_.rfind("granite", 0) == 0 || arch_.rfind("ernie", 0) == 0;
  for (const char* one : {"llama", "mistral3", "smollm3", "internlm2", "deepseek", "deepseek2",
                          "glm4", "command-r", "cohere2"}) {
    side_by_side = side_by_side || is(one);
  }
  for (std::int64_t h = 0; h < heads; ++h) {
    for (std::int64_t i = 0; i < rotary_ / 2; ++i) {
      const auto [f, magnitude] = rope_table[static_cast<std::size_t>(i)];
      const double angle = static_cast<double>(position) * f;
      const double c = std::cos(angle) * magnitude, s = std::sin(angle) * magnitude;
      double& a = x[static_cast<std::size_t>(h * head_ + (side_by_side ? 2 * i : i))];
      double& b =
          x[static_cast<std::size_t>(h * head_ + (side_by_side ? 2 * i + 1 : i + rotary_ / 2))];
      const double first = a * c - b * s;
      b = a * s + b * c;
      a = first;
    }
  }
}

/// q, k or v of a token before rotation.
Row Model::project(const std::string& block, int which, const Row& x) {
  const std::int64_t q = heads_ * head_, kv = kv_heads_ * head_;
  const std::int64_t first = which == 0 ? 0 : which == 1 ? q : q + kv;
  const char* names[] = {"attn_q", "attn_k", "attn_v"};
  Row y;
  if (has(block + "attn_qkv.weight")) {
    y = times(block + "attn_qkv.weight", x, first, which == 0 ? q : kv);
    add_bias(block + "attn_qkv.bias", y, first);
  } else {
    y = times(block + names[which] + ".weight", x);
    if (which == 0 && static_cast<std::int64_t>(y.size()) == 2 * q) {  // each head, then its gate
      for (std::int64_t i = 0; i < q; ++i) {
        y[static_cast<std::size_t>(i)] =
            y[static_cast<std::size_t>(i / head_ * 2 * head_ + i % head_)];
      }
      y.resize(static_cast<std::size_t>(q));
    }
    add_bias(block + names[which] + ".bias", y);
  }
  const std::string norms = block + names[which] + "_norm";
  if (which == 2 || !has(norms + ".weight")) return y;
  if (is("olmo2") || is("minimax-m2")) return rms(norms, y);
  Row out;
  for (std::size_t at = 0; at < y.size(); at += static_cast<std::size_t>(head_)) {
    const Row head(y.begin() + static_cast<std::ptrdiff_t>(at),
                   y.begin() + static_cast<std::ptrdiff_t>(at) + head_);
    const Row normed = rms(norms, head);
    out.insert(out.end(), normed.begin(), normed.end());
  }
  return out;
}

Rows Model::attention(std::int64_t layer, const Rows& x) {
  const std::string block = "blk." + std::to_string(layer) + ".";
  Rows q, k, v, out;
  for (std::size_t t = 0; t < x.size(); ++t) {
    q.push_back(project(block, 0, x[t]));
    k.push_back(project(block, 1, x[t]));
    v.push_back(project(block, 2, x[t]));
    apply_rope(q.back(), heads_, static_cast<std::int64_t>(t), layer);
    if (const double beta = number("attention.temperature_scale", 0); beta != 0) {
      const double trained = number("rope.scaling.original_context_length", 0);
      for (double& v : q.back()) {
        v *= 1 + beta * std::log(1 + std::floor(static_cast<double>(t) / trained));
      }
    }
    apply_rope(k.back(), kv_heads_, static_cast<std::int64_t>(t), layer);
  }
  double scale = 1 / std::sqrt(static_cast<double>(head_));
  if ((is("gemma2") && layers_ == 46) || (is("gemma3") && layers_ == 62)) {
    scale = 1 / std::sqrt(static_cast<double>(width_ / heads_));
  }
  if (const double named = number("attention.scale", 0); named != 0) scale = named;
  const double cap = number("attn_logit_softcapping", is("gemma2") ? 50 : 0);
  const auto window = static_cast<std::size_t>(
      in_window_layer(layer) ? number("attention.sliding_window", is("gpt-oss") ? 128 : 4096) : 0);
  for (std::size_t t = 0; t < x.size(); ++t) {
    Row a;
    for (std::int64_t h = 0; h < heads_; ++h) {
      const std::int64_t kv = h / (heads_ / kv_heads_);
      const std::size_t end = is("bert") ? x.size() : t + 1;
      const std::size_t begin = window > 0 && t + 1 > window ? t + 1 - window : 0;
      Row scores;
      for (std::size_t s = begin; s < end; ++s) {
        double dot = 0;
        for (std::int64_t d = 0; d < head_; ++d) {
          dot += q[t][static_cast<std::size_t>(h * head_ + d)] *
                 k[s][static_cast<std::size_t>(kv * head_ + d)];
        }
        dot *= scale;
        scores.push_back(cap > 0 ? cap * std::tanh(dot / cap) : dot);
      }
      if (is("gpt-oss")) {  // one more to look at, that has no value
        scores.push_back(matrix(block + "attn_sinks.weight").values[static_cast<std::size_t>(h)]);
      }
      const Row p = softmax(scores);
      for (std::int64_t d = 0; d < head_; ++d) {
        double sum = 0;
        for (std::size_t s = begin; s < end; ++s) {
          sum += p[s - begin] * v[s][static_cast<std::size_t>(kv * head_ + d)];
        }
        a.push_back(sum);
      }
    }
    if (number("ssm.state_size", 0) > 0) {  // a gate after each head of q
      const Row both = times(block + "attn_q.weight", x[t]);
      for (std::size_t i = 0; i < a.size(); ++i) {
        const auto head = static_cast<std::size_t>(head_);
        a[i] /= 1 + std::exp(-both[i / head * 2 * head + head + i % head]);
      }
    }
    out.push_back(times(block + "attn_output.weight", a));
    add_bias(block + "attn_output.bias", out.back());
  }
  return out;
}

/// transformers' modeling_deepseek_v3.py, DeepseekV3Attention: every head's keys and values are
/// made of the latent numbers. GGUF has kv_b_proj in two: attn_k_b takes a query to latent numbers,
/// so a key is its transpose's.
Rows Model::latent_attention(const std::string& block, std::int64_t layer, const Rows& x) {
  const auto whole = [&](const char* key) { return static_cast<std::size_t>(number(key, 0)); };
  const std::size_t heads = static_cast<std::size_t>(heads_),
                    latent = whole("attention.kv_lora_rank");
  const std::size_t length = whole("attention.key_length_mla");
  const std::size_t values = whole("attention.value_length_mla");
  const auto turned = static_cast<std::size_t>(rotary_);
  const std::size_t plain = length - turned;
  const Row& k_b = matrix(block + "attn_k_b.weight").values;
  const Row& v_b = matrix(block + "attn_v_b.weight").values;
  const auto part = [](const Row& row, std::size_t at, std::size_t n) {
    const auto first = row.begin() + static_cast<std::ptrdiff_t>(at);
    return Row(first, first + static_cast<std::ptrdiff_t>(n));
  };
  const auto rotated = [&](Row head, std::size_t t) {
    head.resize(static_cast<std::size_t>(head_));
    apply_rope(head, 1, static_cast<std::int64_t>(t), layer);
    return part(head, 0, turned);
  };
  double scale = 1 / std::sqrt(static_cast<double>(length));
  if (file_.get_string(arch_ + ".rope.scaling.type").value_or("") == "yarn") {
    const double more =
        number("rope.scaling.yarn_log_multiplier", 0) * std::log(number("rope.scaling.factor", 1));
    scale *= (1 + more) * (1 + more);
  }
  std::vector<Rows> k(heads), v(heads);
  Rows k_turned, out;
  for (std::size_t t = 0; t < x.size(); ++t) {
    const Row all = times(block + "attn_kv_a_mqa.weight", x[t]);
    const Row c = rms(block + "attn_kv_a_norm", part(all, 0, latent));
    k_turned.push_back(rotated(part(all, latent, turned), t));
    const Row q = has(block + "attn_q.weight")
                      ? times(block + "attn_q.weight", x[t])
                      : times(block + "attn_q_b.weight",
                              rms(block + "attn_q_a_norm", times(block + "attn_q_a.weight", x[t])));
    Row a;
    for (std::size_t h = 0; h < heads; ++h) {
      Row key(plain, 0), value(values, 0);
      for (std::size_t l = 0; l < latent; ++l) {
        for (std::size_t d = 0; d < plain; ++d) key[d] += k_b[(h * latent + l) * plain + d] * c[l];
        for (std::size_t d = 0; d < values; ++d)
          value[d] += v_b[(h * values + d) * latent + l] * c[l];
      }
      k[h].push_back(key);
      v[h].push_back(value);
      const Row q_turned = rotated(part(q, h * length + plain, turned), t);
      Row scores;
      for (std::size_t s = 0; s <= t; ++s) {
        double dot = 0;
        for (std::size_t d = 0; d < plain; ++d) dot += q[h * length + d] * k[h][s][d];
        for (std::size_t d = 0; d < turned; ++d) dot += q_turned[d] * k_turned[s][d];
        scores.push_back(dot * scale);
      }
      const Row p = softmax(scores);
      Row sum(values, 0);
      for (std::size_t s = 0; s <= t; ++s) add(sum, v[h][s], p[s]);
      a.insert(a.end(), sum.begin(), sum.end());
    }
    out.push_back(times(block + "attn_output.weight", a));
  }
  return out;
}

/// transformers' modeling_qwen3_next.py: a causal convolution of each column, then silu.
Rows Model::convolved(const std::string& block, const Rows& x) {
  const Matrix& taps = matrix(block + "ssm_conv1d.weight");
  Rows mixed, out;
  for (const Row& row : x) mixed.push_back(times(block + "attn_qkv.weight", row));
  for (std::int64_t t = 0; t < static_cast<std::int64_t>(x.size()); ++t) {
    Row y(mixed[0].size(), 0);
    for (std::size_t c = 0; c < y.size(); ++c) {
      for (std::int64_t j = 0; j < taps.cols; ++j) {
        const std::int64_t from = t + j - (taps.cols - 1);
        if (from < 0) continue;
        y[c] += mixed[static_cast<std::size_t>(from)][c] *
                taps.values[c * static_cast<std::size_t>(taps.cols) + static_cast<std::size_t>(j)];
      }
      y[c] = silu(y[c]);
    }
    out.push_back(std::move(y));
  }
  return out;
}

/// torch_recurrent_gated_delta_rule() of the same file, with what is around it. In GGUF files of
/// qwen35 the heads of values are in another order: the i-th has the keys of head i modulo theirs.
Rows Model::delta_net(const std::string& block, const Rows& x) {
  const auto whole = [&](const char* key) { return static_cast<std::size_t>(number(key, 0)); };
  const std::size_t heads = whole("ssm.time_step_rank"), groups = whole("ssm.group_count");
  const std::size_t keys = whole("ssm.state_size"), values = whole("ssm.inner_size") / heads;
  const std::size_t each = heads / groups;
  const Rows mixed = convolved(block, x);
  std::vector<Row> states(heads, Row(keys * values, 0));
  Rows out;
  for (std::size_t t = 0; t < x.size(); ++t) {
    const Row z = times(block + "attn_gate.weight", x[t]);
    Row a(heads), b(heads);
    if (is("qwen3next")) {
      const Row both = times(block + "ssm_ba.weight", x[t]);
      for (std::size_t h = 0; h < heads; ++h) {
        b[h] = both[h / each * 2 * each + h % each];
        a[h] = both[h / each * 2 * each + each + h % each];
      }
    } else {
      b = times(block + "ssm_beta.weight", x[t]);
      a = times(block + "ssm_alpha.weight", x[t]);
    }
    Row y;
    for (std::size_t h = 0; h < heads; ++h) {
      const std::size_t group = is("qwen3next") ? h / each : h % groups;
      const auto unit = [&](std::size_t at) {
        const auto from = mixed[t].begin() + static_cast<std::ptrdiff_t>(at + group * keys);
        Row v(from, from + static_cast<std::ptrdiff_t>(keys));
        double squares = 1e-6;
        for (const double e : v) squares += e * e;
        for (double& e : v) e /= std::sqrt(squares);
        return v;
      };
      const Row q = unit(0), k = unit(groups * keys);
      const double time = std::log1p(std::exp(a[h] + matrix(block + "ssm_dt.bias").values[h]));
      const double decay = std::exp(matrix(block + "ssm_a").values[h] * time);
      const double beta = 1 / (1 + std::exp(-b[h]));
      Row o(values, 0);
      for (std::size_t j = 0; j < values; ++j) {
        double kv_mem = 0;
        for (std::size_t i = 0; i < keys; ++i) {
          kv_mem += (states[h][i * values + j] *= decay) * k[i];
        }
        const double v = mixed[t][2 * groups * keys + h * values + j];
        for (std::size_t i = 0; i < keys; ++i) {
          states[h][i * values + j] += k[i] * (v - kv_mem) * beta;
          o[j] += states[h][i * values + j] * q[i] / std::sqrt(static_cast<double>(keys));
        }
      }
      const Row normed = rms(block + "ssm_norm", o);
      for (std::size_t j = 0; j < values; ++j) y.push_back(normed[j] * silu(z[h * values + j]));
    }
    out.push_back(times(block + "ssm_out.weight", y));
  }
  return out;
}

/// down(silu(gate x) * up x) of one expert, or of a matrix of its own. `of`: what their names begin
/// with.
Row Model::gated(const std::string& of, const std::string& kind, const Row& x, std::int64_t expert,
                 std::int64_t rows) {
  const auto linear = [&](const char* name, const Row& in, std::int64_t n) {
    Row y = times(of + name + kind + ".weight", in, expert * n, n);
    add_bias(of + name + kind + ".bias", y, expert * n);
    return y;
  };
  Row g = linear("ffn_gate", x, rows);
  const Row u = linear("ffn_up", x, rows);
  for (std::size_t i = 0; i < g.size(); ++i) {
    g[i] = is("gpt-oss") ? swiglu_oai(g[i], u[i]) : silu(g[i]) * u[i];
  }
  return linear("ffn_down", g, width_);
}

/// modeling_bailing_moe_v2.py, group_limited_topk(): the groups with the largest sums of two stay.
void Model::close_groups(Row& rank) const {
  const auto groups = static_cast<std::size_t>(number("expert_group_count", 1));
  const auto used = static_cast<std::size_t>(number("expert_group_used_count", 1));
  const std::size_t each = rank.size() / groups;
  std::vector<std::pair<double, std::size_t>> sums;
  for (std::size_t g = 0; g < groups; ++g) {
    Row group_scores(rank.begin() + static_cast<std::ptrdiff_t>(g * each),
                     rank.begin() + static_cast<std::ptrdiff_t>((g + 1) * each));
    std::sort(group_scores.rbegin(), group_scores.rend());
    sums.emplace_back(-(group_scores[0] + (each > 1 ? group_scores[1] : 0)), g);
  }
  std::sort(sums.begin(), sums.end());
  for (std::size_t i = used; i < groups; ++i) {
    for (std::size_t e = 0; e < each; ++e) rank[sums[i].second * each + e] = -1e300;
  }
}

Row Model::experts(const std::string& block, const Row& x) {
  Row scores = times(block + "ffn_gate_inp.weight", x);
  add_bias(block + "ffn_gate_inp.bias", scores);
  const double function = number("expert_gating_func", 0);
  const bool each =
      function == 2 ||
      (function == 0 && (is("dots1") || is("glm4moe") || is("minimax-m2") || is("bailingmoe2") ||
                         (is("deepseek2") && has(block + "exp_probs_b.bias"))));
  Row p = each ? scores : softmax(scores);
  for (double& v : p) v = each ? 1 / (1 + std::exp(-v)) : v;
  Row rank = p;
  add_bias(block + "exp_probs_b.bias", rank);
  close_groups(rank);
  std::vector<std::size_t> order(p.size());
  for (std::size_t e = 0; e < order.size(); ++e) order[e] = e;
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return rank[a] > rank[b]; });
  order.resize(static_cast<std::size_t>(number("expert_used_count", 0)));
  double sum = 0;
  for (const std::size_t e : order) sum += p[e];
  const bool as_they_are = is("qwen2moe") || is("dots1") || is("glm4moe") || is("bailingmoe2") ||
                           arch_.rfind("deepseek", 0) == 0;
  const bool sums_to_one = file_.get_bool(arch_ + ".expert_weights_norm").value_or(!as_they_are);
  const std::int64_t rows =
      matrix(block + "ffn_up_exps.weight").rows / static_cast<std::int64_t>(p.size());
  Row y(x.size(), 0);
  for (const std::size_t e : order) {
    double w = sums_to_one ? p[e] / sum : p[e];
    const double scale = number("expert_weights_scale", 0);
    if (scale != 0) w *= scale;
    add(y, gated(block, "_exps", x, static_cast<std::int64_t>(e), rows), w);
  }
  if (!has(block + "ffn_up_shexp.weight")) return y;
  const Row shared = gated(block, "_shexp", x, 0, matrix(block + "ffn_up_shexp.weight").rows);
  double open = 1;
  if (has(block + "ffn_gate_inp_shexp.weight")) {
    open = 1 / (1 + std::exp(-times(block + "ffn_gate_inp_shexp.weight", x)[0]));
  }
  add(y, shared, open);
  return y;
}

Row Model::feed_forward(const std::string& block, const Row& x) {
  if (has(block + "ffn_gate_inp.weight")) return experts(block, x);
  Row up, gate;
  if (is("phi3") || is("glm4")) {
    const std::int64_t half = matrix(block + "ffn_up.weight").rows / 2;
    gate = times(block + "ffn_up.weight", x, 0, half);
    up = times(block + "ffn_up.weight", x, half, half);
  } else {
    up = times(block + "ffn_up.weight", x);
    add_bias(block + "ffn_up.bias", up);
    if (has(block + "ffn_gate.weight")) {
      gate = times(block + "ffn_gate.weight", x);
      add_bias(block + "ffn_gate.bias", gate);
    }
  }
  for (std::size_t i = 0; i < up.size(); ++i) {
    if (is("bert")) {
      up[i] = gelu(up[i]);
    } else if (is("gpt2") || is("starcoder2")) {
      up[i] = gelu_new(up[i]);
    } else if (is("nemotron")) {
      up[i] = up[i] > 0 ? up[i] * up[i] : 0;
    } else {
      up[i] *= arch_.rfind("gemma", 0) == 0 ? gelu_new(gate[i]) : silu(gate[i]);
    }
  }
  Row y = times(block + "ffn_down.weight", up);
  add_bias(block + "ffn_down.bias", y);
  return y;
}

Rows Model::embed(const std::vector<std::int32_t>& tokens) {
  const Matrix& table = matrix("token_embd.weight");
  Rows x;
  for (std::size_t t = 0; t < tokens.size(); ++t) {
    const auto row = [&](const Matrix& m, std::size_t r) {
      const auto at = m.values.begin() + static_cast<std::ptrdiff_t>(r) * width_;
      return Row(at, at + width_);
    };
    Row e = row(table, static_cast<std::size_t>(tokens[t]));
    if (arch_.rfind("gemma", 0) == 0) {
      for (double& v : e) v *= std::sqrt(static_cast<double>(width_));
    }
    if (arch_.rfind("granite", 0) == 0) {
      for (double& v : e) v *= number("embedding_scale", 1);
    }
    if (is("gpt2") || is("bert")) add(e, row(matrix("position_embd.weight"), t));
    if (is("bert")) {
      add(e, row(matrix("token_types.weight"), 0));
      e = norm("token_embd_norm", e);
    }
    x.push_back(std::move(e));
  }
  return x;
}

Rows Model::hidden(const std::vector<std::int32_t>& tokens) {
  Rows x = embed(tokens);
  if (is("gemma4")) return gemma4(tokens, std::move(x));
  const double residual = arch_.rfind("granite", 0) == 0 ? number("residual_scale", 1) : 1;
  const bool before = !is("olmo2") && !is("bert") && !is("exaone4");
  const bool post_norm = is("gemma2") || is("gemma3") || is("olmo2") || is("exaone4") || is("glm4");
  const bool recurrent = is("qwen3next") || is("qwen35") || is("qwen35moe");
  const auto step = static_cast<std::int64_t>(number("full_attention_interval", 4));
  const bool ffn_norm_renamed = is("gpt-oss") || is("seed_oss") || is("glm4moe") || recurrent;
  for (std::int64_t l = 0; l < layers_; ++l) {
    const std::string block = "blk." + std::to_string(l) + ".";
    Rows in = x;
    if (before) {
      for (Row& row : in) row = norm(block + "attn_norm", row);
    }
    const bool carries = recurrent && (l + 1) % step != 0;
    const Rows a = is("deepseek2") ? latent_attention(block, l, in)
                   : carries       ? delta_net(block, in)
                                   : attention(l, in);
    for (std::size_t t = 0; t < x.size(); ++t) {
      if (is("command-r") || is("cohere2")) {  // the two blocks in parallel
        add(x[t], a[t]);
        add(x[t], feed_forward(block, in[t]));
        continue;
      }
      add(x[t], post_norm ? norm(block + "post_attention_norm", a[t]) : a[t], residual);
      if (is("bert")) x[t] = norm(block + "attn_output_norm", x[t]);
      const std::string name = ffn_norm_renamed ? "post_attention_norm" : "ffn_norm";
      const Row f = feed_forward(block, before ? norm(block + name, x[t]) : x[t]);
      add(x[t], post_norm ? norm(block + "post_ffw_norm", f) : f, residual);
      if (is("bert")) x[t] = norm(block + "layer_output_norm", x[t]);
    }
  }
  if (!is("bert")) {
    for (Row& row : x) row = norm("output_norm", row);
  }
  return x;
}

Rows Model::logits(const std::vector<std::int32_t>& tokens) {
  Rows out;
  const bool untied = has("output.weight");
  const double cap = number("final_logit_softcapping", is("gemma2") ? 30 : 0);
  double divisor = arch_.rfind("granite", 0) == 0 ? number("logit_scale", 1) : 1;
  if (is("command-r") || is("cohere2")) divisor = 1 / number("logit_scale", 1);
  for (const Row& row : hidden(tokens)) {
    out.push_back(times(untied ? "output.weight" : "token_embd.weight", row));
    for (double& v : out.back()) {
      v /= divisor;
      if (cap > 0) v = cap * std::tanh(v / cap);
    }
  }
  return out;
}

}  // namespace holdfast::reference
