#pragma once
// Reads of this machine's models for other machines: on threads of its own, as a disk may be slow
// and hashing a model takes a second for each gigabyte. The daemon's thread asks and collects.

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "shared/base/result.h"
#include "shared/huggingface/stamp.h"
#include "shared/model_index/chunks.h"

namespace holdfast::daemon {

/// A registered model's file or folder on this machine.
struct LocalModel {
  std::string sha;
  std::string path;
  huggingface::Stamp stamp;  // when it had that hash; without an identity where none was stored
};

/// A range of one of its files.
struct RangeRead {
  std::uint64_t id = 0;
  LocalModel model;
  std::int64_t file = 0;
  std::int64_t offset = 0;
  std::int64_t bytes = 0;
};
/// The answer to it. kNotFound: the files are not those with that hash any more; errors of
/// model_index::read_range().
struct RangeAnswer {
  std::uint64_t id = 0;
  Result<std::string> content;
};
/// The list of a model's chunks. `here`: its files are on this machine with that hash, and have
/// `stamp`. Else the list may still be there, from when they were.
struct ListAnswer {
  std::string sha;
  bool here = false;
  huggingface::Stamp stamp;
  Result<model_index::ChunkList> list;
};

/// The threads that read. One thread of the owner calls it.
class ModelReads {
 public:
  /// `cache_dir`: lists are stored there, as a model is hashed once. `wake` is called on other
  /// threads when there is an answer.
  ModelReads(std::string cache_dir, std::function<void()> wake);
  ~ModelReads();  // ends the threads soon
  ModelReads(const ModelReads&) = delete;
  ModelReads& operator=(const ModelReads&) = delete;

  void read(RangeRead range);
  /// Makes a list, or finds that of an earlier time.
  void make_list(LocalModel model);
  /// Bytes that were hashed of the list in the making.
  std::int64_t hashed_bytes() const;

  std::vector<RangeAnswer> take_ranges();
  std::vector<ListAnswer> take_lists();

 private:
  void read_ranges();
  void make_lists();
  bool is_other(const LocalModel& model, const huggingface::Stamp& stamp) const;
  std::optional<model_index::ChunkList> hash(const LocalModel& model,
                                             const huggingface::Stamp& stamp);
  void store(const std::string& file, const model_index::ChunkList& list) const;
  ListAnswer list_of(const LocalModel& model);
  bool go_on(std::int64_t bytes);

  const std::string cache_dir_;
  const std::function<void()> wake_;
  std::map<std::string, huggingface::Stamp> other_files_;  // by path; of the thread of lists
  mutable std::mutex mutex_;                               // guards all below
  std::condition_variable changed_;
  std::deque<RangeRead> ranges_;
  std::deque<LocalModel> models_;
  std::vector<RangeAnswer> range_answers_;
  std::vector<ListAnswer> list_answers_;
  std::int64_t hashed_bytes_ = 0;
  bool stop_ = false;
  std::thread range_thread_, list_thread_;
};

}  // namespace holdfast::daemon
