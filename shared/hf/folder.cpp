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
#include "shared/gguf/quants.h"
#include "shared/hf/families.h"
#include "shared/hf/json_file.h"
#include "shared/hf/safetensors.h"
#include "shared/hf/tokenizer_json.h"

namespace holdfast::hf {
namespace {

using gguf::TensorInfo;
using gguf::TensorType;
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

 private:
  Result<void> add_tensor(const Family& family, const Sizes& sizes, Contents contents,
                          const std::string& name, const StoredTensor& stored);
  void add_factors(const char* name, const std::vector<float>& factors);
  ByteSpan own(std::vector<std::byte> bytes) {
    owned_.push_back(std::move(bytes));
    return owned_.back();
  }
  Result<void> finish();

  std::string path_;
  std::shared_ptr<const gguf::File> keys_;
  std::vector<std::shared_ptr<const Safetensors>> parts_;
  std::vector<std::vector<std::byte>> owned_;
  std::vector<TensorInfo> tensors_;
  std::unordered_map<std::string, std::size_t> index_;
  std::uint64_t file_bytes_ = 0;
};

TensorType type_of(std::string_view dtype) {
  if (dtype == "F32") return TensorType::kF32;
  return dtype == "F16" ? TensorType::kF16 : TensorType::kBF16;
}

/// Vectors as float32, with 1 added in the weights' own precision where that is
/// asked for.
std::vector<std::byte> to_f32(const StoredTensor& stored, std::uint64_t n, bool plus_one) {
  std::vector<float> values(n);
  const TensorType type = type_of(stored.dtype);
  CHECK(gguf::dequantize_row(type, stored.data.data(), values.data(), n).has_value());
  for (float& v : values) {
    if (!plus_one) break;
    v += 1;
    if (type == TensorType::kF16) v = gguf::half_to_float(gguf::float_to_half(v));
  }
  std::vector<std::byte> out(n * sizeof(float));
  if (n != 0) std::memcpy(out.data(), values.data(), out.size());
  return out;
}

}  // namespace

std::vector<std::byte> permute_rows(ByteSpan data, std::uint64_t rows, std::uint64_t heads,
                                    bool to_pairs) {
  const std::uint64_t row_bytes = data.size() / rows;
  const std::uint64_t head_rows = rows / heads;
  const std::uint64_t half = head_rows / 2;
  std::vector<std::byte> out(data.size());
  for (std::uint64_t r = 0; r < rows; ++r) {
    const std::uint64_t in_head = r % head_rows;
    const std::uint64_t pair = 2 * (in_head % half) + in_head / half;  // place among pairs
    const std::uint64_t other = r - in_head + pair;
    const std::uint64_t from = to_pairs ? r : other;
    const std::uint64_t to = to_pairs ? other : r;
    std::memcpy(out.data() + to * row_bytes, data.data() + from * row_bytes, row_bytes);
  }
  return out;
}

