#pragma once
// Readers of quantised weights: one scheme a file (quant_*.cpp), chosen by the quantization_config
// of a folder. A reader says which tensors of a folder belong to quantised layers and makes of each
// layer's a CodedMatrix, which then takes the way of a plain "LAYER.weight". Internal to
// shared/huggingface.

#include <cstdint>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "shared/base/result.h"
#include "shared/huggingface/coded_matrix.h"
#include "shared/huggingface/families.h"
#include "shared/huggingface/layer_tensors.h"

namespace holdfast::huggingface {

/// The file to which ModelOpt's exporter writes its options, older versions to no other.
inline constexpr const char* kModelOptFile = "hf_quant_config.json";

/// A scheme of quantised weights with the options of one folder. Immutable.
class QuantisedReader {
 public:
  virtual ~QuantisedReader() = default;
  /// Returns what users call the format: "GPTQ of 4 bits in groups of 128".
  virtual std::string format() const = 0;
  /// Returns the ends of the names of a layer's tensors, after "LAYER.". With "weight" among them
  /// plain tensors have that name too.
  virtual std::vector<std::string_view> parts() const = 0;
  /// Returns the ends of names of tensors that are not needed: scales of activations and KV.
  virtual std::vector<std::string_view> unused_parts() const { return {}; }
  /// Returns the matrix of a layer; nullptr if its "weight" is a plain tensor. kFileInvalid,
  /// kUnsupported: tensors that do not make a matrix of this scheme.
  virtual Result<std::shared_ptr<const CodedMatrix>> matrix(const LayerTensors& layer) const = 0;
};

/// Returns the reader of a folder's weights; nullptr for plain weights and for those that the
/// family's own rules read. `config` is the result of full_config, `model` the folder (for errors
/// and for ModelOpt's own file next to config.json). kUnsupported: another scheme or option.
Result<std::unique_ptr<const QuantisedReader>> quantised_reader(const nlohmann::json& config,
                                                                const Family& family,
                                                                const std::string& model);

/// Members of quantization_config with their types checked. Errors name the member.
class SchemeConfig {
 public:
  /// Refers to `object`, which must outlive this; CHECKs that it is an object. `where` is the file
  /// and the path of the object: "config.json: quantization_config".
  SchemeConfig(const nlohmann::json& object, std::string where);

  /// Returns true if the member is there and not null.
  bool has(const char* name) const;
  Result<std::int64_t> whole(const char* name, std::int64_t fallback) const;
  Result<bool> flag(const char* name, bool fallback) const;
  Result<std::string> text(const char* name, const std::string& fallback) const;
  /// Returns kUnsupported: "NAME is FOUND, expected EXPECTED".
  Error unsupported(const std::string& name, const std::string& expected) const;
  const nlohmann::json& object() const { return object_; }
  const std::string& where() const { return where_; }

 private:
  Error invalid(const char* name, const char* expected) const;

  const nlohmann::json& object_;
  std::string where_;
};

/// Return the readers of one scheme each.
Result<std::unique_ptr<const QuantisedReader>> gptq_reader(const SchemeConfig& config);
Result<std::unique_ptr<const QuantisedReader>> awq_reader(const SchemeConfig& config);
Result<std::unique_ptr<const QuantisedReader>> fp8_reader(const SchemeConfig& config);
Result<std::unique_ptr<const QuantisedReader>> compressed_tensors_reader(
    const SchemeConfig& config);
Result<std::unique_ptr<const QuantisedReader>> bitsandbytes_reader(const SchemeConfig& config);
Result<std::unique_ptr<const QuantisedReader>> modelopt_reader(const SchemeConfig& config);

/// Names and sizes of an FP8 layer's scales (quant_fp8.cpp).
struct Fp8Scales {
  const char* part = "weight_scale";
  std::uint64_t block_rows = 0;     // of a scale; 0: one for a row or for all
  std::uint64_t block_columns = 0;  // 0: all
};
/// Returns the matrix of an FP8 layer, which has a "weight" of E4M3.
Result<std::shared_ptr<const CodedMatrix>> fp8_matrix(const LayerTensors& layer,
                                                      const Fp8Scales& scales);

/// Names of an NVFP4 layer's tensors (quant_fp4.cpp).
struct Fp4Parts {
  const char* codes = "weight";
  const char* scales = "weight_scale";
  const char* global = "weight_scale_2";
  bool divides = false;  // the global scale divides instead of multiplying
};
/// Returns the matrix of an NVFP4 layer: blocks of 16 with a scale of E4M3, and a global one.
Result<std::shared_ptr<const CodedMatrix>> nvfp4_matrix(const LayerTensors& layer,
                                                        const Fp4Parts& parts);
/// Returns the matrix of an MXFP4 layer: blocks of 32 with a power of two (E8M0).
Result<std::shared_ptr<const CodedMatrix>> mxfp4_matrix(const LayerTensors& layer,
                                                        const Fp4Parts& parts);

/// Returns the scheme's tensors of a folder by layer, which lie in any of its files.
class QuantisedLayers {
 public:
  /// Refers to `reader`, which must outlive this. `where` is the folder.
  QuantisedLayers(const QuantisedReader& reader, std::string where)
      : reader_(reader), where_(std::move(where)) {}

  /// Takes a tensor if it belongs to a layer, is a bias, or is not needed. False: it is none of
  /// them. kFileInvalid: it is there twice.
  Result<bool> take(const std::string& name, const StoredTensor& stored);
  const std::map<std::string, LayerTensors>& layers() const { return layers_; }
  /// Returns the tensors "LAYER.bias" by layer.
  const std::map<std::string, StoredTensor>& biases() const { return biases_; }
  /// Returns how many tensors are not needed.
  std::size_t unused() const { return unused_; }

 private:
  const QuantisedReader& reader_;
  std::string where_;
  std::map<std::string, LayerTensors> layers_;
  std::map<std::string, StoredTensor> biases_;
  std::size_t unused_ = 0;
};

}  // namespace holdfast::huggingface
