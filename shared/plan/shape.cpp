// read_shape: hyper-parameters from the header, checked against the tensors.

#include <algorithm>
#include <cmath>
#include <map>

#include "shared/plan/expected.h"
#include "shared/plan/family.h"
#include "shared/plan/keys.h"
#include "shared/plan/plan.h"

namespace holdfast::plan {
namespace {

using gguf::File;
using gguf::TensorInfo;

constexpr std::int64_t kTileValues = 128;  // a head's values may always be this long

class ShapeReader {
 public:
  explicit ShapeReader(const File& file) : file_(file), keys_(file) {}

  Result<ModelShape> run() {
    HOLDFAST_CHECKED(read_identity());
    HOLDFAST_CHECKED(refuse_features());
    HOLDFAST_CHECKED(read_sizes());
    HOLDFAST_CHECKED(read_heads());
    HOLDFAST_CHECKED(read_uneven());
    HOLDFAST_CHECKED(read_states());
    HOLDFAST_CHECKED(read_experts());
    HOLDFAST_CHECKED(read_rope());
    HOLDFAST_CHECKED(read_vocab());
    shape_.tied_embeddings = file_.tensor("output.weight") == nullptr;
    shape_.qkv_bias = family_->qkv_bias == Use::kMust || file_.tensor("blk.0.attn_q.bias") ||
                      file_.tensor("blk.0.attn_qkv.bias");
    shape_.qk_norm = family_->qk_norm != QkNorm::kNone &&
                     (!family_->qk_norm_left_out || file_.tensor("blk.0.attn_q_norm.weight"));
    shape_.qk_norm_row = shape_.qk_norm && family_->qk_norm == QkNorm::kRow;
    HOLDFAST_TRY(const Details details, read_details(file_, shape_));
    copy_rope(details);
    HOLDFAST_CHECKED(settle_heads(details));
    HOLDFAST_CHECKED(check_tensors(file_, shape_, details));
    add_up(details);
    return std::move(shape_);
  }

 private:
  Error invalid(const std::string& what) const { return keys_.invalid(what); }
  Error unsupported(const std::string& what) const { return keys_.unsupported(what); }
  std::string key(const char* suffix) const { return keys_.key(suffix); }

  Result<void> read_identity() {
    const auto architecture = file_.get_string("general.architecture");
    if (!architecture) {
      return invalid("key \"general.architecture\" is missing or no string; this is not a model");
    }
    family_ = find_family(*architecture);
    if (family_ == nullptr) {
      std::string list;
      for (const Family& family : families()) {
        list += (list.empty() ? "" : ", ") + std::string(family.name);
      }
      return unsupported("architecture " + printable(*architecture) +
                         " is not supported, expected one of " + list);
    }
    shape_.architecture = std::string(*architecture);
    keys_.set_architecture(shape_.architecture);
    shape_.name = std::string(file_.get_string("general.name").value_or(""));
    shape_.has_tokenizer = file_.array_size("tokenizer.ggml.tokens") > 0;
    shape_.has_chat_template = file_.get_string("tokenizer.chat_template").has_value();
    shape_.rope_style = family_->rope;
    shape_.causal = !family_->encoder;
    return {};
  }

  /// Refuses features that would load and then give wrong text.
  Result<void> refuse_features() const {
    if (const auto parts = file_.get_u64("split.count"); parts && *parts > 1) {
      return unsupported("this is one of " + std::to_string(*parts) +
                         " parts; expected the model that they are together");
    }
    if (file_.tensors().empty()) return invalid("there are no tensors; this is a vocabulary only");
    if (file_.get_bool(key("attention.causal")).value_or(shape_.causal) != shape_.causal) {
      return unsupported(shape_.causal ? "attention without a causal mask is not supported"
                                       : "attention with a causal mask is not supported here");
    }
    return {};
  }

  Result<void> read_sizes() {
    HOLDFAST_TRY(shape_.layers, keys_.need_int("block_count", kLayers));
    HOLDFAST_CHECKED(read_left_layers());
    HOLDFAST_TRY(shape_.width, keys_.need_int("embedding_length", kWidth));
    if (family_->uneven) {
      HOLDFAST_TRY(const auto each, keys_.find_each("feed_forward_length", kFf, shape_.layers));
      shape_.ff = each.empty() ? 0 : *std::max_element(each.begin(), each.end());
    } else {
      HOLDFAST_TRY(const auto ff, keys_.find_int("feed_forward_length", Range{0, kFf.most}));
      shape_.ff = ff.value_or(0);
    }
    HOLDFAST_TRY(shape_.context, keys_.need_int("context_length", kContext));
    const char* eps = family_->norm == NormKind::kRms ? "attention.layer_norm_rms_epsilon"
                                                      : "attention.layer_norm_epsilon";
    HOLDFAST_TRY(shape_.norm_eps, keys_.find_float(eps, 0));
    if (shape_.norm_eps <= 0 || shape_.norm_eps >= 1) {
      return invalid("key \"" + key(eps) +
                     "\" is missing or out of range, expected a number between 0 and 1");
    }
    return {};
  }

