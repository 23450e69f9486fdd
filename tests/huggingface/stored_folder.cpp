#include "tests/huggingface/stored_folder.h"

#include <gtest/gtest.h>

#include <cstring>
#include <nlohmann/json.hpp>

#include "shared/gguf/quants.h"

namespace holdfast::huggingface_test {

using nlohmann::json;

StoredFolder::StoredFolder(const TempFolder& temp)
    : temp_(temp), config_(std::make_shared<json>(json::parse(temp.read("f/config.json")))) {
  const std::string bytes = temp.read("f/model.safetensors");
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), 8);
  const json header = json::parse(bytes.substr(8, length));
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") continue;
    const std::size_t begin = entry["data_offsets"][0], end = entry["data_offsets"][1];
    tensors_[name] = {entry["dtype"], entry["shape"],
                      bytes.substr(8 + length + begin, end - begin)};
  }
}

std::vector<float> StoredFolder::row(const std::string& name, std::size_t r) const {
  const Tensor& t = tensors_.at(name);
  std::vector<float> out(t.shape.back());
  std::memcpy(out.data(), t.bytes.data() + r * out.size() * 4, out.size() * 4);
  return out;
}

void StoredFolder::erase(const std::string& name) {
  ASSERT_EQ(tensors_.erase(name), 1u) << name;
}

void StoredFolder::reshape(const std::string& name, std::vector<std::uint64_t> shape) {
  ASSERT_EQ(tensors_.count(name), 1u) << name;
  tensors_[name].shape = std::move(shape);
}

void StoredFolder::add(const std::string& name, const std::vector<std::uint64_t>& shape,
                       float value) {
  std::size_t n = 1;
  for (const std::uint64_t d : shape) n *= d;
  Tensor t{"F32", shape, std::string(n * 4, '\0')};
  for (std::size_t i = 0; i < n; ++i) std::memcpy(t.bytes.data() + i * 4, &value, 4);
  tensors_[name] = std::move(t);
}

void StoredFolder::rename(const std::string& from, const std::string& to) {
  std::map<std::string, Tensor> renamed;
  for (auto& [name, tensor] : tensors_) {
    const bool is = name.starts_with(from);
    renamed[is ? to + name.substr(from.size()) : name] = std::move(tensor);
  }
  tensors_ = std::move(renamed);
}

void StoredFolder::as_half(const std::string& dtype) {
  for (auto& [name, t] : tensors_) {
    if (t.dtype == dtype) continue;
    ASSERT_EQ(t.dtype, "F32") << name;
    std::string half(t.bytes.size() / 2, '\0');
    for (std::size_t i = 0; i < half.size() / 2; ++i) {
      float value = 0;
      std::memcpy(&value, t.bytes.data() + i * 4, 4);
      std::uint32_t bits = 0;
      std::memcpy(&bits, &value, 4);
      const auto brief =
          dtype == "BF16" ? static_cast<std::uint16_t>(bits >> 16) : gguf::float_to_half(value);
      std::memcpy(half.data() + i * 2, &brief, 2);
    }
    t.dtype = dtype;
    t.bytes = std::move(half);
  }
}

void StoredFolder::write() const {
  json header = json::object();
  std::string data;
  for (const auto& [name, t] : tensors_) {
    header[name] = {{"dtype", t.dtype},
                    {"shape", t.shape},
                    {"data_offsets", {data.size(), data.size() + t.bytes.size()}}};
    data += t.bytes;
  }
  temp_.write("f/model.safetensors", safetensors(header.dump(), data));
  temp_.write("f/config.json", config_->dump());
}

}  // namespace holdfast::huggingface_test
