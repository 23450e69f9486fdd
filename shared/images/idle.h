#pragma once
// Bytes of images that nobody uses at the moment: they wait for a worker that comes back, and give
// way to whoever needs their memory. In a file beside the keeper's socket, so that who reports
// memory asks nobody and waits for nobody.

#include <cstdint>
#include <string>

namespace holdfast::images {

/// Bytes for the keeper that listens on `socket_path`; 0 where none lives.
std::int64_t idle_bytes(const std::string& socket_path);

/// The keeper's end of that file.
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

}  // namespace holdfast::images