  /// Reads the number of nextn layers. They propose draft tokens, come after the others and are
  /// counted with them.
  Result<void> read_left_layers() {
    if (!family_->next_layers) return {};
    HOLDFAST_TRY(const auto left,
                 keys_.find_int("nextn_predict_layers", Range{0, shape_.layers - 1}));
    shape_.left_layers = left.value_or(0);
    shape_.layers -= shape_.left_layers;
    return {};
  }

  Result<void> read_heads() {
    HOLDFAST_CHECKED(read_kv_heads());
    if (family_->latent) return read_latent();
    HOLDFAST_TRY(const auto key_length, keys_.find_int("attention.key_length", kHeadDim));
    HOLDFAST_TRY(const auto value_length, keys_.find_int("attention.value_length", kHeadDim));
    if (!key_length && shape_.width % shape_.heads != 0) {
      return invalid("key \"" + key("embedding_length") + "\" is " + std::to_string(shape_.width) +
                     ", expected a multiple of the " + std::to_string(shape_.heads) + " heads");
    }
    shape_.head_dim = key_length.value_or(shape_.width / shape_.heads);
    if (value_length.value_or(shape_.head_dim) != shape_.head_dim) {
      return unsupported("key \"" + key("attention.value_length") + "\" is " +
                         std::to_string(*value_length) + ", expected the key length of " +
                         std::to_string(shape_.head_dim));
    }
    if (shape_.head_dim < kHeadDim.least || shape_.head_dim > kHeadDim.most) {
      return invalid("heads of " + std::to_string(shape_.head_dim) + " elements, expected " +
                     std::to_string(kHeadDim.least) + " to " + std::to_string(kHeadDim.most));
    }
    return {};
  }

  Result<void> read_kv_heads() {
    HOLDFAST_TRY(shape_.heads, keys_.need_int("attention.head_count", kHeads));
    if (family_->uneven) {
      HOLDFAST_TRY(kv_heads_, keys_.find_each("attention.head_count_kv", kHeads, shape_.layers));
    } else {
      HOLDFAST_TRY(const auto kv_heads, keys_.find_int("attention.head_count_kv", kHeads));
      if (kv_heads) kv_heads_ = {*kv_heads};
    }
    if (kv_heads_.empty()) kv_heads_ = {shape_.heads};
    shape_.kv_heads = kv_heads_[0];
    for (const std::int64_t n : kv_heads_) {
      if (shape_.heads % n == 0) continue;
      return invalid("key \"" + key("attention.head_count") + "\" is " +
                     std::to_string(shape_.heads) + ", expected a multiple of the " +
                     std::to_string(n) + " KV heads");
    }
    return {};
  }

  /// Reads the sizes that differ between kinds of layers; the kind of each layer is known later.
  Result<void> read_uneven() {
    if (!family_->uneven) return {};
    const char* suffix = "attention.key_length_swa";
    HOLDFAST_TRY(const auto length, keys_.find_int(suffix, kHeadDim));
    HOLDFAST_TRY(const auto values, keys_.find_int("attention.value_length_swa", kHeadDim));
    shape_.window_head_dim = length.value_or(shape_.head_dim);
    if (values.value_or(shape_.window_head_dim) != shape_.window_head_dim) {
      return unsupported("key \"" + key("attention.value_length_swa") + "\" is " +
                         std::to_string(*values) + ", expected the key length of " +
                         std::to_string(shape_.window_head_dim));
    }
    HOLDFAST_TRY(const auto sharing,
                 keys_.find_int("attention.shared_kv_layers", Range{0, shape_.layers - 1}));
    shape_.sharing_layers = sharing.value_or(0);
    HOLDFAST_TRY(const auto input,
                 keys_.find_int("embedding_length_per_layer_input",
                                Range{0, family_->layer_inputs ? kWidth.most : 0}));
    shape_.layer_input = input.value_or(0);
    return {};
  }

