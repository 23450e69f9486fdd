// llama, qwen2 and qwen3 as one program. Tensor names: the GGUF specification's list.

#include <set>

#include "worker/model/exact_math.h"
#include "worker/model/program.h"

namespace holdfast::model {

namespace {

std::string dims_text(const gguf::TensorInfo& t) {
  std::string out = "[";
  for (std::uint32_t i = 0; i < t.n_dims; ++i) {
    out += (i > 0 ? "," : "") + std::to_string(t.dims[i]);
  }
  return out + "]";
}

/// Takes tensors by name and remembers which were taken: one that nobody takes would be left out of
/// the computation, silently.
class Taker {
 public:
  explicit Taker(const gguf::File& file) : file_(file) {}

  Result<WeightRef> matrix(const std::string& name, std::int64_t rows, std::int64_t cols) {
    const gguf::TensorInfo* t = file_.tensor(name);
    if (t == nullptr) return missing(name);
    if (t->n_dims > 2 || !is(t->dims[0], cols) || !is(t->dims[1], rows) || t->dims[2] != 1 ||
        t->dims[3] != 1) {
      return wrong_shape(*t, "[" + std::to_string(cols) + "," + std::to_string(rows) + "]");
    }
    taken_.insert(name);
    return WeightRef{t, rows, cols};
  }

  /// A vector is one row of n columns. Norms and biases are F32 in every file we know.
  Result<WeightRef> vector(const std::string& name, std::int64_t n, bool optional) {
    const gguf::TensorInfo* t = file_.tensor(name);
    if (t == nullptr) {
      if (optional) return WeightRef{};
      return missing(name);
    }
    if (!is(t->dims[0], n) || t->elements() != t->dims[0]) {
      return wrong_shape(*t, "[" + std::to_string(n) + "]");
    }
    if (t->type != gguf::TensorType::kF32) {
      return Error{Errc::kUnsupported, where(name) + "has another type than F32; convert it"};
    }
    taken_.insert(name);
    return WeightRef{t, 1, n};
  }

  Result<void> all_taken() const {
    for (const gguf::TensorInfo& t : file_.tensors()) {
      if (taken_.count(t.name) > 0) continue;
      return Error{Errc::kUnsupported,
                   where(t.name) + dims_text(t) + " is no part of this architecture as we know it"};
    }
    return {};
  }

 private:
  static bool is(std::uint64_t have, std::int64_t want) {
    return want > 0 && have == static_cast<std::uint64_t>(want);
  }
  std::string where(const std::string& name) const {
    return "build program " + std::string(file_.name()) + ": tensor " + name + " ";
  }
  Error missing(const std::string& name) const {
    return {Errc::kFileInvalid, where(name) + "is missing"};
  }
  Error wrong_shape(const gguf::TensorInfo& t, const std::string& expected) const {
    return {Errc::kFileInvalid,
            where(t.name) + "has shape " + dims_text(t) + "; expected " + expected};
  }

