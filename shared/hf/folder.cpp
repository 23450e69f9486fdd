#include "shared/hf/folder.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>
#include <unordered_map>

#include "shared/gguf/parse.h"
#include "shared/hf/assemble.h"
#include "shared/hf/families.h"
#include "shared/hf/json_file.h"
#include "shared/hf/pooling.h"
#include "shared/hf/safetensors.h"
#include "shared/hf/tokenizer_json.h"

namespace holdfast::hf {
namespace {

using gguf::TensorInfo;
using nlohmann::json;

constexpr std::size_t kPartsMax = 1024;
constexpr const char* kIndex = "model.safetensors.index.json";
constexpr const char* kWhole = "model.safetensors";

bool exists(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode);
}

Error invalid(const std::string& path, const std::string& why) {
  return {Errc::kFileInvalid, "read model " + path + ": " + why};
}

/// Names of the files with weights, sorted.
Result<std::vector<std::string>> weight_files(const std::string& folder) {
  if (exists(folder + "/" + kWhole)) return std::vector<std::string>{kWhole};
  if (!exists(folder + "/" + kIndex)) {
    return invalid(folder, std::string("there is neither ") + kWhole + " nor " + kIndex +
                               "; expected a folder with safetensors weights");
  }
  HF_TRY(const std::string text, read_text(folder + "/" + kIndex, kTokenizerBytesMax));
  HF_TRY(const json index, parse_object(text, folder + "/" + kIndex));
  const auto map = index.find("weight_map");
  if (map == index.end() || !map->is_object() || map->empty()) {
    return invalid(folder + "/" + kIndex, "it has no \"weight_map\"");
  }
  std::set<std::string> names;
  for (const auto& [tensor, file] : map->items()) {
    const std::string name = file.is_string() ? file.get<std::string>() : "";
    if (name.empty() || name[0] == '.' || name.find('/') != std::string::npos ||
        !name.ends_with(".safetensors")) {
      return invalid(folder + "/" + kIndex, "tensor " + gguf::quoted(tensor) + " is in " +
                                                gguf::quoted(name) +
                                                ", expected a *.safetensors file of the folder");
    }
    names.insert(name);
    if (names.size() > kPartsMax) return invalid(folder + "/" + kIndex, "it has too many parts");
  }
  return std::vector<std::string>(names.begin(), names.end());
}

/// Metadata of a GGUF in memory, tensors from elsewhere.
class FolderFile final : public gguf::File {
 public:
  FolderFile(std::string path, std::shared_ptr<const gguf::File> keys)
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
  const std::vector<TensorInfo>& tensors() const override { return tensors_; }
  const TensorInfo* tensor(std::string_view name) const override {
    const auto found = index_.find(std::string(name));
    return found == index_.end() ? nullptr : &tensors_[found->second];
  }

  Result<void> add_weights(const Family& family, const Sizes& sizes, Contents contents);
  const std::vector<std::string>& notes() const { return assembled_.notes; }

 private:
  void finish();

  std::string path_;
  std::shared_ptr<const gguf::File> keys_;
  std::vector<std::shared_ptr<const Safetensors>> parts_;
  Assembled assembled_;
  std::vector<TensorInfo> tensors_;
  std::unordered_map<std::string, std::size_t> index_;
  std::uint64_t file_bytes_ = 0;
};

Result<void> FolderFile::add_weights(const Family& family, const Sizes& sizes, Contents contents) {
  HF_TRY(const std::vector<std::string> files, weight_files(path_));
  Assembler assembler(path_, family, sizes, contents);
  for (const std::string& file : files) {
    HF_TRY(auto part, Safetensors::open(path_ + "/" + file));
    for (const auto& [name, stored] : part->tensors()) {
      HF_CHECKED(assembler.take(name, stored));
    }
    file_bytes_ += part->file_bytes();
    parts_.push_back(std::move(part));
  }
  HF_TRY(assembled_, assembler.finish());
  tensors_ = std::move(assembled_.tensors);
  finish();
  return {};
}

void FolderFile::finish() {
  // The order of layers, then of names: the same for any order of files.
  const auto rank = [](const TensorInfo& t) {
    const bool layer = t.name.starts_with("blk.");
    return std::pair(layer ? std::atoi(t.name.c_str() + 4) : -1, std::string_view(t.name));
  };
  std::sort(tensors_.begin(), tensors_.end(),
            [&](const TensorInfo& a, const TensorInfo& b) { return rank(a) < rank(b); });
  std::uint64_t offset = 0;
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    index_.emplace(tensors_[i].name, i);
    tensors_[i].offset = offset;
    offset += (tensors_[i].data.size() + 31) / 32 * 32;
  }
}