  /// The KV heads of each kind of layer; 0 where there is no such layer.
  struct KindHeads {
    std::int64_t plain = 0;
    std::int64_t windowed = 0;
  };

  /// Counts a layer with its kind, whose other layers must have as many KV heads.
  Result<void> settle_layer(const Details& d, std::int64_t l, KindHeads& kinds) {
    const std::int64_t n = kv_heads_[kv_heads_.size() > 1 ? static_cast<std::size_t>(l) : 0];
    const bool near = d.windowed[static_cast<std::size_t>(l)];
    std::int64_t& all = near ? kinds.windowed : kinds.plain;
    if (all != 0 && all != n) {
      return unsupported("key \"" + key("attention.head_count_kv") + "\" differs between layers " +
                         (near ? "with" : "without") + " a window, which is not supported");
    }
    all = n;
    shape_.window_layers += near && has_kv_pages(shape_, l) ? 1 : 0;
    if (has_kv_pages(shape_, l) || pages_of_layer(shape_, d, l) >= 0) return {};
    return invalid("key \"" + key("attention.shared_kv_layers") + "\" is " +
                   std::to_string(shape_.sharing_layers) + ", but layer " + std::to_string(l) +
                   " has no layer of its kind before those to read keys and values of");
  }

  /// Sets the heads of windowed layers and of the others once the kind of each layer is known.
  /// Where both have the same, there is one kind.
  Result<void> settle_heads(const Details& d) {
    if (!family_->uneven) return {};
    KindHeads kinds;
    for (std::int64_t l = 0; l < shape_.layers; ++l) HOLDFAST_CHECKED(settle_layer(d, l, kinds));
    const auto [plain, windowed] = kinds;
    shape_.kv_heads = plain > 0 ? plain : windowed;
    shape_.window_kv_heads = windowed > 0 ? windowed : plain;
    const bool same =
        shape_.window_head_dim == shape_.head_dim && shape_.window_kv_heads == shape_.kv_heads;
    if (same || windowed == 0) {
      shape_.window_head_dim = shape_.window_kv_heads = shape_.window_layers = 0;
    }
    return {};
  }

  Result<void> read_latent() {
    HOLDFAST_TRY(shape_.latent, keys_.need_int("attention.kv_lora_rank", kHeadDim));
    HOLDFAST_TRY(const auto q_latent,
                 keys_.find_int("attention.q_lora_rank", Range{0, kWidth.most}));
    shape_.q_latent = q_latent.value_or(0);
    HOLDFAST_TRY(const auto rotated, keys_.need_int("rope.dimension_count", kHeadDim));
    HOLDFAST_TRY(const auto length, keys_.need_int("attention.key_length", kHeadDim));
    if (shape_.kv_heads != 1) {
      return unsupported(
          "files with \"attn_kv_b\" and without \"attn_k_b\", \"attn_v_b\" are of "
          "converters before those were; expected attention.head_count_kv 1: "
          "convert the model again, or take a newer file of it");
    }
    HOLDFAST_TRY(shape_.head_key, keys_.need_int("attention.key_length_mla", kHeadDim));
    HOLDFAST_TRY(shape_.head_value, keys_.need_int("attention.value_length_mla", kHeadDim));
    shape_.head_dim = length;
    const bool fits = length == shape_.latent + rotated && shape_.head_key > rotated &&
                      shape_.head_value <= std::max(kTileValues, length);
    if (fits) return {};
    return invalid("key \"" + key("attention.key_length") + "\" is " + std::to_string(length) +
                   ", expected the " + std::to_string(shape_.latent) + " of \"" +
                   key("attention.kv_lora_rank") + "\" and the " + std::to_string(rotated) +
                   " that are rotated, of heads of more than those");
  }

