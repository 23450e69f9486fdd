#include "shared/pull/hub_files.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include "shared/base/ascii.h"
#include "shared/gguf/part_name.h"

namespace holdfast::pull {
namespace {

/// The order in which a person without a wish is served.
constexpr std::array<std::string_view, 10> kUsual = {"q4_k_m", "q4_k_s", "q5_k_m", "q6_k", "q8_0",
                                                     "q4_0",   "iq4_nl", "bf16",   "f16",  "f32"};
/// Files beside the tensors that a folder is loaded with.
constexpr std::array<std::string_view, 13> kFolderFiles = {"config.json",
                                                           "generation_config.json",
                                                           "tokenizer.json",
                                                           "tokenizer.model",
                                                           "tokenizer_config.json",
                                                           "special_tokens_map.json",
                                                           "added_tokens.json",
                                                           "vocab.json",
                                                           "merges.txt",
                                                           "chat_template.jinja",
                                                           "model.safetensors.index.json",
                                                           "chat_template.json",
                                                           "hf_quant_config.json"};
constexpr std::size_t kNamesInError = 12;

/// A GGUF file's path, cut into what it says.
struct GgufName {
  std::string stem;  // in lower case, without folder, part and ending
  std::string folder;
  int part = 1, parts = 1;
};

std::optional<GgufName> gguf_name(const std::string& path) {
  const std::string text = lower_ascii(path);
  if (!text.ends_with(".gguf")) return std::nullopt;
  GgufName name;
  std::string whole = text.substr(0, text.size() - std::string_view(".gguf").size());
  if (const auto part = gguf::part_name(text)) {
    whole = part->stem;
    name.part = part->number;
    name.parts = part->count;
  }
  const std::size_t slash = whole.rfind('/');
  name.folder = slash == std::string::npos ? "" : whole.substr(0, slash);
  name.stem = whole.substr(slash == std::string::npos ? 0 : slash + 1);
  // Towers of pictures are no models of their own.
  if (name.stem.find("mmproj") != std::string::npos) return std::nullopt;
  return name;
}

/// True if the name is of this quantization: by its last word, or by its folder.
bool has_variant(const GgufName& name, const std::string& variant) {
  const std::size_t slash = name.folder.rfind('/');
  if (name.folder.substr(slash == std::string::npos ? 0 : slash + 1) == variant) return true;
  if (!name.stem.ends_with(variant)) return false;
  if (name.stem.size() == variant.size()) return true;
  const char before = name.stem[name.stem.size() - variant.size() - 1];
  return before == '-' || before == '.' || before == '_';
}

using Group = std::vector<std::pair<GgufName, HubFile>>;

/// The models of a repository: each a file, or all parts of one.
std::map<std::string, Group> groups_of(const std::vector<HubFile>& all) {
  std::map<std::string, Group> groups;
  for (const HubFile& file : all) {
    auto name = gguf_name(file.path);
    if (!name) continue;
    const std::string key = name->folder + "/" + name->stem;
    groups[key].emplace_back(std::move(*name), file);
  }
  return groups;
}

Result<HubChoice> whole_group(Group group) {
  std::ranges::sort(group, {}, [](const auto& entry) { return entry.first.part; });
  HubChoice choice;
  choice.model = group.front().second.path;
  const int parts = group.front().first.parts;
  for (int part = 1; part <= parts; ++part) {
    const std::size_t at = choice.files.size();
    if (at >= group.size() || group[at].first.part != part) {
      return Error{Errc::kFileInvalid, choice.model + ": part " + std::to_string(part) + " of " +
                                           std::to_string(parts) + " is not in the repository"};
    }
    choice.files.push_back(group[at].second);
  }
  return choice;
}

std::string names_of(const std::map<std::string, Group>& groups) {
  std::string names;
  std::size_t count = 0;
  for (const auto& [key, group] : groups) {
    if (++count > kNamesInError) return names + ", …";
    names += (names.empty() ? "" : ", ") + group.front().second.path;
  }
  return names;
}

Result<HubChoice> choose_gguf(const std::map<std::string, Group>& groups,
                              const std::string& variant) {
  const auto first_with = [&](const std::string& name) {
    return std::ranges::find_if(
        groups, [&](const auto& entry) { return has_variant(entry.second.front().first, name); });
  };
  if (!variant.empty()) {
    const auto found = first_with(variant);
    if (found != groups.end()) return whole_group(found->second);
    return Error{Errc::kNotFound,
                 "no file of the repository is \"" + variant + "\"; there is " + names_of(groups)};
  }
  if (groups.size() == 1) return whole_group(groups.begin()->second);
  for (const std::string_view usual : kUsual) {
    const auto found = first_with(std::string(usual));
    if (found != groups.end()) return whole_group(found->second);
  }
  return Error{
      Errc::kNotFound,
      "which one? Name a quantization or a file after a colon; there is " + names_of(groups)};
}

Result<HubChoice> choose_file(const std::vector<HubFile>& all, const std::string& path) {
  const auto groups = groups_of(all);
  for (const auto& [key, group] : groups) {
    for (const auto& [name, file] : group) {
      if (lower_ascii(file.path) == path) return whole_group(group);
    }
  }
  return Error{Errc::kNotFound,
               "the repository has no file \"" + path + "\"; there is " + names_of(groups)};
}

Result<HubChoice> choose_folder(const std::vector<HubFile>& all) {
  HubChoice choice;
  bool tensors = false, config = false;
  for (const HubFile& file : all) {
    const bool of_folder = std::ranges::find(kFolderFiles, file.path) != kFolderFiles.end();
    const bool tensor = file.path.ends_with(".safetensors") &&
                        file.path.find('/') == std::string::npos &&
                        !file.path.starts_with("consolidated");
    if (!of_folder && !tensor) continue;
    tensors = tensors || tensor;
    config = config || file.path == "config.json";
    choice.files.push_back(file);
  }
  if (tensors && config) return choice;
  return Error{Errc::kUnsupported,
               "the repository has no GGUF file and no folder of safetensors with config.json"};
}

}  // namespace

Result<HubChoice> choose_files(const std::vector<HubFile>& all, std::string_view variant) {
  const std::string name = lower_ascii(variant);
  if (name.ends_with(".gguf")) return choose_file(all, name);
  const auto groups = groups_of(all);
  if (!groups.empty()) return choose_gguf(groups, name);
  if (!name.empty()) {
    return Error{Errc::kNotFound, "the repository has no GGUF files, of which \"" + name +
                                      "\" would be one; leave it out for the folder"};
  }
  return choose_folder(all);
}

}  // namespace holdfast::pull
