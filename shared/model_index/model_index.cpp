#include "shared/model_index/model_index.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "shared/base/json_text.h"
#include "shared/base/replace_file.h"

namespace holdfast::model_index {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::size_t kModelsMax = 100'000;
constexpr int kDepthMax = 16;
constexpr std::string_view kPartOf = "-of-";

/// True for "NAME-00002-of-00003.gguf" and the parts behind it: the first one stands for all.
bool is_later_part(const std::string& name) {
  const std::size_t of = name.rfind(kPartOf);
  constexpr std::size_t kDigits = 5;
  if (of == std::string::npos || of < kDigits) return false;
  const std::string number = name.substr(of - kDigits, kDigits);
  const bool digits = std::all_of(number.begin(), number.end(),
                                  [](unsigned char c) { return std::isdigit(c) != 0; });
  return digits && number != "00001";
}

bool is_model(const fs::directory_entry& entry) {
  std::error_code failed;
  if (entry.is_directory(failed)) return fs::exists(entry.path() / "config.json", failed);
  const std::string name = entry.path().filename().string();
  return name.ends_with(".gguf") && !is_later_part(name) && entry.is_regular_file(failed);
}

/// Lists the models below a folder. Folders behind links are left out: they may lead in circles.
void list_models(const std::string& root, std::vector<std::string>& paths) {
  std::error_code failed;
  fs::recursive_directory_iterator at(root, fs::directory_options::skip_permission_denied, failed);
  for (const fs::recursive_directory_iterator end; !failed && at != end; at.increment(failed)) {
    if (paths.size() >= kModelsMax) return;
    const bool hidden = at->path().filename().string().starts_with('.');
    const bool model = !hidden && is_model(*at);
    if (model) paths.push_back(fs::absolute(at->path(), failed).lexically_normal().string());
    std::error_code ignored;
    const bool folder = at->is_directory(ignored);
    if (folder && (hidden || model || at.depth() >= kDepthMax)) at.disable_recursion_pending();
  }
}

}  // namespace

std::vector<Entry> scan(const std::vector<std::string>& roots, const std::vector<Entry>& before,
                        const std::function<void(const std::string&)>& begin) {
  std::vector<std::string> paths;
  for (const std::string& root : roots) list_models(root, paths);
  std::sort(paths.begin(), paths.end());
  paths.erase(std::unique(paths.begin(), paths.end()), paths.end());
  std::vector<Entry> entries;
  for (const std::string& path : paths) {
    const auto stamp = huggingface::stamp_of(path);
    if (!stamp) continue;
    const auto same = std::find_if(before.begin(), before.end(), [&](const Entry& entry) {
      return entry.path == path && entry.stamp == *stamp;
    });
    if (same != before.end()) {
      entries.push_back(*same);
      continue;
    }
    begin(path);
    const auto sha = huggingface::sha256_of(path);
    const auto after = huggingface::stamp_of(path);
    // A file that is still being written is looked at again by the next scan.
    if (sha && after && *after == *stamp) entries.push_back({*sha, path, *stamp});
  }
  return entries;
}

Result<void> write(const std::string& file, const std::vector<Entry>& entries) {
  json list = json::array();
  for (const Entry& entry : entries) {
    list.push_back({{"sha", entry.sha},
                    {"path", entry.path},
                    {"size", entry.stamp.size},
                    {"mtime_ns", entry.stamp.mtime_ns},
                    {"identity", entry.stamp.identity}});
  }
  return replace_file(
      file, json{{"models", std::move(list)}}.dump(1, ' ', false, json::error_handler_t::replace));
}

std::vector<Entry> read(const std::string& file) {
  std::ifstream in(file);
  const std::string text(std::istreambuf_iterator<char>(in), {});
  const json document = try_parse_json<json>(text);
  std::vector<Entry> entries;
  if (!document.is_object() || !document.contains("models")) return entries;
  try {
    for (const json& row : document.at("models")) {
      entries.push_back({row.at("sha"),
                         row.at("path"),
                         {row.at("size"), row.at("mtime_ns"), row.at("identity")}});
    }
  } catch (const json::exception&) {
    return {};  // another form: everything is read again
  }
  return entries;
}

std::optional<Entry> find(const std::vector<Entry>& entries, const std::string& sha) {
  for (const Entry& entry : entries) {
    struct stat info {};
    if (entry.sha == sha && stat(entry.path.c_str(), &info) == 0) return entry;
  }
  return std::nullopt;
}

}  // namespace holdfast::model_index
