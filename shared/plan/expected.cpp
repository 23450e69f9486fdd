#include "shared/plan/expected.h"

#include <algorithm>
#include <iterator>
#include <unordered_set>

#include "shared/gguf/parse.h"
#include "shared/gguf/quants.h"
#include "shared/huggingface/folder.h"

namespace holdfast::plan {
namespace {

using gguf::TensorInfo;

std::string join(const std::uint64_t* dims, std::size_t n) {
  std::string out;
  for (std::size_t d = 0; d < n; ++d) out += (d ? " x " : "") + std::to_string(dims[d]);
  return n == 0 ? "a scalar" : out;
}

Error fail(const gguf::File& file, Errc code, const std::string& what) {
  return Error{code, "read model " + std::string(file.name()) + ": " + what};
}

Result<void> check_dims(const gguf::File& file, const TensorInfo& tensor,
                        const ExpectedTensor& want, const std::string& where) {
  if (std::equal(tensor.dims, tensor.dims + tensor.n_dims, want.dims.begin(), want.dims.end())) {
    return {};
  }
  const bool turned = want.is_matrix() && tensor.n_dims == 2 && tensor.dims[0] == want.dims[1] &&
                      tensor.dims[1] == want.dims[0];
  return fail(file, Errc::kFileInvalid,
              where + (turned ? " is stored transposed: it is " : " is ") + dims_text(tensor) +
                  ", expected " + join(want.dims.data(), want.dims.size()));
}

Result<void> check_one(const gguf::File& file, const ExpectedTensor& want) {
  const TensorInfo* tensor = file.tensor(want.name);
  const std::string where = "tensor \"" + want.name + "\"";
  if (!tensor) {
    return fail(file, Errc::kFileInvalid,
                where + " is missing, expected " + join(want.dims.data(), want.dims.size()));
  }
  HOLDFAST_CHECKED(check_dims(file, *tensor, want, where));
  const std::string type(gguf::type_traits(tensor->type)->name);
  if (!gguf::can_dequantize(tensor->type)) {
    return fail(file, Errc::kUnsupported, where + " has type " + type + ", which is not supported");
  }
  if (!want.is_matrix() && gguf::type_traits(tensor->type)->block_elements > 1) {
    return fail(file, Errc::kUnsupported,
                where + " has type " + type + ", expected F32, F16 or BF16 for a vector");
  }
  return {};
}

class Lister {
 public:
  Lister(const ModelShape& shape, const Details& details)
      : s_(shape), d_(details), f_(*details.family) {}

  std::vector<ExpectedTensor> run() {
    ends();
    rotation();
    for (std::int64_t i = 0; i < s_.layers; ++i) {
      layer_ = "blk." + std::to_string(i) + ".";
      at_ = i;
      layer();
      layer_.clear();
    }
    return std::move(out_);
  }

 private:
  /// Adds what comes before and after the layers.
  void ends() {
    add("token_embd.weight", {s_.width, s_.vocab});
    if (f_.positions) add("position_embd.weight", {s_.width, d_.position_rows});
    if (f_.token_types) add("token_types.weight", {s_.width, d_.type_rows});
    if (f_.embedding_norm) norm("token_embd_norm", s_.width);
    if (!f_.encoder) norm("output_norm", s_.width);
    if (!f_.encoder && !s_.tied_embeddings) add("output.weight", {s_.width, s_.vocab});
    if (s_.layer_input > 0) {
      add("per_layer_token_embd.weight", {s_.layer_input * s_.layers, s_.vocab});
      add("per_layer_model_proj.weight", {s_.width, s_.layer_input * s_.layers});
      add("per_layer_proj_norm.weight", {s_.layer_input});
    }
  }
  void rotation() {
    if (s_.has_rope_freqs) add("rope_freqs.weight", {s_.rope_dims / 2});
    if (d_.rope.scaling == RopeScaling::kLongrope) {
      add("rope_factors_long.weight", {s_.rope_dims / 2});
      add("rope_factors_short.weight", {s_.rope_dims / 2});
    }
  }
  void layer() {
    if (s_.latent > 0) {
      latent_attention();
    } else {
      is_recurrent(s_, at_) ? delta() : attention();
    }
    s_.experts > 0 && at_ >= s_.dense_layers ? experts() : feed_forward();
    if (s_.layer_input > 0) layer_input();
    if (d_.layer_scale) add("layer_output_scale.weight", {1});
  }

  void add(const std::string& name, std::initializer_list<std::int64_t> dims) {
    ExpectedTensor t{layer_ + name, {}};
    for (const std::int64_t d : dims) t.dims.push_back(static_cast<std::uint64_t>(d));
    out_.push_back(std::move(t));
  }
  void norm(const std::string& name, std::int64_t n) {
    add(name + ".weight", {n});
    if (f_.norm == NormKind::kLayer && f_.norm_bias) add(name + ".bias", {n});
  }
  void linear(const std::string& name, std::int64_t cols, std::int64_t rows, bool bias) {
    add(name + ".weight", {cols, rows});
    if (bias) add(name + ".bias", {rows});
  }

