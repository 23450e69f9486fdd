#include "ops/model_tools/quantize.h"

#include <algorithm>
#include <mutex>

#include "ops/model_tools/quant_mix.h"
#include "shared/base/thread_pool.h"
#include "shared/gguf/made.h"
#include "shared/gguf/quantize.h"
#include "shared/gguf/quants.h"
#include "shared/gguf/writer.h"
#include "shared/huggingface/folder.h"

namespace holdfast::cli {
namespace {

using gguf::File;
using gguf::TensorInfo;
using gguf::TensorType;

constexpr std::uint64_t kChunkElements = 1u << 21;  // of rows that are worked on at once

std::string type_name(TensorType type) {
  return std::string(gguf::type_traits(type)->name);
}

std::vector<std::uint64_t> dims_of(const TensorInfo& tensor) {
  return {tensor.dims, tensor.dims + tensor.n_dims};
}

/// A number, or the first of one for each layer.
std::int64_t number(const File& file, const std::string& key, std::int64_t fallback) {
  if (const auto list = file.get_ints(key); list && !list->empty()) {
    return std::max<std::int64_t>(*std::max_element(list->begin(), list->end()), 1);
  }
  return file.get_i64(key).value_or(fallback);
}

MixModel model_of(const File& file) {
  const std::string arch(file.get_string("general.architecture").value_or(""));
  MixModel model;
  model.layers = std::max<std::int64_t>(number(file, arch + ".block_count", 1), 1);
  model.heads = std::max<std::int64_t>(number(file, arch + ".attention.head_count", 1), 1);
  const std::int64_t kv = number(file, arch + ".attention.head_count_kv", model.heads);
  model.kv_heads = std::clamp<std::int64_t>(kv, 1, model.heads);
  model.tied_embeddings = file.tensor("output.weight") == nullptr;
  model.experts = number(file, arch + ".expert_count", 0);
  return model;
}

/// Converts rows of one tensor from one type to another, on every thread of the pool.
class RowConverter {
 public:
  RowConverter(ThreadPool& pool, const TensorInfo& from, TensorType to)
      : pool_(pool), from_(from), to_(to), columns_(from.dims[0]) {
    rows_ = from.elements() / std::max<std::uint64_t>(columns_, 1);
    row_in_ = *gguf::row_bytes(from.type, columns_);
    row_out_ = *gguf::row_bytes(to, columns_);
  }

  Result<void> run(const gguf::Writer::Sink& sink,
                   const std::function<Result<void>()>& interrupted) {
    const std::uint64_t step =
        std::max<std::uint64_t>(kChunkElements / std::max<std::uint64_t>(columns_, 1), 1);
    std::vector<std::byte> out(std::min(step, rows_) * row_out_);
    for (std::uint64_t row = 0; row < rows_; row += step) {
      if (interrupted) HOLDFAST_CHECKED(interrupted());
      const std::uint64_t n = std::min(step, rows_ - row);
      HOLDFAST_CHECKED(convert(row, n, out.data()));
      HOLDFAST_CHECKED(sink(ByteSpan(out).first(n * row_out_)));
    }
    return {};
  }

 private:
  Result<void> convert(std::uint64_t first, std::uint64_t n, std::byte* out) {
    Result<void> result;
    std::mutex mutex;
    pool_.run([&](int worker) {
      const Share share = share_of(static_cast<std::int64_t>(n), worker, pool_.size());
      std::vector<float> row(columns_);
      for (auto r = static_cast<std::uint64_t>(share.first);
           r < static_cast<std::uint64_t>(share.last); ++r) {
        auto done = gguf::dequantize_row(from_.type, from_.data.data() + (first + r) * row_in_,
                                         row.data(), columns_);
        if (done) done = gguf::quantize_row(to_, row.data(), columns_, out + r * row_out_);
        if (done) continue;
        const std::lock_guard lock(mutex);
        if (result) {
          result =
              Error{done.error().code, "tensor " + from_.name + ", row " +
                                           std::to_string(first + r) + ": " + done.error().what};
        }
        return;
      }
    });
    return result;
  }

