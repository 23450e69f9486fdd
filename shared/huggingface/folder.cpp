#include "shared/huggingface/folder.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "shared/gguf/parse.h"
#include "shared/gguf/part_name.h"
#include "shared/huggingface/assemble.h"
#include "shared/huggingface/families.h"
#include "shared/huggingface/json_file.h"
#include "shared/huggingface/keys_of.h"
#include "shared/huggingface/pooling.h"
#include "shared/huggingface/quantised.h"
#include "shared/huggingface/safetensors.h"
#include "shared/huggingface/split_file.h"
#include "shared/huggingface/tokenizer_json.h"

namespace holdfast::huggingface {
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

/// Returns true for the name of a weights' file beside the index.
bool is_part_name(const std::string& name) {
  return name.ends_with(".safetensors") && name[0] != '.' && name.find('/') == std::string::npos;
}

/// Returns the names of the files with weights, sorted.
Result<std::vector<std::string>> weight_files(const std::string& folder) {
  if (exists(folder + "/" + kWhole)) return std::vector<std::string>{kWhole};
  if (!exists(folder + "/" + kIndex)) {
    return invalid(folder, std::string("there is neither ") + kWhole + " nor " + kIndex +
                               "; expected a folder with safetensors weights");
  }
  HOLDFAST_TRY(const std::string text, read_text(folder + "/" + kIndex, kTokenizerBytesMax));
  HOLDFAST_TRY(const json index, parse_object(text, folder + "/" + kIndex));
  const auto map = index.find("weight_map");
  if (map == index.end() || !map->is_object() || map->empty()) {
    return invalid(folder + "/" + kIndex, "it has no \"weight_map\"");
  }
  std::set<std::string> names;
  for (const auto& [tensor, file] : map->items()) {
    const std::string name = file.is_string() ? file.get<std::string>() : "";
    if (!is_part_name(name)) {
      return invalid(folder + "/" + kIndex, "tensor " + gguf::quoted(tensor) + " is in " +
                                                gguf::quoted(name) +
                                                ", expected a *.safetensors file of the folder");
    }
    names.insert(name);
    if (names.size() > kPartsMax) return invalid(folder + "/" + kIndex, "it has too many parts");
  }
  return std::vector<std::string>(names.begin(), names.end());
}

class FolderFile final : public KeysOf {
 public:
  using KeysOf::KeysOf;

  /// Takes the tensors of all files; `reader` is that of quantised layers, or nullptr.
  Result<void> add_weights(const Family& family, const Sizes& sizes, Contents contents,
                           const QuantisedReader* reader);
  const std::vector<std::string>& notes() const { return assembled_.notes; }
  const std::string& format() const { return format_; }

 private:
  Result<void> add_layers(const QuantisedReader& reader, const QuantisedLayers& layers,
                          Assembler& assembler);

