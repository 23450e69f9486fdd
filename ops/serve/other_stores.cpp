#include "ops/serve/other_stores.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>

#include "shared/base/environment.h"
#include "shared/base/json_text.h"
#include "shared/pull/hub_files.h"
#include "shared/pull/source.h"

namespace holdfast::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::string_view kHub = "hf:", kOllama = "ollama:", kLmStudio = "lmstudio:";
constexpr std::size_t kManifestBytesMax = 4 << 20;
constexpr std::string_view kRegistry = "registry.ollama.ai";
constexpr std::string_view kLibrary = "library/";

/// A folder below the home folder; empty without one.
std::string in_home(const char* below) {
  const std::string home = environment("HOME");
  return home.empty() ? std::string() : home + below;
}

std::vector<std::string> existing(const std::vector<std::string>& folders) {
  std::vector<std::string> there;
  std::error_code failed;
  for (const std::string& folder : folders) {
    if (!folder.empty() && fs::is_directory(folder, failed)) there.push_back(folder);
  }
  return there;
}

std::vector<std::string> hub_folders() {
  if (const std::string cache = environment("HF_HUB_CACHE"); !cache.empty())
    return existing({cache});
  if (const std::string home = environment("HF_HOME"); !home.empty())
    return existing({home + "/hub"});
  return existing({in_home("/.cache/huggingface/hub")});
}

std::vector<std::string> ollama_folders() {
  if (const std::string set = environment("OLLAMA_MODELS"); !set.empty()) return existing({set});
  return existing(
      {in_home("/.ollama/models"), "/usr/share/ollama/.ollama/models", "/var/lib/ollama/models"});
}

std::vector<std::string> lmstudio_folders() {
  return existing({in_home("/.lmstudio/models"), in_home("/.cache/lm-studio/models")});
}

/// The names in a folder, in their order; none if it cannot be read.
std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code failed;
  for (const auto& entry : fs::directory_iterator(folder, failed)) {
    names.push_back(entry.path().filename().string());
  }
  std::ranges::sort(names);
  return names;
}

std::int64_t bytes_of(const fs::path& path) {
  std::error_code failed;
  const auto bytes = fs::file_size(path, failed);
  return failed ? 0 : static_cast<std::int64_t>(bytes);
}

/// The model in a folder of a repository's files: one of its GGUF files, or the folder itself.
Result<StoredModel> model_in(const fs::path& folder, std::string_view variant) {
  std::vector<pull::HubFile> files;
  for (const std::string& name : names_in(folder)) {
    if (!fs::is_directory(folder / name)) files.push_back({name, bytes_of(folder / name), "", ""});
  }
  HOLDFAST_TRY(const pull::HubChoice choice, pull::choose_files(files, variant));
  StoredModel model;
  model.path = (choice.model.empty() ? folder : folder / choice.model).string();
  for (const pull::HubFile& file : choice.files) model.bytes += file.bytes;
  return model;
}

std::string first_word(const fs::path& path) {
  std::ifstream file(path);
  std::string word;
  file >> word;
  return word;
}

Error nowhere(std::string_view text, const std::vector<std::string>& folders) {
  std::string where;
  for (const std::string& folder : folders) where += (where.empty() ? "" : ", ") + folder;
  if (where.empty()) where = "a folder of that program, and there is none";
  return {Errc::kNotFound, std::string(text) + ": not in " + where +
                               "; `holdfast models found` lists what other programs have"};
}

/// "models--ORG--REPO" of the cache as "ORG/REPO"; nullopt for other folders.
std::optional<std::string> repository_of(const std::string& folder) {
  constexpr std::string_view kMark = "models--";
  if (!folder.starts_with(kMark)) return std::nullopt;
  std::string name = folder.substr(kMark.size());
  const std::size_t at = name.find("--");
  if (at == std::string::npos) return std::nullopt;
  return name.replace(at, 2, "/");
}

