#include "ops/model_tools/inspect.h"

#include <cstdarg>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>

#include "shared/base/json_text.h"
#include "shared/gguf/gguf.h"
#include "shared/huggingface/folder.h"
#include "shared/plan/expected.h"
#include "shared/plan/plan.h"
#include "shared/text/tokenizer.h"

namespace holdfast::cli {
namespace {

using gguf::File;
using gguf::TensorInfo;
using gguf::ValueType;
using nlohmann::json;

constexpr const char* kKvTypes[] = {"f32", "f16", "int8", "fp8"};
constexpr std::size_t kFirstElements = 8;

struct TypeTotal {
  std::uint64_t tensors = 0;
  std::uint64_t bytes = 0;
};

std::map<std::string, TypeTotal> totals_by_type(const File& file) {
  std::map<std::string, TypeTotal> out;
  for (const TensorInfo& tensor : file.tensors()) {
    TypeTotal& total = out[std::string(gguf::type_traits(tensor.type)->name)];
    total.tensors += 1;
    total.bytes += tensor.data.size();
  }
  return out;
}

json first_of(const auto& list, std::size_t count) {
  json first = json::array();
  for (std::size_t i = 0; i < count; ++i) first.push_back(list[i]);
  return first;
}

json first_elements(const File& file, const std::string& key, std::size_t count) {
  if (const auto texts = file.get_strings(key)) return first_of(*texts, count);
  if (const auto floats = file.get_floats(key)) return first_of(*floats, count);
  if (const auto ints = file.get_ints(key)) return first_of(*ints, count);
  return json::array();
}

/// A value as JSON; of an array its type, count and first elements: vocabularies would drown the
/// rest.
json value_json(const File& file, const std::string& key) {
  if (const auto element = file.array_type(key)) {
    const std::uint64_t size = file.array_size(key);
    const std::size_t count = std::min<std::uint64_t>(size, kFirstElements);
    return {{"array_of", gguf::value_type_name(*element)},
            {"count", size},
            {"first", first_elements(file, key, count)}};
  }
  const ValueType type = *file.value_type(key);
  if (type == ValueType::kString) return std::string(*file.get_string(key));
  if (type == ValueType::kBool) return *file.get_bool(key);
  if (type == ValueType::kF32 || type == ValueType::kF64) return *file.get_f64(key);
  if (const auto u = file.get_u64(key)) return *u;
  return *file.get_i64(key);
}

json memory_json(const plan::ModelShape& shape, std::int64_t context, std::int32_t streams) {
  json out = json::object();
  for (const char* kv_type : kKvTypes) {
    plan::LoadRequest load_request;
    load_request.context = context;
    load_request.slots = streams;
    load_request.kv_type = kv_type;
    const plan::Envelope e = plan::memory_envelope(shape, load_request);
    out["context"] = e.context;
    out["streams"] = e.slots;
    out["pages"] = e.pages;
    out["weights_bytes"] = e.weights;
    out["kv"][kv_type] = {{"kv_bytes", e.kv},
                          {"scratch_bytes", e.scratch},
                          {"tables_bytes", e.tables},
                          {"load_bytes", e.load},
                          {"total_bytes", e.total()}};
  }
  return out;
}

std::string format(const char* pattern, ...) __attribute__((format(printf, 1, 2)));
std::string format(const char* pattern, ...) {
  char buffer[512];
  va_list arguments;
  va_start(arguments, pattern);
  std::vsnprintf(buffer, sizeof buffer, pattern, arguments);
  va_end(arguments);
  return buffer;
}

std::string human_bytes(std::uint64_t bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1024 && unit + 1 < std::size(kUnits)) {
    value /= 1024;
    ++unit;
  }
  return format(unit == 0 ? "%.0f %s" : "%.2f %s", value, kUnits[unit]);
}

std::string human_count(std::uint64_t n) {
  if (n >= 1'000'000'000) return format("%.2f B", static_cast<double>(n) / 1e9);
  if (n >= 1'000'000) return format("%.1f M", static_cast<double>(n) / 1e6);
  return std::to_string(n);
}

std::string value_text(const File& file, const std::string& key) {
  if (const auto element = file.array_type(key)) {
    return std::to_string(file.array_size(key)) + " x " + gguf::value_type_name(*element);
  }
  if (const auto text = file.get_string(key)) return plan::printable(*text);
  const json value = value_json(file, key);
  return value.dump();
}

/// Lines about parts that only some models have: windowed layers, shared KV, layer inputs, experts.
std::string kinds_text(const plan::ModelShape& s) {
  std::string out;
  if (s.window_head_dim > 0) {
    out +=
        format("  windowed layers: heads %lld (kv %lld) of %lld; %lld of the %lld with a KV\n",
               static_cast<long long>(s.heads), static_cast<long long>(s.window_kv_heads),
               static_cast<long long>(s.window_head_dim), static_cast<long long>(s.window_layers),
               static_cast<long long>(plan::attention_layers(s)));
  }
  if (s.sharing_layers > 0) {
    out += format("  layers that read the KV of others %lld\n",
                  static_cast<long long>(s.sharing_layers));
  }
  if (s.layer_input > 0) {
    out += format("  inputs of each layer %lld\n", static_cast<long long>(s.layer_input));
  }
  if (s.experts > 0) {
    out += format("  experts %lld, of which a token takes %lld\n",
                  static_cast<long long>(s.experts), static_cast<long long>(s.experts_used));
  }
  return out;
}

std::string model_text(const plan::ModelShape& s) {
  std::string out = "\nmodel " + plan::printable(s.name) + ", architecture " + s.architecture +
                    ", " + human_count(s.parameters) + " parameters, mostly " + s.file_type + "\n";
  out += format("  layers %lld, width %lld, ff %lld, heads %lld (kv %lld) of %lld, vocabulary %lld",
                static_cast<long long>(s.layers), static_cast<long long>(s.width),
                static_cast<long long>(s.ff), static_cast<long long>(s.heads),
                static_cast<long long>(s.kv_heads), static_cast<long long>(s.head_dim),
                static_cast<long long>(s.vocab));
  out += format(", context %lld\n", static_cast<long long>(s.context));
  if (s.attention_step > 0) {
    const std::int64_t recurrent = s.layers - plan::attention_layers(s);
    const auto bytes = static_cast<std::uint64_t>(recurrent * plan::state_floats(s)) * 4;
    out += format("  layers that carry a state %lld, in %s for each sequence\n",
                  static_cast<long long>(recurrent), human_bytes(bytes).c_str());
  }
  out += kinds_text(s);
  out += std::string("  embeddings ") + (s.tied_embeddings ? "tied" : "not tied") + ", tokenizer " +
         (s.has_tokenizer ? "yes" : "no") + ", chat template " +
         (s.has_chat_template ? "yes" : "no") + "\n";
  return out;
}

std::string memory_text(const plan::ModelShape& shape, std::int64_t context, std::int32_t streams) {
  std::string out;
  for (const char* kv_type : kKvTypes) {
    plan::LoadRequest load_request;
    load_request.context = context;
    load_request.slots = streams;
    load_request.kv_type = kv_type;
    const plan::Envelope e = plan::memory_envelope(shape, load_request);
    if (out.empty()) {
      out = format("\nmemory for %d streams of %lld tokens (%d pages of %lld)\n", e.slots,
                   static_cast<long long>(e.context), e.pages,
                   static_cast<long long>(plan::kPageTokens));
      out += format("  %-6s %12s %12s %12s %12s %12s\n", "KV", "weights", "KV", "scratch", "tables",
                    "total");
    }
    out += format("  %-6s %12s %12s %12s %12s %12s\n", kv_type, human_bytes(e.weights).c_str(),
                  human_bytes(e.kv).c_str(), human_bytes(e.scratch).c_str(),
                  human_bytes(e.tables).c_str(), human_bytes(e.total()).c_str());
  }
  if (shape.load_bytes > 0) {
    out += "  the total has " + human_bytes(shape.load_bytes) +
           " that only the load takes, to make matrices\n";
  }
  return out;
}

std::string tensors_text(const File& file) {
  std::string out = format("\n%zu tensors\n", file.tensors().size());
  for (const auto& [name, total] : totals_by_type(file)) {
    out += format("  %-8s %6llu tensors %12s\n", name.c_str(),
                  static_cast<unsigned long long>(total.tensors), human_bytes(total.bytes).c_str());
  }
  out += format("\n  %-36s %-8s %-18s %12s\n", "tensor", "type", "shape", "bytes");
  for (const TensorInfo& tensor : file.tensors()) {
    std::string name = plan::printable(tensor.name);
    name = name.substr(1, name.size() - 2);
    out += format("  %-36s %-8s %-18s %12llu\n", name.c_str(),
                  std::string(gguf::type_traits(tensor.type)->name).c_str(),
                  plan::dims_text(tensor).c_str(),
                  static_cast<unsigned long long>(tensor.data.size()));
  }
  return out;
}

/// A note: why the tokenizer cannot be used, or what a user should know about it; else empty.
std::string tokenizer_note(const File& file) {
  if (!file.has("tokenizer.ggml.model")) return "";
  const auto tokenizer = text::Tokenizer::load(file);
  return tokenizer ? std::string((*tokenizer)->warning()) : tokenizer.error().what;
}

}  // namespace

Result<std::string> inspect_json(const std::string& path, std::int64_t context,
                                 std::int32_t streams) {
  HOLDFAST_TRY(const auto file, huggingface::open_model(path, huggingface::Contents::kShapes));
  json out = {{"file", path},
              {"bytes", file->file_bytes()},
              {"version", file->version()},
              {"alignment", file->alignment()},
              {"metadata", json::object()},
              {"types", json::object()},
              {"tensors", json::array()}};
  for (const std::string& key : file->keys()) out["metadata"][key] = value_json(*file, key);
  for (const auto& [name, total] : totals_by_type(*file)) {
    out["types"][name] = {{"tensors", total.tensors}, {"bytes", total.bytes}};
  }
  for (const TensorInfo& tensor : file->tensors()) {
    json dims = json::array();
    for (std::uint32_t d = 0; d < tensor.n_dims; ++d) dims.push_back(tensor.dims[d]);
    out["tensors"].push_back({{"name", tensor.name},
                              {"type", std::string(gguf::type_traits(tensor.type)->name)},
                              {"shape", dims},
                              {"offset", tensor.offset},
                              {"bytes", tensor.data.size()}});
  }
  if (const std::string form = huggingface::format_of(*file); !form.empty()) out["format"] = form;
  if (const auto notes = plan::notes_of(*file); !notes.empty()) out["notes"] = notes;
  const std::string note = tokenizer_note(*file);
  if (!note.empty()) out["tokenizer_warning"] = note;
  const auto shape = plan::read_shape(*file);
  if (shape) {
    out["model"] = try_parse_json<json>(plan::shape_to_json(*shape));
    out["memory"] = memory_json(*shape, context, streams);
  } else {
    out["model_error"] = {{"code", std::string(errc_name(shape.error().code))},
                          {"message", shape.error().what}};
  }
  return out.dump(-1, ' ', false, json::error_handler_t::replace);
}

Result<std::string> inspect_text(const std::string& path, std::int64_t context,
                                 std::int32_t streams) {
  HOLDFAST_TRY(const auto file, huggingface::open_model(path, huggingface::Contents::kShapes));
  const std::string form = huggingface::format_of(*file);
  std::string out =
      plan::printable(path) +
      (huggingface::is_folder(path) ? ": folder" + (form.empty() ? "" : " of " + form)
                                    : ": GGUF version " + std::to_string(file->version())) +
      ", " + human_bytes(file->file_bytes()) + "\n";
  const auto shape = plan::read_shape(*file);
  if (shape) {
    out += model_text(*shape) + memory_text(*shape, context, streams);
  } else {
    out += "\nnot a model that can be served: " + shape.error().what + "\n";
  }
  for (const std::string& left : plan::notes_of(*file)) out += "\nnote: " + left + "\n";
  const std::string note = tokenizer_note(*file);
  if (!note.empty()) out += "\nwarning: " + note + "\n";
  out += format("\n%zu keys\n", file->keys().size());
  for (const std::string& key : file->keys()) {
    std::string name = plan::printable(key);
    name = name.substr(1, name.size() - 2);
    out += "  " + name + " = " + value_text(*file, key) + "\n";
  }
  return out + tensors_text(*file);
}

}  // namespace holdfast::cli
