#pragma once
// TUN devices and addresses of the calling thread's network namespace.

#include <string>

#include "shared/base/result.h"

namespace holdfast::cluster {

/// Makes the TUN device `name`, without packet information before the packets. Returns its
/// descriptor, which does not block and is closed on exec; the device ends with the descriptor.
/// kUnsupported: this process may make no such device, or the kernel has none; kIo: anything else.
Result<int> open_tun(const std::string& name);

/// IPv4 settings of a device, addresses as text.
struct DeviceAddress {
  std::string local;
  std::string peer;  // the one other machine that it leads to; empty: the whole network of `mask`
  std::string mask;  // empty: the peer alone
};
/// Gives a TUN device its address, a queue of 10,000 packets (500 for an ordinary user), and no
/// IPv6, whose own packets would be counted; brings it up. kIo names the device and the step.
Result<void> set_up_device(const std::string& name, const DeviceAddress& address);

/// Brings the loopback device up.
Result<void> set_up_loopback();

/// Writes a setting of the network namespace, `path` below /proc/sys/net/. kIo with the path.
Result<void> set_net_setting(const std::string& path, const std::string& value);

}  // namespace holdfast::cluster
