#include "shared/model_index/chunks.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "shared/base/json_text.h"
#include "shared/base/open_files.h"
#include "shared/base/replace_file.h"
#include "shared/huggingface/folder.h"
#include "shared/huggingface/sha256.h"
#include "shared/huggingface/stamp.h"

namespace holdfast::model_index {
namespace {

using huggingface::Sha256;
using nlohmann::json;

constexpr std::size_t kNameBytesMax = 1'024;

std::string base_name(const std::string& path) {
  const std::size_t end = path.find_last_not_of('/');
  const std::string trimmed = path.substr(0, end + 1);
  return trimmed.substr(trimmed.rfind('/') + 1);
}

/// True for a name that stays in its folder and is not hidden there.
bool is_safe_name(std::string_view name) {
  return !name.empty() && name.size() <= kNameBytesMax && name.front() != '.' &&
         std::ranges::all_of(name, [](char c) {
           return static_cast<unsigned char>(c) >= ' ' && c != '/' && c != '\x7f';
         });
}

bool is_safe_path(std::string_view path) {
  while (true) {
    const std::size_t slash = path.find('/');
    if (!is_safe_name(path.substr(0, slash))) return false;
    if (slash == std::string_view::npos) return true;
    path.remove_prefix(slash + 1);
  }
}

/// Hashes of chunks of files that come one after the other.
class ChunkHashes {
 public:
  void add(std::size_t index, const unsigned char* bytes, std::size_t n) {
    if (index >= files_.size()) {
      end_chunk();
      files_.resize(index + 1);
    }
    files_[index].bytes += static_cast<std::int64_t>(n);
    while (n > 0) {
      if (sha_ == nullptr) sha_ = std::make_unique<Sha256>();
      const std::size_t part = std::min(n, static_cast<std::size_t>(kChunkBytes) - in_chunk_);
      sha_->add(bytes, part);
      bytes += part;
      n -= part;
      in_chunk_ += part;
      if (in_chunk_ == static_cast<std::size_t>(kChunkBytes)) end_chunk();
    }
  }
  std::vector<ChunkedFile> end() {
    end_chunk();
    return std::move(files_);
  }
  std::int64_t chunks() const { return chunks_; }

