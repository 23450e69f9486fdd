#pragma once
// A folder of a tiny random model whose linear layers can be replaced by quantised ones.

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "tests/huggingface/quantise_tensors.h"
#include "tests/huggingface/stored_folder.h"

namespace holdfast::huggingface_test {

/// The folder "f" of a test: the first two layers of a shape of `holdfast synth`. The same shape is
/// the same model.
class TinyFolder {
 public:
  explicit TinyFolder(const char* shape = "test-llama");
  StoredFolder& stored() { return *stored_; }
  std::string path() const { return temp_.at("f"); }
  const TempFolder& temp() const { return temp_; }

  /// Replaces the linear layers of blocks by quantised ones, and those of `plain` by the numbers of
  /// their codes. `how` becomes quantization_config if it is not null.
  void quantise(const Quantise& quantise, const nlohmann::json& how, TinyFolder& plain);

 private:
  TempFolder temp_;
  std::unique_ptr<StoredFolder> stored_;
};

}  // namespace holdfast::huggingface_test