  /// Reads the heads of recurrent layers, where all keys have one length, and so have all values.
  Result<void> read_states() {
    if (family_->delta == DeltaNet::kNone) return {};
    HOLDFAST_TRY(const auto step,
                 keys_.find_int("full_attention_interval", Range{2, kLayers.most}));
    shape_.attention_step = step.value_or(4);
    HOLDFAST_TRY(shape_.state_heads, keys_.need_int("ssm.time_step_rank", kStateHeads));
    HOLDFAST_TRY(shape_.state_groups, keys_.need_int("ssm.group_count", kStateHeads));
    HOLDFAST_TRY(shape_.state_key, keys_.need_int("ssm.state_size", kStateDim));
    HOLDFAST_TRY(const auto inner, keys_.need_int("ssm.inner_size", kWidth));
    HOLDFAST_TRY(shape_.conv_taps, keys_.need_int("ssm.conv_kernel", kConvTaps));
    shape_.state_value = inner / shape_.state_heads;
    const bool fits = inner % shape_.state_heads == 0 && shape_.state_value <= kStateDim.most &&
                      shape_.state_heads % shape_.state_groups == 0;
    if (!fits) {
      return invalid("keys \"" + key("ssm.time_step_rank") + "\", \"" + key("ssm.group_count") +
                     "\" and \"" + key("ssm.inner_size") + "\" are " +
                     std::to_string(shape_.state_heads) + ", " +
                     std::to_string(shape_.state_groups) + " and " + std::to_string(inner) +
                     ", expected each to divide into those before it in whole heads");
    }
    if (shape_.layers >= shape_.attention_step) return {};
    return unsupported("none of the " + std::to_string(shape_.layers) +
                       " layers attends, as every " + std::to_string(shape_.attention_step) +
                       "th should");
  }

  Result<void> read_rope() {
    if (family_->rope == RopeStyle::kNone) return {};
    HOLDFAST_TRY(const auto dims, keys_.find_int("rope.dimension_count", kHeadDim));
    shape_.rope_dims = dims.value_or(shape_.head_dim);
    if (shape_.rope_dims > shape_.head_dim || shape_.rope_dims % 2 != 0) {
      return invalid("key \"" + key("rope.dimension_count") + "\" is " +
                     std::to_string(shape_.rope_dims) + ", expected an even number up to " +
                     std::to_string(shape_.head_dim));
    }
    HOLDFAST_TRY(shape_.rope_base, keys_.find_float("rope.freq_base", 10000));
    if (shape_.rope_base <= 0) return invalid("key \"" + key("rope.freq_base") + "\" is 0");
    shape_.has_rope_freqs = file_.tensor("rope_freqs.weight") != nullptr;
    return {};
  }

  void copy_rope(const Details& d) {
    shape_.rope_scaling = d.rope.scaling;
    shape_.rope_factor = d.rope.factor;
    shape_.rope_original_context = d.rope.original_context;
    const bool windows = std::find(d.windowed.begin(), d.windowed.end(), true) != d.windowed.end();
    const bool two = (windows && d.window_rope != d.rope) || d.rope.temperature > 0;
    shape_.rope_tables = two ? 2 : 1;
    if (windows && d.window_rope.dims != d.rope.dims) {
      shape_.window_rope_dims = d.window_rope.dims;
    }
  }

  Result<void> read_experts() {
    HOLDFAST_TRY(const auto count, keys_.find_int("expert_count", kExperts));
    shape_.experts = count.value_or(0);
    if (shape_.experts == 0) {
      if (family_->experts == Use::kMust)
        return invalid("key \"" + key("expert_count") + "\" is missing or 0");
      return need_ff();
    }
    if (family_->experts == Use::kNo) return unsupported("mixture of experts is not supported");
    HOLDFAST_TRY(shape_.experts_used,
                 keys_.need_int("expert_used_count", Range{1, shape_.experts}));
    HOLDFAST_CHECKED(read_dense_layers());
    HOLDFAST_CHECKED(read_expert_ff());
    if (family_->experts_with_dense_ffn) {
      HOLDFAST_CHECKED(need_ff());
      shape_.shared_ff = shape_.ff;
    }
    return family_->shared_expert == Use::kNo ? Result<void>() : read_shared_ff();
  }

  Result<void> need_ff() const {
    if (shape_.ff > 0) return {};
    return invalid("key \"" + key("feed_forward_length") + "\" is missing");
  }

  /// Returns the rows of a tensor of the first block with experts, `fallback` without usable ones.
  std::int64_t rows_of_block(const char* name, std::int64_t fallback) const {
    const std::string block = "blk." + std::to_string(shape_.dense_layers) + ".";
    const TensorInfo* tensor = file_.tensor(block + name);
    const std::uint64_t n = tensor ? tensor->dims[1] : 0;
    const bool usable = n > 0 && n <= static_cast<std::uint64_t>(kFf.most);
    return usable ? static_cast<std::int64_t>(n) : fallback;
  }

