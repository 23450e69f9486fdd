// read_shape: hyper-parameters from the header, checked against the tensors.

#include <algorithm>
#include <cmath>
#include <map>

#include "shared/plan/expected.h"
#include "shared/plan/plan.h"

namespace holdfast::plan {
namespace {

using gguf::File;
using gguf::TensorInfo;

/// What a key may hold; far above what models use, so that products stay small.
struct Range {
  std::int64_t least;
  std::int64_t most;
};
constexpr Range kLayers{1, 1024};
constexpr Range kWidth{1, 1 << 20};
constexpr Range kFf{1, 1 << 22};
constexpr Range kHeads{1, 4096};
constexpr Range kHeadDim{2, 1024};
constexpr Range kContext{1, 1 << 30};
constexpr Range kVocab{1, 1 << 24};

class ShapeReader {
 public:
  explicit ShapeReader(const File& file) : file_(file) {}

  Result<ModelShape> run() {
    HF_CHECKED(read_identity());
    HF_CHECKED(refuse_features());
    HF_CHECKED(read_sizes());
    HF_CHECKED(read_heads());
    HF_CHECKED(read_rope());
    HF_CHECKED(read_vocab());
    shape_.tied_embeddings = file_.tensor("output.weight") == nullptr;
    shape_.qkv_bias = file_.tensor("blk.0.attn_q.bias") != nullptr;
    shape_.qk_norm = shape_.architecture == "qwen3";
    HF_CHECKED(check_tensors(file_, shape_));
    add_up();
    return std::move(shape_);
  }

 private:
  Error fail(Errc code, const std::string& what) const {
    return Error{code, "read model " + std::string(file_.name()) + ": " + what};
  }
  Error invalid(const std::string& what) const { return fail(Errc::kFileInvalid, what); }
  Error unsupported(const std::string& what) const { return fail(Errc::kUnsupported, what); }
  std::string key(const char* suffix) const { return shape_.architecture + "." + suffix; }

  Result<void> read_identity() {
    const auto architecture = file_.get_string("general.architecture");
    if (!architecture) {
      return invalid("key \"general.architecture\" is missing or no string; this is not a model");
    }
    const bool known = std::find(std::begin(kArchitectures), std::end(kArchitectures),
                                 *architecture) != std::end(kArchitectures);
    if (!known) {
      std::string list;
      for (const std::string_view name : kArchitectures) {
        list += (list.empty() ? "" : ", ") + std::string(name);
      }
      return unsupported("architecture " + printable(*architecture) +
                         " is not supported, expected one of " + list);
    }
    shape_.architecture = std::string(*architecture);
    shape_.name = std::string(file_.get_string("general.name").value_or(""));
    shape_.has_tokenizer = file_.array_size("tokenizer.ggml.tokens") > 0;
    shape_.has_chat_template = file_.get_string("tokenizer.chat_template").has_value();
    shape_.rope_style = shape_.architecture == "llama" ? RopeStyle::kNorm : RopeStyle::kNeox;
    return {};
  }

  /// Things that would load and then give wrong text.
  Result<void> refuse_features() const {
    if (const auto parts = file_.get_u64("split.count"); parts && *parts > 1) {
      return unsupported("this is one of " + std::to_string(*parts) +
                         " parts; merge the parts into one file first");
    }
    if (file_.tensors().empty()) return invalid("there are no tensors; this is a vocabulary only");
    const auto experts = file_.get_u64(key("expert_count"));
    if (experts && *experts > 0) return unsupported("mixture of experts is not supported");
    if (file_.get_bool(key("attention.causal")) == false) {
      return unsupported("attention without a causal mask is not supported");
    }
    if (file_.tensor("rope_factors_long.weight")) {
      return unsupported("rope scaling \"longrope\" is not supported");
    }
    return {};
  }

  /// A number, or an array of equal numbers (one for each layer).
  Result<std::optional<std::int64_t>> find_int(const std::string& name, Range range) const {
    if (!file_.has(name)) return std::optional<std::int64_t>{};
    std::optional<std::int64_t> value = file_.get_i64(name);
    if (const auto list = file_.get_ints(name); list && !list->empty()) {
      if (std::adjacent_find(list->begin(), list->end(), std::not_equal_to<>()) != list->end()) {
        return unsupported("key \"" + name + "\" differs between layers, which is not supported");
      }
      value = list->front();
    }
    if (!value) return invalid("key \"" + name + "\" has another type, expected an integer");
    if (*value < range.least || *value > range.most) {
      return invalid("key \"" + name + "\" is " + std::to_string(*value) + ", expected " +
                     std::to_string(range.least) + " to " + std::to_string(range.most));
    }
    return value;
  }

  Result<std::int64_t> need_int(const char* suffix, Range range) const {
    HF_TRY(const std::optional<std::int64_t> value, find_int(key(suffix), range));
    if (!value) return invalid("key \"" + key(suffix) + "\" is missing");
    return *value;
  }

  Result<double> find_float(const char* suffix, double fallback) const {
    if (!file_.has(key(suffix))) return fallback;
    const auto value = file_.get_f64(key(suffix));
    if (!value || !std::isfinite(*value) || *value < 0) {
      return invalid("key \"" + key(suffix) + "\" is no number of at least 0");
    }
    return *value;
  }

  Result<void> read_sizes() {
    HF_TRY(shape_.layers, need_int("block_count", kLayers));
    HF_TRY(shape_.width, need_int("embedding_length", kWidth));
    HF_TRY(shape_.ff, need_int("feed_forward_length", kFf));
    HF_TRY(shape_.context, need_int("context_length", kContext));
    HF_TRY(shape_.norm_eps, find_float("attention.layer_norm_rms_epsilon", 0));
    if (shape_.norm_eps <= 0 || shape_.norm_eps >= 1) {
      return invalid("key \"" + key("attention.layer_norm_rms_epsilon") +
                     "\" is missing or out of range, expected a number between 0 and 1");
    }
    return {};
  }

