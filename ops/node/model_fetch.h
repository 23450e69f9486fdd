#pragma once
// One model from other machines to this one's disk, chunk by chunk. Chunks go to files below
// ROOT/.partial/SHA; what is there with the right hashes is not read again, whoever was killed
// before. The model gets its name below ROOT when all of it is there, and never that of another
// file.

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ops/node/chunk_stream.h"
#include "ops/node/model_sources.h"

namespace holdfast::cli {

/// The folder below a root in which models are put together. Scans of the root pass it over.
inline constexpr const char* kPartialFolder = ".partial";

/// The progress of a fetch, as `nodes show` has it.
struct FetchProgress {
  std::string sha;
  std::string name;             // of the file or folder; empty: not known yet
  std::string state;            // "reading", "checking", "fetching", "finishing", "failed"
  std::string source;           // as source_text()
  std::int64_t done_bytes = 0;  // on this disk with the right hashes
  std::int64_t bytes = 0;       // of all files; 0: not known yet
  std::string error_code;       // of the last try that failed; of a wrong chunk, "file_invalid"
  std::string error;
};

/// Arguments of a fetch.
struct FetchOptions {
  std::string root;  // absolute
  std::string sha;
  std::function<std::int64_t()> rate_bytes_s;  // as of now; 0: no limit
  std::function<bool()> stopping;
  std::function<void(const FetchProgress&)> on_progress;
};

/// A fetch that may be tried several times. One thread.
class ModelFetch {
 public:
  ModelFetch(ModelSources& sources, FetchOptions options)
      : sources_(sources), options_(std::move(options)) {
    progress_.sha = options_.sha;
  }

  /// Runs until the model is there; returns its path. A source that gives a wrong chunk, or fails,
  /// is left for another one; kFileInvalid or the last error when none is left. kDiskFull before
  /// the first byte where the disk has no space for all of it; kConflict: its names are taken;
  /// kCancelled: it was stopped; errors of ModelSources. The next run() goes on where this ended.
  Result<std::string> run();

 private:
  Result<void> find_sources();
  Result<void> take_list(model_index::ChunkList list);
  void remove_others() const;
  Result<void> open_partial();
  Result<void> reserve();
  Result<void> check_partial();
  Result<void> check_file(std::size_t file);
  Result<void> fetch_missing();
  Result<void> fetch_from(const std::string& source);
  Result<void> store(const ChunkRef& chunk, const std::string& content);
  Result<void> sync();
  Result<void> check_whole();
  Result<std::string> give_name();
  std::vector<ChunkRef> missing() const;
  std::optional<std::string> next_source() const;
  void leave_source(const std::string& source, const Error& error);
  std::string partial() const { return options_.root + "/" + kPartialFolder + "/" + options_.sha; }
  std::string path_of(std::size_t file) const;
  std::string partial_model() const;
  std::vector<std::string> names() const;
  bool in_folder() const { return list().folder || list().files.size() > 1; }
  const model_index::ChunkList& list() const { return listing_.list; }
  bool stopping() const { return options_.stopping && options_.stopping(); }
  void tell(const char* state);

  ModelSources& sources_;
  const FetchOptions options_;
  FetchProgress progress_;
  ModelListing listing_;
  std::vector<std::vector<bool>> have_;   // by file and chunk; empty: the disk was not looked at
  std::set<std::string> left_sources_;    // of this run
  std::vector<std::string> wrong_lists_;  // nodes whose list of chunks was not the model's
};

/// Deletes what is left of a fetch of this model below the root.
void delete_partial(const std::string& root, const std::string& sha);

}  // namespace holdfast::cli
