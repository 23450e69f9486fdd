#include "tests/huggingface/tiny_folder.h"

#include <gtest/gtest.h>

#include <cstring>
#include <nlohmann/json.hpp>

#include "ops/model_tools/convert.h"
#include "ops/model_tools/synth.h"

namespace holdfast::huggingface_test {
namespace {

using Tensor = StoredFolder::Tensor;

// From the third layer on products with quantised weights round their input to 8 bits, which is no
// error of the weights.
constexpr int kLayers = 2;

/// True for the linear layers of the model's blocks, but not for routers.
bool is_linear(const std::string& name, const Tensor& tensor) {
  return name.find(".layers.") != std::string::npos && tensor.shape.size() == 2 &&
         name.ends_with("_proj.weight");
}

PlainMatrix matrix_of(const Tensor& tensor) {
  PlainMatrix out{tensor.shape[0], tensor.shape[1], {}};
  out.values.resize(out.rows * out.columns);
  std::memcpy(out.values.data(), tensor.bytes.data(), tensor.bytes.size());
  return out;
}

}  // namespace

TinyFolder::TinyFolder(const char* shape) {
  EXPECT_TRUE(cli::synth(shape, temp_.at("m.gguf"), "f32", 11, {}).has_value());
  EXPECT_TRUE(cli::convert_model({temp_.at("m.gguf"), temp_.at("f")}, {}).has_value());
  stored_ = std::make_unique<StoredFolder>(temp_);
  stored_->config()["num_hidden_layers"] = kLayers;
  const auto tensors = stored_->tensors();
  for (const auto& [name, tensor] : tensors) {
    if (name.find(".layers.2.") != std::string::npos) stored_->erase(name);
  }
  stored_->write();
}

void TinyFolder::quantise(const Quantise& quantise, const nlohmann::json& how, TinyFolder& plain) {
  const auto tensors = stored_->tensors();
  for (const auto& [name, tensor] : tensors) {
    if (!is_linear(name, tensor)) continue;
    const QuantisedLayer layer = quantise(matrix_of(tensor));
    const std::string prefix = name.substr(0, name.size() - std::string("weight").size());
    stored_->erase(name);
    for (const auto& [part, made] : layer.parts) stored_->put(prefix + part, made);
    Tensor floats = tensor;
    std::memcpy(floats.bytes.data(), layer.weights.data(), floats.bytes.size());
    plain.stored().put(name, floats);
  }
  if (!how.is_null()) stored_->config()["quantization_config"] = how;
  stored_->write();
  plain.stored().write();
}

}  // namespace holdfast::huggingface_test
