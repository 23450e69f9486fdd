#include "ops/cli/convert_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "shared/gguf/quants.h"
#include "shared/hf/export.h"
#include "shared/hf/families.h"
#include "shared/hf/folder.h"

namespace holdfast::cli {
namespace {

namespace fs = std::filesystem;
using gguf::TensorInfo;
using gguf::TensorType;
using nlohmann::json;

Error io_error(const std::string& path, const char* step) {
  const int error = errno;
  const bool full = error == ENOSPC || error == EDQUOT;
  return Error{full ? Errc::kDiskFull : Errc::kIo,
               "write model " + path + ": " + step + ": " + std::strerror(error)};
}

/// One file of the folder: written, synced, closed.
class OutFile {
 public:
  explicit OutFile(std::string path) : path_(std::move(path)) {}
  ~OutFile() {
    if (fd_ >= 0) ::close(fd_);
  }
  OutFile(const OutFile&) = delete;
  OutFile& operator=(const OutFile&) = delete;

  Result<void> open() {
    fd_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd_ < 0) return io_error(path_, "create");
    return {};
  }
  Result<void> write(ByteSpan bytes) {
    while (!bytes.empty()) {
      const ssize_t n = ::write(fd_, bytes.data(), bytes.size());
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return io_error(path_, "write");
      bytes = bytes.subspan(static_cast<std::size_t>(n));
    }
    return {};
  }
  Result<void> commit() {
    if (::fsync(fd_) != 0) return io_error(path_, "fsync");
    const int closed = ::close(fd_);
    fd_ = -1;
    if (closed != 0) return io_error(path_, "close");
    return {};
  }

 private:
  std::string path_;
  int fd_ = -1;
};

Result<void> write_text(const std::string& path, const std::string& text) {
  OutFile file(path);
  HF_CHECKED(file.open());
  HF_CHECKED(file.write(std::as_bytes(std::span(text.data(), text.size()))));
  return file.commit();
}

Result<void> sync_folder(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return io_error(path, "open");
  const int synced = ::fsync(fd);
  const Error error = synced == 0 ? Error{} : io_error(path, "fsync");
  ::close(fd);
  if (synced != 0) return error;
  return {};
}

/// A folder beside the target that vanishes unless commit() succeeds.
class NewFolder {
 public:
  explicit NewFolder(std::string target) : target_(std::move(target)) {
    while (target_.size() > 1 && target_.back() == '/') target_.pop_back();
  }
  ~NewFolder() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
  }
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;

  Result<void> make() {
    std::error_code ignored;
    if (fs::exists(target_, ignored)) {
      return Error{Errc::kConflict,
                   "write model " + target_ + ": it is there already; name a folder that is not"};
    }
    std::string name = target_ + ".tmp-XXXXXX";
    if (::mkdtemp(name.data()) == nullptr) return io_error(target_, "create a folder beside it");
    path_ = name;
    const mode_t mask = ::umask(0);
    ::umask(mask);
    if (::chmod(path_.c_str(), 0777 & ~mask) != 0) return io_error(path_, "set its mode");
    return {};
  }
  const std::string& path() const { return path_; }
  Result<void> commit() {
    HF_CHECKED(sync_folder(path_));
    if (::rename(path_.c_str(), target_.c_str()) != 0) return io_error(target_, "rename");
    path_.clear();
    const std::string parent = fs::path(target_).parent_path().string();
    return sync_folder(parent.empty() ? "." : parent);
  }

 private:
  std::string target_;
  std::string path_;
};

/// One tensor on its way into a *.safetensors file.
struct Item {
  const TensorInfo* tensor;
  std::string name;
  hf::Change change;
  TensorType type;  // as written: F32, F16 or BF16
  std::uint64_t bytes;
};

const char* dtype_of(TensorType type) {
  if (type == TensorType::kF32) return "F32";
  return type == TensorType::kF16 ? "F16" : "BF16";
}

