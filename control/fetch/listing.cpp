#include "control/fetch/listing.h"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string_view>

#include "control/fetch/file_hash.h"
#include "shared/base/ascii.h"
#include "shared/base/json_text.h"
#include "shared/profile/layers.h"
#include "shared/pull/hub_files.h"

namespace holdfast::fetch {
namespace {

using nlohmann::json;
using pull::HubFile;
using pull::PullFile;
using pull::Source;

constexpr std::size_t kAnswerBytesMax = 16 << 20;
constexpr std::size_t kManifestBytesMax = 4 << 20;  // of a registry, by OCI's specification
constexpr std::size_t kFilesMax = 2'000;
constexpr std::int64_t kFileBytesMax = std::int64_t{1} << 44;
constexpr std::size_t kRevisionDigits = 12;
constexpr JsonLimits kAnswerLimits{kAnswerBytesMax, 32, 4'096, std::size_t{1} << 20,
                                   std::size_t{16} << 20};

constexpr const char* kManifestTypes =
    "application/vnd.oci.image.manifest.v1+json, "
    "application/vnd.docker.distribution.manifest.v2+json, "
    "application/vnd.oci.image.index.v1+json";

Error odd(const std::string& url, const std::string& why) {
  return Error{Errc::kInvalidRequest, "GET " + url + ": " + why};
}

std::string text_of(const json& j, const char* name) {
  const auto found = j.find(name);
  return found != j.end() && found->is_string() ? found->get<std::string>() : std::string();
}

std::int64_t number_of(const json& j, const char* name) {
  const auto found = j.find(name);
  return found != j.end() && found->is_number_integer() ? found->get<std::int64_t>() : -1;
}

Result<json> answer_of(Session& session, const std::string& url, const char* accept,
                       std::size_t bytes_max) {
  HOLDFAST_TRY(const std::string text, session.document(url, accept, bytes_max));
  auto parsed = parse_json<json>(text, kAnswerLimits);
  if (!parsed) return odd(url, "the answer is no JSON: " + parsed.error().what);
  if (!parsed->is_object()) return odd(url, "the answer is no JSON object");
  return std::move(parsed).value();
}

/// The host of a base URL as a folder's name.
std::string host_folder(const std::string& base) {
  std::string host = base.substr(base.find("//") + 2);
  std::ranges::replace(host, ':', '_');
  std::erase_if(host, [](char c) { return c == '[' || c == ']' || c == '/'; });
  return host;
}

// ---- the Hugging Face hub

std::vector<HubFile> files_of(const json& siblings) {
  std::vector<HubFile> files;
  for (const json& sibling : siblings) {
    HubFile file;
    if (!sibling.is_object()) continue;
    file.path = text_of(sibling, "rfilename");
    file.bytes = number_of(sibling, "size");
    file.git_sha1 = text_of(sibling, "blobId");
    if (const auto lfs = sibling.find("lfs"); lfs != sibling.end() && lfs->is_object()) {
      file.sha256 = text_of(*lfs, "sha256");
      file.bytes = number_of(*lfs, "size");
      file.git_sha1.clear();
    }
    files.push_back(std::move(file));
  }
  return files;
}

/// Checks what the hub told of a chosen file.
Result<PullFile> good_file(const HubFile& file, const std::string& base) {
  PullFile out;
  out.path = file.path;
  out.url = base + file.path;
  out.bytes = file.bytes;
  out.sha256 = file.sha256;
  out.git_sha1 = file.git_sha1;
  if (!pull::is_plain_path(file.path)) {
    return odd(base, "a file's name has an odd character: expected letters, digits, . _ - +");
  }
  const bool hashed =
      is_lower_hex(file.sha256, 64) || (file.sha256.empty() && is_lower_hex(file.git_sha1, 40));
  if (!hashed) return odd(out.url, "the hub tells no hash of the file, so it cannot be verified");
  if (file.bytes < 0 || file.bytes > kFileBytesMax) return odd(out.url, "no size that can be");
  return out;
}

Result<Listing> list_hub(const Source& source, Session& session) {
  const std::string url = source.base + "/api/models/" + source.repository + "/revision/" +
                          source.reference + "?blobs=true";
  HOLDFAST_TRY(const json answer, answer_of(session, url, "application/json", kAnswerBytesMax));
  const std::string revision = text_of(answer, "sha");
  if (!is_lower_hex(revision, 40)) return odd(url, "the answer names no revision (\"sha\")");
  const json siblings = answer.value("siblings", json());
  if (!siblings.is_array()) return odd(url, "the answer has no list of files (\"siblings\")");
  auto chosen = pull::choose_files(files_of(siblings), source.variant);
  if (!chosen) {
    return Error{chosen.error().code, pull::to_text(source) + ": " + chosen.error().what};
  }
  if (chosen->files.size() > kFilesMax) return odd(url, "more files than a model has");
  Listing listing;
  listing.folder = std::string(pull::kHubHost) + "/" + source.repository + "/" +
                   revision.substr(0, kRevisionDigits);
  if (source.base != pull::kHubBase) {
    listing.folder.replace(0, pull::kHubHost.size(), host_folder(source.base));
  }
  listing.model = chosen->model;
  const std::string base = source.base + "/" + source.repository + "/resolve/" + revision + "/";
  for (const HubFile& file : chosen->files) {
    HOLDFAST_TRY(PullFile good, good_file(file, base));
    listing.files.push_back(std::move(good));
  }
  return listing;
}

// ---- a file by its URL

Result<Listing> list_file(const Source& source) {
  Listing listing;
  const std::string path = source.url.substr(0, source.url.find('?'));
  const std::size_t host = path.find("//") + 2;
  const std::size_t slash = path.find('/', host);
  listing.model = pull::default_name(source) + ".gguf";
  std::ranges::replace_if(
      listing.model,
      [](char c) { return !pull::is_plain_path(std::string_view(&c, 1)) && c != '.'; }, '_');
  listing.folder = host_folder(path.substr(0, slash));
  if (!pull::is_plain_path(listing.model)) listing.model = "model.gguf";
  PullFile file;
  file.path = listing.model;
  file.url = source.url;
  file.sha256 = source.sha256;
  listing.files.push_back(std::move(file));
  if (source.sha256.empty()) {
    listing.note = "no hash was given (#sha256=HEX), so only the length was compared";
  }
  return listing;
}

// ---- registries

/// Returns the manifest, of an index the first that is named.
Result<json> manifest_of(const Source& source, Session& session) {
  std::string reference = source.reference;
  for (int hops = 0; hops < 2; ++hops) {
    const std::string url = source.base + "/v2/" + source.repository + "/manifests/" + reference;
    HOLDFAST_TRY(json answer, answer_of(session, url, kManifestTypes, kManifestBytesMax));
    const auto manifests = answer.find("manifests");
    if (manifests == answer.end()) return answer;
    if (!manifests->is_array() || manifests->empty() || !manifests->front().is_object()) {
      return odd(url, "an index without manifests");
    }
    reference = text_of(manifests->front(), "digest");
    if (!reference.starts_with("sha256:") || !is_lower_hex(reference.substr(7), 64)) {
      return odd(url, "an index whose manifest has no digest");
    }
  }
  return odd(source.base, "an index that names an index");
}

bool is_model_layer(const json& layer) {
  const std::string type = text_of(layer, "mediaType");
  if (type == "application/vnd.ollama.image.model") return true;
  if (type.find("gguf") != std::string::npos) return true;
  const auto notes = layer.find("annotations");
  if (notes == layer.end() || !notes->is_object()) return false;
  return text_of(*notes, "org.opencontainers.image.title").ends_with(".gguf");
}

/// Reads a layer that is no weights, and compares its hash. kInvalidRequest, or kFileInvalid for
/// other bytes than the manifest names.
Result<std::string> layer_bytes(const Source& source, const json& layer, Session& session) {
  const std::string digest = text_of(layer, "digest");
  const std::string url = source.base + "/v2/" + source.repository + "/blobs/" + digest;
  if (!digest.starts_with("sha256:") || !is_lower_hex(digest.substr(7), 64)) {
    return odd(url, "a layer without sha256 digest");
  }
  HOLDFAST_TRY(std::string bytes, session.document(url, "*/*", profile::kLayerBytesMax));
  FileHash hash(FileHash::Kind::kSha256, std::ssize(bytes));
  hash.add(bytes);
  if (hash.hex() == digest.substr(7)) return bytes;
  return Error{Errc::kFileInvalid, "GET " + url + ": other bytes than the manifest's hash names"};
}

/// Reads what a model has beside its weights. One layer that cannot be here is left out.
Result<void> add_profile(const Source& source, const json& layers, Session& session,
                         Listing& listing) {
  std::vector<profile::Layer> read;
  std::string left;
  for (const json& layer : layers) {
    const std::string type = layer.is_object() ? text_of(layer, "mediaType") : std::string();
    const auto part = profile::layer_part(type);
    if (type.ends_with("image.adapter") || type.ends_with("image.projector")) {
      left += (left.empty() ? "not used: " : ", ") + type.substr(type.rfind('.') + 1);
    }
    if (!part) continue;
    if (number_of(layer, "size") > static_cast<std::int64_t>(profile::kLayerBytesMax) ||
        read.size() == profile::kLayersMax) {
      left += (left.empty() ? "not used: " : ", ") + std::string(*part) + " (too large)";
      continue;
    }
    HOLDFAST_TRY(std::string bytes, layer_bytes(source, layer, session));
    read.push_back({std::string(*part), std::move(bytes)});
  }
  profile::TakenOver taken = profile::take_over(read);
  listing.profile = std::move(taken.profile);
  listing.context = taken.context;
  listing.note = profile::summary(taken);
  if (!left.empty()) listing.note += (listing.note.empty() ? "" : "; ") + left;
  return {};
}

Result<Listing> list_registry(const Source& source, Session& session) {
  HOLDFAST_TRY(const json manifest, manifest_of(source, session));
  const std::string what = pull::to_text(source);
  const auto layers = manifest.find("layers");
  if (layers == manifest.end() || !layers->is_array()) {
    return Error{Errc::kInvalidRequest, what + ": a manifest without layers"};
  }
  std::vector<json> models;
  for (const json& layer : *layers) {
    if (layer.is_object() && is_model_layer(layer)) models.push_back(layer);
  }
  if (models.size() != 1) {
    return Error{Errc::kUnsupported, what + ": " + std::to_string(models.size()) +
                                         " GGUF layers, expected one; models of many blobs are "
                                         "not for this server"};
  }
  const std::string digest = text_of(models.front(), "digest");
  PullFile file;
  file.bytes = number_of(models.front(), "size");
  if (!digest.starts_with("sha256:") || !is_lower_hex(digest.substr(7), 64) || file.bytes < 0 ||
      file.bytes > kFileBytesMax) {
    return Error{Errc::kInvalidRequest, what + ": a layer without size or sha256 digest"};
  }
  file.sha256 = digest.substr(7);
  file.url = source.base + "/v2/" + source.repository + "/blobs/" + digest;
  Listing listing;
  const std::string name = source.repository.substr(source.repository.rfind('/') + 1);
  listing.model = file.path = name + ".gguf";
  listing.folder = host_folder(source.base) + "/" + source.repository + "/" +
                   file.sha256.substr(0, kRevisionDigits);
  listing.files.push_back(std::move(file));
  if (source.kind == pull::SourceKind::kOllama) {
    HOLDFAST_CHECKED(add_profile(source, *layers, session, listing));
  }
  return listing;
}

}  // namespace

Result<Listing> list_files(const Source& source, Session& session) {
  switch (source.kind) {
    case pull::SourceKind::kHub:
      return list_hub(source, session);
    case pull::SourceKind::kFile:
      return list_file(source);
    case pull::SourceKind::kOllama:
    case pull::SourceKind::kOci:
      return list_registry(source, session);
  }
  CHECK(false);
}

}  // namespace holdfast::fetch