  Result<void> read_heads() {
    HF_TRY(shape_.heads, need_int("attention.head_count", kHeads));
    HF_TRY(const auto kv_heads, find_int(key("attention.head_count_kv"), kHeads));
    shape_.kv_heads = kv_heads.value_or(shape_.heads);
    if (shape_.heads % shape_.kv_heads != 0) {
      return invalid("key \"" + key("attention.head_count") + "\" is " +
                     std::to_string(shape_.heads) + ", expected a multiple of the " +
                     std::to_string(shape_.kv_heads) + " KV heads");
    }
    HF_TRY(const auto key_length, find_int(key("attention.key_length"), kHeadDim));
    HF_TRY(const auto value_length, find_int(key("attention.value_length"), kHeadDim));
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

  Result<void> read_rope() {
    HF_TRY(const auto dims, find_int(key("rope.dimension_count"), kHeadDim));
    shape_.rope_dims = dims.value_or(shape_.head_dim);
    if (shape_.rope_dims > shape_.head_dim || shape_.rope_dims % 2 != 0) {
      return invalid("key \"" + key("rope.dimension_count") + "\" is " +
                     std::to_string(shape_.rope_dims) + ", expected an even number up to " +
                     std::to_string(shape_.head_dim));
    }
    HF_TRY(shape_.rope_base, find_float("rope.freq_base", 10000));
    if (shape_.rope_base <= 0) return invalid("key \"" + key("rope.freq_base") + "\" is 0");
    HF_TRY(const auto original,
           find_int(key("rope.scaling.original_context_length"), Range{0, kContext.most}));
    shape_.rope_original_context = original.value_or(0);
    shape_.has_rope_freqs = file_.tensor("rope_freqs.weight") != nullptr;
    return read_rope_scaling();
  }

  /// The type is linear where the file does not say; a factor of 0 or 1 changes nothing.
  Result<void> read_rope_scaling() {
    HF_TRY(const double old_factor, find_float("rope.scale_linear", 1));
    HF_TRY(double factor, find_float("rope.scaling.factor", old_factor));
    if (factor == 0) factor = 1;
    const std::string_view type =
        file_.get_string(key("rope.scaling.type")).value_or(factor == 1 ? "none" : "linear");
    if (type != "none" && type != "linear" && type != "llama3") {
      return unsupported("rope scaling " + printable(type) + " is not supported");
    }
    const bool linear = type == "linear" && factor != 1;
    if (linear && shape_.has_rope_freqs) {
      return unsupported(
          "rope scaling \"linear\" together with the tensor "
          "\"rope_freqs.weight\" is not supported");
    }
    if (linear) {
      shape_.rope_scaling = RopeScaling::kLinear;
      shape_.rope_factor = factor;
    }
    if (shape_.has_rope_freqs) shape_.rope_scaling = RopeScaling::kLlama3;
    return {};
  }

  /// The rows of the embedding are the vocabulary. The tokens must agree; the key may be stale
  /// where tokens were added later, so it counts only where there are no tokens.
  Result<void> read_vocab() {
    HF_TRY(const auto named, find_int(key("vocab_size"), kVocab));
    const auto tokens = static_cast<std::int64_t>(file_.array_size("tokenizer.ggml.tokens"));
    const TensorInfo* embedding = file_.tensor("token_embd.weight");
    if (!embedding) return invalid("tensor \"token_embd.weight\" is missing");
    const std::uint64_t* dims = embedding->dims;
    const auto width = static_cast<std::uint64_t>(shape_.width);
    const auto expected = static_cast<std::uint64_t>(tokens > 0 ? tokens : named.value_or(0));
    const bool fits =
        embedding->n_dims == 2 && dims[0] == width && (expected == 0 || dims[1] == expected);
    const bool transposed = embedding->n_dims == 2 && dims[1] == width && dims[0] != width &&
                            (expected == 0 || dims[0] == expected);
    const std::string want = std::to_string(width) + " x " +
                             (expected ? std::to_string(expected) : std::string("vocabulary"));
    if (transposed) {
      return invalid("tensor \"token_embd.weight\" is stored transposed: it is " +
                     dims_text(*embedding) + ", expected " + want +
                     "; convert the model again with a converter that keeps rows as tokens");
    }
    if (!fits) {
      return invalid("tensor \"token_embd.weight\" is " + dims_text(*embedding) + ", expected " +
                     want);
    }
    if (dims[1] > static_cast<std::uint64_t>(kVocab.most)) {
      return invalid("tensor \"token_embd.weight\" has " + std::to_string(dims[1]) +
                     " rows, expected at most " + std::to_string(kVocab.most));
    }
    shape_.vocab = static_cast<std::int64_t>(dims[1]);
    return {};
  }

  void add_up() {
    std::map<gguf::TensorType, std::uint64_t> by_type;
    for (const TensorInfo& tensor : file_.tensors()) {
      shape_.weights_bytes += tensor.data.size();
      if (tensor.name != "rope_freqs.weight") shape_.parameters += tensor.elements();
      if (tensor.n_dims > 1) by_type[tensor.type] += tensor.data.size();
    }
    const auto most = std::max_element(by_type.begin(), by_type.end(),
                                       [](auto& a, auto& b) { return a.second < b.second; });
    shape_.file_type = gguf::type_traits(most->first)->name;
  }

  const File& file_;
  ModelShape shape_;
};

}  // namespace

Result<ModelShape> read_shape(const gguf::File& file) {
  return ShapeReader(file).run();
}

}  // namespace holdfast::plan
