#include "shared/huggingface/quantised.h"

#include <sys/stat.h>

#include <nlohmann/json.hpp>

#include "shared/gguf/parse.h"
#include "shared/huggingface/json_file.h"

namespace holdfast::huggingface {
namespace {

using nlohmann::json;

struct Scheme {
  std::string_view method;  // quant_method
  Result<std::unique_ptr<const QuantisedReader>> (*reader)(const SchemeConfig& config);
};
constexpr Scheme kSchemes[] = {{"gptq", gptq_reader},
                               {"awq", awq_reader},
                               {"fp8", fp8_reader},
                               {"compressed-tensors", compressed_tensors_reader},
                               {"bitsandbytes", bitsandbytes_reader},
                               {"modelopt", modelopt_reader}};

std::string method_of(const json& how) {
  const json method = how.value("quant_method", json());
  if (method.is_string()) return method.get<std::string>();
  // Folders that were saved before transformers named the method.
  const bool bits = how.contains("load_in_4bit") || how.contains("load_in_8bit");
  return bits ? "bitsandbytes" : "";
}

std::string scheme_names() {
  std::string out;
  for (const Scheme& scheme : kSchemes) {
    out += (out.empty() ? "" : ", ") + std::string(scheme.method);
  }
  return out;
}

/// Returns the options of ModelOpt's own file, in the form of quantization_config; null if there is
/// no such file.
Result<json> modelopt_file(const std::string& model) {
  const std::string path = model + "/" + kModelOptFile;
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return json();
  HOLDFAST_TRY(const std::string text, read_text(path, kConfigBytesMax));
  HOLDFAST_TRY(const json file, parse_object(text, path));
  json how = file.value("quantization", json());
  if (!how.is_object()) {
    return Error{Errc::kFileInvalid, "read " + path + ": \"quantization\" is missing or no object"};
  }
  how["quant_method"] = "modelopt";
  return how;
}

}  // namespace

SchemeConfig::SchemeConfig(const json& object, std::string where)
    : object_(object), where_(std::move(where)) {
  CHECK(object.is_object());
}

bool SchemeConfig::has(const char* name) const {
  const auto at = object_.find(name);
  return at != object_.end() && !at->is_null();
}

Error SchemeConfig::invalid(const char* name, const char* expected) const {
  return {Errc::kFileInvalid, "read " + where_ + "." + name + " is " +
                                  gguf::quoted(object_.at(name).dump()) + ", expected " + expected};
}

Error SchemeConfig::unsupported(const std::string& name, const std::string& expected) const {
  const auto at = object_.find(name);
  return {Errc::kUnsupported, "read " + where_ + "." + name + " is " +
                                  (at == object_.end() ? "missing" : gguf::quoted(at->dump())) +
                                  ", expected " + expected};
}

Result<std::int64_t> SchemeConfig::whole(const char* name, std::int64_t fallback) const {
  if (!has(name)) return fallback;
  const json& value = object_.at(name);
  constexpr std::int64_t kMost = std::int64_t{1} << 30;
  if (!value.is_number_integer() || value < -1 || value > kMost) {
    return invalid(name, "a whole number from -1 to 2^30");
  }
  return value.get<std::int64_t>();
}

Result<bool> SchemeConfig::flag(const char* name, bool fallback) const {
  if (!has(name)) return fallback;
  if (!object_.at(name).is_boolean()) return invalid(name, "true or false");
  return object_.at(name).get<bool>();
}

Result<std::string> SchemeConfig::text(const char* name, const std::string& fallback) const {
  if (!has(name)) return fallback;
  if (!object_.at(name).is_string()) return invalid(name, "a string");
  return object_.at(name).get<std::string>();
}

Result<std::unique_ptr<const QuantisedReader>> quantised_reader(const json& config,
                                                                const Family& family,
                                                                const std::string& model) {
  json how = config.value("quantization_config", json());
  std::string where = "config.json: quantization_config";
  if (how.is_null()) {
    HOLDFAST_TRY(how, modelopt_file(model));
    if (how.is_null()) return std::unique_ptr<const QuantisedReader>();
    where = std::string(kModelOptFile) + ": quantization";
  }
  if (!how.is_object()) {
    return Error{Errc::kFileInvalid, "read " + where + " is no object"};
  }
  const std::string method = method_of(how);
  if (family.quantised != nullptr && method == family.quantised) {
    return std::unique_ptr<const QuantisedReader>();
  }
  for (const Scheme& scheme : kSchemes) {
    if (scheme.method == method) return scheme.reader(SchemeConfig(how, where));
  }
  const std::string also = family.quantised != nullptr ? std::string(", ") + family.quantised : "";
  return SchemeConfig(how, where)
      .unsupported("quant_method", "one of " + scheme_names() + also +
                                       ", or a folder with F32, F16 or BF16 weights");
}

Result<bool> QuantisedLayers::take(const std::string& name, const StoredTensor& stored) {
  const auto ends_with = [&](std::string_view part) {
    return name.size() > part.size() + 1 && name.ends_with(part) &&
           name[name.size() - part.size() - 1] == '.';
  };
  for (const std::string_view part : reader_.unused_parts()) {
    if (!ends_with(part)) continue;
    ++unused_;
    return true;
  }
  if (constexpr std::string_view kBias = "bias"; ends_with(kBias)) {
    const std::string layer = name.substr(0, name.size() - kBias.size() - 1);
    if (biases_.emplace(layer, stored).second) return true;
    return LayerName{where_, layer}.invalid(kBias, "is in two files of the folder");
  }
  for (const std::string_view part : reader_.parts()) {
    if (!ends_with(part)) continue;
    const std::string layer = name.substr(0, name.size() - part.size() - 1);
    LayerTensors& tensors =
        layers_.try_emplace(layer, LayerTensors(LayerName{where_, layer})).first->second;
    if (tensors.add(part, stored)) return true;
    return tensors.name().invalid(part, "is in two files of the folder");
  }
  return false;
}

}  // namespace holdfast::huggingface
