#pragma once
// Bytes of entries without users: they wait for a worker that restarts, and are dropped when
// another load needs their memory. Stored in a file next to the server's socket, so that a process
// that reports memory needs no call and no wait.

#include <cstdint>
#include <string>

namespace holdfast::weight_cache {

/// Returns the bytes for the server that listens on `socket_path`; 0 where none lives.
std::int64_t idle_bytes(const std::string& socket_path);

/// The server's end of that file.
class IdleNote {
 public:
  explicit IdleNote(const std::string& socket_path);
  ~IdleNote();
  IdleNote(const IdleNote&) = delete;
  IdleNote& operator=(const IdleNote&) = delete;
  void write(std::uint64_t bytes);

 private:
  const std::string path_;
  int fd_ = -1;
  std::uint64_t written_ = UINT64_MAX;
};

}  // namespace holdfast::weight_cache