std::string last_part(const std::string& path) {
  std::string trimmed = path;
  while (trimmed.size() > 1 && trimmed.back() == '/') trimmed.pop_back();
  const std::size_t slash = trimmed.rfind('/');
  return slash == std::string::npos ? trimmed : trimmed.substr(slash + 1);
}

Result<std::shared_ptr<const gguf::File>> open_folder(const std::string& path, Contents contents) {
  HF_TRY(const std::string text, read_text(path + "/config.json", kConfigBytesMax));
  HF_TRY(const json config, parse_object(text, path + "/config.json"));
  const auto type = config.find("model_type");
  const std::string model_type =
      type != config.end() && type->is_string() ? type->get<std::string>() : "";
  const Family* family = family_of_type(model_type);
  if (family == nullptr) {
    return Error{Errc::kUnsupported, "read model " + path + ": model_type " +
                                         gguf::quoted(model_type) +
                                         " is not supported, expected one of " + family_names()};
  }
  gguf::Writer writer;
  HF_TRY(const json full, full_config(config, *family));
  HF_TRY(const Sizes sizes, config_to_keys(full, *family, last_part(path), writer));
  json named = config;  // special tokens are named outside of a part for the text
  named["vocab_size"] = full.value("vocab_size", json());
  HF_CHECKED(tokenizer_to_keys(path, named, writer));
  HF_CHECKED(pooling_to_keys(path, family->architecture, writer));
  HF_TRY(std::string blob, writer.to_bytes());
  HF_TRY(auto keys, gguf::File::from_bytes(std::move(blob), path));
  auto file = std::make_shared<FolderFile>(path, std::move(keys));
  HF_CHECKED(file->add_weights(*family, sizes, contents));
  return std::shared_ptr<const gguf::File>(std::move(file));
}

}  // namespace

bool is_folder(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

Result<std::shared_ptr<const gguf::File>> open_model(const std::string& path, Contents contents) {
  return is_folder(path) ? open_folder(path, contents) : gguf::File::open(path);
}

std::vector<std::string> notes_of(const gguf::File& file) {
  const auto* folder = dynamic_cast<const FolderFile*>(&file);
  return folder == nullptr ? std::vector<std::string>() : folder->notes();
}

Result<std::vector<std::string>> files_of(const std::string& path) {
  if (!is_folder(path)) return std::vector<std::string>{path};
  std::vector<std::string> out;
  for (const char* name :
       {"config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json",
        "generation_config.json", "chat_template.jinja", kIndex}) {
    if (exists(path + "/" + name)) out.push_back(path + "/" + name);
  }
  const bool words = !exists(path + "/tokenizer.json") && exists(path + "/vocab.txt");
  if (words) out.push_back(path + "/vocab.txt");
  HF_TRY(const std::vector<std::string> pooling, pooling_files(path));
  for (const std::string& name : pooling) out.push_back(path + "/" + name);
  HF_TRY(const std::vector<std::string> weights, weight_files(path));
  for (const std::string& name : weights) out.push_back(path + "/" + name);
  return out;
}

}  // namespace holdfast::hf
