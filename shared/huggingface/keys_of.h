#pragma once
// A model whose keys and tensors come from different files.

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "shared/gguf/gguf.h"

namespace holdfast::huggingface {

/// The keys of a GGUF file in memory; a derived class sets the tensors.
class KeysOf : public gguf::File {
 public:
  KeysOf(std::string path, std::shared_ptr<const gguf::File> keys)
      : path_(std::move(path)), keys_(std::move(keys)) {}

  std::string_view name() const override { return path_; }
  std::uint32_t version() const override { return keys_->version(); }
  std::uint64_t file_bytes() const override { return file_bytes_; }
  std::uint64_t alignment() const override { return keys_->alignment(); }
  const std::vector<std::string>& keys() const override { return keys_->keys(); }
  bool has(std::string_view key) const override { return keys_->has(key); }
  std::optional<gguf::ValueType> value_type(std::string_view key) const override {
    return keys_->value_type(key);
  }
  std::optional<std::uint64_t> get_u64(std::string_view key) const override {
    return keys_->get_u64(key);
  }
  std::optional<std::int64_t> get_i64(std::string_view key) const override {
    return keys_->get_i64(key);
  }
  std::optional<double> get_f64(std::string_view key) const override { return keys_->get_f64(key); }
  std::optional<bool> get_bool(std::string_view key) const override { return keys_->get_bool(key); }
  std::optional<std::string_view> get_string(std::string_view key) const override {
    return keys_->get_string(key);
  }
  std::optional<gguf::ValueType> array_type(std::string_view key) const override {
    return keys_->array_type(key);
  }
  std::uint64_t array_size(std::string_view key) const override { return keys_->array_size(key); }
  std::optional<std::vector<std::string_view>> get_strings(std::string_view key) const override {
    return keys_->get_strings(key);
  }
  std::optional<std::vector<float>> get_floats(std::string_view key) const override {
    return keys_->get_floats(key);
  }
  std::optional<std::vector<std::int64_t>> get_ints(std::string_view key) const override {
    return keys_->get_ints(key);
  }
  ByteSpan raw_value(std::string_view key) const override { return keys_->raw_value(key); }
  const std::vector<gguf::TensorInfo>& tensors() const override { return tensors_; }
  const gguf::TensorInfo* tensor(std::string_view name) const override {
    const auto found = index_.find(std::string(name));
    return found == index_.end() ? nullptr : &tensors_[found->second];
  }

 protected:
  /// Sets the tensors in this order; their offsets become those of one data section. False: a
  /// duplicate name.
  bool set_tensors(std::vector<gguf::TensorInfo> tensors) {
    tensors_ = std::move(tensors);
    std::uint64_t offset = 0;
    bool alone = true;
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      alone = index_.emplace(tensors_[i].name, i).second && alone;
      tensors_[i].offset = offset;
      offset += (tensors_[i].data.size() + 31) / 32 * 32;
    }
    return alone;
  }
  const std::string& path() const { return path_; }

  std::uint64_t file_bytes_ = 0;

 private:
  std::string path_;
  std::shared_ptr<const gguf::File> keys_;
  std::vector<gguf::TensorInfo> tensors_;
  std::unordered_map<std::string, std::size_t> index_;
};

}  // namespace holdfast::huggingface
