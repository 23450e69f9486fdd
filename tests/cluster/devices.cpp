#include "tests/cluster/devices.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace holdfast::cluster {
namespace {

constexpr int kQueuePackets = 10'000;
constexpr const char* kTunPath = "/dev/net/tun";

Error io_error(const std::string& what) {
  return {Errc::kIo, what + ": " + std::strerror(errno)};
}

ifreq request_for(const std::string& name) {
  ifreq request{};
  name.copy(request.ifr_name, IFNAMSIZ - 1);
  return request;
}

/// A socket for device calls, closed by the destructor.
class DeviceCalls {
 public:
  DeviceCalls() : fd_(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {}
  ~DeviceCalls() {
    if (fd_ >= 0) close(fd_);
  }
  DeviceCalls(const DeviceCalls&) = delete;
  DeviceCalls& operator=(const DeviceCalls&) = delete;

  /// Sets an IPv4 address, unless it is empty.
  Result<void> set_address(const std::string& name, unsigned long call, const std::string& text) {
    if (text.empty()) return {};
    ifreq request = request_for(name);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    errno = EINVAL;
    const bool good = inet_pton(AF_INET, text.c_str(), &address.sin_addr) == 1;
    std::memcpy(&request.ifr_addr, &address, sizeof address);
    if (!good || ioctl(fd_, call, &request) != 0) {
      return io_error("set an address of device " + name + " to " + text);
    }
    return {};
  }
  Result<void> bring_up(const std::string& name) {
    ifreq request = request_for(name);
    if (ioctl(fd_, SIOCGIFFLAGS, &request) != 0) return io_error("find device " + name);
    request.ifr_flags = static_cast<short>(request.ifr_flags | IFF_UP);
    if (ioctl(fd_, SIOCSIFFLAGS, &request) != 0) return io_error("bring up device " + name);
    return {};
  }
  /// Leaves the queue as it is for an ordinary user, who may not change it.
  void set_queue(const std::string& name, int packets) {
    ifreq request = request_for(name);
    request.ifr_qlen = packets;
    (void)ioctl(fd_, SIOCSIFTXQLEN, &request);
  }

 private:
  int fd_;
};

}  // namespace

Result<int> open_tun(const std::string& name) {
  const int fd = open(kTunPath, O_RDWR | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) {
    return Error{Errc::kUnsupported, std::string("open ") + kTunPath + ": " + std::strerror(errno) +
                                         "; links want TUN devices"};
  }
  ifreq request = request_for(name);
  request.ifr_flags = IFF_TUN | IFF_NO_PI;
  if (ioctl(fd, TUNSETIFF, &request) == 0) return fd;
  Error error = io_error("make the TUN device " + name);
  if (errno == EPERM) error.code = Errc::kUnsupported;
  close(fd);
  return error;
}

Result<void> set_up_device(const std::string& name, const DeviceAddress& address) {
  DeviceCalls calls;
  // Absent where the kernel has no IPv6: then there is nothing to switch off.
  (void)set_net_setting("ipv6/conf/" + name + "/disable_ipv6", "1");
  calls.set_queue(name, kQueuePackets);
  HOLDFAST_CHECKED(calls.set_address(name, SIOCSIFADDR, address.local));
  HOLDFAST_CHECKED(calls.set_address(name, SIOCSIFDSTADDR, address.peer));
  HOLDFAST_CHECKED(calls.set_address(name, SIOCSIFNETMASK, address.mask));
  return calls.bring_up(name);
}

Result<void> set_up_loopback() {
  return DeviceCalls().bring_up("lo");
}

Result<void> set_net_setting(const std::string& path, const std::string& value) {
  const std::string whole = "/proc/sys/net/" + path;
  const int fd = open(whole.c_str(), O_WRONLY | O_CLOEXEC);
  if (fd < 0) return io_error("open " + whole);
  const bool written = write(fd, value.data(), value.size()) == static_cast<ssize_t>(value.size());
  const Error error = io_error("write " + value + " to " + whole);
  close(fd);
  return written ? Result<void>() : Result<void>(error);
}

}  // namespace holdfast::cluster
