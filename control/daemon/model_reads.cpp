#include "control/daemon/model_reads.h"

#include <filesystem>
#include <utility>

#include "shared/base/log.h"

namespace holdfast::daemon {
namespace {

/// True if the files are as they were; an older registration has no identity.
bool is_same(const huggingface::Stamp& stored, const huggingface::Stamp& found) {
  const bool identity = stored.identity.empty() || stored.identity == found.identity;
  return identity && stored.size == found.size && stored.mtime_ns == found.mtime_ns;
}

Result<std::string> read_unchanged(const RangeRead& range) {
  const auto stamp = huggingface::stamp_of(range.model.path);
  if (!stamp || !is_same(range.model.stamp, *stamp)) {
    return Error{Errc::kNotFound, range.model.path + ": it is gone or was changed"};
  }
  return model_index::read_range(range.model.path, range.file, range.offset, range.bytes);
}

}  // namespace

ModelReads::ModelReads(std::string cache_dir, std::function<void()> wake)
    : cache_dir_(std::move(cache_dir)), wake_(std::move(wake)) {
  range_thread_ = std::thread([this] { read_ranges(); });
  list_thread_ = std::thread([this] { make_lists(); });
}

ModelReads::~ModelReads() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  range_thread_.join();
  list_thread_.join();
}

void ModelReads::read(RangeRead range) {
  const std::lock_guard lock(mutex_);
  ranges_.push_back(std::move(range));
  changed_.notify_all();
}

void ModelReads::make_list(LocalModel model) {
  const std::lock_guard lock(mutex_);
  models_.push_back(std::move(model));
  changed_.notify_all();
}

std::int64_t ModelReads::hashed_bytes() const {
  const std::lock_guard lock(mutex_);
  return hashed_bytes_;
}

std::vector<RangeAnswer> ModelReads::take_ranges() {
  const std::lock_guard lock(mutex_);
  return std::exchange(range_answers_, {});
}

std::vector<ListAnswer> ModelReads::take_lists() {
  const std::lock_guard lock(mutex_);
  return std::exchange(list_answers_, {});
}

void ModelReads::read_ranges() {
  for (;;) {
    RangeRead range;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return stop_ || !ranges_.empty(); });
      if (stop_) return;
      range = std::move(ranges_.front());
      ranges_.pop_front();
    }
    RangeAnswer answer{range.id, read_unchanged(range)};
    {
      const std::lock_guard lock(mutex_);
      range_answers_.push_back(std::move(answer));
    }
    wake_();
  }
}

bool ModelReads::go_on(std::int64_t bytes) {
  const std::lock_guard lock(mutex_);
  hashed_bytes_ = bytes;
  return !stop_;
}

/// True for files that were hashed before and are another model's: not again and again.
bool ModelReads::is_other(const LocalModel& model, const huggingface::Stamp& stamp) const {
  const auto found = other_files_.find(model.path);
  return found != other_files_.end() && found->second == stamp;
}

/// Hashes the files. nullopt: they are another model's, or are being changed.
std::optional<model_index::ChunkList> ModelReads::hash(const LocalModel& model,
                                                       const huggingface::Stamp& stamp) {
  auto made = model_index::make_chunk_list(model.path, [this](std::int64_t n) { return go_on(n); });
  const auto after = huggingface::stamp_of(model.path);
  if (!made || !after || !(*after == stamp)) return std::nullopt;
  if (made->sha == model.sha) return std::move(made).value();
  other_files_[model.path] = stamp;
  return std::nullopt;
}

void ModelReads::store(const std::string& file, const model_index::ChunkList& list) const {
  std::error_code ignored;
  std::filesystem::create_directories(cache_dir_, ignored);
  const auto written = model_index::write_chunk_list(file, list);
  if (!written) log::warn("a list of chunks is not stored", {{"why", written.error().what}});
}

ListAnswer ModelReads::list_of(const LocalModel& model) {
  const std::string file = cache_dir_ + "/" + model.sha;
  Result<model_index::ChunkList> stored = model_index::read_chunk_list(file);
  if (stored && stored->sha != model.sha) stored = Error{Errc::kFileInvalid, file};
  const auto stamp = huggingface::stamp_of(model.path);
  if (!stamp || is_other(model, *stamp)) return {model.sha, false, {}, std::move(stored)};
  if (stored && is_same(model.stamp, *stamp)) return {model.sha, true, *stamp, std::move(stored)};
  auto made = hash(model, *stamp);
  if (!made) return {model.sha, false, {}, std::move(stored)};
  store(file, *made);
  return {model.sha, true, *stamp, std::move(*made)};
}

void ModelReads::make_lists() {
  for (;;) {
    LocalModel model;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return stop_ || !models_.empty(); });
      if (stop_) return;
      model = std::move(models_.front());
      models_.pop_front();
      hashed_bytes_ = 0;
    }
    ListAnswer answer = list_of(model);
    {
      const std::lock_guard lock(mutex_);
      list_answers_.push_back(std::move(answer));
    }
    wake_();
  }
}

}  // namespace holdfast::daemon
