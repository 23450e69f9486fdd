#include "ops/node/model_fetch.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <thread>
#include <utility>

#include "shared/gguf/part_name.h"
#include "shared/huggingface/stamp.h"

namespace holdfast::cli {
namespace {

namespace fs = std::filesystem;
using model_index::ChunkedFile;
using model_index::kChunkBytes;

constexpr std::int64_t kSpareBytes = 16 << 20;  // left free for everything else on the disk
constexpr std::size_t kShortSha = 12;           // digits in a name
constexpr auto kListAgain = std::chrono::milliseconds(500);
constexpr std::int64_t kBlockBytes = 512;  // of st_blocks

Error file_error(const char* operation, const std::string& path) {
  const bool full = errno == ENOSPC || errno == EDQUOT;
  return {full ? Errc::kDiskFull : Errc::kIo,
          std::string(operation) + " " + path + ": " + std::strerror(errno)};
}

/// A descriptor that is closed at the end of its scope.
class OpenFile {
 public:
  OpenFile(const std::string& path, int flags)
      : fd_(open(path.c_str(), flags | O_CLOEXEC | O_NOFOLLOW, 0600)) {}
  ~OpenFile() {
    if (fd_ >= 0) close(fd_);
  }
  OpenFile(const OpenFile&) = delete;
  int fd() const { return fd_; }