  void of_experts(const std::string& name, std::int64_t cols, std::int64_t rows) {
    add(name + ".weight", {cols, rows, s_.experts});
    if (f_.expert_bias) add(name + ".bias", {rows, s_.experts});
  }

  void attention() {
    const KvHeads heads = heads_of_layer(s_, d_, at_);
    const std::int64_t q = s_.heads * heads.head_dim, kv = heads.heads * heads.head_dim;
    if (f_.pre_norm) norm("attn_norm", s_.width);
    if (d_.fused_qkv) {
      linear("attn_qkv", s_.width, q + 2 * kv, s_.qkv_bias);
    } else {
      separate_qkv(q, kv);
    }
    const bool row = f_.qk_norm == QkNorm::kRow;
    if (s_.qk_norm) qk_norms(row ? q : heads.head_dim, row ? kv : heads.head_dim);
    if (f_.sinks) add("attn_sinks.weight", {s_.heads});
    linear("attn_output", q, s_.width, d_.out_bias);
    if (f_.branch_norm) norm("post_attention_norm", s_.width);
    if (f_.sum_norm) norm("attn_output_norm", s_.width);
  }

  void separate_qkv(std::int64_t q, std::int64_t kv) {
    add("attn_q.weight", {s_.width, f_.gated_heads ? 2 * q : q});
    if (has_kv_pages(s_, at_)) keys_and_values(kv);
    if (s_.qkv_bias) {
      add("attn_q.bias", {q});
      add("attn_k.bias", {kv});
      add("attn_v.bias", {kv});
    }
  }

  void qk_norms(std::int64_t q, std::int64_t k) {
    add("attn_q_norm.weight", {q});
    if (has_kv_pages(s_, at_)) add("attn_k_norm.weight", {k});
  }

  void keys_and_values(std::int64_t rows) {
    add("attn_k.weight", {s_.width, rows});
    if (!has_keys_for_values(d_, at_)) add("attn_v.weight", {s_.width, rows});
  }

  void layer_input() {
    add("inp_gate.weight", {s_.width, s_.layer_input});
    add("proj.weight", {s_.layer_input, s_.width});
    norm("post_norm", s_.width);
  }

  void latent_attention() {
    const std::int64_t rows = s_.heads * s_.head_key, plain = s_.head_key - s_.rope_dims;
    norm("attn_norm", s_.width);
    if (s_.q_latent > 0) {
      add("attn_q_a.weight", {s_.width, s_.q_latent});
      add("attn_q_a_norm.weight", {s_.q_latent});
      add("attn_q_b.weight", {s_.q_latent, rows});
    } else {
      add("attn_q.weight", {s_.width, rows});
    }
    add("attn_kv_a_mqa.weight", {s_.width, s_.head_dim});
    add("attn_kv_a_norm.weight", {s_.latent});
    add("attn_k_b.weight", {plain, s_.latent, s_.heads});
    add("attn_v_b.weight", {s_.latent, s_.head_value, s_.heads});
    add("attn_output.weight", {s_.heads * s_.head_value, s_.width});
  }

  void delta() {
    const std::int64_t values = s_.state_heads * s_.state_value;
    norm("attn_norm", s_.width);
    add("attn_qkv.weight", {s_.width, conv_width(s_)});
    add("attn_gate.weight", {s_.width, values});
    if (f_.delta == DeltaNet::kNeighbours) {
      add("ssm_ba.weight", {s_.width, 2 * s_.state_heads});
    } else {
      add("ssm_beta.weight", {s_.width, s_.state_heads});
      add("ssm_alpha.weight", {s_.width, s_.state_heads});
    }
    add("ssm_conv1d.weight", {s_.conv_taps, conv_width(s_)});
    add("ssm_dt.bias", {s_.state_heads});
    add("ssm_a", {s_.state_heads});
    add("ssm_norm.weight", {s_.state_value});
    add("ssm_out.weight", {values, s_.width});
  }

  void ffn_norm() {
    if (f_.pre_norm && !f_.parallel) norm(std::string(f_.ffn_norm), s_.width);
  }

  void feed_forward() {
    const std::int64_t ff = ff_of_layer(s_, d_, at_);
    ffn_norm();
    if (f_.gated && !f_.fused_gate_up) linear("ffn_gate", s_.width, ff, d_.gate_bias);
    linear("ffn_up", s_.width, f_.fused_gate_up ? 2 * ff : ff, d_.ffn_bias);
    linear("ffn_down", ff, s_.width, d_.ffn_bias);
    after();
  }

