#pragma once
// The socket by which the gateway finds and stores blobs (shared/pull/blob.h has the questions).

#include <atomic>
#include <list>
#include <memory>
#include <string>
#include <thread>

#include "control/fetch/blob_store.h"
#include "shared/base/result.h"

namespace holdfast::fetch {

/// Listens for the gateway, and answers each connection on a thread of its own. Where a supervisor
/// runs, its note in the folder of sockets says which process is the gateway: a worker that was
/// taken over stores nothing. Elsewhere every process of this user may ask.
class BlobServer {
 public:
  /// Opens the socket in the folder of sockets, in place of one that an earlier process left. kIo
  /// says why not. The thread begins with start(), so that the socket can be opened before a
  /// sandbox forbids it.
  static Result<std::unique_ptr<BlobServer>> open(const std::string& run_dir, BlobStore& store);
  ~BlobServer();
  BlobServer(const BlobServer&) = delete;
  BlobServer& operator=(const BlobServer&) = delete;

  void start();

 private:
  struct Connection {
    std::thread thread;
    std::atomic<bool> ended = false;
  };
  BlobServer(int listener, std::string run_dir, BlobStore& store)
      : listener_(listener), run_dir_(std::move(run_dir)), store_(store) {}
  void serve();
  void accept_one();
  void join_ended(bool all);

  const int listener_;
  const std::string run_dir_;
  BlobStore& store_;
  std::atomic<bool> stopping_ = false;
  std::thread thread_;
  std::list<Connection> connections_;  // of thread_ alone
};

}  // namespace holdfast::fetch