  ThreadPool& pool_;
  const TensorInfo& from_;
  TensorType to_;
  std::uint64_t columns_;
  std::uint64_t rows_ = 0;
  std::uint64_t row_in_ = 0;
  std::uint64_t row_out_ = 0;
};

/// Collects warnings: those of one kind become one line, with a count and the first tensor.
class Fallbacks {
 public:
  void add(const TensorInfo& tensor, TensorType preferred, TensorType type) {
    auto [at, added] = found_.try_emplace({preferred, type}, Entry{tensor.name, tensor.dims[0], 0});
    ++at->second.tensors;
  }
  std::vector<std::string> lines() const {
    std::vector<std::string> out;
    for (const auto& [types, entry] : found_) {
      out.push_back(std::to_string(entry.tensors) + " tensors are " + type_name(types.second) +
                    " instead of " + type_name(types.first) + ": rows of " +
                    std::to_string(entry.columns) + " do not divide into its blocks of " +
                    std::to_string(gguf::type_traits(types.first)->block_elements) + " (" +
                    entry.first + ")");
    }
    return out;
  }

 private:
  struct Entry {
    std::string first;
    std::uint64_t columns;
    std::uint64_t tensors;
  };
  std::map<std::pair<TensorType, TensorType>, Entry> found_;
};

bool is_float(TensorType type) {
  return gguf::type_traits(type)->block_elements == 1;
}

Result<void> check_source(const File& file) {
  const auto parts = file.get_u64("split.count");
  if (parts && *parts > 1) {
    return Error{Errc::kUsage, "quantize " + std::string(file.name()) + ": it is one of " +
                                   std::to_string(*parts) + " parts; merge them into one first"};
  }
  if (file.tensors().empty()) {
    return Error{Errc::kUsage, "quantize " + std::string(file.name()) +
                                   ": there are no tensors; this is a vocabulary only"};
  }
  return {};
}

void copy_keys(const File& file, const QuantMix& mix, gguf::Writer& writer) {
  for (const std::string& key : file.keys()) {
    if (key == "general.alignment") continue;  // the writer's own
    writer.copy_key(file, key);
  }
  writer.set_u32("general.file_type", mix.file_type);
  if (!is_float(mix.base)) writer.set_u32("general.quantization_version", 2);
}

std::string upper(std::string_view name) {
  std::string out(name);
  for (char& c : out) {
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  }
  return out;
}

}  // namespace

/// Gives the tensor in the type. The arguments outlive the writer's write().
static gguf::Writer::Producer producer(ThreadPool& pool, const TensorInfo& tensor, TensorType type,
                                       const std::function<Result<void>()>& interrupted) {
  return [&pool, &tensor, &interrupted, type](const gguf::Writer::Sink& sink) -> Result<void> {
    HOLDFAST_TRY(const gguf::Held held, gguf::Held::of(tensor));
    if (type == tensor.type) return sink(tensor.data);
    return RowConverter(pool, tensor, type).run(sink, interrupted);
  };
}

Result<Quantized> quantize_file(const QuantizeCall& call,
                                const std::function<void(std::uint64_t, std::uint64_t)>& progress,
                                const std::function<Result<void>()>& interrupted) {
  const auto mix = find_quant_mix(call.type);
  if (!mix) {
    return Error{Errc::kUsage, "quantize: type \"" + call.type + "\" is unknown, expected one of " +
                                   quant_mix_names()};
  }
  HOLDFAST_TRY(const auto file, huggingface::open_model(call.in));
  HOLDFAST_CHECKED(check_source(*file));
  const MixModel model = model_of(*file);
  ThreadPool pool(std::max(call.threads, 1));
  Quantized out;
  out.type = upper(mix->name);
  out.bytes_in = file->file_bytes();
  gguf::Writer writer;
  copy_keys(*file, *mix, writer);
  Fallbacks fallbacks;
  std::uint64_t requantized = 0;
  for (const TensorInfo& tensor : file->tensors()) {
    const std::vector<std::uint64_t> dims = dims_of(tensor);
    const bool unquantized = stays_unquantized(tensor.name, dims);
    const TensorType preferred = preferred_type(*mix, model, tensor.name, dims);
    const TensorType type = unquantized ? tensor.type : mixed_type(*mix, model, tensor.name, dims);
    if (!unquantized && type != preferred) fallbacks.add(tensor, preferred, type);
    if (!is_float(tensor.type) && type != tensor.type) ++requantized;
    out.tensors[type_name(type)] += 1;
    out.weights += tensor.elements();
    out.bytes_out += *gguf::row_bytes(type, tensor.elements());
    writer.add_tensor(tensor.name, type, dims, producer(pool, tensor, type, interrupted));
  }
  out.warnings = fallbacks.lines();
  if (requantized > 0) {
    out.warnings.push_back(std::to_string(requantized) +
                           " tensors of the source are quantised already: the errors add up; "
                           "start from F32, F16 or BF16 where you can");
  }
  HOLDFAST_CHECKED(writer.write(call.out, progress));
  return out;
}

}  // namespace holdfast::cli
