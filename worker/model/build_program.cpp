// Builds a program from any row of the table of families. Tensor names: the GGUF specification.

#include <algorithm>
#include <cmath>

#include "worker/model/take.h"

namespace holdfast::model {

namespace {

class Builder {
 public:
  Builder(const gguf::File& file, const plan::ModelShape& shape, plan::Details details)
      : take_(file), s_(shape), f_(*details.family) {
    p_.shape = shape;
    p_.details = std::move(details);
  }

  Result<Program> run() {
    HOLDFAST_CHECKED(embed());
    HOLDFAST_CHECKED(ropes());
    if (s_.layer_input > 0) HOLDFAST_CHECKED(layer_inputs());
    for (layer_ = 0; layer_ < s_.layers; ++layer_) HOLDFAST_CHECKED(layer());
    layer_ = -1;
    HOLDFAST_CHECKED(logits());
    HOLDFAST_CHECKED(take_.all_taken(s_));
    return std::move(p_);
  }

  Result<void> layer() {
    if (f_.parallel) return parallel_blocks();
    HOLDFAST_CHECKED(s_.latent > 0                    ? latent_attention()
                     : plan::is_recurrent(s_, layer_) ? delta()
                                                      : attention());
    HOLDFAST_CHECKED(s_.experts > 0 && layer_ >= s_.dense_layers ? experts() : feed_forward());
    if (s_.layer_input > 0) HOLDFAST_CHECKED(layer_input());
    if (p_.details.layer_scale) HOLDFAST_CHECKED(layer_scale());
    return {};
  }

 private:
  Op make(OpKind kind) const {
    Op op;
    op.kind = kind;
    op.layer = layer_;
    op.norm = f_.norm;
    op.activation = f_.activation;
    return op;
  }
  std::string named(const char* name) const {
    return layer_ < 0 ? std::string(name) : "blk." + std::to_string(layer_) + "." + name;
  }
  Result<WeightRef> matrix(const char* name, std::int64_t rows, std::int64_t cols) {
    return take_.matrix(named(name) + ".weight", rows, cols);
  }
  Result<void> bias(Op& op, int i, const char* name, bool present) {
    if (!present) return {};
    HOLDFAST_TRY(op.bias[i], take_.vector(named(name) + ".bias", op.w[i].rows));
    return {};
  }
  Result<void> norm(Op& op, const char* name) {
    HOLDFAST_TRY(op.w[0], take_.vector(named(name) + ".weight", s_.width));
    return bias(op, 0, name, f_.norm == plan::NormKind::kLayer && f_.norm_bias);
  }
  Result<void> ffn_norm(Op& op) {
    if (!f_.pre_norm) return {};
    return norm(op, f_.parallel ? "attn_norm" : std::string(f_.ffn_norm).c_str());
  }
  Result<void> add_norm(OpKind kind, const char* name) {
    Op op = make(kind);
    if (kind == OpKind::kNormAdd) op.scale = p_.details.residual_scale;
    HOLDFAST_CHECKED(norm(op, name));
    p_.ops.push_back(op);
    return {};
  }
  /// Adds the norms after the product that ends a block.
  Result<void> after(const char* branch, const char* sum) {
    if (f_.branch_norm) HOLDFAST_CHECKED(add_norm(OpKind::kNormAdd, branch));
    if (f_.sum_norm) HOLDFAST_CHECKED(add_norm(OpKind::kNorm, sum));
    return {};
  }
  Op ending(OpKind kind) const {
    Op op = make(kind);
    op.to_h = f_.branch_norm;
    if (!f_.branch_norm) op.scale = p_.details.residual_scale;
    return op;
  }

  Result<void> embed() {
    Op op = make(OpKind::kEmbed);
    HOLDFAST_TRY(op.w[0], matrix("token_embd", s_.vocab, s_.width));
    p_.ops.push_back(op);
    Op scale_add = make(OpKind::kEmbedScaleAdd);
    scale_add.scale = p_.details.embedding_scale;
    if (f_.positions) {
      HOLDFAST_TRY(scale_add.w[0], matrix("position_embd", p_.details.position_rows, s_.width));
    }
    if (f_.token_types) {
      HOLDFAST_TRY(scale_add.w[1], matrix("token_types", p_.details.type_rows, s_.width));
    }
    if (scale_add.scale != 1 || f_.positions || f_.token_types) p_.ops.push_back(scale_add);
    if (f_.embedding_norm) return add_norm(OpKind::kNorm, "token_embd_norm");
    return {};
  }

