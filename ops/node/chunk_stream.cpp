#include "ops/node/chunk_stream.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "shared/base/clock.h"

namespace holdfast::cli {
namespace {

constexpr std::int64_t kLookUs = 100'000;  // whether the caller stops, and at the rate

}  // namespace

std::string source_text(const std::string& source) {
  return source.empty() ? "the daemon's machine" : "node " + source;
}

/// State that answers of reads change, on another thread.
struct ChunkStream::Shared {
  struct Buffer {
    std::string content;
    std::int64_t missing = 0;  // bytes
  };
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::size_t, Buffer> buffers;  // by the index of the chunk
  std::optional<Error> error;             // of the first read that failed
  int reads = 0;                          // under way

  void take(std::size_t index, std::size_t offset, std::size_t bytes, Result<std::string> answer) {
    const std::lock_guard lock(mutex);
    --reads;
    Buffer& buffer = buffers[index];
    if (!answer) {
      if (!error) error = answer.error();
    } else if (answer->size() != bytes) {
      if (!error) {
        error = Error{Errc::kInvalidRequest,
                      std::to_string(answer->size()) + " bytes, expected " + std::to_string(bytes)};
      }
    } else {
      std::memcpy(buffer.content.data() + offset, answer->data(), bytes);
      buffer.missing -= static_cast<std::int64_t>(bytes);
    }
    changed.notify_all();
  }
};

ChunkStream::ChunkStream(ModelSources& sources, const ModelListing& listing,
                         std::vector<ChunkRef> chunks, ChunkStreamOptions options)
    : sources_(sources),
      listing_(listing),
      chunks_(std::move(chunks)),
      options_(std::move(options)),
      shared_(std::make_shared<Shared>()) {}

ChunkStream::~ChunkStream() = default;

void ChunkStream::issue(std::size_t index, std::int64_t offset, std::int64_t bytes) {
  const ChunkRef& chunk = chunks_[index];
  ModelRange range;
  range.sha = listing_.list.sha;
  range.file = chunk.file;
  range.offset = chunk.chunk * model_index::kChunkBytes + offset;
  range.bytes = bytes;
  range.source = options_.source;
  sources_.read(range, [shared = shared_, index, offset, bytes](Result<std::string> answer) {
    shared->take(index, static_cast<std::size_t>(offset), static_cast<std::size_t>(bytes),
                 std::move(answer));
  });
}

/// The time of the next read by the rate as it is now.
std::int64_t ChunkStream::due_us() const {
  const std::int64_t rate = options_.rate_bytes_s ? options_.rate_bytes_s() : 0;
  return rate > 0 ? issued_us_ + issued_bytes_ * 1'000'000 / rate : 0;
}

/// Issues the next read if one may be. False: not now.
bool ChunkStream::issue_one(std::int64_t now_us) {
  if (issue_chunk_ >= std::min(chunks_.size(), front_ + kChunksInMemory)) return false;
  if (now_us < due_us()) return false;
  const ChunkRef& chunk = chunks_[issue_chunk_];
  const std::int64_t whole =
      listing_.list.files[static_cast<std::size_t>(chunk.file)].chunk_bytes(chunk.chunk);
  const std::int64_t bytes = std::min(whole - issue_offset_, listing_.range_bytes);
  {
    const std::lock_guard lock(shared_->mutex);
    if (shared_->reads >= kReadsMax || shared_->error) return false;
    ++shared_->reads;
    if (issue_offset_ == 0) {
      shared_->buffers[issue_chunk_] = {std::string(static_cast<std::size_t>(whole), '\0'), whole};
    }
  }
  // Time by which the loop was late is made up for, but no more than one look.
  issued_us_ = std::max(due_us(), now_us - kLookUs);
  issued_bytes_ = bytes;
  issue(issue_chunk_, issue_offset_, bytes);
  issue_offset_ += bytes;
  if (issue_offset_ == whole) {
    ++issue_chunk_;
    issue_offset_ = 0;
  }
  return true;
}

Result<std::string> ChunkStream::next() {
  for (;;) {
    if (options_.stopping && options_.stopping()) return Error{Errc::kCancelled, "ended"};
    const std::int64_t now_us = system_clock().monotonic_us();
    while (issue_one(now_us)) {
    }
    const std::int64_t due = due_us();
    const std::int64_t wait_us = due > now_us ? std::min(due - now_us, kLookUs) : kLookUs;
    std::unique_lock lock(shared_->mutex);
    const auto front = shared_->buffers.find(front_);
    const bool complete = front != shared_->buffers.end() && front->second.missing == 0;
    if (complete) {
      std::string content = std::move(front->second.content);
      shared_->buffers.erase(front);
      ++front_;
      return content;
    }
    if (shared_->error) {
      const ChunkRef& chunk = chunks_[front_];
      const auto& file = listing_.list.files[static_cast<std::size_t>(chunk.file)];
      return Error{shared_->error->code, "chunk " + std::to_string(chunk.chunk) + " of " +
                                             file.name + " from " + source_text(options_.source) +
                                             ": " + shared_->error->what};
    }
    shared_->changed.wait_for(lock, std::chrono::microseconds(wait_us));
  }
}

}  // namespace holdfast::cli
