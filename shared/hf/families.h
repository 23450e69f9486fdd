#pragma once
// How a family of models calls things in a folder (config.json, tensor names)
// and in GGUF, both ways. Sources: the models' own config files and the tensor
// names of the GGUF specification.

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
  kPlusOne,  // norms that a family counts from 1
};

/// "%" stands for the layer's number.
struct TensorRule {
  const char* hf;
  const char* gguf;
  Change change = Change::kNone;
};

/// A key of config.json beyond those that all families have, and its place in GGUF.
struct KeyRule {
  const char* hf;
  const char* gguf;
  bool real = false;  // f32, else u32
};

struct Family {
  const char* model_type;    // of config.json
  const char* architecture;  // general.architecture
  const char* hf_class;      // "architectures" of config.json
  std::vector<TensorRule> tensors;
  std::vector<KeyRule> keys = {};   // copied where they are there and not null
  const char* activation = "silu";  // the only one that the architecture has here
  bool tied = false;                // where config.json does not say
};

/// nullptr if no engine of ours runs it.
const Family* family_of_type(std::string_view model_type);
const Family* family_of_architecture(std::string_view architecture);
/// "llama, mistral, …", for errors.
std::string family_names();

struct Named {
  std::string name;
  Change change = Change::kNone;
};
/// The name in GGUF of a folder's tensor and back; nullopt if the family has
/// none such.
std::optional<Named> to_gguf(const Family& family, std::string_view name);
std::optional<Named> to_hf(const Family& family, std::string_view name);

/// What of config.json the view and its tensors need.
struct Sizes {
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t rope_dims = 0;
  bool tied = false;
  std::vector<float> rope_factors;  // of llama 3's scaling, empty if there is none
  std::vector<float> long_factors;  // of longrope
  std::vector<float> short_factors;
};
/// Writes general.* and ARCH.* keys. kFileInvalid / kUnsupported name the key
/// of config.json.
Result<Sizes> config_to_keys(const nlohmann::json& config, const Family& family,
                             const std::string& name, gguf::Writer& writer);

/// config.json for a GGUF file of the family. kUnsupported names a key that has
/// no counterpart.
Result<nlohmann::json> keys_to_config(const gguf::File& file, const Family& family);

}  // namespace holdfast::hf
