#pragma once
// A worker's side of the keeper of packed weights.

#include <cstdint>
#include <mutex>
#include <string>
#include <utility>

namespace holdfast::images {

/// Thread-safe. Where nobody keeps images every call says so and does nothing; a keeper that went
/// away is looked for again at the next find().
class Client {
 public:
  explicit Client(std::string path) : path_(std::move(path)) {}
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  /// Whether somebody listens, so that an image is worth making.
  bool connected();
  /// A descriptor of a finished image of exactly this size, owned by the caller; -1: there is none.
  /// From now on this process counts as a user of it.
  int find(const std::string& key, std::uint64_t bytes);
  /// Hands over a sealed image (shared/images/image.h); this process is its first user.
  void keep(const std::string& key, std::uint64_t bytes, int fd);
  /// Drops the images that nobody uses, but for those whose key holds `wanted`: their memory is
  /// needed. Back when it is free.
  void make_room(const std::string& wanted);
  /// This process does not use it any more.
  void release(const std::string& key);

 private:
  bool connect_if_needed();
  void disconnect();
  const std::string path_;
  std::mutex mutex_;
  int socket_ = -1;
};

}  // namespace holdfast::images
