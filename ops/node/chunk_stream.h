#pragma once
// Chunks of a model from one source, in their order, with a bounded number of reads under way.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ops/node/model_sources.h"

namespace holdfast::cli {

/// A chunk by its number in a file.
struct ChunkRef {
  std::int64_t file = 0;
  std::int64_t chunk = 0;
};

/// Limits of a stream.
struct ChunkStreamOptions {
  std::string source;
  std::function<std::int64_t()> rate_bytes_s;  // as of now; 0: no limit
  std::function<bool()> stopping;              // true ends next() with kCancelled
};

/// Reads the next chunk while the caller looks at the one before. One thread.
class ChunkStream {
 public:
  /// Most reads under way, and most chunks that are in memory.
  static constexpr int kReadsMax = 4;
  static constexpr std::size_t kChunksInMemory = 2;

  /// `listing` and `sources` must outlive it.
  ChunkStream(ModelSources& sources, const ModelListing& listing, std::vector<ChunkRef> chunks,
              ChunkStreamOptions options);
  ~ChunkStream();  // answers that come later are dropped
  ChunkStream(const ChunkStream&) = delete;
  ChunkStream& operator=(const ChunkStream&) = delete;

  /// Returns the content of the next chunk. An error of a read, with the chunk and the source.
  Result<std::string> next();

 private:
  struct Shared;
  std::int64_t due_us() const;
  bool issue_one(std::int64_t now_us);
  void issue(std::size_t index, std::int64_t offset, std::int64_t bytes);

  ModelSources& sources_;
  const ModelListing& listing_;
  const std::vector<ChunkRef> chunks_;
  const ChunkStreamOptions options_;
  std::shared_ptr<Shared> shared_;
  std::size_t front_ = 0;          // the chunk that next() returns
  std::size_t issue_chunk_ = 0;    // the one whose next range is issued
  std::int64_t issue_offset_ = 0;  // in it
  std::int64_t issued_us_ = 0;     // of the last read, for the rate
  std::int64_t issued_bytes_ = 0;  // of that
};

}  // namespace holdfast::cli