  /// Adds a dense feed-forward like that of any layer, and experts in parallel to it.
  void experts_with_dense_ffn() {
    feed_forward();
    norm("post_ffw_norm_1", s_.width);
    norm("pre_ffw_norm_2", s_.width);
    norm("post_ffw_norm_2", s_.width);
    add("ffn_gate_inp.weight", {s_.width, s_.experts});
    add("ffn_gate_inp.scale", {s_.width});
    if (d_.gate_up_experts) {
      of_experts("ffn_gate_up_exps", s_.width, 2 * s_.expert_ff);
    } else {
      of_experts("ffn_gate_exps", s_.width, s_.expert_ff);
      of_experts("ffn_up_exps", s_.width, s_.expert_ff);
    }
    of_experts("ffn_down_exps", s_.expert_ff, s_.width);
    add("ffn_down_exps.scale", {s_.experts});
  }

  void experts() {
    if (f_.experts_with_dense_ffn) return experts_with_dense_ffn();
    ffn_norm();
    linear("ffn_gate_inp", s_.width, s_.experts, f_.expert_bias);
    if (d_.choice_bias) add("exp_probs_b.bias", {s_.experts});
    of_experts("ffn_gate_exps", s_.width, s_.expert_ff);
    of_experts("ffn_up_exps", s_.width, s_.expert_ff);
    of_experts("ffn_down_exps", s_.expert_ff, s_.width);
    if (s_.shared_ff > 0) {
      if (f_.shared_gate) add("ffn_gate_inp_shexp.weight", {s_.width});
      add("ffn_gate_shexp.weight", {s_.width, s_.shared_ff});
      add("ffn_up_shexp.weight", {s_.width, s_.shared_ff});
      add("ffn_down_shexp.weight", {s_.shared_ff, s_.width});
    }
    after();
  }

  void after() {
    if (f_.branch_norm) norm("post_ffw_norm", s_.width);
    if (f_.sum_norm) norm("layer_output_norm", s_.width);
  }

  const ModelShape& s_;
  const Details& d_;
  const Family& f_;
  std::string layer_;
  std::int64_t at_ = 0;
  std::vector<ExpectedTensor> out_;
};

}  // namespace

std::vector<ExpectedTensor> expected_tensors(const ModelShape& shape, const Details& details) {
  return Lister(shape, details).run();
}

Result<void> check_tensors(const gguf::File& file, const ModelShape& shape,
                           const Details& details) {
  const std::vector<ExpectedTensor> expected = expected_tensors(shape, details);
  std::unordered_set<std::string_view> expected_names;
  for (const ExpectedTensor& want : expected) {
    HOLDFAST_CHECKED(check_one(file, want));
    expected_names.insert(want.name);
  }
  for (const TensorInfo& tensor : file.tensors()) {
    // Old converters stored the rope frequencies that every engine computes; they change nothing.
    if (expected_names.contains(tensor.name) || is_left_out(tensor.name, shape) ||
        tensor.name.ends_with("attn_rot_embd.weight") ||
        tensor.name.ends_with("rotary_emb.inv_freq")) {
      continue;
    }
    return fail(file, Errc::kUnsupported,
                "tensor " + printable(tensor.name) + " is not part of a " + shape.architecture +
                    " model with " + std::to_string(shape.layers) + " layers as we know it");
  }
  return {};
}

bool is_of_other_input(std::string_view tensor) {
  // Beginnings of the names in GGUF files and in checkpoints.
  constexpr std::string_view kBegins[] = {
      "v.",           "mm.",     "a.",          "vision_tower",
      "vision_model", "visual.", "audio_tower", "multi_modal_projector"};
  return std::any_of(std::begin(kBegins), std::end(kBegins),
                     [&](std::string_view begin) { return tensor.starts_with(begin); });
}

std::vector<std::string> notes_of(const gguf::File& file) {
  std::vector<std::string> notes = huggingface::notes_of(file);
  const auto n = std::count_if(file.tensors().begin(), file.tensors().end(),
                               [](const TensorInfo& t) { return is_of_other_input(t.name); });
  if (n > 0) {
    notes.push_back("left out: the encoder of images or sound, " + std::to_string(n) +
                    " tensors; of this model text alone is served");
  }
  return notes;
}

bool is_left_out(std::string_view tensor, const ModelShape& shape) {
  if (is_of_other_input(tensor)) return true;
  for (std::int64_t i = 0; i < shape.left_layers; ++i) {
    if (tensor.starts_with("blk." + std::to_string(shape.layers + i) + ".")) return true;
  }
  // Checkpoints also have keys and values of layers that read other layers' pages.
  for (std::int64_t l = shape.layers - shape.sharing_layers; l < shape.layers; ++l) {
    const std::string layer = "blk." + std::to_string(l) + ".";
    for (const char* name : {"attn_k.weight", "attn_v.weight", "attn_k_norm.weight"}) {
      if (tensor == layer + name) return true;
    }
  }
  return false;
}

std::string dims_text(const TensorInfo& tensor) {
  return join(tensor.dims, tensor.n_dims);
}

std::string printable(std::string_view text) {
  return gguf::quoted(text);
}

}  // namespace holdfast::plan
