#pragma once
// The gateway's way to the fetcher's store of blobs (shared/pull/blob.h has the questions): this
// process may write no files.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "shared/base/result.h"

namespace holdfast::gateway {

/// A blob on its way to the store. Thread-safe.
class BlobUpload {
 public:
  virtual ~BlobUpload() = default;
  /// Sends the next bytes; `taken` runs on the link's thread when more are welcome. One call at a
  /// time.
  virtual void write(std::string bytes, std::function<void()> taken) = 0;
  /// Says that all bytes were sent. The answer follows.
  virtual void end() = 0;
  /// Gives up: nothing stays of it, and no answer comes.
  virtual void abort() = 0;
};

/// Connections to the store, served by a thread of its own. Thread-safe.
class BlobLink {
 public:
  /// Runs on the link's thread, once: the blob's bytes, or the store's error; kUnreachable: the
  /// store does not answer.
  using Answered = std::function<void(Result<std::int64_t>)>;

  /// `socket`: the store's path. It need not be there yet.
  explicit BlobLink(std::string socket);
  /// Ends the thread; calls that are under way get no answer.
  ~BlobLink();
  BlobLink(const BlobLink&) = delete;
  BlobLink& operator=(const BlobLink&) = delete;

  /// Asks how long the blob is.
  void find(const std::string& digits, Answered answered);
  /// Begins to store a blob; `bytes`: its length, -1 if it is not known. `ready` runs on the link's
  /// thread when bytes may be written.
  std::shared_ptr<BlobUpload> store(const std::string& digits, std::int64_t bytes,
                                    std::function<void()> ready, Answered answered);

 private:
  struct Thread;
  const std::string socket_;
  std::unique_ptr<Thread> thread_;
};

}  // namespace holdfast::gateway
