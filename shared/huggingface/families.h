#pragma once
// The names of a family of models in a folder (config.json, tensors) and in GGUF, in both
// directions. Sources: the models' own config files, the modelling code of transformers
// (src/transformers/models/NAME/{configuration,modeling}_NAME.py) and the tensor names of the GGUF
// specification.

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "shared/base/result.h"
#include "shared/gguf/gguf.h"
#include "shared/gguf/writer.h"

namespace holdfast::huggingface {

/// The change of a tensor's numbers on the way into GGUF.
enum class Change : std::uint8_t {
  kNone,
  kPermuteQ,  // rows of each head: halves to pairs, for adjacent-pair rotation
  kPermuteK,
  kPlusOne,    // norms that a family stores less 1
  kTranspose,  // Conv1D of GPT-2: [inputs, outputs]
  kVector,     // a matrix of one row
  kFloat32,    // matrices that GGUF stores in float32: routers, tables of positions and types
  // All experts of a layer in one tensor (gpt-oss). With `parts` their rows are interleaved.
  kMxfp4,          // codes [experts, rows, blocks, 16]; the exponents are another tensor:
  kMxfp4Scales,    // [experts, rows, blocks]
  kTransposeEach,  // [experts, inputs, rows]
  kBiases,         // [experts, rows], as float32
  // Value heads of recurrent layers in another order (assemble_states.cpp): rows, perhaps after
  // those of queries and keys; columns; the convolution's taps; the source of the decay's rate.
  kStateRows,
  kStateColumns,
  kStateConv,
  kStateRate,
};

/// A tensor's names. "%" is the layer's number, "#" an expert's: GGUF has all experts of a layer in
/// one tensor, in their order. With `parts` 2 the folder's tensor holds two of GGUF's, and `part`
/// is the index of this one (0: the upper rows, for each expert).
struct TensorRule {
  const char* huggingface;
  const char* gguf;
  Change change = Change::kNone;
  std::uint8_t part = 0;
  std::uint8_t parts = 1;
};

/// A key of config.json beyond those of all families, and its GGUF key.
struct KeyRule {
  const char* huggingface;
  const char* gguf;
  bool real = false;  // f32, else u32
};

/// A prefix of names that is replaced before the rules apply: one class of transformers saves a
/// model with a prefix, another without.
struct PrefixRule {
  const char* from;
  const char* to;
};

/// Tensors of a folder that are not used here. "%" as above; a "*" at the end matches anything.
struct LeftOut {
  const char* name;
  const char* what;  // for the note about them; nullptr: not worth a note
};

/// The names in config.json of the values that every family has.
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

/// A family of models: the names and defaults of its folders, and its GGUF architecture.
struct Family {
  const char* model_type;         // of config.json
  const char* architecture;       // general.architecture
  const char* huggingface_class;  // "architectures" of config.json
  std::vector<TensorRule> tensors = {};
  std::vector<KeyRule> keys = {};   // copied where present and not null
  const char* activation = "silu";  // the only one that the architecture supports here
  bool tied = false;                // if config.json does not say
  const char* defaults = "{}";      // of transformers' class: for members that a config may omit
  std::vector<PrefixRule> prefixes = {};
  std::vector<LeftOut> left_out = {};
  ConfigNames names = {};
  const char* epsilon = "attention.layer_norm_rms_epsilon";
  bool rope = true;
  bool encoder = false;
  const char* text_config = nullptr;  // the object of config.json for the text model
  /// The default of norm_topk_prob in GGUF's architecture where the header has no key; nullopt: the
  /// family has no such key, and the chosen weights sum to 1.
  std::optional<bool> norm_topk = {};
  const char* bias_key = nullptr;   // of config.json: q, k and v have biases
  std::int64_t window_period = 0;   // of GGUF: all layers but every n-th are windowed (1: all)
  const char* quantised = nullptr;  // quant_method of weights that its rules read
  std::uint32_t gating = 1;         // expert_gating_func of GGUF for its routers
  bool states = false;              // has recurrent layers; cannot be written as a folder
  bool next_layers = false;         // may have nextn layers after the others, unused for text
  bool yarn_truncate = true;  // required value of "truncate" in yarn's scaling; true is its default
};

/// Returns nullptr if no engine here runs it.
const Family* family_of_type(std::string_view model_type);
/// Returns the family that a GGUF file is written as: by architecture, and where several share it
/// by the header (experts, windows). nullptr if there is none.
const Family* family_of_file(const gguf::File& file);
/// Returns "llama, mistral, …", for errors.
std::string family_names();
/// Returns the table (family_table.cpp).
const std::vector<Family>& all_families();

/// The GGUF tensor, or the part of one, that a folder's tensor becomes.
struct Named {
  std::string name;
  Change change = Change::kNone;
  std::uint8_t part = 0;
  std::uint8_t parts = 1;
  std::int64_t expert = -1;  // -1: the tensor has all experts
};
/// Returns what a folder's tensor becomes in GGUF: one tensor, two for parts; empty if the family
/// has no such tensor.
std::vector<Named> to_gguf(const Family& family, std::string_view name);
/// Returns the folder's name of a GGUF tensor; "#" in it is each expert's number.
std::optional<Named> to_huggingface(const Family& family, std::string_view name);
/// Returns the rule by which a folder's tensor is left out, or nullptr. `layers`: the computed
/// layers.
const LeftOut* left_out(const Family& family, std::string_view name, std::int64_t layers);

/// The values of config.json that the view and its tensors need.
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
/// Returns the text model's part of config.json, with the defaults of its class of transformers.
/// kFileInvalid: there is no such part.
Result<nlohmann::json> full_config(const nlohmann::json& config, const Family& family);
/// Writes general.* and ARCH.* keys from the result of full_config. kFileInvalid / kUnsupported
/// name the key of config.json.
Result<Sizes> config_to_keys(const nlohmann::json& config, const Family& family,
                             const std::string& name, gguf::Writer& writer);

/// Returns config.json for a GGUF file of the family. kUnsupported names a key that has no
/// counterpart.
Result<nlohmann::json> keys_to_config(const gguf::File& file, const Family& family);

}  // namespace holdfast::huggingface