  const gguf::File& file_;
  std::set<std::string> taken_;
};

Result<Op> qkv_op(Taker& take, const plan::ModelShape& s, std::int32_t layer) {
  const std::string b = "blk." + std::to_string(layer) + ".";
  const std::int64_t q = s.heads * s.head_dim;
  const std::int64_t kv = s.kv_heads * s.head_dim;
  Op op;
  op.kind = OpKind::kNormQkv;
  op.layer = layer;
  HF_TRY(op.w[0], take.vector(b + "attn_norm.weight", s.width, false));
  HF_TRY(op.w[1], take.matrix(b + "attn_q.weight", q, s.width));
  HF_TRY(op.w[2], take.matrix(b + "attn_k.weight", kv, s.width));
  HF_TRY(op.w[3], take.matrix(b + "attn_v.weight", kv, s.width));
  HF_TRY(op.bias[1], take.vector(b + "attn_q.bias", q, !s.qkv_bias));
  HF_TRY(op.bias[2], take.vector(b + "attn_k.bias", kv, !s.qkv_bias));
  HF_TRY(op.bias[3], take.vector(b + "attn_v.bias", kv, !s.qkv_bias));
  HF_TRY(op.w[4], take.vector(b + "attn_q_norm.weight", s.head_dim, !s.qk_norm));
  HF_TRY(op.w[5], take.vector(b + "attn_k_norm.weight", s.head_dim, !s.qk_norm));
  return op;
}

Result<void> add_layer(Taker& take, Program& p, std::int32_t layer) {
  const plan::ModelShape& s = p.shape;
  const std::string b = "blk." + std::to_string(layer) + ".";
  HF_TRY(Op qkv, qkv_op(take, s, layer));
  p.ops.push_back(qkv);
  Op attention;
  attention.kind = OpKind::kAttention;
  attention.layer = layer;
  p.ops.push_back(attention);
  Op out;
  out.kind = OpKind::kOutAdd;
  out.layer = layer;
  HF_TRY(out.w[0], take.matrix(b + "attn_output.weight", s.width, s.heads * s.head_dim));
  p.ops.push_back(out);
  Op gate_up;
  gate_up.kind = OpKind::kNormGateUp;
  gate_up.layer = layer;
  HF_TRY(gate_up.w[0], take.vector(b + "ffn_norm.weight", s.width, false));
  HF_TRY(gate_up.w[1], take.matrix(b + "ffn_gate.weight", s.ff, s.width));
  HF_TRY(gate_up.w[2], take.matrix(b + "ffn_up.weight", s.ff, s.width));
  p.ops.push_back(gate_up);
  Op down;
  down.kind = OpKind::kDownAdd;
  down.layer = layer;
  HF_TRY(down.w[0], take.matrix(b + "ffn_down.weight", s.width, s.ff));
  p.ops.push_back(down);
  return {};
}

Result<void> add_logits(Taker& take, const gguf::File& file, Program& p) {
  const plan::ModelShape& s = p.shape;
  Op op;
  op.kind = OpKind::kNormLogits;
  HF_TRY(op.w[0], take.vector("output_norm.weight", s.width, false));
  const bool own = file.tensor("output.weight") != nullptr;
  if (!own && !s.tied_embeddings) {
    return Error{Errc::kFileInvalid,
                 "build program " + std::string(file.name()) + ": tensor output.weight is missing"};
  }
  HF_TRY(op.w[1], take.matrix(own ? "output.weight" : "token_embd.weight", s.vocab, s.width));
  p.ops.push_back(op);
  return {};
}

/// Llama 3's stretching of the slow rotations, for files that carry its numbers instead of the
/// rope_freqs tensor. Low and high factors 1 and 4 are the only ones in use.
double llama3_frequency(double frequency, const plan::ModelShape& s) {
  constexpr double kLow = 1.0;
  constexpr double kHigh = 4.0;
  constexpr double kTwoPi = 6.283185307179586;
  const auto original = static_cast<double>(s.rope_original_context);
  const double wavelength = kTwoPi / frequency;
  if (wavelength < original / kHigh) return frequency;
  if (wavelength > original / kLow) return frequency / s.rope_factor;
  const double smooth = (original / wavelength - kLow) / (kHigh - kLow);
  return (1 - smooth) * frequency / s.rope_factor + smooth * frequency;
}

Result<void> set_frequencies(Taker& take, Program& p, const gguf::File& file) {
  const plan::ModelShape& s = p.shape;
  const auto refuse = [&](const std::string& cause) {
    return Error{Errc::kUnsupported, "build program " + std::string(file.name()) + ": " + cause};
  };
  if (s.rope_dims % 2 != 0 || s.rope_dims > s.head_dim || s.rope_dims < 0) {
    return refuse("rope dimensions " + std::to_string(s.rope_dims) +
                  "; expected an even number up to " + std::to_string(s.head_dim));
  }
  const bool llama3 = s.rope_scaling == plan::RopeScaling::kLlama3;
  const bool linear = s.rope_scaling == plan::RopeScaling::kLinear;
  if (!llama3 && !linear && s.rope_scaling != plan::RopeScaling::kNone) {
    return refuse("rope scaling of this kind (yarn, longrope) is not done yet");
  }
  HF_TRY(const WeightRef factors, take.vector("rope_freqs.weight", s.rope_dims / 2, true));
  if (llama3 && !factors.present() && s.rope_original_context <= 0) {
    return refuse("llama3 rope scaling without original_context_length");
  }
  if (factors.present() &&
      factors.tensor->data.size() < static_cast<std::size_t>(s.rope_dims / 2) * sizeof(float)) {
    return refuse("rope_freqs.weight has no data");
  }
  const double log_base = exact_log(s.rope_base);
  for (std::int64_t i = 0; i < s.rope_dims / 2; ++i) {
    const double exponent = -2.0 * static_cast<double>(i) / static_cast<double>(s.rope_dims);
    double frequency = exact_exp(exponent * log_base);
    if (factors.present()) {  // the file's own numbers outrank the formula
      float factor = 0;
      std::memcpy(&factor, factors.tensor->data.data() + i * 4, sizeof factor);
      if (!(factor > 0)) return refuse("rope_freqs.weight holds a factor that is not positive");
      frequency /= static_cast<double>(factor);
    } else if (llama3) {
      frequency = llama3_frequency(frequency, s);
    }
    if (linear) frequency /= s.rope_factor;
    p.inv_freq.push_back(frequency);
  }
  return {};
}

}  // namespace

Result<Program> build_program(const gguf::File& file, const plan::ModelShape& shape) {
  const std::string& a = shape.architecture;
  if (a != "llama" && a != "qwen2" && a != "qwen3") {
    return Error{Errc::kUnsupported, "build program " + std::string(file.name()) +
                                         ": architecture " + a +
                                         "; expected llama, qwen2 or qwen3"};
  }
  Taker take(file);
  Program p;
  p.shape = shape;
  Op embed;
  embed.kind = OpKind::kEmbed;
  HF_TRY(embed.w[0], take.matrix("token_embd.weight", shape.vocab, shape.width));
  p.ops.push_back(embed);
  for (std::int32_t layer = 0; layer < shape.layers; ++layer) HF_CHECKED(add_layer(take, p, layer));
  HF_CHECKED(add_logits(take, file, p));
  HF_CHECKED(set_frequencies(take, p, file));
  HF_CHECKED(take.all_taken());
  return p;
}

}  // namespace holdfast::model