Result<StoredModel> find_hub(std::string_view text) {
  HOLDFAST_TRY(const pull::Source source, pull::parse_source(text));
  std::string name = source.repository;
  name.replace(name.find('/'), 1, "--");
  for (const std::string& cache : hub_folders()) {
    const fs::path folder = fs::path(cache) / ("models--" + name);
    std::string revision = first_word(folder / "refs" / source.reference);
    if (revision.empty()) revision = source.reference;
    if (!pull::is_plain_path(revision)) continue;
    std::error_code failed;
    const fs::path snapshot = folder / "snapshots" / revision;
    if (fs::is_directory(snapshot, failed)) return model_in(snapshot, source.variant);
  }
  return nowhere(text, hub_folders());
}

/// Reads a file of at most so many bytes; it may grow meanwhile.
std::optional<std::string> read_bounded(const fs::path& path, std::size_t bytes_max) {
  std::error_code failed;
  if (!fs::is_regular_file(path, failed)) return std::nullopt;
  std::ifstream file(path, std::ios::binary);
  std::string text(bytes_max + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(std::max<std::streamsize>(file.gcount(), 0)));
  if (text.size() > bytes_max) return std::nullopt;
  return text;
}

/// The layers of a manifest: an array, empty if it is none.
Result<json> layers_of(const fs::path& path) {
  const auto text = read_bounded(path, kManifestBytesMax);
  if (!text) return Error{Errc::kFileInvalid, path.string() + ": no manifest"};
  const auto manifest = try_parse_json<json>(*text, kBodyLimits);
  json layers = manifest.is_object() ? manifest.value("layers", json()) : json();
  return layers.is_array() ? std::move(layers) : json::array();
}

/// The file of a layer; nullopt for a digest that is none.
std::optional<fs::path> blob_of(const fs::path& store, const json& layer) {
  const json digest = layer.value("digest", json());
  constexpr std::string_view kHash = "sha256:";
  if (!digest.is_string()) return std::nullopt;
  const auto& text = digest.get_ref<const std::string&>();
  const std::string blob = "sha256-" + text.substr(std::min(kHash.size(), text.size()));
  if (!text.starts_with(kHash) || !pull::is_plain_path(blob)) return std::nullopt;
  return store / "blobs" / blob;
}

/// Returns what the manifest's other layers give. The store is another program's: what is odd is
/// left out.
Result<profile::TakenOver> profile_of_manifest(const fs::path& store, const fs::path& path) {
  HOLDFAST_TRY(const json layers, layers_of(path));
  std::vector<profile::Layer> read;
  std::vector<std::string> left;
  for (const json& layer : layers) {
    if (!layer.is_object() || !layer.value("mediaType", json()).is_string()) continue;
    const auto part = profile::layer_part(layer["mediaType"].get_ref<const std::string&>());
    if (!part) continue;
    const auto blob = blob_of(store, layer);
    auto bytes = blob ? read_bounded(*blob, profile::kLayerBytesMax) : std::nullopt;
    if (bytes && read.size() < profile::kLayersMax) {
      read.push_back({std::string(*part), std::move(*bytes)});
    } else {
      left.push_back(std::string(*part) + ": it cannot be read, or is too large");
    }
  }
  profile::TakenOver taken = profile::take_over(read);
  taken.left_out.insert(taken.left_out.end(), left.begin(), left.end());
  return taken;
}

/// The one GGUF blob that a manifest names.
Result<StoredModel> model_of_manifest(const fs::path& store, const fs::path& path) {
  HOLDFAST_TRY(const json layers, layers_of(path));
  std::vector<std::string> digests;
  for (const json& layer : layers) {
    if (!layer.is_object() ||
        layer.value("mediaType", json()) != "application/vnd.ollama.image.model")
      continue;
    if (layer.value("digest", json()).is_string()) digests.push_back(layer["digest"]);
  }
  if (digests.size() != 1 || !digests.front().starts_with("sha256:")) {
    return Error{Errc::kUnsupported, path.string() + ": " + std::to_string(digests.size()) +
                                         " layers of weights, expected one GGUF file"};
  }
  const std::string blob = "sha256-" + digests.front().substr(7);
  if (!pull::is_plain_path(blob)) return Error{Errc::kFileInvalid, path.string() + ": odd digest"};
  StoredModel model;
  model.path = (store / "blobs" / blob).string();
  model.bytes = bytes_of(model.path);
  return model;
}

