#pragma once
// A folder "f" of a test (one *.safetensors file and its config.json), read without the code that
// is tested, to be looked at or changed and written back.

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "shared/gguf/quants.h"
#include "tests/hf/temp_folder.h"

namespace holdfast::hf_test {

class StoredFolder {
 public:
  struct Tensor {
    std::string dtype;
    std::vector<std::uint64_t> shape;
    std::string bytes;
  };

  explicit StoredFolder(const TempFolder& temp) : temp_(temp) {
    config_ = nlohmann::json::parse(temp.read("f/config.json"));
    const std::string bytes = temp.read("f/model.safetensors");
    std::uint64_t length = 0;
    std::memcpy(&length, bytes.data(), 8);
    const auto header = nlohmann::json::parse(bytes.substr(8, length));
    for (const auto& [name, entry] : header.items()) {
      if (name == "__metadata__") continue;
      const std::size_t begin = entry["data_offsets"][0], end = entry["data_offsets"][1];
      tensors_[name] = {entry["dtype"], entry["shape"],
                        bytes.substr(8 + length + begin, end - begin)};
    }
  }

  nlohmann::json& config() { return config_; }
  const std::map<std::string, Tensor>& tensors() const { return tensors_; }

  /// Row `r` of a float32 tensor.
  std::vector<float> row(const std::string& name, std::size_t r) const {
    const Tensor& t = tensors_.at(name);
    std::vector<float> out(t.shape.back());
    std::memcpy(out.data(), t.bytes.data() + r * out.size() * 4, out.size() * 4);
    return out;
  }

  void erase(const std::string& name) { ASSERT_EQ(tensors_.erase(name), 1u) << name; }
  void reshape(const std::string& name, std::vector<std::uint64_t> shape) {
    ASSERT_EQ(tensors_.count(name), 1u) << name;
    tensors_[name].shape = std::move(shape);
  }
  void add(const std::string& name, const std::vector<std::uint64_t>& shape, float value) {
    std::size_t n = 1;
    for (const std::uint64_t d : shape) n *= d;
    Tensor t{"F32", shape, std::string(n * 4, '\0')};
    for (std::size_t i = 0; i < n; ++i) std::memcpy(t.bytes.data() + i * 4, &value, 4);
    tensors_[name] = std::move(t);
  }
  /// Beginnings of names.
  void rename(const std::string& from, const std::string& to) {
    std::map<std::string, Tensor> renamed;
    for (auto& [name, tensor] : tensors_) {
      const bool is = name.starts_with(from);
      renamed[is ? to + name.substr(from.size()) : name] = std::move(tensor);
    }
    tensors_ = std::move(renamed);
  }
  /// Every tensor in one type, as models are saved.
  void as_half(const std::string& dtype) {
    const auto type = dtype == "BF16" ? gguf::TensorType::kBF16 : gguf::TensorType::kF16;
    for (auto& [name, t] : tensors_) {
      if (t.dtype == dtype) continue;
      ASSERT_EQ(t.dtype, "F32") << name;
      std::string half(t.bytes.size() / 2, '\0');
      for (std::size_t i = 0; i < half.size() / 2; ++i) {
        float value = 0;
        std::memcpy(&value, t.bytes.data() + i * 4, 4);
        std::uint32_t bits = 0;
        std::memcpy(&bits, &value, 4);
        const auto brief = type == gguf::TensorType::kBF16 ? static_cast<std::uint16_t>(bits >> 16)
                                                           : gguf::float_to_half(value);
        std::memcpy(half.data() + i * 2, &brief, 2);
      }
      t.dtype = dtype;
      t.bytes = std::move(half);
    }
  }

  void write() const {
    nlohmann::json header = nlohmann::json::object();
    std::string data;
    for (const auto& [name, t] : tensors_) {
      header[name] = {{"dtype", t.dtype},
                      {"shape", t.shape},
                      {"data_offsets", {data.size(), data.size() + t.bytes.size()}}};
      data += t.bytes;
    }
    temp_.write("f/model.safetensors", safetensors(header.dump(), data));
    temp_.write("f/config.json", config_.dump());
  }

 private:
  const TempFolder& temp_;
  nlohmann::json config_;
  std::map<std::string, Tensor> tensors_;
};

}  // namespace holdfast::hf_test
