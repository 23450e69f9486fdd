#include "ops/model_tools/convert.h"

#include "ops/model_tools/convert_folder.h"
#include "shared/gguf/made.h"
#include "shared/gguf/quants.h"
#include "shared/gguf/writer.h"
#include "shared/huggingface/folder.h"

namespace holdfast::cli {
namespace {

constexpr std::uint64_t kChunkBytes = 8u << 20;

/// The general.file_type of the type that most matrices have.
std::uint32_t file_type_of(const gguf::File& file) {
  std::uint64_t bytes[3] = {};
  for (const gguf::TensorInfo& tensor : file.tensors()) {
    if (tensor.n_dims < 2) continue;
    const int kind = tensor.type == gguf::TensorType::kF32   ? 0
                     : tensor.type == gguf::TensorType::kF16 ? 1
                                                             : 2;
    bytes[kind] += tensor.data.size();
  }
  constexpr std::uint32_t kF32 = 0, kF16 = 1, kBf16 = 32;
  if (bytes[2] >= bytes[1] && bytes[2] >= bytes[0]) return kBf16;
  return bytes[1] >= bytes[0] ? kF16 : kF32;
}

Result<Converted> to_file(const ConvertCall& call, const gguf::File& file,
                          const std::function<void(std::uint64_t, std::uint64_t)>& progress,
                          const std::function<Result<void>()>& interrupted) {
  Converted out;
  gguf::Writer writer;
  for (const std::string& key : file.keys()) writer.copy_key(file, key);
  writer.set_u32("general.file_type", file_type_of(file));
  for (const gguf::TensorInfo& tensor : file.tensors()) {
    out.tensors += 1;
    out.bytes += tensor.data.size();
    writer.add_tensor(tensor.name, tensor.type, {tensor.dims, tensor.dims + tensor.n_dims},
                      [&](const gguf::Writer::Sink& sink) -> Result<void> {
                        HOLDFAST_TRY(const gguf::Held held, gguf::Held::of(tensor));
                        for (std::uint64_t at = 0; at < tensor.data.size(); at += kChunkBytes) {
                          if (interrupted) HOLDFAST_CHECKED(interrupted());
                          const auto n = std::min(kChunkBytes, tensor.data.size() - at);
                          HOLDFAST_CHECKED(sink(tensor.data.subspan(at, n)));
                        }
                        return {};
                      });
  }
  for (std::string& note : huggingface::notes_of(file)) out.warnings.push_back(std::move(note));
  if (!file.has("tokenizer.ggml.model")) {
    out.warnings.emplace_back("the folder has no tokenizer.json: the file has no tokenizer");
  }
  if (file.get_string("tokenizer.ggml.pre") == "patterns") {
    out.warnings.emplace_back(
        "the tokenizer's patterns have no name in GGUF: other programs will not read the file");
  }
  HOLDFAST_CHECKED(writer.write(call.out, progress));
  return out;
}

}  // namespace

Result<Converted> convert_model(const ConvertCall& call,
                                const std::function<void(std::uint64_t, std::uint64_t)>& progress,
                                const std::function<Result<void>()>& interrupted) {
  HOLDFAST_TRY(const auto file, huggingface::open_model(call.in));
  if (huggingface::is_folder(call.in)) return to_file(call, *file, progress, interrupted);
  return write_folder(call, *file, progress, interrupted);
}

}  // namespace holdfast::cli