class FolderWriter {
 public:
  FolderWriter(const ConvertCall& call, const gguf::File& file, const hf::Family& family,
               const std::function<void(std::uint64_t, std::uint64_t)>& progress,
               const std::function<Result<void>()>& interrupted)
      : call_(call), file_(file), family_(family), progress_(progress), interrupted_(interrupted) {}

  Result<Converted> run() {
    HF_TRY(json config, hf::keys_to_config(file_, family_));
    heads_ = config["num_attention_heads"].get<std::uint64_t>();
    kv_heads_ = config["num_key_value_heads"].get<std::uint64_t>();
    HF_CHECKED(plan());
    NewFolder folder(call_.out);
    HF_CHECKED(folder.make());
    HF_CHECKED(write_parts(folder.path()));
    config["torch_dtype"] = dtype_;
    HF_CHECKED(write_text(folder.path() + "/config.json", config.dump(2) + "\n"));
    if (file_.has("tokenizer.ggml.model")) {
      HF_TRY(const json tokenizer, hf::keys_to_tokenizer(file_));
      HF_CHECKED(write_text(folder.path() + "/tokenizer.json", text_of(tokenizer)));
      HF_CHECKED(write_text(folder.path() + "/tokenizer_config.json",
                            text_of(hf::keys_to_tokenizer_config(file_))));
    }
    HF_CHECKED(folder.commit());
    return std::move(out_);
  }

 private:
  static std::string text_of(const json& document) {
    return document.dump(1, ' ', false, json::error_handler_t::replace) + "\n";
  }

  /// Names and types of all tensors, in the file's order.
  Result<void> plan() {
    std::uint64_t quantised = 0;
    std::map<std::string, std::uint64_t> by_type;
    for (const TensorInfo& tensor : file_.tensors()) {
      if (tensor.name.starts_with("rope_f")) continue;  // their numbers are in config.json
      const auto named = hf::to_hf(family_, tensor.name);
      if (!named) {
        return Error{Errc::kUnsupported, "convert " + std::string(file_.name()) + ": tensor " +
                                             tensor.name + " has no name in a " +
                                             family_.model_type + " folder"};
      }
      TensorType type = tensor.type;
      if (named->change == hf::Change::kPlusOne) type = TensorType::kF32;
      if (gguf::type_traits(type)->block_elements > 1) {
        type = TensorType::kF32;
        ++quantised;
      }
      const auto bytes = *gguf::row_bytes(type, tensor.elements());
      items_.push_back({&tensor, named->name, named->change, type, bytes});
      if (tensor.n_dims > 1) by_type[dtype_of(type)] += bytes;
      total_ += bytes;
    }
    const auto most = std::max_element(by_type.begin(), by_type.end(),
                                       [](auto& a, auto& b) { return a.second < b.second; });
    const std::string name = most == by_type.end() ? "F32" : most->first;
    dtype_ = name == "F32" ? "float32" : name == "F16" ? "float16" : "bfloat16";
    out_.to_folder = true;
    out_.tensors = items_.size();
    out_.bytes = total_;
    if (quantised > 0) {
      out_.warnings.push_back(std::to_string(quantised) +
                              " quantised tensors are written as F32: what quantising took does "
                              "not come back");
    }
    return {};
  }

  Result<void> write_parts(const std::string& folder) {
    std::vector<std::pair<std::size_t, std::size_t>> parts;
    for (std::size_t first = 0; first < items_.size();) {
      std::size_t last = first;
      std::uint64_t bytes = 0;
      while (last < items_.size() &&
             (last == first || bytes + items_[last].bytes <= call_.part_bytes)) {
        bytes += items_[last++].bytes;
      }
      parts.emplace_back(first, last);
      first = last;
    }
    json map = json::object();
    for (std::size_t i = 0; i < parts.size(); ++i) {
      char name[64] = "model.safetensors";
      if (parts.size() > 1) {
        std::snprintf(name, sizeof name, "model-%05zu-of-%05zu.safetensors", i + 1, parts.size());
      }
      HF_CHECKED(write_part(folder + "/" + name, parts[i].first, parts[i].second));
      for (std::size_t t = parts[i].first; t < parts[i].second; ++t) map[items_[t].name] = name;
    }
    if (parts.size() < 2) return {};
    const json index = {{"metadata", {{"total_size", total_}}}, {"weight_map", map}};
    return write_text(folder + "/model.safetensors.index.json", text_of(index));
  }