  /// Takes an expert's rows from its tensors; a key that disagrees is detected with the tensors.
  Result<void> read_expert_ff() {
    const std::int64_t both = rows_of_block("ffn_gate_up_exps.weight", 2 * shape_.ff);
    shape_.expert_ff = rows_of_block("ffn_up_exps.weight", both / 2);
    HOLDFAST_TRY(const auto named,
                 keys_.find_int("expert_feed_forward_length", Range{0, kFf.most}));
    if (named.value_or(0) > 0) shape_.expert_ff = *named;
    return {};
  }

  Result<void> read_shared_ff() {
    shape_.shared_ff = rows_of_block("ffn_up_shexp.weight", 0);
    HOLDFAST_TRY(const auto shared,
                 keys_.find_int("expert_shared_feed_forward_length", Range{0, kFf.most}));
    if (shared.value_or(0) > 0) shape_.shared_ff = *shared;
    if (family_->shared_expert == Use::kMust && shape_.shared_ff == 0) shape_.shared_ff = shape_.ff;
    return {};
  }

  Result<void> read_dense_layers() {
    if (!family_->dense_first) return {};
    HOLDFAST_TRY(const auto dense,
                 keys_.find_int("leading_dense_block_count", Range{0, shape_.layers - 1}));
    shape_.dense_layers = dense.value_or(0);
    return shape_.dense_layers == 0 ? Result<void>() : need_ff();
  }

  /// Takes the rows of the embedding as the vocabulary. The tokens must agree; the key may be stale
  /// where tokens were added later, so it counts only where there are no tokens.
  Result<void> read_vocab() {
    HOLDFAST_TRY(const auto named, keys_.find_int("vocab_size", kVocab));
    const auto tokens = static_cast<std::int64_t>(file_.array_size("tokenizer.ggml.tokens"));
    const TensorInfo* embedding = file_.tensor("token_embd.weight");
    if (!embedding) return invalid("tensor \"token_embd.weight\" is missing");
    HOLDFAST_CHECKED(check_embedding(
        *embedding, static_cast<std::uint64_t>(tokens > 0 ? tokens : named.value_or(0))));
    const std::uint64_t rows = embedding->dims[1];
    if (rows > static_cast<std::uint64_t>(kVocab.most)) {
      return invalid("tensor \"token_embd.weight\" has " + std::to_string(rows) +
                     " rows, expected at most " + std::to_string(kVocab.most));
    }
    shape_.vocab = static_cast<std::int64_t>(rows);
    return {};
  }

  /// Checks the size of the embedding; with `tokens` 0 it may have any number of rows.
  Result<void> check_embedding(const TensorInfo& embedding, std::uint64_t tokens) const {
    const auto width = static_cast<std::uint64_t>(shape_.width);
    const auto is = [&](std::uint64_t columns, std::uint64_t rows) {
      return embedding.n_dims == 2 && columns == width && (tokens == 0 || rows == tokens);
    };
    const std::uint64_t columns = embedding.dims[0], rows = embedding.dims[1];
    if (is(columns, rows)) return {};
    const std::string want = std::to_string(width) + " x " +
                             (tokens ? std::to_string(tokens) : std::string("vocabulary"));
    if (columns != width && is(rows, columns)) {
      return invalid("tensor \"token_embd.weight\" is stored transposed: it is " +
                     dims_text(embedding) + ", expected " + want +
                     "; convert the model again with a converter that keeps rows as tokens");
    }
    return invalid("tensor \"token_embd.weight\" is " + dims_text(embedding) + ", expected " +
                   want);
  }

  void add_up(const Details& details) {
    std::map<gguf::TensorType, std::uint64_t> by_type;
    for (const TensorInfo& tensor : file_.tensors()) {
      if (is_left_out(tensor.name, shape_)) continue;
      if (!tensor.name.starts_with("rope_f")) shape_.parameters += tensor.elements();
      if (tensor.n_dims > 1) by_type[tensor.type] += tensor.data.size();
    }
    shape_.weights_bytes = packed_weights(file_, shape_, details);
    shape_.load_bytes = load_bytes(file_, shape_, details);
    const auto most = std::max_element(by_type.begin(), by_type.end(),
                                       [](auto& a, auto& b) { return a.second < b.second; });
    shape_.file_type = gguf::type_traits(most->first)->name;
  }

  const File& file_;
  KeyReader keys_;
  const Family* family_ = nullptr;
  ModelShape shape_;
  std::vector<std::int64_t> kv_heads_;  // of each layer, or one for all
};

}  // namespace

Result<ModelShape> read_shape(const gguf::File& file) {
  return ShapeReader(file).run();
}

}  // namespace holdfast::plan
