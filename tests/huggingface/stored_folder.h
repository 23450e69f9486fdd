#pragma once
// A folder "f" of a test (one *.safetensors file and its config.json), read without the code under
// test, to be inspected or changed and written back.

#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "tests/huggingface/temp_folder.h"

namespace holdfast::huggingface_test {

class StoredFolder {
 public:
  struct Tensor {
    std::string dtype;
    std::vector<std::uint64_t> shape;
    std::string bytes;
  };

  explicit StoredFolder(const TempFolder& temp);

  nlohmann::json& config() { return *config_; }
  const std::map<std::string, Tensor>& tensors() const { return tensors_; }

  /// Row `r` of a float32 tensor.
  std::vector<float> row(const std::string& name, std::size_t r) const;
  void erase(const std::string& name);
  void reshape(const std::string& name, std::vector<std::uint64_t> shape);
  /// Adds a float32 tensor of one value.
  void add(const std::string& name, const std::vector<std::uint64_t>& shape, float value);
  void put(const std::string& name, Tensor tensor) { tensors_[name] = std::move(tensor); }
  void clear() { tensors_.clear(); }
  /// Renames beginnings of tensor names.
  void rename(const std::string& from, const std::string& to);
  /// Converts every tensor to one type, "BF16" or "F16", as models are saved.
  void as_half(const std::string& dtype);
  void write() const;

 private:
  const TempFolder& temp_;
  std::shared_ptr<nlohmann::json> config_;
  std::map<std::string, Tensor> tensors_;
};

}  // namespace holdfast::huggingface_test