  Result<void> write_part(const std::string& path, std::size_t first, std::size_t last) {
    json header = json::object();
    header["__metadata__"] = {{"format", "pt"}};
    std::uint64_t offset = 0;
    for (std::size_t i = first; i < last; ++i) {
      const TensorInfo& t = *items_[i].tensor;
      json shape = json::array();
      for (std::uint32_t d = t.n_dims; d-- > 0;) shape.push_back(t.dims[d]);
      header[items_[i].name] = {{"dtype", dtype_of(items_[i].type)},
                                {"shape", shape},
                                {"data_offsets", {offset, offset + items_[i].bytes}}};
      offset += items_[i].bytes;
    }
    std::string text = header.dump();
    text.resize((text.size() + 7) / 8 * 8, ' ');  // so that the data are aligned
    const std::uint64_t length = text.size();
    OutFile file(path);
    HF_CHECKED(file.open());
    HF_CHECKED(file.write(std::as_bytes(std::span(&length, 1))));
    HF_CHECKED(file.write(std::as_bytes(std::span(text.data(), text.size()))));
    for (std::size_t i = first; i < last; ++i) HF_CHECKED(write_tensor(items_[i], file));
    return file.commit();
  }

  Result<void> write_tensor(const Item& item, OutFile& file) {
    if (interrupted_) HF_CHECKED(interrupted_());
    const TensorInfo& t = *item.tensor;
    std::vector<float> floats;
    ByteSpan bytes = t.data;
    if (item.type != t.type) {
      floats.resize(t.elements());
      HF_CHECKED(gguf::dequantize_row(t.type, t.data.data(), floats.data(), floats.size()));
      bytes = std::as_bytes(std::span(floats));
    }
    std::vector<std::byte> ordered;
    if (item.change == hf::Change::kPlusOne) {
      if (floats.empty()) floats.resize(t.elements());
      HF_CHECKED(gguf::dequantize_row(t.type, t.data.data(), floats.data(), floats.size()));
      for (float& v : floats) v -= 1;
      bytes = std::as_bytes(std::span(floats));
    } else if (item.change != hf::Change::kNone) {
      const std::uint64_t heads = item.change == hf::Change::kPermuteQ ? heads_ : kv_heads_;
      ordered = hf::permute_rows(bytes, t.dims[t.n_dims - 1], heads, /*to_pairs=*/false);
      bytes = ordered;
    }
    HF_CHECKED(file.write(bytes));
    done_ += item.bytes;
    if (progress_) progress_(done_, total_);
    return {};
  }

  const ConvertCall& call_;
  const gguf::File& file_;
  const hf::Family& family_;
  const std::function<void(std::uint64_t, std::uint64_t)>& progress_;
  const std::function<Result<void>()>& interrupted_;
  Converted out_;
  std::vector<Item> items_;
  std::string dtype_;
  std::uint64_t heads_ = 1;
  std::uint64_t kv_heads_ = 1;
  std::uint64_t total_ = 0;
  std::uint64_t done_ = 0;
};

}  // namespace

Result<Converted> write_folder(const ConvertCall& call, const gguf::File& file,
                               const std::function<void(std::uint64_t, std::uint64_t)>& progress,
                               const std::function<Result<void>()>& interrupted) {
  const std::string architecture(file.get_string("general.architecture").value_or(""));
  const hf::Family* family = hf::family_of_architecture(architecture);
  if (family == nullptr) {
    return Error{Errc::kUnsupported, "convert " + call.in + ": architecture \"" + architecture +
                                         "\" cannot be written as a folder, expected one of " +
                                         hf::family_names()};
  }
  return FolderWriter(call, file, *family, progress, interrupted).run();
}

}  // namespace holdfast::cli