namespace {

Result<void> FolderFile::add_tensor(const Family& family, const Sizes& sizes, Contents contents,
                                    const std::string& name, const StoredTensor& stored) {
  if (name.ends_with("rotary_emb.inv_freq")) return {};  // what everybody computes
  const auto named = to_gguf(family, name);
  if (!named) {
    return Error{Errc::kUnsupported, "read model " + path_ + ": tensor " + gguf::quoted(name) +
                                         " is no part of a " + family.model_type +
                                         " model as we know it"};
  }
  if (named->name == "output.weight" && sizes.tied) return {};
  if (dtype_bytes(stored.dtype) == 0) {
    return Error{Errc::kUnsupported, "read model " + path_ + ": tensor " + gguf::quoted(name) +
                                         " is of type " + stored.dtype +
                                         ", expected F32, F16 or BF16"};
  }
  if (stored.shape.empty()) return invalid(path_, "tensor " + gguf::quoted(name) + " is a scalar");
  TensorInfo info;
  info.name = named->name;
  info.type = type_of(stored.dtype);
  info.n_dims = static_cast<std::uint32_t>(stored.shape.size());
  std::copy(stored.shape.rbegin(), stored.shape.rend(), info.dims);
  info.data = stored.data;
  const std::uint64_t rows = stored.shape.front();
  const bool plus_one = named->change == Change::kPlusOne;
  if (info.n_dims == 1 && (info.type != TensorType::kF32 || plus_one)) {
    info.data = own(to_f32(stored, rows, plus_one));
    info.type = TensorType::kF32;
  }
  const bool q = named->change == Change::kPermuteQ;
  if (q || named->change == Change::kPermuteK) {
    const auto heads = static_cast<std::uint64_t>(q ? sizes.heads : sizes.kv_heads);
    if (rows != heads * static_cast<std::uint64_t>(sizes.head_dim)) {
      return invalid(path_, "tensor " + gguf::quoted(name) + " has " + std::to_string(rows) +
                                " rows, expected " + std::to_string(heads) + " heads of " +
                                std::to_string(sizes.head_dim));
    }
    if ((contents == Contents::kAll || info.n_dims == 1) && !info.data.empty()) {
      info.data = own(permute_rows(info.data, rows, heads, true));
    }
  }
  tensors_.push_back(std::move(info));
  return {};
}

void FolderFile::add_factors(const char* name, const std::vector<float>& factors) {
  if (factors.empty()) return;
  std::vector<std::byte> bytes(factors.size() * sizeof(float));
  std::memcpy(bytes.data(), factors.data(), bytes.size());
  TensorInfo info;
  info.name = name;
  info.n_dims = 1;
  info.dims[0] = factors.size();
  info.data = own(std::move(bytes));
  tensors_.push_back(std::move(info));
}

Result<void> FolderFile::add_weights(const Family& family, const Sizes& sizes, Contents contents) {
  HF_TRY(const std::vector<std::string> files, weight_files(path_));
  for (const std::string& file : files) {
    HF_TRY(auto part, Safetensors::open(path_ + "/" + file));
    for (const auto& [name, stored] : part->tensors()) {
      HF_CHECKED(add_tensor(family, sizes, contents, name, stored));
    }
    file_bytes_ += part->file_bytes();
    parts_.push_back(std::move(part));
  }
  add_factors("rope_freqs.weight", sizes.rope_factors);
  add_factors("rope_factors_long.weight", sizes.long_factors);
  add_factors("rope_factors_short.weight", sizes.short_factors);
  return finish();
}

Result<void> FolderFile::finish() {
  // The order of layers, then of names: the same for any order of files.
  const auto rank = [](const TensorInfo& t) {
    const bool layer = t.name.starts_with("blk.");
    return std::pair(layer ? std::atoi(t.name.c_str() + 4) : -1, std::string_view(t.name));
  };
  std::sort(tensors_.begin(), tensors_.end(),
            [&](const TensorInfo& a, const TensorInfo& b) { return rank(a) < rank(b); });
  std::uint64_t offset = 0;
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    if (!index_.emplace(tensors_[i].name, i).second) {
      return invalid(path_, "tensor " + gguf::quoted(tensors_[i].name) + " is there twice");
    }
    tensors_[i].offset = offset;
    offset += (tensors_[i].data.size() + 31) / 32 * 32;
  }
  return {};
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
  HF_TRY(const Sizes sizes, config_to_keys(config, *family, last_part(path), writer));
  HF_CHECKED(tokenizer_to_keys(path, config, writer));
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

Result<std::vector<std::string>> files_of(const std::string& path) {
  if (!is_folder(path)) return std::vector<std::string>{path};
  std::vector<std::string> out;
  for (const char* name :
       {"config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json",
        "generation_config.json", "chat_template.jinja", kIndex}) {
    if (exists(path + "/" + name)) out.push_back(path + "/" + name);
  }
  HF_TRY(const std::vector<std::string> weights, weight_files(path));
  for (const std::string& name : weights) out.push_back(path + "/" + name);
  return out;
}

}  // namespace holdfast::hf
