#pragma once
// How a family of models calls things in a folder (config.json, tensor names)
// and in GGUF, both ways. Sources: the models' own config files, the modelling
// code of transformers (src/transformers/models/NAME/{configuration,modeling}_NAME.py)
// and the tensor names of the GGUF specification.

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "shared/base/result.h"
#include "shared/gguf/gguf.h"
#include "shared/gguf/writer.h"

namespace holdfast::hf {

/// What happens to the numbers of a tensor on the way into GGUF.
enum class Change : std::uint8_t {
  kNone,
  kPermuteQ,  // rows of each head: halves to pairs, for adjacent-pair rotation
  kPermuteK,
  kPlusOne,    // norms that a family counts from 1
  kTranspose,  // Conv1D of GPT-2: [inputs, outputs]
  kVector,     // a matrix of one row
  kFloat32,    // matrices that GGUF keeps in float32: routers, tables of positions and types
  // All experts of a layer in one tensor (gpt-oss). With `parts` their rows are those of each part
  // by turns.
  kMxfp4,          // codes [experts, rows, blocks, 16]; their exponents are another tensor:
  kMxfp4Scales,    // [experts, rows, blocks]
  kTransposeEach,  // [experts, inputs, rows]
  kBiases,         // [experts, rows], as float32
  // Recurrent layers' heads of values in another order (assemble_states.cpp): rows, perhaps behind
  // those of queries and keys; columns; the convolution's taps; what the decay's rate is made of.
  kStateRows,
  kStateColumns,
  kStateConv,
  kStateRate,
};

/// "%" stands for the layer's number, "#" for an expert's: GGUF has all experts of a layer in one
/// tensor, in their order. With `parts` 2 the folder's tensor holds two of GGUF's, `part` (0: the
/// upper rows, for each expert) being this one.
struct TensorRule {
  const char* hf;
  const char* gguf;
  Change change = Change::kNone;
  std::uint8_t part = 0;
  std::uint8_t parts = 1;
};

/// A key of config.json beyond those that all families have, and its place in GGUF.
struct KeyRule {
  const char* hf;
  const char* gguf;
  bool real = false;  // f32, else u32
};

/// Beginnings of names that are put otherwise before the rules are asked: one class of transformers
/// saves a model with a prefix, another without.
struct PrefixRule {
  const char* from;
  const char* to;
};

/// Tensors of a folder that are no part of what runs here. "%" as above; a "*" at the end stands
/// for anything.
struct LeftOut {
  const char* name;
  const char* what;  // for the note that says so; nullptr: nothing that anybody would miss
};

/// What config.json calls what every family has.
struct ConfigNames {
  const char* layers = "num_hidden_layers";
  const char* context = "max_position_embeddings";
  const char* width = "hidden_size";
  const char* ff = "intermediate_size";
  const char* heads = "num_attention_heads";
  const char* kv_heads = "num_key_value_heads";  // nullptr: as many as heads
  const char* epsilon = "rms_norm_eps";
  const char* activation = "hidden_act";
};

struct Family {
  const char* model_type;    // of config.json
  const char* architecture;  // general.architecture
  const char* hf_class;      // "architectures" of config.json
  std::vector<TensorRule> tensors = {};
  std::vector<KeyRule> keys = {};   // copied where they are there and not null
  const char* activation = "silu";  // the only one that the architecture has here
  bool tied = false;                // where config.json does not say
  const char* defaults = "{}";      // of the class of transformers: what a config may leave out
  std::vector<PrefixRule> prefixes = {};
  std::vector<LeftOut> left_out = {};
  ConfigNames names = {};
  const char* epsilon = "attention.layer_norm_rms_epsilon";
  bool rope = true;
  bool encoder = false;
  const char* text_config = nullptr;  // the object of config.json that is about the text
  /// norm_topk_prob as GGUF's architecture has it where the header does not say; nullopt: the
  /// family has no such key, chosen weights sum to 1.
  std::optional<bool> norm_topk = {};
  const char* bias_key = nullptr;   // of config.json: whether q, k and v have biases
  std::int64_t window_period = 0;   // of GGUF's architecture: all layers but every n-th (1: all)
  const char* quantised = nullptr;  // quant_method of weights that its rules read
  std::uint32_t gating = 1;         // expert_gating_func of GGUF that its routers have
  bool states = false;              // recurrent layers; it is not written as a folder
  bool next_layers = false;         // it may have some behind the others, which text does not need
  bool yarn_truncate = true;  // what "truncate" of yarn's scaling must say; true is its default
};

/// nullptr if no engine of ours runs it.
const Family* family_of_type(std::string_view model_type);
/// The family that a GGUF file is written as: by architecture, and where several share it by what
/// the header has (experts, windows). nullptr if there is none.
const Family* family_of_file(const gguf::File& file);
/// "llama, mistral, …", for errors.
std::string family_names();
/// The table (family_table.cpp).
const std::vector<Family>& all_families();

/// A tensor of GGUF, or the place in one, that a folder's tensor is.
struct Named {
  std::string name;
  Change change = Change::kNone;
  std::uint8_t part = 0;
  std::uint8_t parts = 1;
  std::int64_t expert = -1;  // -1: the tensor has all there is
};
/// What a folder's tensor is in GGUF: one, two for parts; empty if the family has none such.
std::vector<Named> to_gguf(const Family& family, std::string_view name);
/// The folder's name of a GGUF tensor; "#" stands in it for each expert's number.
std::optional<Named> to_hf(const Family& family, std::string_view name);
/// The rule that a folder's tensor is left out by, or nullptr. `layers`: those that are computed.
const LeftOut* left_out(const Family& family, std::string_view name, std::int64_t layers);

/// What of config.json the view and its tensors need.
struct Sizes {
  std::int64_t layers = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t rope_dims = 0;
  std::int64_t experts = 0;
  std::int64_t state_heads = 0;  // of recurrent layers: of values, of keys, and their elements
  std::int64_t state_groups = 0;
  std::int64_t state_key = 0;
  std::int64_t state_value = 0;
  bool tied = false;
  std::vector<float> rope_factors;  // of llama 3's scaling, empty if there is none
  std::vector<float> long_factors;  // of longrope
  std::vector<float> short_factors;
};
/// The part of config.json that is about the text, with what its class of transformers says where
/// it says nothing. kFileInvalid: there is no such part.
Result<nlohmann::json> full_config(const nlohmann::json& config, const Family& family);
/// Writes general.* and ARCH.* keys of what full_config gives. kFileInvalid / kUnsupported name the
/// key of config.json.
Result<Sizes> config_to_keys(const nlohmann::json& config, const Family& family,
                             const std::string& name, gguf::Writer& writer);

/// config.json for a GGUF file of the family. kUnsupported names a key that has
/// no counterpart.
Result<nlohmann::json> keys_to_config(const gguf::File& file, const Family& family);

}  // namespace holdfast::hf
