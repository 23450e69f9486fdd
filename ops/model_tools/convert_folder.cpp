#include "ops/model_tools/convert_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "ops/model_tools/folder_items.h"
#include "shared/huggingface/export.h"
#include "shared/huggingface/families.h"
#include "shared/huggingface/folder.h"
#include "shared/huggingface/pooling.h"

namespace holdfast::cli {
namespace {

namespace fs = std::filesystem;
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
  HOLDFAST_CHECKED(file.open());
  HOLDFAST_CHECKED(file.write(std::as_bytes(std::span(text.data(), text.size()))));
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

/// A folder next to the target, removed unless commit() succeeds.
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
    HOLDFAST_CHECKED(sync_folder(path_));
    if (::rename(path_.c_str(), target_.c_str()) != 0) return io_error(target_, "rename");
    path_.clear();
    const std::string parent = fs::path(target_).parent_path().string();
    return sync_folder(parent.empty() ? "." : parent);
  }

 private:
  std::string target_;
  std::string path_;
};

const char* dtype_of(TensorType type) {
  if (type == TensorType::kF32) return "F32";
  return type == TensorType::kF16 ? "F16" : "BF16";
}

class FolderWriter {
 public:
  FolderWriter(const ConvertCall& call, const gguf::File& file, const huggingface::Family& family,
               const std::function<void(std::uint64_t, std::uint64_t)>& progress,
               const std::function<Result<void>()>& interrupted)
      : call_(call), file_(file), family_(family), progress_(progress), interrupted_(interrupted) {}

  Result<Converted> run() {
    HOLDFAST_TRY(json config, huggingface::keys_to_config(file_, family_));
    const char* const kv_name = family_.names.kv_heads;
    const std::uint64_t heads = config[family_.names.heads];
    const std::uint64_t kv_heads =
        kv_name != nullptr ? config[kv_name].get<std::uint64_t>() : heads;
    HOLDFAST_CHECKED(plan(heads, kv_heads));
    NewFolder folder(call_.out);
    HOLDFAST_CHECKED(folder.make());
    HOLDFAST_CHECKED(write_parts(folder.path()));
    config["torch_dtype"] = dtype_;
    HOLDFAST_CHECKED(write_text(folder.path() + "/config.json", config.dump(2) + "\n"));
    if (file_.has("tokenizer.ggml.model")) {
      HOLDFAST_TRY(const json tokenizer, huggingface::keys_to_tokenizer(file_));
      HOLDFAST_CHECKED(write_text(folder.path() + "/tokenizer.json", text_of(tokenizer)));
      HOLDFAST_CHECKED(write_text(folder.path() + "/tokenizer_config.json",
                                  text_of(huggingface::keys_to_tokenizer_config(file_))));
    }
    for (const huggingface::FolderFileText& file : huggingface::keys_to_pooling(file_)) {
      std::error_code ignored;  // a failure shows when the file is made
      fs::create_directories(fs::path(folder.path() + "/" + file.path).parent_path(), ignored);
      const std::string path = folder.path() + "/" + file.path;
      HOLDFAST_CHECKED(write_text(path, file.text));
      HOLDFAST_CHECKED(sync_folder(fs::path(path).parent_path().string()));
    }
    HOLDFAST_CHECKED(folder.commit());
    return std::move(out_);
  }

 private:
  static std::string text_of(const json& document) {
    return document.dump(1, ' ', false, json::error_handler_t::replace) + "\n";
  }

  /// Names and types of all tensors, in the file's order.
  Result<void> plan(std::uint64_t heads, std::uint64_t kv_heads) {
    HOLDFAST_TRY(FolderItems all, folder_items(file_, family_, heads, kv_heads));
    items_ = std::move(all.items);
    std::map<std::string, std::uint64_t> by_type;
    for (const FolderItem& item : items_) {
      if (item.shape.size() > 1) by_type[dtype_of(item.type)] += item.bytes();
      total_ += item.bytes();
    }
    const auto most = std::max_element(by_type.begin(), by_type.end(),
                                       [](auto& a, auto& b) { return a.second < b.second; });
    const std::string name = most == by_type.end() ? "F32" : most->first;
    dtype_ = name == "F32" ? "float32" : name == "F16" ? "float16" : "bfloat16";
    out_.to_folder = true;
    out_.tensors = items_.size();
    out_.bytes = total_;
    if (all.quantised > 0) {
      out_.warnings.push_back(std::to_string(all.quantised) +
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
             (last == first || bytes + items_[last].bytes() <= call_.part_bytes)) {
        bytes += items_[last++].bytes();
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
      HOLDFAST_CHECKED(write_part(folder + "/" + name, parts[i].first, parts[i].second));
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
      const FolderItem& item = items_[i];
      header[item.name] = {{"dtype", dtype_of(item.type)},
                           {"shape", item.shape},
                           {"data_offsets", {offset, offset + item.bytes()}}};
      offset += item.bytes();
    }
    std::string text = header.dump();
    text.resize((text.size() + 7) / 8 * 8, ' ');  // so that the data are aligned
    const std::uint64_t length = text.size();
    OutFile file(path);
    HOLDFAST_CHECKED(file.open());
    HOLDFAST_CHECKED(file.write(std::as_bytes(std::span(&length, 1))));
    HOLDFAST_CHECKED(file.write(std::as_bytes(std::span(text.data(), text.size()))));
    for (std::size_t i = first; i < last; ++i) {
      HOLDFAST_CHECKED(write_item(items_[i], [&](ByteSpan bytes) -> Result<void> {
        if (interrupted_) HOLDFAST_CHECKED(interrupted_());
        HOLDFAST_CHECKED(file.write(bytes));
        done_ += bytes.size();
        if (progress_) progress_(done_, total_);
        return {};
      }));
    }
    return file.commit();
  }

  const ConvertCall& call_;
  const gguf::File& file_;
  const huggingface::Family& family_;
  const std::function<void(std::uint64_t, std::uint64_t)>& progress_;
  const std::function<Result<void>()>& interrupted_;
  Converted out_;
  std::vector<FolderItem> items_;
  std::string dtype_;
  std::uint64_t total_ = 0;
  std::uint64_t done_ = 0;
};

}  // namespace

Result<Converted> write_folder(const ConvertCall& call, const gguf::File& file,
                               const std::function<void(std::uint64_t, std::uint64_t)>& progress,
                               const std::function<Result<void>()>& interrupted) {
  const huggingface::Family* family = huggingface::family_of_file(file);
  if (family == nullptr) {
    const std::string architecture(file.get_string("general.architecture").value_or(""));
    return Error{Errc::kUnsupported, "convert " + call.in + ": architecture \"" + architecture +
                                         "\" cannot be written as a folder, expected one of " +
                                         huggingface::family_names()};
  }
  if (family->states) {
    return Error{Errc::kUnsupported, "convert " + call.in + ": models of type " +
                                         family->model_type +
                                         " can be read from a folder, but are not written to one"};
  }
  return FolderWriter(call, file, *family, progress, interrupted).run();
}

}  // namespace holdfast::cli
