#include "ops/serve/model_path.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <span>
#include <vector>

#include "ops/serve/other_stores.h"
#include "shared/base/ascii.h"
#include "shared/gguf/lookalike.h"
#include "shared/gguf/part_name.h"

namespace holdfast::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kListedMax = 10;
constexpr std::size_t kEntriesMax = 10'000;  // entries of a folder that are looked at

/// The model files of a folder: of one in several parts the first; no image projectors.
std::vector<std::string> models_in(const std::string& folder) {
  std::vector<std::string> found;
  std::error_code failed;
  std::size_t scanned = 0;
  for (const auto& entry : fs::directory_iterator(folder, failed)) {
    if (++scanned > kEntriesMax) break;
    const std::string name = lower_ascii(entry.path().filename().string());
    if (!name.ends_with(".gguf") || name.starts_with("mmproj")) continue;
    if (!entry.is_regular_file(failed)) continue;
    const auto part = gguf::part_name(entry.path().string());
    if (part && part->number != 1) continue;
    found.push_back(entry.path().string());
  }
  std::sort(found.begin(), found.end());
  return found;
}

Result<std::string> only_model_in(const std::string& folder) {
  const std::vector<std::string> found = models_in(folder);
  if (found.size() == 1) return found[0];
  if (found.empty()) {
    return Error{Errc::kNotFound,
                 folder + ": neither a GGUF file nor a config.json is in this folder"};
  }
  std::string names;
  for (std::size_t i = 0; i < std::min(found.size(), kListedMax); ++i) {
    names += (i == 0 ? "" : ", ") + fs::path(found[i]).filename().string();
  }
  if (found.size() > kListedMax) {
    names += ", and " + std::to_string(found.size() - kListedMax) + " more";
  }
  return Error{Errc::kNotFound, folder + ": " + std::to_string(found.size()) +
                                    " models are in this folder, expected one: name the file; " +
                                    names};
}

/// Refuses a file whose first bytes tell that it is no model.
Result<void> check_head(const std::string& path) {
  std::array<char, 512> head{};
  std::ifstream file(path, std::ios::binary);
  if (!file) return {};  // the load says why it cannot be read
  file.read(head.data(), head.size());
  const auto size = static_cast<std::size_t>(file.gcount());
  const ByteSpan bytes = std::as_bytes(std::span(head)).first(size);
  const std::string_view other = gguf::lookalike(bytes);
  if (other.empty()) return {};
  return Error{Errc::kFileInvalid, path + ": " + std::string(other)};
}

}  // namespace

Result<std::string> find_model(const std::string& named) {
  if (names_other_store(named)) return find_stored_model(named);
  std::error_code failed;
  std::string path = fs::absolute(named, failed).string();
  if (!fs::exists(path, failed)) {
    // A path that the daemon alone may read is for the daemon to judge.
    if (failed == std::errc::permission_denied) return path;
    return Error{Errc::kNotFound, path + ": no such file or folder"};
  }
  if (fs::is_directory(path, failed)) {
    if (fs::exists(path + "/config.json", failed)) return path;
    HOLDFAST_TRY(path, only_model_in(path));
  }
  if (fs::is_regular_file(path, failed)) HOLDFAST_CHECKED(check_head(path));
  return path;
}

std::string model_name_of(const std::string& path) {
  fs::path file = path;
  if (!file.has_filename()) file = file.parent_path();  // FOLDER/
  std::string name = lower_ascii(file.filename().string());
  if (name.ends_with(".gguf")) name.resize(name.size() - 5);
  for (char& c : name) {
    const bool plain = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '_';
    if (!plain) c = '-';
  }
  return name.empty() ? "model" : name;
}

}  // namespace holdfast::cli