/// Finds the manifest of a model, and hands it to `read` with its store.
template <class T>
Result<T> in_manifest(std::string_view text,
                      Result<T> (*read)(const fs::path& store, const fs::path& manifest)) {
  const std::string whole = "ollama://" + std::string(text.substr(kOllama.size()));
  HOLDFAST_TRY(const pull::Source source, pull::parse_source(whole));
  const std::string host = source.base.substr(source.base.find("//") + 2);
  for (const std::string& store : ollama_folders()) {
    const fs::path path =
        fs::path(store) / "manifests" / host / source.repository / source.reference;
    std::error_code failed;
    if (fs::is_regular_file(path, failed)) return read(store, path);
  }
  return nowhere(text, ollama_folders());
}

Result<StoredModel> find_ollama(std::string_view text) {
  return in_manifest<StoredModel>(text, model_of_manifest);
}

Result<StoredModel> find_lmstudio(std::string_view text) {
  std::string_view name = text.substr(kLmStudio.size());
  const std::size_t colon = name.find(':');
  const std::string_view variant = colon == std::string_view::npos ? "" : name.substr(colon + 1);
  name = name.substr(0, colon);
  if (!pull::is_plain_path(name)) {
    return Error{Errc::kUsage, std::string(text) + ": expected lmstudio:PUBLISHER/MODEL[:QUANT]"};
  }
  for (const std::string& folder : lmstudio_folders()) {
    std::error_code failed;
    const fs::path path = fs::path(folder) / name;
    if (fs::is_directory(path, failed)) return model_in(path, variant);
  }
  return nowhere(text, lmstudio_folders());
}

Result<StoredModel> find(std::string_view text) {
  if (text.starts_with(kOllama)) return find_ollama(text);
  return text.starts_with(kLmStudio) ? find_lmstudio(text) : find_hub(text);
}

void add(std::vector<StoredModel>& models, const std::string& source) {
  auto model = find(source);
  if (!model) return;
  model->source = source;
  models.push_back(std::move(*model));
}

void list_hub(std::vector<StoredModel>& models) {
  for (const std::string& cache : hub_folders()) {
    for (const std::string& folder : names_in(cache)) {
      if (const auto repository = repository_of(folder)) {
        add(models, std::string(kHub) + *repository);
      }
    }
  }
}

void list_ollama(std::vector<StoredModel>& models) {
  for (const std::string& store : ollama_folders()) {
    const fs::path root = fs::path(store) / "manifests";
    std::error_code failed;
    for (const auto& entry : fs::recursive_directory_iterator(root, failed)) {
      if (!entry.is_regular_file(failed)) continue;
      std::string name = entry.path().parent_path().lexically_relative(root).string();
      if (name.starts_with(kRegistry)) name = name.substr(kRegistry.size() + 1);
      if (name.starts_with(kLibrary)) name = name.substr(kLibrary.size());
      add(models, std::string(kOllama) + name + ":" + entry.path().filename().string());
    }
  }
}

void list_lmstudio(std::vector<StoredModel>& models) {
  for (const std::string& folder : lmstudio_folders()) {
    for (const std::string& publisher : names_in(folder)) {
      for (const std::string& model : names_in(fs::path(folder) / publisher)) {
        std::string source(kLmStudio);
        source.append(publisher).append("/").append(model);
        add(models, source);
      }
    }
  }
}

}  // namespace

bool names_other_store(std::string_view text) {
  return text.starts_with(kHub) || text.starts_with(kLmStudio) ||
         (text.starts_with(kOllama) && !text.starts_with("ollama://"));
}

Result<std::string> find_stored_model(std::string_view text) {
  HOLDFAST_TRY(StoredModel model, find(text));
  return std::move(model.path);
}

Result<profile::TakenOver> find_stored_profile(std::string_view text) {
  if (!names_other_store(text) || !text.starts_with(kOllama)) return profile::TakenOver{};
  return in_manifest<profile::TakenOver>(text, profile_of_manifest);
}

std::vector<StoredModel> list_stored_models() {
  std::vector<StoredModel> models;
  list_hub(models);
  list_ollama(models);
  list_lmstudio(models);
  std::ranges::sort(models, {}, &StoredModel::source);
  return models;
}

}  // namespace holdfast::cli
