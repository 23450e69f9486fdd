#pragma once
// A helper may start no process, so one that was forked before it gave that up does it for it: it
// takes a path and a pipe's end and starts a header reader. It never looks at what the reader says.

#include <sys/types.h>

#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "shared/wire/messages.h"

namespace holdfast::ingress {

class ReaderSpawner {
 public:
  /// Forks; call it before there are threads. The child confines itself, and ends with this object,
  /// or with the process. kInternal.
  static Result<std::unique_ptr<ReaderSpawner>> start(const std::string& program);
  ~ReaderSpawner();
  ReaderSpawner(const ReaderSpawner&) = delete;
  ReaderSpawner& operator=(const ReaderSpawner&) = delete;

  /// As inspect_in_child(), one job at a time. nullopt: the spawner is gone.
  std::optional<wire::Inspected> inspect(const wire::Inspect& job);

 private:
  explicit ReaderSpawner(int socket) : socket_(socket) {}
  std::mutex mutex_;
  int socket_;
};

}  // namespace holdfast::ingress