 private:
  int fd_;
};

Result<void> sync_path(const std::string& path, int flags) {
  const OpenFile file(path, flags);
  if (file.fd() < 0 || fsync(file.fd()) != 0) return file_error("sync", path);
  return {};
}

Result<void> make_folders(const std::string& path) {
  std::error_code failed;
  fs::create_directories(path, failed);
  if (!failed) return {};
  errno = failed.value();
  return file_error("make folder", path);
}

/// Renames unless the new name is taken: false. Some file systems know no such rename; a link does
/// the same for a file, and a folder replaces none that has files.
Result<bool> rename_if_free(const std::string& from, const std::string& to) {
  if (renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return true;
  if (errno == EINVAL) {
    std::error_code failed;
    const bool folder = fs::is_directory(from, failed);
    if (folder && rename(from.c_str(), to.c_str()) == 0) return true;
    if (!folder && link(from.c_str(), to.c_str()) == 0) return unlink(from.c_str()) == 0;
  }
  if (errno == EEXIST || errno == ENOTEMPTY || errno == ENOTDIR) return false;
  return file_error("rename", from + " to " + to);
}

}  // namespace

void delete_partial(const std::string& root, const std::string& sha) {
  std::error_code ignored;
  if (!sha.empty()) fs::remove_all(root + "/" + kPartialFolder + "/" + sha, ignored);
  fs::remove(root + "/" + kPartialFolder, ignored);  // if nothing else is there
}

void ModelFetch::tell(const char* state) {
  progress_.state = state;
  if (options_.on_progress) options_.on_progress(progress_);
}

std::string ModelFetch::path_of(std::size_t file) const {
  return partial() + "/" + list().files[file].name;
}

std::string ModelFetch::partial_model() const {
  return list().folder ? partial() : path_of(0);
}

/// Asks where the model is, until its chunks are hashed.
Result<void> ModelFetch::find_sources() {
  for (;;) {
    HOLDFAST_TRY(ModelListing found, sources_.list(options_.sha, wrong_lists_));
    if (stopping()) return Error{Errc::kCancelled, "ended"};
    if (found.ready) {
      model_index::ChunkList list = std::move(found.list);
      found.list = std::move(listing_.list);
      listing_ = std::move(found);
      return take_list(std::move(list));
    }
    progress_.source = source_text(found.list_source);
    tell("reading");
    std::this_thread::sleep_for(kListAgain);
  }
}

/// Takes the list of chunks. Another one than before means that the disk must be looked at again.
Result<void> ModelFetch::take_list(model_index::ChunkList list) {
  if (list.sha != options_.sha) {
    return Error{Errc::kFileInvalid, source_text(listing_.list_source) +
                                         " offers another model: SHA-256 " + list.sha +
                                         ", expected " + options_.sha};
  }
  const auto text_of = [](const model_index::ChunkList& l) {
    const auto text = model_index::to_text(l);
    return text.document + text.hashes;
  };
  if (have_.empty() || text_of(list) != text_of(listing_.list)) have_.clear();
  listing_.list = std::move(list);
  progress_.name = listing_.list.name;
  progress_.bytes = listing_.list.bytes();
  return {};
}

/// Takes the disk's blocks before the first byte: a fetch does not end for space in its middle.
Result<void> ModelFetch::reserve() {
  std::int64_t missing = 0;
  for (std::size_t i = 0; i < list().files.size(); ++i) {
    struct stat info {};
    const bool there = stat(path_of(i).c_str(), &info) == 0;
    missing += std::max<std::int64_t>(
        list().files[i].bytes - (there ? std::int64_t{info.st_blocks} * kBlockBytes : 0), 0);
  }
  struct statvfs disk {};
  if (statvfs(options_.root.c_str(), &disk) != 0) return file_error("statvfs", options_.root);
  const auto free = static_cast<std::int64_t>(disk.f_bavail * disk.f_frsize);
  if (missing > 0 && free < missing + kSpareBytes) {
    return Error{Errc::kDiskFull, "fetch " + list().name + ": " + std::to_string(missing) +
                                      " bytes are missing, free below " + options_.root + " are " +
                                      std::to_string(free) + ", of which " +
                                      std::to_string(kSpareBytes) +
                                      " stay free; make space there, or give another directory as "
                                      "the first --root"};
  }
  return {};
}

/// Deletes what an earlier list of chunks had and this one has not.
void ModelFetch::remove_others() const {
  std::set<std::string> listed;
  for (std::size_t i = 0; i < list().files.size(); ++i) listed.insert(path_of(i));
  std::vector<std::string> others;
  std::error_code failed;
  for (const auto& entry : fs::recursive_directory_iterator(partial(), failed)) {
    const std::string path = entry.path().string();
    if (!entry.is_directory(failed) && !listed.contains(path)) others.push_back(path);
  }
  for (const std::string& path : others) unlink(path.c_str());
}

Result<void> ModelFetch::open_partial() {
  HOLDFAST_CHECKED(make_folders(partial()));
  remove_others();
  HOLDFAST_CHECKED(reserve());
  for (std::size_t i = 0; i < list().files.size(); ++i) {
    const std::string path = path_of(i);
    HOLDFAST_CHECKED(make_folders(fs::path(path).parent_path().string()));
    const OpenFile file(path, O_RDWR | O_CREAT);
    if (file.fd() < 0) return file_error("open", path);
    const int rc = fallocate(file.fd(), FALLOC_FL_KEEP_SIZE, 0, list().files[i].bytes);
    if (rc != 0 && (errno == ENOSPC || errno == EDQUOT)) return file_error("reserve", path);
  }
  return {};
}

/// Finds the chunks of a file that are on the disk with the right content.
Result<void> ModelFetch::check_file(std::size_t index) {
  const ChunkedFile& file = list().files[index];
  std::vector<bool>& have = have_[index];
  have.assign(static_cast<std::size_t>(file.chunks()), false);
  const OpenFile open_file(path_of(index), O_RDWR);
  struct stat info {};
  if (open_file.fd() < 0 || fstat(open_file.fd(), &info) != 0) {
    return file_error("open", path_of(index));
  }
  if (info.st_size > file.bytes && ftruncate(open_file.fd(), file.bytes) != 0) {
    return file_error("truncate", path_of(index));
  }
  std::string content;
  for (std::int64_t chunk = 0; chunk < file.chunks(); ++chunk) {
    const std::int64_t bytes = file.chunk_bytes(chunk);
    if (chunk * kChunkBytes + bytes > info.st_size) break;
    content.resize(static_cast<std::size_t>(bytes));
    const ssize_t got = pread(open_file.fd(), content.data(), content.size(), chunk * kChunkBytes);
    if (got != bytes || !file.is_chunk(chunk, content)) continue;
    have[static_cast<std::size_t>(chunk)] = true;
    progress_.done_bytes += bytes;
    tell("checking");
    if (stopping()) return Error{Errc::kCancelled, "ended"};
  }
  return {};
}

Result<void> ModelFetch::check_partial() {
  if (!have_.empty()) return {};
  std::vector<std::vector<bool>> empty(list().files.size());
  have_ = std::move(empty);
  progress_.done_bytes = 0;
  for (std::size_t i = 0; i < list().files.size(); ++i) {
    auto checked = check_file(i);
    if (!checked) {
      have_.clear();
      return checked.error();
    }
  }
  return {};
}

std::vector<ChunkRef> ModelFetch::missing() const {
  std::vector<ChunkRef> chunks;
  for (std::size_t file = 0; file < have_.size(); ++file) {
    for (std::size_t chunk = 0; chunk < have_[file].size(); ++chunk) {
      if (have_[file][chunk]) continue;
      chunks.push_back({static_cast<std::int64_t>(file), static_cast<std::int64_t>(chunk)});
    }
  }
  return chunks;
}

std::optional<std::string> ModelFetch::next_source() const {
  const auto found = std::ranges::find_if(
      listing_.sources, [this](const std::string& s) { return !left_sources_.contains(s); });
  return found == listing_.sources.end() ? std::nullopt : std::optional(*found);
}

void ModelFetch::leave_source(const std::string& source, const Error& error) {
  left_sources_.insert(source);
  progress_.error_code = errc_name(error.code);
  progress_.error = error.what;
  tell("fetching");
}

/// Writes a chunk that was looked at.
Result<void> ModelFetch::store(const ChunkRef& chunk, const std::string& content) {
  const auto index = static_cast<std::size_t>(chunk.file);
  const std::string path = path_of(index);
  const OpenFile file(path, O_WRONLY);
  if (file.fd() < 0) return file_error("open", path);
  for (std::size_t done = 0; done < content.size();) {
    const ssize_t n = pwrite(file.fd(), content.data() + done, content.size() - done,
                             chunk.chunk * kChunkBytes + static_cast<std::int64_t>(done));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return file_error("write", path);
    done += static_cast<std::size_t>(n);
  }
  have_[index][static_cast<std::size_t>(chunk.chunk)] = true;
  progress_.done_bytes += static_cast<std::int64_t>(content.size());
  tell("fetching");
  return {};
}

/// Reads from one source until nothing is missing, or it fails.
Result<void> ModelFetch::fetch_from(const std::string& source) {
  const std::vector<ChunkRef> chunks = missing();
  progress_.source = source_text(source);
  tell("fetching");
  ChunkStream stream(sources_, listing_, chunks,
                     {source, options_.rate_bytes_s, options_.stopping});
  for (const ChunkRef& chunk : chunks) {
    const auto content = stream.next();
    if (!content && content.error().code == Errc::kCancelled && stopping()) return content.error();
    const ChunkedFile& file = list().files[static_cast<std::size_t>(chunk.file)];
    if (!content) {
      leave_source(source, content.error());
      return {};
    }
    if (!file.is_chunk(chunk.chunk, *content)) {
      leave_source(
          source, {Errc::kFileInvalid, "chunk " + std::to_string(chunk.chunk) + " of " + file.name +
                                           " from " + source_text(source) +
                                           " has another content than the model; it was dropped"});
      return {};
    }
    HOLDFAST_CHECKED(store(chunk, *content));
  }
  return {};
}

Result<void> ModelFetch::fetch_missing() {
  while (!missing().empty()) {
    const auto source = next_source();
    if (!source) {
      if (listing_.sources.empty() || progress_.error.empty()) {
        return Error{Errc::kNotFound, "fetch " + list().name + ": no machine has it now"};
      }
      return Error{errc_from_name(progress_.error_code), progress_.error};
    }
    HOLDFAST_CHECKED(fetch_from(*source));
  }
  return {};
}

/// Makes everything safe against a power failure before the model gets its name.
Result<void> ModelFetch::sync() {
  for (std::size_t i = 0; i < list().files.size(); ++i) {
    HOLDFAST_CHECKED(sync_path(path_of(i), O_RDWR));
  }
  return sync_path(partial(), O_RDONLY | O_DIRECTORY);
}

/// Looks at the model's own hash where the list of chunks was made by a machine that may be wrong.
Result<void> ModelFetch::check_whole() {
  if (listing_.verified) return {};
  const auto found = huggingface::sha256_of(
      partial_model(),
      [this](std::size_t, const unsigned char*, std::size_t) { return !stopping(); });
  if (!found) return found.error();
  if (*found == options_.sha) return {};
  have_.clear();
  progress_.done_bytes = 0;
  wrong_lists_.push_back(listing_.list_source);
  delete_partial(options_.root, options_.sha);
  return Error{Errc::kFileInvalid, "fetch " + list().name + ": by the chunks of " +
                                       source_text(listing_.list_source) + " it has the SHA-256 " +
                                       *found + ", expected " + options_.sha + "; it was deleted"};
}

/// The names that the model may get below the root, the best first.
std::vector<std::string> ModelFetch::names() const {
  const std::string suffix = "." + options_.sha.substr(0, kShortSha);
  if (!in_folder()) {
    const std::string& name = list().files[0].name;
    const std::size_t dot = name.ends_with(".gguf") ? name.size() - 5 : name.size();
    return {name, name.substr(0, dot) + suffix + name.substr(dot)};
  }
  const auto part = gguf::part_name(list().name);
  const bool has_stem = !list().folder && part && !part->stem.empty();
  const std::string name = has_stem ? part->stem : list().name;
  return {name, name + suffix};
}

Result<std::string> ModelFetch::give_name() {
  const std::string from = in_folder() ? partial() : path_of(0);
  for (const std::string& name : names()) {
    const std::string to = options_.root + "/" + name;
    HOLDFAST_TRY(const bool renamed, rename_if_free(from, to));
    if (!renamed) continue;
    HOLDFAST_CHECKED(sync_path(options_.root, O_RDONLY | O_DIRECTORY));
    delete_partial(options_.root, in_folder() ? std::string() : options_.sha);
    return list().folder || !in_folder() ? to : to + "/" + list().files[0].name;
  }
  return Error{Errc::kConflict, "fetch " + list().name + ": below " + options_.root +
                                    " other files have the names " + names()[0] + " and " +
                                    names()[1] + "; rename or remove one of them"};
}

Result<std::string> ModelFetch::run() {
  left_sources_.clear();
  HOLDFAST_CHECKED(find_sources());
  HOLDFAST_CHECKED(open_partial());
  HOLDFAST_CHECKED(check_partial());
  HOLDFAST_CHECKED(fetch_missing());
  tell("finishing");
  HOLDFAST_CHECKED(sync());
  HOLDFAST_CHECKED(check_whole());
  return give_name();
}

}  // namespace holdfast::cli