  Result<void> ropes() {
    if (s_.rope_dims == 0) return {};
    HOLDFAST_TRY(Rope all, make_rope(take_, s_, p_.details.rope));
    p_.ropes.push_back(std::move(all));
    if (s_.rope_tables == 1 || !p_.ropes[0].query_steps.empty()) return {};
    HOLDFAST_TRY(Rope windowed, make_rope(take_, s_, p_.details.window_rope));
    p_.ropes.push_back(std::move(windowed));
    return {};
  }

  Result<void> layer_inputs() {
    const std::int64_t all = s_.layers * s_.layer_input;
    Op op = make(OpKind::kLayerInputs);
    HOLDFAST_TRY(op.w[0], take_.vector("per_layer_proj_norm.weight", s_.layer_input));
    HOLDFAST_TRY(op.w[1], matrix("per_layer_model_proj", all, s_.width));
    HOLDFAST_TRY(op.w[2], matrix("per_layer_token_embd", s_.vocab, all));
    p_.ops.push_back(op);
    return {};
  }

  /// x += norm(proj(act(inp_gate x) * the layer's own input)).
  Result<void> layer_input() {
    Op gate = make(OpKind::kNormGateUp);
    gate.by_input = true;
    HOLDFAST_TRY(gate.w[1], matrix("inp_gate", s_.layer_input, s_.width));
    p_.ops.push_back(gate);
    Op out = make(OpKind::kDownAdd);
    out.to_h = true;
    HOLDFAST_TRY(out.w[0], matrix("proj", s_.width, s_.layer_input));
    p_.ops.push_back(out);
    return add_norm(OpKind::kNormAdd, "post_norm");
  }

  Result<void> layer_scale() {
    CHECK(p_.ops.back().kind == OpKind::kNormAdd);  // every family that has it has such norms
    HOLDFAST_TRY(p_.ops.back().w[2], take_.vector(named("layer_output_scale") + ".weight", 1));
    return {};
  }

  std::int32_t rope_of_layer() const {
    const auto layer = static_cast<std::size_t>(layer_);
    if (!p_.details.rotated[layer] || p_.ropes.empty()) return -1;
    return p_.details.windowed[layer] && p_.ropes.size() > 1 ? 1 : 0;
  }

  Result<void> fused_qkv(Op& op, std::int64_t q_rows, std::int64_t kv_rows) {
    const std::int64_t all = q_rows + 2 * kv_rows;
    const std::string name = named("attn_qkv");
    const std::int64_t firsts[] = {0, q_rows, q_rows + kv_rows, all};
    for (int i = 0; i < 3; ++i) {
      const std::int64_t n = firsts[i + 1] - firsts[i];
      HOLDFAST_TRY(op.w[1 + i], take_.matrix_part(name + ".weight", all, s_.width, firsts[i], n));
      if (!s_.qkv_bias) continue;
      HOLDFAST_TRY(op.bias[1 + i], take_.vector_part(name + ".bias", all, firsts[i], n));
    }
    return {};
  }

  /// Takes the three matrices; layers that share others' pages have the first alone.
  Result<void> separate_qkv(Op& op, std::int64_t q_rows, std::int64_t kv_rows) {
    const char* names[] = {"attn_q", "attn_k", "attn_v"};
    const bool writes_kv = plan::has_kv_pages(s_, layer_);
    for (int i = 0; i < 3; ++i) {
      if (i > 0 && !writes_kv) continue;
      if (i == 2 && plan::has_keys_for_values(p_.details, layer_)) continue;
      const std::int64_t rows = i > 0 ? kv_rows : f_.gated_heads ? 2 * q_rows : q_rows;
      HOLDFAST_TRY(op.w[1 + i], matrix(names[i], rows, s_.width));
      HOLDFAST_CHECKED(bias(op, 1 + i, names[i], s_.qkv_bias));
    }
    return {};
  }

