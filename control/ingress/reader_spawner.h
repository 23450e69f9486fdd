#pragma once
// Starts header readers for a helper that may start no process. It is forked before the helper
// gives that right up, takes a path and a pipe's end, and never looks at what the reader says.

#include <sys/types.h>

#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "shared/wire/messages.h"

namespace holdfast::ingress {

/// The parent's end of the spawner process.
class ReaderSpawner {
 public:
  /// Forks the spawner; call it before there are threads. The spawner confines itself, and ends
  /// with this object or with the process. kInternal if it cannot be made.
  static Result<std::unique_ptr<ReaderSpawner>> start(const std::string& program);
  ~ReaderSpawner();
  ReaderSpawner(const ReaderSpawner&) = delete;
  ReaderSpawner& operator=(const ReaderSpawner&) = delete;

  /// Does what inspect_in_child() does, one job at a time; thread-safe. nullopt: it is gone.
  std::optional<wire::Inspected> inspect(const wire::Inspect& job);

 private:
  explicit ReaderSpawner(int socket) : socket_(socket) {}
  std::mutex mutex_;
  int socket_;
};

}  // namespace holdfast::ingress
