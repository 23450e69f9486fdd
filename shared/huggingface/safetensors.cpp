#include "shared/huggingface/safetensors.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "shared/base/open_files.h"
#include "shared/gguf/lookalike.h"
#include "shared/gguf/parse.h"
#include "shared/gguf/read_guard.h"
#include "shared/huggingface/json_file.h"

namespace holdfast::huggingface {
namespace {

using nlohmann::json;

constexpr std::size_t kDimsMax = 4;

/// Returns the size of any dtype, also of tensors that are skipped: their sizes are checked too.
std::uint64_t any_dtype_bytes(std::string_view dtype) {
  static constexpr std::pair<std::string_view, std::uint64_t> kTypes[] = {
      {"F32", 4}, {"F16", 2},     {"BF16", 2},    {"F64", 8},    {"I64", 8}, {"I32", 4},
      {"I16", 2}, {"I8", 1},      {"U8", 1},      {"BOOL", 1},   {"U16", 2}, {"U32", 4},
      {"U64", 8}, {"F8_E4M3", 1}, {"F8_E5M2", 1}, {"F8_E8M0", 1}};
  for (const auto& [name, bytes] : kTypes) {
    if (name == dtype) return bytes;
  }
  return 0;
}

/// Reads a shape. Returns an empty string on success, else what is wrong. `bytes`: of an element,
/// becomes those of all; nullopt for more than 2^64.
std::string read_shape(const json& shape, StoredTensor& out, std::optional<std::uint64_t>& bytes) {
  if (shape.size() > kDimsMax) return "has " + std::to_string(shape.size()) + " dimensions";
  for (const json& dim : shape) {
    if (!dim.is_number_unsigned()) return "has a dimension that is no whole number";
    out.shape.push_back(dim.get<std::uint64_t>());
    if (bytes) bytes = checked_mul(*bytes, out.shape.back());
  }
  return "";
}

bool is_pair_of_numbers(const json& in) {
  return in.is_array() && in.size() == 2 && in[0].is_number_unsigned() &&
         in[1].is_number_unsigned();
}

/// Finds the data of a tensor that has `bytes`. Returns an empty string on success, else what is
/// wrong.
std::string read_data(const json& offsets, const std::optional<std::uint64_t>& bytes, ByteSpan data,
                      StoredTensor& out) {
  const auto begin = offsets[0].get<std::uint64_t>();
  const auto end = offsets[1].get<std::uint64_t>();
  if (begin > end || end > data.size()) {
    return "lies at bytes " + std::to_string(begin) + " to " + std::to_string(end) +
           ", expected within the " + std::to_string(data.size()) + " bytes of data";
  }
  if (!bytes || *bytes != end - begin) {
    return "has " + std::to_string(end - begin) + " bytes, expected " +
           (bytes ? std::to_string(*bytes) : std::string("a number below 2^64")) +
           " for its shape and dtype";
  }
  out.data = data.subspan(begin, end - begin);
  return "";
}

/// Reads an entry of the header. Returns an empty string on success, else what is wrong.
std::string read_entry(const json& entry, ByteSpan data, StoredTensor& out) {
  if (!entry.is_object()) return "is no object";
  const auto dtype = entry.find("dtype");
  const auto shape = entry.find("shape");
  const auto offsets = entry.find("data_offsets");
  if (dtype == entry.end() || !dtype->is_string()) return "has no dtype";
  if (shape == entry.end() || !shape->is_array()) return "has no shape";
  out.dtype = dtype->get<std::string>();
  std::optional<std::uint64_t> bytes = any_dtype_bytes(out.dtype);
  if (*bytes == 0) return "has the unknown dtype " + gguf::quoted(out.dtype);
  if (std::string wrong = read_shape(*shape, out, bytes); !wrong.empty()) return wrong;
  if (offsets == entry.end() || !is_pair_of_numbers(*offsets)) {
    return "has no data_offsets of two numbers";
  }
  return read_data(*offsets, bytes, data, out);
}

Result<void> check_overlap(const std::map<std::string, StoredTensor>& tensors,
                           const std::string& path) {
  std::vector<const std::pair<const std::string, StoredTensor>*> order;
  for (const auto& entry : tensors) {
    if (!entry.second.data.empty()) order.push_back(&entry);
  }
  std::sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
    return a->second.data.data() < b->second.data.data();
  });
  for (std::size_t i = 1; i < order.size(); ++i) {
    const ByteSpan before = order[i - 1]->second.data;
    if (before.data() + before.size() <= order[i]->second.data.data()) continue;
    return Error{Errc::kFileInvalid, "read " + path + ": tensor " + gguf::quoted(order[i]->first) +
                                         " overlaps " + gguf::quoted(order[i - 1]->first)};
  }
  return {};
}

}  // namespace

std::uint64_t dtype_bytes(std::string_view dtype) {
  if (dtype == "F32") return 4;
  return dtype == "F16" || dtype == "BF16" ? 2 : 0;
}

Result<std::shared_ptr<const Safetensors>> Safetensors::open(const std::string& path) {
  const auto failed = [&](const std::string& why) {
    return Error{Errc::kIo, "open " + path + ": " + why};
  };
  const int fd = open_to_read(path);
  if (fd < 0) return failed(std::strerror(errno));
  struct stat info {};
  const bool usable = ::fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && info.st_size > 0;
  const auto size = static_cast<std::size_t>(usable ? info.st_size : 0);
  void* map = usable ? ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0) : MAP_FAILED;
  const int error = errno;
  ::close(fd);
  if (!usable) return failed("empty or not a regular file");
  if (map == MAP_FAILED) return failed(std::string("mmap: ") + std::strerror(error));
  std::shared_ptr<Safetensors> file(
      new Safetensors(ByteSpan(static_cast<const std::byte*>(map), size)));
  gguf::guard_mapping(map, size);
  HOLDFAST_CHECKED(file->parse(path));
  return std::shared_ptr<const Safetensors>(std::move(file));
}

Safetensors::~Safetensors() {
  gguf::forget_mapping(bytes_.data());
  ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

Result<void> Safetensors::parse(const std::string& path) {
  const auto failed = [&](const std::string& why) {
    return Error{Errc::kFileInvalid, "read " + path + ": " + why};
  };
  const std::string_view other = gguf::lookalike(bytes_);
  ByteReader reader(bytes_);
  const auto length = reader.read<std::uint64_t>();
  if (!length) return failed("it has fewer than 8 bytes; this is no safetensors file");
  if (*length > kHeaderBytesMax || *length > reader.remaining()) {
    // The message does not have the number: in another kind of file it is its first eight bytes.
    return failed(
        "its first eight bytes are no header's length of at most " +
        std::to_string(std::min<std::uint64_t>(kHeaderBytesMax, reader.remaining())) + "; " +
        std::string(other.empty() ? "the file is cut short or no safetensors file" : other));
  }
  const ByteSpan text = *reader.read_bytes(*length);
  HOLDFAST_TRY(const json header,
               parse_object({reinterpret_cast<const char*>(text.data()), text.size()}, path));
  if (header.size() > kTensorsMax) return failed("it has too many tensors");
  const ByteSpan data = bytes_.subspan(reader.offset());
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") continue;
    StoredTensor tensor;
    const std::string wrong = read_entry(entry, data, tensor);
    if (!wrong.empty()) return failed("tensor " + gguf::quoted(name) + " " + wrong);
    tensors_.emplace(name, std::move(tensor));
  }
  return check_overlap(tensors_, path);
}

}  // namespace holdfast::huggingface