  Result<void> qkv() {
    Op op = make(OpKind::kNormQkv);
    op.rope = rope_of_layer();
    op.row_norm = f_.qk_norm == plan::QkNorm::kRow;
    op.gated = f_.gated_heads;
    op.value_norm = f_.value_norm;
    const plan::KvHeads heads = plan::heads_of_layer(s_, p_.details, layer_);
    const std::int64_t q_rows = s_.heads * heads.head_dim, kv_rows = heads.heads * heads.head_dim;
    if (f_.pre_norm) HOLDFAST_CHECKED(norm(op, "attn_norm"));
    HOLDFAST_CHECKED(p_.details.fused_qkv ? fused_qkv(op, q_rows, kv_rows)
                                          : separate_qkv(op, q_rows, kv_rows));
    Op rows = make(OpKind::kQkNorm);
    rows.rope = op.rope;
    Op& normed = op.row_norm ? rows : op;
    if (s_.qk_norm) {
      const std::int64_t q = op.row_norm ? q_rows : heads.head_dim;
      const std::int64_t k = op.row_norm ? kv_rows : heads.head_dim;
      HOLDFAST_TRY(normed.w[4], take_.vector(named("attn_q_norm") + ".weight", q));
      if (plan::has_kv_pages(s_, layer_)) {
        HOLDFAST_TRY(normed.w[5], take_.vector(named("attn_k_norm") + ".weight", k));
      }
    }
    p_.ops.push_back(op);
    if (op.row_norm) p_.ops.push_back(rows);
    return {};
  }

  /// Computes both blocks from x before either is added to it.
  Result<void> parallel_blocks() {
    HOLDFAST_CHECKED(attention());
    const Op out = p_.ops.back();
    p_.ops.pop_back();
    HOLDFAST_CHECKED(feed_forward());
    p_.ops.insert(p_.ops.end() - 1, out);
    return {};
  }

  Result<void> attention() {
    HOLDFAST_CHECKED(qkv());
    Op scores = make(OpKind::kAttention);
    scores.scale = p_.details.attention_scale;
    scores.cap = p_.details.attention_cap;
    scores.pages_before =
        layer_ - static_cast<std::int32_t>(plan::pages_of_layer(s_, p_.details, layer_));
    if (p_.details.windowed[static_cast<std::size_t>(layer_)]) scores.window = p_.details.window;
    if (f_.sinks) {
      HOLDFAST_TRY(scores.w[0], take_.vector(named("attn_sinks") + ".weight", s_.heads));
    }
    p_.ops.push_back(scores);
    if (f_.gated_heads) p_.ops.push_back(make(OpKind::kGateHeads));
    Op out = ending(OpKind::kOutAdd);
    const std::int64_t head_dim = plan::heads_of_layer(s_, p_.details, layer_).head_dim;
    HOLDFAST_TRY(out.w[0], matrix("attn_output", s_.width, s_.heads * head_dim));
    HOLDFAST_CHECKED(bias(out, 0, "attn_output", p_.details.out_bias));
    p_.ops.push_back(out);
    return after("post_attention_norm", "attn_output_norm");
  }

  Result<void> latent_attention() {
    const std::int64_t rows = s_.heads * s_.head_key;
    Op in = make(OpKind::kNormLatent);
    HOLDFAST_CHECKED(norm(in, "attn_norm"));
    const bool two = s_.q_latent > 0;
    HOLDFAST_TRY(in.w[1], matrix(two ? "attn_q_a" : "attn_q", two ? s_.q_latent : rows, s_.width));
    HOLDFAST_TRY(in.w[2], matrix("attn_kv_a_mqa", s_.head_dim, s_.width));
    p_.ops.push_back(in);
    if (two) {
      Op query = make(OpKind::kLatentQuery);
      HOLDFAST_TRY(query.w[0], take_.vector(named("attn_q_a_norm") + ".weight", s_.q_latent));
      HOLDFAST_TRY(query.w[1], matrix("attn_q_b", rows, s_.q_latent));
      p_.ops.push_back(query);
    }
    Op heads = make(OpKind::kLatentHeads);
    heads.rope = rope_of_layer();
    HOLDFAST_TRY(heads.w[0], take_.vector(named("attn_kv_a_norm") + ".weight", s_.latent));
    HOLDFAST_TRY(heads.w[1], take_.matrix(named("attn_k_b") + ".weight", s_.latent,
                                          s_.head_key - s_.rope_dims, s_.heads));
    p_.ops.push_back(heads);
    Op scores = make(OpKind::kAttention);
    scores.scale = p_.details.attention_scale;
    p_.ops.push_back(scores);
    Op values = make(OpKind::kLatentValues);
    HOLDFAST_TRY(values.w[0],
                 take_.matrix(named("attn_v_b") + ".weight", s_.head_value, s_.latent, s_.heads));
    p_.ops.push_back(values);
    Op out = ending(OpKind::kOutAdd);
    HOLDFAST_TRY(out.w[0], matrix("attn_output", s_.width, s_.heads * s_.head_value));
    p_.ops.push_back(out);
    return {};
  }

