#pragma once
// Network and user namespaces that are held by descriptors, and the processes in them.

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "shared/base/result.h"

namespace holdfast::cluster {

/// The namespaces that a process enters; -1: it stays where it is.
struct Spaces {
  int user = -1;
  int net = -1;
};

/// Enters namespaces. Returns false with errno if the kernel refuses. The caller has no threads.
bool enter(const Spaces& spaces);

/// Sends a descriptor, or the error in its place, over a Unix socket of messages.
void send_descriptor(int connection, const Result<int>& descriptor);
/// Receives what send_descriptor() sent; the descriptor is closed on exec. kIo if the other side
/// ended without a word.
Result<int> receive_descriptor(int connection);

/// Calls `make` in a child process that has entered `spaces`; returns the descriptor that it
/// returned, or its error.
Result<int> descriptor_from(const Spaces& spaces, const std::function<Result<int>()>& make);

/// Makes a user namespace in which this user is itself and has all rights over networks. Returns
/// its descriptor. kUnsupported if the kernel does not let this user have one.
Result<int> make_user_space();

/// A network namespace and its guard: a process in it that waits until `guard_fd` is closed, by
/// release() or by the end of the test, however it ends. Then it kills every process in it.
struct NetSpace {
  int fd = -1;
  std::uint64_t inode = 0;  // its number, as in /proc/PID/ns/net
  pid_t guard = 0;
  int guard_fd = -1;
};
/// The differences between network namespaces when they are made.
struct NetSpaceOptions {
  int user_space = -1;    // -1: as root
  bool forwards = false;  // passes packets on from one device to another
  std::string dir;        // removed by the guard at the end; empty: none
};
/// Makes a network namespace with its loopback device up. kUnsupported if this process may not.
Result<NetSpace> make_net_space(const NetSpaceOptions& options);
/// Has the guard kill what is in the namespace, and forgets the namespace, which ends with its last
/// socket. CHECKs that nothing in it outlived that.
void release(NetSpace& space);

/// Sends a signal to every process in a network namespace, by its number, other than those of
/// `except`; also to processes that they start meanwhile.
void send_to_all_in(std::uint64_t inode, const std::vector<pid_t>& except, int signal);

/// Returns the processes in a network namespace, by its number, other than `except`.
std::vector<pid_t> processes_in(std::uint64_t inode, pid_t except);

}  // namespace holdfast::cluster