  std::string format_;
  std::vector<std::shared_ptr<const Safetensors>> parts_;
  Assembled assembled_;
};

Result<void> FolderFile::add_weights(const Family& family, const Sizes& sizes, Contents contents,
                                     const QuantisedReader* reader) {
  HOLDFAST_TRY(const std::vector<std::string> files, weight_files(path()));
  Assembler assembler(path(), family, sizes, contents);
  std::optional<QuantisedLayers> layers;
  if (reader != nullptr) layers.emplace(*reader, path());
  for (const std::string& file : files) {
    HOLDFAST_TRY(auto part, Safetensors::open(path() + "/" + file));
    for (const auto& [name, stored] : part->tensors()) {
      if (layers) {
        HOLDFAST_TRY(const bool taken, layers->take(name, stored));
        if (taken) continue;
      }
      HOLDFAST_CHECKED(assembler.take(name, stored));
    }
    file_bytes_ += part->file_bytes();
    parts_.push_back(std::move(part));
  }
  if (layers) HOLDFAST_CHECKED(add_layers(*reader, *layers, assembler));
  HOLDFAST_TRY(assembled_, assembler.finish());
  // The order of layers, then of names: independent of the order of files.
  std::vector<TensorInfo> tensors = std::move(assembled_.tensors);
  const auto rank = [](const TensorInfo& t) {
    const bool layer = t.name.starts_with("blk.");
    return std::pair(layer ? std::atoi(t.name.c_str() + 4) : -1, std::string_view(t.name));
  };
  std::sort(tensors.begin(), tensors.end(),
            [&](const TensorInfo& a, const TensorInfo& b) { return rank(a) < rank(b); });
  CHECK(set_tensors(std::move(tensors)));  // the assembler has refused duplicates
  return {};
}

bool are_zeros(const StoredTensor& stored) {
  return std::all_of(stored.data.begin(), stored.data.end(),
                     [](std::byte b) { return b == std::byte{0}; });
}

/// Gives the assembler the biases. Some quantisers give one of zeros to each layer that they
/// quantise, which changes nothing: it is left out where the family has none.
Result<void> take_biases(const QuantisedLayers& layers, Assembler& assembler) {
  for (const auto& [layer, bias] : layers.biases()) {
    const std::string name = layer + ".bias";
    const bool added = layers.layers().contains(layer) && !assembler.has(name) && are_zeros(bias);
    if (!added) HOLDFAST_CHECKED(assembler.take(name, bias));
  }
  return {};
}

/// Gives the assembler the matrices of quantised layers, and the plain tensors among them.
Result<void> FolderFile::add_layers(const QuantisedReader& reader, const QuantisedLayers& layers,
                                    Assembler& assembler) {
  std::set<std::string_view> types;
  for (const auto& [layer, tensors] : layers.layers()) {
    const std::string name = layer + ".weight";
    if (assembler.leaves_out(name)) continue;
    HOLDFAST_TRY(auto matrix, reader.matrix(tensors));
    if (matrix == nullptr) {
      HOLDFAST_CHECKED(assembler.take(name, *tensors.find("weight")));
      continue;
    }
    const MatrixForm& form = matrix->form();
    StoredTensor stored;
    stored.dtype = gguf::type_traits(form.type)->name;
    stored.shape = {form.rows, form.columns};
    stored.data = ByteSpan(static_cast<const std::byte*>(nullptr), form.rows * matrix->row_bytes());
    stored.coded = std::move(matrix);
    types.insert(gguf::type_traits(form.type)->name);
    HOLDFAST_CHECKED(assembler.take(name, stored));
  }
  HOLDFAST_CHECKED(take_biases(layers, assembler));
  format_ = reader.format();
  if (types.empty()) {
    return invalid(path(), "quantization_config says " + format_ +
                               ", but no layer's tensors are stored so; remove it if the weights "
                               "are plain");
  }
  std::string held;
  for (const std::string_view type : types) held += (held.empty() ? "" : ", ") + std::string(type);
  assembler.add_note("weights are " + format_ + ", held as " + held);
  if (layers.unused() > 0) {
    assembler.leave_out("scales of activations and KV, which are computed as floats here",
                        layers.unused());
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
  HOLDFAST_TRY(const std::string text, read_text(path + "/config.json", kConfigBytesMax));
  HOLDFAST_TRY(const json config, parse_object(text, path + "/config.json"));
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
  HOLDFAST_TRY(const json full, full_config(config, *family));
  HOLDFAST_TRY(const auto reader, quantised_reader(full, *family, path));
  HOLDFAST_TRY(const Sizes sizes, config_to_keys(full, *family, last_part(path), writer));
  json named = config;  // special tokens are named outside of the text part
  named["vocab_size"] = full.value("vocab_size", json());
  HOLDFAST_CHECKED(tokenizer_to_keys(path, named, writer));
  HOLDFAST_CHECKED(pooling_to_keys(path, family->architecture, writer));
  HOLDFAST_TRY(std::string blob, writer.to_bytes());
  HOLDFAST_TRY(auto keys, gguf::File::from_bytes(std::move(blob), path));
  auto file = std::make_shared<FolderFile>(path, std::move(keys));
  HOLDFAST_CHECKED(file->add_weights(*family, sizes, contents, reader.get()));
  return std::shared_ptr<const gguf::File>(std::move(file));
}

}  // namespace

bool is_folder(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

Result<std::shared_ptr<const gguf::File>> open_model(const std::string& path, Contents contents) {
  if (is_folder(path)) return open_folder(path, contents);
  HOLDFAST_TRY(auto file, gguf::File::open(path));
  if (file->get_u64("split.count").value_or(0) <= 1) return file;
  return open_parts(path, std::move(file));
}

std::vector<std::string> notes_of(const gguf::File& file) {
  const auto* folder = dynamic_cast<const FolderFile*>(&file);
  return folder == nullptr ? std::vector<std::string>() : folder->notes();
}

std::string format_of(const gguf::File& file) {
  const auto* folder = dynamic_cast<const FolderFile*>(&file);
  return folder == nullptr ? "" : folder->format();
}

namespace {

/// Returns a GGUF file and its further parts.
std::vector<std::string> parts_of(const std::string& path) {
  const auto name = gguf::part_name(path);
  const int parts = name && name->number == 1 ? name->count : 1;
  std::vector<std::string> out{path};
  for (int n = 2; n <= parts; ++n) out.push_back(name->of(n));
  return out;
}

}  // namespace

Result<std::vector<std::string>> files_of(const std::string& path) {
  std::vector<std::string> out;
  if (!is_folder(path)) return parts_of(path);
  for (const char* name :
       {"config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json",
        "generation_config.json", "chat_template.jinja", kModelOptFile, kIndex}) {
    if (exists(path + "/" + name)) out.push_back(path + "/" + name);
  }
  const bool words = !exists(path + "/tokenizer.json") && exists(path + "/vocab.txt");
  if (words) out.push_back(path + "/vocab.txt");
  HOLDFAST_TRY(const std::vector<std::string> pooling, pooling_files(path));
  for (const std::string& name : pooling) out.push_back(path + "/" + name);
  HOLDFAST_TRY(const std::vector<std::string> weights, weight_files(path));
  for (const std::string& name : weights) out.push_back(path + "/" + name);
  return out;
}

}  // namespace holdfast::huggingface
