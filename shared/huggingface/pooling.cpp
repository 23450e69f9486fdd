#include "shared/huggingface/pooling.h"

#include <sys/stat.h>

#include <nlohmann/json.hpp>

#include "shared/gguf/parse.h"
#include "shared/huggingface/json_file.h"

namespace holdfast::huggingface {
namespace {

using nlohmann::json;

constexpr std::uint32_t kNone = 0, kMean = 1, kCls = 2, kLast = 3;  // of GGUF's pooling_type

/// The supported kinds of pooling by the switches of Pooling's config.
constexpr std::pair<const char*, std::uint32_t> kModes[] = {{"pooling_mode_mean_tokens", kMean},
                                                            {"pooling_mode_cls_token", kCls},
                                                            {"pooling_mode_lasttoken", kLast}};

constexpr std::pair<const char*, std::uint32_t> kNames[] = {
    {"mean", kMean}, {"cls", kCls}, {"lasttoken", kLast}};

Error invalid(const std::string& path, const std::string& what) {
  return {Errc::kFileInvalid, "read " + path + ": " + what};
}
Error unsupported(const std::string& path, const std::string& what) {
  return {Errc::kUnsupported, "read " + path + ": " + what};
}

std::string text_of(const json& in, const char* name) {
  const auto at = in.find(name);
  return at != in.end() && at->is_string() ? at->get<std::string>() : "";
}

struct Modules {
  bool any = false;
  std::string pooling;  // the folder of the Pooling module, "" if there is none
};

bool is_folder_name(const std::string& name) {
  return !name.empty() && name[0] != '.' && name.find('/') == std::string::npos;
}

Result<void> read_module(const std::string& path, const json& module, Modules& out) {
  if (!module.is_object()) return invalid(path, "an entry is no object");
  const std::string type = text_of(module, "type");
  const std::string last = type.substr(type.rfind('.') + 1);
  const std::string module_folder = text_of(module, "path");
  if (last == "Normalize") return {};
  if (last == "Transformer") {
    if (!module_folder.empty()) {
      return unsupported(path, "the model is in " + gguf::quoted(module_folder) +
                                   ", expected it beside modules.json");
    }
    out.any = true;
    return {};
  }
  if (last != "Pooling" || !out.pooling.empty()) {
    return unsupported(path, "module " + gguf::quoted(type) +
                                 " is not supported, expected Transformer, Pooling, Normalize");
  }
  if (!is_folder_name(module_folder)) {
    return invalid(path,
                   "Pooling is in " + gguf::quoted(module_folder) + ", expected a folder's name");
  }
  out.pooling = module_folder;
  return {};
}

Result<Modules> read_modules(const std::string& folder) {
  const std::string path = folder + "/modules.json";
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return Modules{};
  HOLDFAST_TRY(const std::string text, read_text(path, kConfigBytesMax));
  HOLDFAST_TRY(const json list, parse_array(text, path));
  Modules out;
  for (const json& module : list) HOLDFAST_CHECKED(read_module(path, module, out));
  if (!out.any) return invalid(path, "there is no Transformer module");
  return out;
}

/// Reads "pooling_mode" of newer versions, which names one mode or several.
Result<std::uint32_t> named_mode(const std::string& path, const json& named) {
  for (const auto& [name, mode] : kNames) {
    if (named == name) return mode;
  }
  return unsupported(path, "pooling_mode " + gguf::quoted(named.dump()) +
                               " is not supported, expected mean, cls or lasttoken");
}

/// Returns the mode that a switch stands for; kNone if there is none.
std::uint32_t mode_of_switch(const std::string& name) {
  for (const auto& [mode_name, mode] : kModes) {
    if (name == mode_name) return mode;
  }
  return kNone;
}

Result<std::uint32_t> read_mode(const std::string& path) {
  HOLDFAST_TRY(const std::string text, read_text(path, kConfigBytesMax));
  HOLDFAST_TRY(const json config, parse_object(text, path));
  const auto named = config.find("pooling_mode");
  if (named != config.end()) return named_mode(path, *named);
  std::uint32_t found = kNone;
  for (const auto& [name, on] : config.items()) {
    if (!name.starts_with("pooling_mode_") || on != true) continue;
    const std::uint32_t mode = mode_of_switch(name);
    if (mode == kNone || found != kNone) {
      return unsupported(
          path, gguf::quoted(name) + " is not supported, expected one of mean, cls and last token");
    }
    found = mode;
  }
  if (found == kNone) return invalid(path, "it names no way of pooling");
  return found;
}

}  // namespace

Result<std::vector<std::string>> pooling_files(const std::string& folder) {
  HOLDFAST_TRY(const Modules modules, read_modules(folder));
  std::vector<std::string> out;
  if (modules.any) out.emplace_back("modules.json");
  if (!modules.pooling.empty()) out.push_back(modules.pooling + "/config.json");
  return out;
}

Result<void> pooling_to_keys(const std::string& folder, const std::string& architecture,
                             gguf::Writer& writer) {
  HOLDFAST_TRY(const Modules modules, read_modules(folder));
  if (!modules.any) return {};
  std::uint32_t mode = kNone;
  if (!modules.pooling.empty()) {
    HOLDFAST_TRY(mode, read_mode(folder + "/" + modules.pooling + "/config.json"));
  }
  writer.set_u32(architecture + ".pooling_type", mode);
  return {};
}

std::vector<FolderFileText> keys_to_pooling(const gguf::File& file) {
  const std::string architecture(file.get_string("general.architecture").value_or(""));
  const auto type = file.get_u64(architecture + ".pooling_type");
  if (!type || *type > kLast) return {};
  const auto module = [](int idx, const char* path, const std::string& kind) {
    return json{{"idx", idx},
                {"name", std::to_string(idx)},
                {"path", path},
                {"type", "sentence_transformers.models." + kind}};
  };
  json modules = json::array({module(0, "", "Transformer")});
  std::vector<FolderFileText> out;
  if (*type != kNone) {
    modules.push_back(module(1, "1_Pooling", "Pooling"));
    modules.push_back(module(2, "2_Normalize", "Normalize"));
    json config = {
        {"word_embedding_dimension", file.get_u64(architecture + ".embedding_length").value_or(0)},
        {"include_prompt", true}};
    for (const char* other : {"pooling_mode_max_tokens", "pooling_mode_mean_sqrt_len_tokens",
                              "pooling_mode_weightedmean_tokens"}) {
      config[other] = false;
    }
    for (const auto& [name, mode] : kModes) config[name] = mode == *type;
    out.push_back({"1_Pooling/config.json", config.dump(2) + "\n"});
  }
  out.push_back({"modules.json", modules.dump(2) + "\n"});
  return out;
}

}  // namespace holdfast::huggingface