  /// A recurrent layer, in place of attention().
  Result<void> delta() {
    const std::int64_t values = s_.state_heads * s_.state_value;
    const std::int64_t columns = plan::conv_width(s_);
    Op in = make(OpKind::kNormDelta);
    HOLDFAST_CHECKED(norm(in, "attn_norm"));
    HOLDFAST_TRY(in.w[1], matrix("attn_qkv", columns, s_.width));
    HOLDFAST_TRY(in.w[2], matrix("attn_gate", values, s_.width));
    if (f_.delta == plan::DeltaNet::kNeighbours) {
      HOLDFAST_TRY(in.w[3], matrix("ssm_ba", 2 * s_.state_heads, s_.width));
    } else {
      HOLDFAST_TRY(in.w[3], matrix("ssm_beta", s_.state_heads, s_.width));
      HOLDFAST_TRY(in.w[4], matrix("ssm_alpha", s_.state_heads, s_.width));
    }
    p_.ops.push_back(in);
    Op states = make(OpKind::kDelta);
    HOLDFAST_TRY(states.w[0], matrix("ssm_conv1d", columns, s_.conv_taps));
    HOLDFAST_TRY(states.w[1], take_.vector(named("ssm_norm") + ".weight", s_.state_value));
    HOLDFAST_TRY(states.w[2], take_.vector(named("ssm_a"), s_.state_heads));
    HOLDFAST_TRY(states.bias[2], take_.vector(named("ssm_dt") + ".bias", s_.state_heads));
    p_.ops.push_back(states);
    Op out = ending(OpKind::kOutAdd);
    HOLDFAST_TRY(out.w[0], matrix("ssm_out", s_.width, values));
    p_.ops.push_back(out);
    return {};
  }

  Result<void> feed_forward() {
    HOLDFAST_CHECKED(up_and_down());
    return after("post_ffw_norm", "layer_output_norm");
  }

  Result<void> up_and_down() {
    const std::int64_t ff = plan::ff_of_layer(s_, p_.details, layer_);
    Op up = make(OpKind::kNormGateUp);
    HOLDFAST_CHECKED(ffn_norm(up));
    if (f_.fused_gate_up) {
      const std::string name = named("ffn_up") + ".weight";
      HOLDFAST_TRY(up.w[1], take_.matrix_part(name, 2 * ff, s_.width, 0, ff));
      HOLDFAST_TRY(up.w[2], take_.matrix_part(name, 2 * ff, s_.width, ff, ff));
    } else {
      const int at = f_.gated ? 2 : 1;
      if (f_.gated) {
        HOLDFAST_TRY(up.w[1], matrix("ffn_gate", ff, s_.width));
        HOLDFAST_CHECKED(bias(up, 1, "ffn_gate", p_.details.gate_bias));
      }
      HOLDFAST_TRY(up.w[at], matrix("ffn_up", ff, s_.width));
      HOLDFAST_CHECKED(bias(up, at, "ffn_up", p_.details.ffn_bias));
    }
    p_.ops.push_back(up);
    Op down = ending(OpKind::kDownAdd);
    HOLDFAST_TRY(down.w[0], matrix("ffn_down", s_.width, ff));
    HOLDFAST_CHECKED(bias(down, 0, "ffn_down", p_.details.ffn_bias));
    p_.ops.push_back(down);
    return {};
  }

  Result<void> experts_of(Op& op, int i, const char* name, std::int64_t rows, std::int64_t cols) {
    HOLDFAST_TRY(op.w[i], take_.matrix(named(name) + ".weight", rows, cols, s_.experts));
    if (!f_.expert_bias) return {};
    HOLDFAST_TRY(op.bias[i], take_.vectors(named(name) + ".bias", rows, s_.experts));
    return {};
  }

  /// The products of a token's experts, after the router.
  Result<void> routed_experts() {
    Op up = make(OpKind::kExpertGateUp);
    if (p_.details.gate_up_experts) {
      HOLDFAST_CHECKED(experts_of(up, 1, "ffn_gate_up_exps", 2 * s_.expert_ff, s_.width));
    } else {
      HOLDFAST_CHECKED(experts_of(up, 1, "ffn_gate_exps", s_.expert_ff, s_.width));
      HOLDFAST_CHECKED(experts_of(up, 2, "ffn_up_exps", s_.expert_ff, s_.width));
    }
    p_.ops.push_back(up);
    Op down = ending(OpKind::kExpertDownAdd);
    HOLDFAST_CHECKED(experts_of(down, 0, "ffn_down_exps", s_.width, s_.expert_ff));
    p_.ops.push_back(down);
    return {};
  }

