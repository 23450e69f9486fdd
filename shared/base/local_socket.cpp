#include "shared/base/local_socket.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace holdfast {
namespace {

/// Fills in the address. False: the path is too long, and errno says so.
bool set_path(sockaddr_un& address, const std::string& path) {
  address.sun_family = AF_UNIX;
  errno = ENAMETOOLONG;
  if (path.size() >= sizeof(address.sun_path)) return false;
  std::memcpy(address.sun_path, path.data(), path.size());
  return true;
}

}  // namespace

Result<int> listen_locally(const std::string& path, int type, int backlog) {
  int fd = -1;
  const auto failed = [&](const char* operation) {
    Error error{Errc::kIo, std::string(operation) + " " + path + ": " + std::strerror(errno)};
    if (fd >= 0) close(fd);
    return error;
  };
  sockaddr_un address{};
  if (!set_path(address, path)) return failed("bind");
  fd = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return failed("socket");
  unlink(path.c_str());
  if (bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    return failed("bind");
  }
  if (chmod(path.c_str(), 0600) != 0) return failed("chmod");
  if (listen(fd, backlog) != 0) return failed("listen");
  return fd;
}

int connect_locally(const std::string& path, int type, int patience_s) {
  sockaddr_un address{};
  if (path.empty() || !set_path(address, path)) return -1;
  const int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  const timeval patience{patience_s, 0};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
  if (connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0) return fd;
  close(fd);
  return -1;
}

pid_t peer_process(int connection) {
  ucred peer{};
  socklen_t size = sizeof(peer);
  const bool read = getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0;
  return read && peer.uid == getuid() ? peer.pid : 0;
}

}  // namespace holdfast