 private:
  void end_chunk() {
    if (sha_ == nullptr) return;
    files_.back().hashes += sha_->end();
    sha_.reset();
    in_chunk_ = 0;
    ++chunks_;
  }
  std::vector<ChunkedFile> files_;
  std::unique_ptr<Sha256> sha_;  // of the chunk that has begun
  std::size_t in_chunk_ = 0;
  std::int64_t chunks_ = 0;
};

Error bad_list(const std::string& why) {
  return {Errc::kInvalidRequest, "list of a model's chunks: " + why};
}

/// Reads one file's row; its hashes are taken from the front of `hashes`.
Result<ChunkedFile> parse_file(const json& row, std::string_view& hashes) {
  ChunkedFile file;
  file.name = row.at("name").get<std::string>();
  file.bytes = row.at("bytes").get<std::int64_t>();
  if (!is_safe_path(file.name)) return bad_list("a file has a name that leads out of its folder");
  if (file.bytes <= 0 || file.bytes > kChunksMax * kChunkBytes) {
    return bad_list(file.name + " has " + std::to_string(file.bytes) + " bytes");
  }
  const auto hash_bytes = static_cast<std::size_t>(file.chunks()) * Sha256::kBytes;
  if (hashes.size() < hash_bytes) return bad_list(file.name + " has too few hashes");
  file.hashes = hashes.substr(0, hash_bytes);
  hashes.remove_prefix(hash_bytes);
  return file;
}

Result<ChunkList> parse_files(const json& document, std::string_view hashes) {
  ChunkList list;
  list.sha = document.at("sha").get<std::string>();
  list.name = document.at("name").get<std::string>();
  list.folder = document.at("folder").get<bool>();
  const json& rows = document.at("files");
  if (!is_safe_name(list.name)) return bad_list("its name leads out of its folder");
  if (!rows.is_array() || rows.empty() || rows.size() > kChunkFilesMax) {
    return bad_list("expected 1 to " + std::to_string(kChunkFilesMax) + " files");
  }
  for (const json& row : rows) {
    HOLDFAST_TRY(ChunkedFile file, parse_file(row, hashes));
    list.files.push_back(std::move(file));
  }
  if (!hashes.empty()) return bad_list("it has more hashes than chunks");
  return list;
}

Result<std::string> read_all(int fd, const std::string& name, std::int64_t offset,
                             std::int64_t bytes) {
  std::string content(static_cast<std::size_t>(bytes), '\0');
  for (std::size_t done = 0; done < content.size();) {
    const ssize_t n = pread(fd, content.data() + done, content.size() - done,
                            offset + static_cast<std::int64_t>(done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return Error{Errc::kIo, "read " + name + ": " + std::strerror(errno)};
    if (n == 0) {
      return Error{Errc::kInvalidRequest,
                   "read " + name + ": it ends before byte " + std::to_string(offset + bytes)};
    }
    done += static_cast<std::size_t>(n);
  }
  return content;
}

}  // namespace

std::int64_t ChunkedFile::chunk_bytes(std::int64_t chunk) const {
  return std::clamp<std::int64_t>(bytes - chunk * kChunkBytes, 0, kChunkBytes);
}

bool ChunkedFile::is_chunk(std::int64_t chunk, std::string_view content) const {
  if (static_cast<std::int64_t>(content.size()) != chunk_bytes(chunk)) return false;
  Sha256 sha;
  sha.add(content.data(), content.size());
  return sha.end() ==
         hashes.substr(static_cast<std::size_t>(chunk) * Sha256::kBytes, Sha256::kBytes);
}

std::int64_t ChunkList::bytes() const {
  std::int64_t sum = 0;
  for (const ChunkedFile& file : files) sum += file.bytes;
  return sum;
}

Result<ChunkList> make_chunk_list(const std::string& path,
                                  const std::function<bool(std::int64_t)>& go_on) {
  HOLDFAST_TRY(const std::vector<std::string> paths, huggingface::files_of(path));
  if (paths.size() > kChunkFilesMax) {
    return Error{Errc::kUnsupported, path + ": " + std::to_string(paths.size()) +
                                         " files; a model of at most " +
                                         std::to_string(kChunkFilesMax) + " is sent elsewhere"};
  }
  ChunkHashes hashes;
  std::int64_t done = 0;
  bool large = false;
  const auto whole = huggingface::sha256_of(
      path, [&](std::size_t index, const unsigned char* bytes, std::size_t n) {
        hashes.add(index, bytes, n);
        done += static_cast<std::int64_t>(n);
        large = hashes.chunks() >= kChunksMax;
        return !large && go_on(done);
      });
  if (large) {
    return Error{Errc::kUnsupported, path + ": a model of at most " +
                                         std::to_string(kChunksMax * kChunkBytes) +
                                         " bytes is sent elsewhere"};
  }
  if (!whole) return whole.error();
  ChunkList list;
  list.sha = *whole;
  list.name = base_name(path);
  list.folder = huggingface::is_folder(path);
  list.files = hashes.end();
  for (std::size_t i = 0; i < list.files.size(); ++i) {
    list.files[i].name = list.folder ? paths[i].substr(path.size() + 1) : base_name(paths[i]);
  }
  return list;
}

ChunkListText to_text(const ChunkList& list) {
  json rows = json::array();
  ChunkListText text;
  for (const ChunkedFile& file : list.files) {
    rows.push_back({{"name", file.name}, {"bytes", file.bytes}});
    text.hashes += file.hashes;
  }
  text.document = json{{"sha", list.sha},
                       {"name", list.name},
                       {"folder", list.folder},
                       {"files", std::move(rows)}}
                      .dump(-1, ' ', false, json::error_handler_t::replace);
  return text;
}

Result<ChunkList> parse_chunk_list(std::string_view document, std::string_view hashes) {
  const json parsed = try_parse_json<json>(document);
  if (!parsed.is_object()) return bad_list("it is no JSON object");
  if (hashes.size() > static_cast<std::size_t>(kChunksMax) * Sha256::kBytes) {
    return bad_list("it has more than " + std::to_string(kChunksMax) + " chunks");
  }
  try {
    return parse_files(parsed, hashes);
  } catch (const json::exception&) {
    return bad_list("it has another form: sha, name, folder, files with name and bytes expected");
  }
}

Result<void> write_chunk_list(const std::string& file, const ChunkList& list) {
  const ChunkListText text = to_text(list);
  return replace_file(file, text.document + "\n" + text.hashes);
}

Result<ChunkList> read_chunk_list(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) return Error{Errc::kIo, file + ": " + std::strerror(errno)};
  const std::string text(std::istreambuf_iterator<char>(in), {});
  const std::size_t line = text.find('\n');
  if (line == std::string::npos) return Error{Errc::kFileInvalid, file + ": its end is missing"};
  auto list = parse_chunk_list(std::string_view(text).substr(0, line),
                               std::string_view(text).substr(line + 1));
  if (!list) return Error{Errc::kFileInvalid, file + ": " + list.error().what};
  return list;
}

Result<std::string> read_range(const std::string& path, std::int64_t file, std::int64_t offset,
                               std::int64_t bytes) {
  HOLDFAST_TRY(const std::vector<std::string> files, huggingface::files_of(path));
  const auto count = static_cast<std::int64_t>(files.size());
  const bool good = file >= 0 && file < count && offset >= 0 && bytes > 0 && bytes <= kChunkBytes;
  if (!good) return Error{Errc::kInvalidRequest, path + ": it has no such range"};
  const std::string& name = files[static_cast<std::size_t>(file)];
  const int fd = open_to_read(name);
  if (fd < 0) return Error{Errc::kIo, "open " + name + ": " + std::strerror(errno)};
  auto content = read_all(fd, name, offset, bytes);
  close(fd);
  return content;
}

}  // namespace holdfast::model_index