  /// Experts and a dense feed-forward, both from the same x, each followed by its norm, and another
  /// norm after their sum.
  Result<void> experts_with_dense_ffn() {
    Op route = make(OpKind::kRoute);
    route.scale = 1 / std::sqrt(static_cast<double>(s_.width));
    HOLDFAST_TRY(route.w[0], take_.vector(named("ffn_gate_inp") + ".scale", s_.width));
    HOLDFAST_TRY(route.w[1], matrix("ffn_gate_inp", s_.experts, s_.width));
    HOLDFAST_TRY(route.w[4], take_.vector(named("pre_ffw_norm_2") + ".weight", s_.width));
    HOLDFAST_TRY(route.w[5], take_.vector(named("ffn_down_exps") + ".scale", s_.experts));
    p_.ops.push_back(route);
    HOLDFAST_CHECKED(routed_experts());
    HOLDFAST_CHECKED(add_norm(OpKind::kNormStore, "post_ffw_norm_2"));
    HOLDFAST_CHECKED(up_and_down());
    HOLDFAST_CHECKED(add_norm(OpKind::kNormAdd, "post_ffw_norm"));
    HOLDFAST_TRY(p_.ops.back().w[1], take_.vector(named("post_ffw_norm_1") + ".weight", s_.width));
    return {};
  }

  Result<void> experts() {
    if (f_.experts_with_dense_ffn) return experts_with_dense_ffn();
    if (f_.branch_norm) {
      return Error{Errc::kUnsupported, "build program: experts with a norm behind are not done"};
    }
    Op route = make(OpKind::kRoute);
    HOLDFAST_CHECKED(ffn_norm(route));
    HOLDFAST_TRY(route.w[1], matrix("ffn_gate_inp", s_.experts, s_.width));
    HOLDFAST_CHECKED(bias(route, 1, "ffn_gate_inp", f_.expert_bias));
    if (p_.details.choice_bias) {
      HOLDFAST_TRY(route.w[3], take_.vector(named("exp_probs_b") + ".bias", s_.experts));
    }
    const bool gate = s_.shared_ff > 0 && f_.shared_gate;
    if (gate) {
      HOLDFAST_TRY(route.w[2], take_.vector(named("ffn_gate_inp_shexp") + ".weight", s_.width));
    }
    p_.ops.push_back(route);
    HOLDFAST_CHECKED(routed_experts());
    if (s_.shared_ff > 0) HOLDFAST_CHECKED(shared_expert(gate));
    return after("post_ffw_norm", "layer_output_norm");
  }

  Result<void> shared_expert(bool gate) {
    Op up = make(OpKind::kNormGateUp);
    up.from_h = true;
    HOLDFAST_TRY(up.w[1], matrix("ffn_gate_shexp", s_.shared_ff, s_.width));
    HOLDFAST_TRY(up.w[2], matrix("ffn_up_shexp", s_.shared_ff, s_.width));
    p_.ops.push_back(up);
    Op down = ending(OpKind::kDownAdd);
    down.gate_rows = gate;
    HOLDFAST_TRY(down.w[0], matrix("ffn_down_shexp", s_.width, s_.shared_ff));
    p_.ops.push_back(down);
    return {};
  }

  Result<void> logits() {
    Op op = make(OpKind::kNormLogits);
    op.scale = p_.details.logit_scale;
    op.cap = p_.details.logit_cap;
    if (!f_.encoder) {
      HOLDFAST_CHECKED(norm(op, "output_norm"));
      const char* name = s_.tied_embeddings ? "token_embd" : "output";
      HOLDFAST_TRY(op.w[1], matrix(name, s_.vocab, s_.width));
    }
    p_.ops.push_back(op);
    return {};
  }

  Taker take_;
  const plan::ModelShape& s_;
  const plan::Family& f_;
  std::int32_t layer_ = -1;
  Program p_;
};

}  // namespace

Result<Program> build_program(const gguf::File& file, const plan::ModelShape& shape) {
  if (plan::find_family(shape.architecture) == nullptr) {
    return Error{Errc::kUnsupported, "build program " + std::string(file.name()) +
                                         ": architecture " + shape.architecture + " is unknown"};
  }
  HOLDFAST_TRY(plan::Details details, plan::read_details(file, shape));
  return Builder(file, shape, std::move(details)).run();
}

}  // namespace holdfast::model
